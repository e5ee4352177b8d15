r"""Any optax optimiser made private: it sees noisy sums of clipped per-sample gradients only.

One step clips the gradient of each record of a batch at C, adds them up, adds noise of standard
deviation `noise_multiplier` times C to that *sum*, divides by the expected batch size, which is
public, and hands the *mean* to the optimiser. All that follows the noise is post-processing.

Source: Abadi et al. (2016), "Deep learning with differential privacy", Algorithm 1, with any
optimiser in place of its last line.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxdp.clipping import clipped_gradient_sum
from jaxdp.clipping.traced_loss import batch_size
from jaxdp.core.checks import concrete, require_count, require_key, require_positive
from jaxdp.core.keys import purpose_key
from jaxdp.privacy.arguments import host_scalar
from jaxdp.privacy.calibration import calibrated_noise_multiplier
from jaxdp.privacy.release import Release
from jaxdp.privacy.sampling import AbstractSampler


class OptimiserState(eqx.Module):
    """What a private optimiser carries from step to step.

    Attributes:
        inner: the state of the optax optimiser.
        num_released: how many noisy sums have been released.
    """

    inner: PyTree
    num_released: Int[Array, ""]


class PrivateOptimiser(eqx.Module):
    r"""An optax optimiser that is given noisy sums over the batches of a sampler.

    `step` does a whole step: it draws the batch, clips, adds noise and updates. After `num_steps`
    steps nothing more is released. The account is of one run: one key for it and for no other,
    and each state used once. Going on twice from one state (a branch, a checkpoint restored with
    other data or weights) draws the same batch and the same noise, which then cancels.

    Args:
        optimiser: any optax gradient transformation.
        clip_norm: C, > 0 and finite.
        noise_multiplier: standard deviation of the noise on the sum, over C; finite and >= 0,
            where 0 has no privacy.
        num_steps: T, how many steps are accounted for.
        sampler: how batches are drawn: `jaxdp.privacy.PoissonSampler`, whose privacy is
            amplified, or `jaxdp.privacy.ShuffledEpochs`, whose is not.

    Raises:
        ValueError: a value is out of its range.
        TypeError: the optimiser or the sampler is of another kind.
    """

    optimiser: optax.GradientTransformation = eqx.field(static=True)
    clip_norm: float = eqx.field(converter=lambda value: host_scalar("clip_norm", value))
    noise_multiplier: float = eqx.field(
        converter=lambda value: host_scalar("noise_multiplier", value)
    )
    num_steps: int = eqx.field(static=True)
    sampler: AbstractSampler

    def __init__(self, optimiser, *, clip_norm, noise_multiplier, num_steps, sampler):
        if not isinstance(optimiser, optax.GradientTransformation):
            raise TypeError(
                f"expected an optax.GradientTransformation, got {type(optimiser).__name__}"
            )
        if not isinstance(sampler, AbstractSampler):
            raise TypeError(
                f"expected a PoissonSampler or ShuffledEpochs, got {type(sampler).__name__}"
            )
        self.optimiser, self.sampler = optimiser, sampler
        self.clip_norm, self.noise_multiplier = clip_norm, noise_multiplier
        self.num_steps = require_count("num_steps", num_steps)

    def __check_init__(self):
        require_positive("clip_norm", self.clip_norm)
        known = concrete(self.noise_multiplier)
        if known is not None and math.isinf(known):
            raise ValueError(f"expected a finite noise_multiplier, got {self.noise_multiplier}")

    @classmethod
    def calibrated(
        cls,
        optimiser: optax.GradientTransformation,
        epsilon: float,
        delta: float,
        *,
        clip_norm: float,
        num_steps: int,
        sampler: AbstractSampler,
    ) -> "PrivateOptimiser":
        """The optimiser whose T steps together are (epsilon, delta)-DP, never less private.

        Neighbours are those of the sampler: see `release`.

        Args:
            epsilon: > 0.
            delta: in (0, 1).

        The other arguments and the errors are the constructor's.
        """
        multiplier = calibrated_noise_multiplier(
            epsilon, delta, sampler=sampler, num_steps=num_steps
        )
        return cls(
            optimiser,
            clip_norm=clip_norm,
            noise_multiplier=multiplier,
            num_steps=num_steps,
            sampler=sampler,
        )

    @property
    def noise_std_of_sum(self) -> float:
        """Standard deviation of the noise on each coordinate of the sum of clipped gradients."""
        return self.noise_multiplier * self.clip_norm

    @property
    def noise_std_of_mean(self) -> float:
        """Of the same noise once the sum is divided by the expected batch size."""
        return self.noise_std_of_sum / self.sampler.expected_batch_size

    def init(self, model: PyTree) -> OptimiserState:
        """The state before the first step; the weights are the model's inexact arrays."""
        inner = self.optimiser.init(eqx.filter(model, eqx.is_inexact_array))
        return OptimiserState(inner, jnp.zeros((), jnp.int32))

    def step(
        self,
        loss: Callable[[Any, Any, Any], Float[Array, ""]],
        model: PyTree,
        state: OptimiserState,
        inputs: PyTree[Array],
        targets: PyTree[Array],
        *,
        key: Key[Array, ""],
        microbatch_size: int | None = None,
    ) -> tuple[PyTree, OptimiserState]:
        """One whole step on the data: the model and the state after it.

        Args:
            loss: of one record, as in `jaxdp.clipped_gradient_sum`.
            inputs: of all records of the data set, a pytree with a leading axis.
            targets: likewise.
            key: one for the whole run and for no other, secret; batches and noise of each step
                are drawn from it and from the number of the step.
            microbatch_size: as in `jaxdp.clipped_gradient_sum`.

        Raises:
            ValueError: there are not as many records as the sampler draws from, or all steps
                that are accounted for have been made.
        """
        num_records = batch_size(inputs, targets)
        if num_records != self.sampler.num_records:
            raise ValueError(
                f"expected {self.sampler.num_records} records, as many as the sampler draws from, "
                f"got {num_records}"
            )
        indices, mask = self.sampler.sample(state.num_released, key=purpose_key(key, "sampling"))
        batch = jax.tree.map(lambda leaf: jnp.asarray(leaf)[indices], (inputs, targets))
        gradient_sum, _ = clipped_gradient_sum(
            loss,
            model,
            *batch,
            clip_norm=self.clip_norm,
            mask=mask,
            microbatch_size=microbatch_size,
        )
        return self.update(gradient_sum, model, state, key=key)

    def update(
        self,
        gradient_sum: PyTree[Array],
        model: PyTree,
        state: OptimiserState,
        *,
        key: Key[Array, ""],
    ) -> tuple[PyTree, OptimiserState]:
        """The rest of a step, from a *sum* of gradients clipped at `clip_norm`, without noise.

        For sums that `step` does not make, over several devices for example. The account holds
        if they are `clipped_gradient_sum` at this clip norm over this sampler's batches.

        Raises:
            ValueError: all steps that are accounted for have been made.
        """
        made = concrete(state.num_released)
        if made is not None and made >= self.num_steps:
            raise ValueError(
                f"expected at most {self.num_steps} steps, which are accounted for, got one more"
            )
        noisy = self.noisy_sum(gradient_sum, state.num_released, key=key)
        weights, rest = eqx.partition(model, eqx.is_inexact_array)
        mean = jax.tree.map(
            lambda leaf, weight: (leaf / self.sampler.expected_batch_size).astype(weight.dtype),
            noisy,
            weights,
        )
        updates, inner = self.optimiser.update(mean, state.inner, weights)
        moved = eqx.combine(optax.apply_updates(weights, updates), rest)
        new = moved, OptimiserState(inner, state.num_released + 1)
        if made is not None:
            return new
        # A traced loop that goes on for too long is given nothing more.
        goes_on = state.num_released < self.num_steps

        def choose(after, before):
            return jnp.where(goes_on, after, before) if eqx.is_array(after) else after

        return jax.tree.map(choose, new, (model, state))

    def noisy_sum(
        self, gradient_sum: PyTree[Array], step: Int[Array, ""], *, key: Key[Array, ""]
    ) -> PyTree[Array]:
        """What step number `step`, from 0, releases: the sum with its noise."""
        require_key(key)
        leaves, structure = jax.tree.flatten(gradient_sum)
        keys = jr.split(jr.fold_in(purpose_key(key, "noise"), step), max(1, len(leaves)))
        noisy = [
            leaf + self.noise_std_of_sum * jr.normal(key, leaf.shape, leaf.dtype)
            for leaf, key in zip(leaves, keys, strict=False)
        ]
        return jax.tree.unflatten(structure, noisy)

    def release(self) -> Release:
        """The noisy sums of all steps, and all that is computed from them."""
        return Release(
            what=f"{self.num_steps} noisy sums of clipped gradients and all that follows from them",
            adjacency=self.sampler.adjacency,
            mechanism=self.sampler.mechanism(self.noise_multiplier, self.num_steps),
            assumptions=(
                "the clip norm, the noise, the optimiser and the number of steps and records are "
                "public, and choosing them by looking at the data is not included",
                "the loss of a record depends on that record alone; losses, norms and batches are "
                "not released",
                "noise is an exact Gaussian: a run draws and adds it in floating point",
            ),
        )
