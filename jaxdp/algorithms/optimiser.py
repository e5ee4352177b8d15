r"""Any optax optimiser made private: it sees noisy sums of clipped per-sample gradients only.

One step clips the gradient of each record of a batch at C, adds them up, adds noise to that *sum*,
divides by the expected batch size, which is public, and hands the *mean* to the optimiser. All
that follows the noise is post-processing.

The noise has the standard deviation `noise_multiplier` times C (1 + b), where a sum of real
numbers would have it times C: in floating point one record can move the sum by a little more than
C, and b is a proved bound on that (`jaxdp.clipping.sensitivity_excess`).

Source: Abadi et al. (2016), "Deep learning with differential privacy", Algorithm 1, with any
optimiser in place of its last line.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from jaxdp.algorithms.loss_gradient import require_gradient
from jaxdp.algorithms.noisy_sums import (
    as_two_parts,
    widened_for_grid,
    with_secret_noise,
    with_simulated_noise,
)
from jaxdp.algorithms.release_of_sums import release_of_sums
from jaxdp.clipping import TwoPartSum, clipped_gradient_sum_in_parts, sensitivity_excess
from jaxdp.clipping.arguments import weights_of
from jaxdp.clipping.traced_loss import batch_size
from jaxdp.core.checks import (
    concrete,
    require_count,
    require_key,
    require_kind,
    require_scalar,
)
from jaxdp.core.description import AbstractDescription
from jaxdp.core.keys import numbered_key, purpose_key
from jaxdp.privacy.arguments import host_scalar
from jaxdp.privacy.calibration import calibrated_noise_multiplier
from jaxdp.privacy.release import Release
from jaxdp.privacy.sampling import AbstractSampler, require_sampler, require_step
from jaxdp.privacy.secret_noise import SecretNoise

# Between these, underflow and overflow are covered by the proof of the sums' sensitivity.
_LEAST_CLIP_NORM, _LARGEST_CLIP_NORM = 2.0**-60, 2.0**60


class OptimiserState(eqx.Module):
    """What a private optimiser carries from step to step.

    Attributes:
        inner: the state of the optax optimiser.
        num_released: how many noisy sums have been released.
    """

    inner: PyTree
    num_released: Int[Array, ""]


class PrivateOptimiser(AbstractDescription):
    r"""An optax optimiser that is given noisy sums over the batches of a sampler.

    `step` does a whole step: it draws the batch, clips, adds noise and updates. After `num_steps`
    steps nothing more is released. The account is of one run: one key for it and for no other,
    and each state used once. Going on twice from one state (a branch, a checkpoint restored with
    other data or weights) draws the same batch and the same noise, which then cancels.

    By default the noise is simulated: drawn by JAX from a key, in float32. That is how private
    training behaves, not a release; `account` says so. With `noise=jaxdp.privacy.SecretNoise()`
    noise and Poisson batches come from the operating system, and what is proved holds in the
    arithmetic of the machine; each step then returns to the host, outside `jit`.

    Args:
        optimiser: any optax gradient transformation.
        clip_norm: C, > 0 and finite.
        noise_multiplier: standard deviation of the noise on the sum, over C; finite and >= 0,
            where 0 has no privacy.
        num_steps: T, how many steps are accounted for.
        sampler: how batches are drawn: `jaxdp.privacy.PoissonSampler`, whose privacy is
            amplified, or `jaxdp.privacy.ShuffledEpochs`, whose is not.
        noise: None for simulated noise, or `jaxdp.privacy.SecretNoise()`.

    Raises:
        ValueError: a value is out of its range; the clip norm has to lie between 2^-60 and 2^60.
        TypeError: the optimiser, the sampler or the noise is of another kind.
    """

    optimiser: optax.GradientTransformation = eqx.field(static=True)
    clip_norm: float
    noise_multiplier: float = eqx.field(
        converter=lambda value: host_scalar("noise_multiplier", value)
    )
    num_steps: int = eqx.field(static=True)
    sampler: AbstractSampler
    noise: SecretNoise | None

    def __init__(self, optimiser, *, clip_norm, noise_multiplier, num_steps, sampler, noise=None):
        require_optax(optimiser)
        require_sampler(sampler)
        if noise is not None:
            require_kind("noise", noise, SecretNoise, "None or a jaxdp.privacy.SecretNoise()")
        self.optimiser, self.sampler, self.noise = optimiser, sampler, noise
        self.clip_norm, self.noise_multiplier = _clip_norm(clip_norm), noise_multiplier
        self.num_steps = require_count("num_steps", num_steps)

    def __check_init__(self):
        known = concrete(self.noise_multiplier)
        if known is not None and math.isinf(known):
            raise ValueError(f"expected a finite noise_multiplier, got {self.noise_multiplier}")
        if self.noise is not None and not known:
            raise ValueError(
                f"expected noise_multiplier > 0 with secret noise, got {self.noise_multiplier}"
            )

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
        noise: SecretNoise | None = None,
    ) -> "PrivateOptimiser":
        """The optimiser whose T steps together are (epsilon, delta)-DP, never less private.

        Neighbours are those of the sampler: see `release`.

        Args:
            epsilon: > 0.
            delta: in (0, 1).

        The other arguments and the errors are the constructor's.
        """
        require_optax(optimiser)
        multiplier = calibrated_noise_multiplier(
            epsilon, delta, sampler=sampler, num_steps=num_steps
        )
        return cls(
            optimiser,
            clip_norm=clip_norm,
            noise_multiplier=multiplier,
            num_steps=num_steps,
            sampler=sampler,
            noise=noise,
        )

    @property
    def noise_std_of_sum(self) -> float:
        """Standard deviation of the noise on each coordinate of the sum of clipped gradients.

        What is added is larger by the share b that covers the sum's own rounding: .8 % for batches
        of 256 to 65,536 records, .1 % in microbatches of 64, more beyond.
        """
        return self.noise_multiplier * self.clip_norm

    @property
    def noise_std_of_mean(self) -> float:
        """Of the same noise once the sum is divided by the expected batch size."""
        return self.noise_std_of_sum / self.sampler.expected_batch_size

    def init(self, model: PyTree) -> OptimiserState:
        """The state before the first step; the weights are the model's inexact arrays."""
        inner = self.optimiser.init(weights_of(model))
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
            key: one for the whole run and for no other, secret (`jaxdp.privacy.secret_key()`);
                batches and noise of each step are drawn from it and from the number of the step.
                With secret noise only the order of `ShuffledEpochs` is.
            microbatch_size: as in `jaxdp.clipped_gradient_sum`. Below 256 it also makes the noise
                that covers rounding less.

        A record whose loss or gradient is not finite counts as zero; `train` says how many did.

        Raises:
            ValueError: there are not as many records as the sampler draws from, all steps that
                are accounted for have been made, the loss has no gradient by any weight, or
                secret noise is asked for under `jit`.
        """
        return self.counted_step(
            loss, model, state, inputs, targets, key=key, microbatch_size=microbatch_size
        )[:2]

    def counted_step(
        self,
        loss: Callable[[Any, Any, Any], Float[Array, ""]],
        model: PyTree,
        state: OptimiserState,
        inputs: PyTree[Array],
        targets: PyTree[Array],
        *,
        key: Key[Array, ""],
        microbatch_size: int | None = None,
    ) -> tuple[PyTree, OptimiserState, Int[Array, ""]]:
        """As `step`, and how many records of the batch had a gradient that is not finite.

        That number is private data, which the account does not cover.
        """
        require_key(key)
        weights_of(model)
        num_records = batch_size(inputs, targets)
        if num_records != self.sampler.num_records:
            raise ValueError(
                f"expected {self.sampler.num_records} records, as many as the sampler draws from, "
                f"got {num_records}"
            )
        made = self._steps_made(state)
        if self.noise is None:
            batch = self.sampler.sample(made, key=key)
        else:
            self._require_host((model, state, inputs, targets, key))
            batch = self.sampler.sample_secretly(int(made), noise=self.noise, key=key)
        clip_norm = jnp.asarray(self.clip_norm, float)
        total, dropped = _sum_over(loss, model, inputs, targets, batch, clip_norm, microbatch_size)
        moved = self.update(total, model, state, key=key, microbatch_size=microbatch_size)
        return *moved, dropped

    def update(
        self,
        gradient_sum: TwoPartSum | PyTree[Array],
        model: PyTree,
        state: OptimiserState,
        *,
        key: Key[Array, ""],
        microbatch_size: int | None = None,
        num_devices: int = 1,
    ) -> tuple[PyTree, OptimiserState]:
        """The rest of a step, from a *sum* of gradients clipped at `clip_norm`, without noise.

        For sums that `step` does not make, over several devices for example. The account holds
        if they are `clipped_gradient_sum_in_parts` or `clipped_gradient_sum` at this clip norm
        over this sampler's batches (with secret noise those of `sample_secretly`), added by
        `jaxdp.clipping.sum_over_devices` where there are several parts: what a `psum` rounds is
        not covered.

        Args:
            gradient_sum: the sum, in two parts or rounded.
            model, state, key: as in `step`.
            microbatch_size: that of the sum; it bounds its rounding.
            num_devices: how many parts `sum_over_devices` added.

        Raises:
            ValueError: all steps that are accounted for have been made, or secret noise is asked
                for under `jit`.
        """
        weights_of(model)
        made = self._steps_made(state)
        if self.noise is not None:
            self._require_host((gradient_sum, model, state, key))
        sizes = {"microbatch_size": microbatch_size, "num_devices": num_devices}
        noisy = self.noisy_sum(gradient_sum, made, key=key, **sizes)
        mean = jax.tree.map(lambda leaf: leaf / self.sampler.expected_batch_size, noisy)
        apply = _moved if self.noise is None else _moved_compiled
        new = apply(self.optimiser, mean, model, state)
        if concrete(made) is not None:
            return new
        # A traced loop that goes on for too long is given nothing more.
        goes_on = state.num_released < self.num_steps

        def choose(after, before):
            return jnp.where(goes_on, after, before) if eqx.is_array(after) else after

        return jax.tree.map(choose, new, (model, state))

    def noisy_sum(
        self,
        gradient_sum: TwoPartSum | PyTree[Array],
        step: int | Int[Array, ""],
        *,
        key: Key[Array, ""],
        microbatch_size: int | None = None,
        num_devices: int = 1,
    ) -> PyTree[Array]:
        """What step number `step`, from 0, releases: the sum with its noise.

        Args:
            gradient_sum, key, microbatch_size, num_devices: as in `update`.

        Returns:
            A pytree like the sum: JAX arrays, or float64 NumPy arrays with secret noise.
        """
        require_key(key)
        weights_of(gradient_sum, "gradient_sum")
        require_step(step)
        total = as_two_parts(gradient_sum)
        excess = sensitivity_excess(
            self.sampler.capacity,
            _num_weights(total.high),
            microbatch_size=microbatch_size,
            num_devices=num_devices,
            is_rounded=not isinstance(gradient_sum, TwoPartSum),
        )
        if math.isinf(excess):
            raise ValueError(
                "expected batches whose rounding is bounded, up to about 2^22 records, got a "
                f"capacity of {self.sampler.capacity}"
            )
        std = self.noise_std_of_sum * (1 + excess)
        if self.noise is None:
            step_key = numbered_key(purpose_key(key, "noise"), step)
            return with_simulated_noise(total, std, key=step_key)
        std = widened_for_grid(std, self.noise_multiplier, _num_weights(total.high))
        bound = self.sampler.capacity * self.clip_norm * (1 + excess)
        return with_secret_noise(total, std, bound=bound, noise=self.noise.hiding(int(step)))

    def release(self, *, key: Key[Array, ""] | None = None) -> Release:
        """The noisy sums of all steps, and all that is computed from them.

        Args:
            key: that of the run, for the assumptions to say how many bits a guess has to find.
        """
        return release_of_sums(
            self.sampler, self.noise_multiplier, self.num_steps, noise=self.noise, key=key
        )

    def _steps_made(self, state: OptimiserState) -> Int[Array, ""]:
        require_kind("state", state, OptimiserState, "that of init(model) or of the last step")
        made = concrete(state.num_released)
        if made is not None and made >= self.num_steps:
            raise ValueError(
                f"expected at most {self.num_steps} steps, which are accounted for, got one more"
            )
        return state.num_released

    def _require_host(self, arrays: Any) -> None:
        """Raise ValueError where secret noise cannot be added, or the sums are not proved."""
        if jax.default_backend() == "tpu":
            raise ValueError(
                "expected a CPU or a GPU with noise=SecretNoise(), got a TPU: the bound on the "
                "sums' rounding is not proved for its products (jaxdp.clipping.sensitivity)"
            )
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(arrays)):
            raise ValueError(
                "expected a call outside jit, vmap and grad with noise=SecretNoise(), got traced "
                "arrays: secret noise is added on the host (the parts of a step are compiled)"
            )


def require_optax(optimiser: Any) -> None:
    """Raise TypeError unless it is an optimiser of optax."""
    expected = "an optax.GradientTransformation, such as optax.sgd(0.1)"
    require_kind("optimiser", optimiser, optax.GradientTransformation, expected)


def _clip_norm(value: Any) -> Any:
    """A clip norm as a Python float; a traced one as it is.

    Raises:
        ValueError: it is not a scalar, or out of the range of the proof.
    """
    require_scalar("clip_norm", value)
    known = concrete(value, "clip_norm")
    if known is not None and not _LEAST_CLIP_NORM <= known <= _LARGEST_CLIP_NORM:
        raise ValueError(
            f"expected clip_norm > 0, between 2^-60 and 2^60 (8.7e-19 and 1.2e18), got {known}"
        )
    return value if known is None else float(known)


@eqx.filter_jit
def _sum_over(
    loss: Callable[[Any, Any, Any], Float[Array, ""]],
    model: PyTree,
    inputs: PyTree[Array],
    targets: PyTree[Array],
    batch: tuple[Int[Array, " capacity"], Bool[Array, " capacity"]],
    clip_norm: Float[Array, ""],
    microbatch_size: int | None,
) -> tuple[TwoPartSum, Int[Array, ""]]:
    """The sum of the clipped gradients of a batch, and how many of them were not finite."""
    indices, mask = batch
    records = jax.tree.map(lambda leaf: jnp.asarray(leaf)[indices], (inputs, targets))
    total, norms = clipped_gradient_sum_in_parts(
        loss, model, *records, clip_norm=clip_norm, mask=mask, microbatch_size=microbatch_size
    )
    require_gradient(loss, model, *records)
    return total, jnp.sum(mask & ~jnp.isfinite(norms), dtype=jnp.int32)


def _moved(
    optimiser: optax.GradientTransformation, mean: PyTree, model: PyTree, state: OptimiserState
) -> tuple[PyTree, OptimiserState]:
    """Model and state after the optimiser has seen the mean of the clipped gradients."""
    weights, rest = eqx.partition(model, eqx.is_inexact_array)
    mean = jax.tree.map(lambda leaf, weight: jnp.asarray(leaf, weight.dtype), mean, weights)
    updates, inner = optimiser.update(mean, state.inner, weights)
    moved = eqx.combine(optax.apply_updates(weights, updates), rest)
    return moved, OptimiserState(inner, state.num_released + 1)


_moved_compiled = eqx.filter_jit(_moved)


def _num_weights(model: PyTree) -> int:
    weights = jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))
    return sum(np.size(leaf) for leaf in weights)
