r"""One step of a private optimiser, in order: clip, sum, noise, update.

The gradient of each record of a batch is clipped at C; their *sum* gets noise, is divided by the
expected batch size, which is public, and as a *mean* goes to the optimiser. All that follows the
noise is post-processing. Sum and update are compiled apart from each other, so that secret noise
can be added between them on the host.

Source: Abadi et al. (2016), "Deep learning with differential privacy", Algorithm 1, with any
optimiser in place of its last line.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.core import Tracer
from jax.sharding import PartitionSpec
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from jaxdp.algorithms.base import AbstractTrainable
from jaxdp.algorithms.private_optimiser.adaptive_clip import AdaptiveClip
from jaxdp.algorithms.private_optimiser.averages import AbstractAverage
from jaxdp.algorithms.private_optimiser.noise.base import AbstractNoise, Scale
from jaxdp.algorithms.private_optimiser.state import (
    OptimiserState,
    digest_of_run,
    steps_made,
    with_keys_of,
)
from jaxdp.algorithms.transformations.transformation import Rate, Transformation
from jaxdp.clipping import TwoPartSum, sensitivity_excess
from jaxdp.clipping.arguments import records_of, weights_of
from jaxdp.clipping.ghost.traced_loss import batch_size, require_gradient
from jaxdp.clipping.per_sample import clipped_gradient_sum_in_parts
from jaxdp.clipping.two_part_sum import sum_over_devices
from jaxdp.core.checks import concrete, require_key
from jaxdp.core.meshes import on_auto_axes
from jaxdp.privacy.batches.base import AbstractSampler, require_step


def _untrapped(method: Callable[..., Any]) -> Callable[..., Any]:
    """A part of a step that no number ends in an error if its noise comes from the host.

    NumPy and JAX can be set to raise FloatingPointError at overflow or NaN. Such an error depends
    on the data and comes before the step counts as made: who calls the step again has fresh noise,
    and errors would choose the run.
    """

    @functools.wraps(method)
    def untrapped(self, *args, **kwargs):
        if not self.steps_on_host:
            return method(self, *args, **kwargs)
        with np.errstate(all="ignore"), jax.debug_nans(False), jax.debug_infs(False):
            return method(self, *args, **kwargs)

    return untrapped


class AbstractPrivateSteps(AbstractTrainable):
    """An optimiser that sees noisy sums of clipped gradients only, step by step."""

    learning_rate: eqx.AbstractVar[Rate | None]
    clip_norm: eqx.AbstractVar[Any]
    noise_multiplier: eqx.AbstractVar[Any]
    sampler: eqx.AbstractVar[AbstractSampler]
    average: eqx.AbstractVar[AbstractAverage | None]
    is_valid: eqx.AbstractVar[Bool[Array, ""]]
    noise_strategy: eqx.AbstractVar[AbstractNoise]
    noise_std_of_sum: eqx.AbstractVar[Any]
    sum_multiplier: eqx.AbstractVar[Any]
    first_clip_norm: eqx.AbstractVar[Any]
    transformation: eqx.AbstractVar[Transformation]

    @property
    def _is_valid(self) -> Any:
        """The answer of `require_valid`, asked for once: `equinox.tree_at` makes a new object.

        A traced answer is of one trace alone, and is not kept.
        """
        kept = vars(self)
        if "_validity" in kept:
            return kept["_validity"]
        found = self.require_valid()
        if not isinstance(found, Tracer):
            kept["_validity"] = found
        return found

    def init(self, model):
        weights = weights_of(model)
        inner = self.transformation.init(weights)
        iterate = None if self.average is None else jax.tree.map(jnp.asarray, weights)
        buffers = self.noise_strategy.start(weights)
        digest = jnp.zeros(2, jnp.uint32) if self.sampler.needs_one_key else None
        clip = self.clip_norm
        start = jnp.asarray(clip.initial, float) if isinstance(clip, AdaptiveClip) else None
        return OptimiserState(inner, jnp.zeros((), jnp.int32), iterate, buffers, digest, start)

    @property
    def drawn_with(self):
        strategy = self.noise_strategy
        return self.clip_norm, self.noise_std_of_sum, self.sampler, strategy.identity

    def after(self, mean, model, state):
        length = jnp.asarray(self.num_steps, jnp.int32)
        return moved(self.transformation, mean, model, state, self.average, length)

    def require_rows(self, num_rows: int) -> None:
        """Raise ValueError where the sampler draws from another number of records."""
        if num_rows != self.sampler.num_records:
            raise ValueError(
                f"expected {self.sampler.num_records} training rows, as many as the sampler draws "
                f"from, got {num_rows}"
            )

    def iterate(self, model: PyTree, state: OptimiserState) -> PyTree:
        """The model at which the next gradients are taken: with an average, not the one released.

        Model and state are those of `init` or of the last step; ValueError where the state has an
        average and this optimiser none, or the other way round.
        """
        if (self.average is None) != (state.iterate is None):
            has = "no average" if state.iterate is None else "an average"
            raise ValueError(
                f"expected a state of this optimiser's init, got one of an optimiser with {has}"
            )
        if state.iterate is None:
            return model
        return eqx.combine(state.iterate, eqx.filter(model, eqx.is_inexact_array, inverse=True))

    def clip_norm_at(self, state: OptimiserState) -> Any:
        """The clip norm of the next step; ValueError where the state is another optimiser's."""
        if isinstance(self.clip_norm, AdaptiveClip) == (state.clip_norm is None):
            has = "a fixed clip norm" if state.clip_norm is None else "one that adapts"
            raise ValueError(
                f"expected a state of this optimiser's init, got one of an optimiser with {has}"
            )
        return self.clip_norm if state.clip_norm is None else state.clip_norm

    def counted_step(
        self, loss, model, state, inputs, targets, *, key, microbatch_size=None, mesh=None
    ):
        require_key(key)
        _ = self._is_valid
        weights_of(model)
        inputs, targets = records_of(inputs, targets)
        self.require_rows(batch_size(inputs, targets))
        made = steps_made(state, self.num_steps)
        self.noise_strategy.require_arrays((self.learning_rate, model, state, inputs, targets, key))
        batch = self.noise_strategy.batch(self.sampler, made, key=key)
        given = inputs, targets, batch, key, microbatch_size, mesh
        return self.step_on_batch(loss, model, state, *given)

    @_untrapped
    def step_on_batch(
        self, loss, model, state, inputs, targets, batch, key, microbatch_size=None, mesh=None
    ):
        """What `counted_step` does once it has drawn a batch: indices, and which of them are real.

        The account holds for a batch of the sampler, step and key alone.
        """
        made, iterate = steps_made(state, self.num_steps), self.iterate(model, state)
        clip_norm = jnp.asarray(self.clip_norm_at(state), float)
        total, dropped, count = _clipped_sum(
            loss, iterate, inputs, targets, batch, made, clip_norm, microbatch_size, mesh
        )
        sizes = {"microbatch_size": microbatch_size, "num_devices": mesh.size if mesh else 1}
        new = self.update(total, model, state, key=key, count_within=count, **sizes)
        return *new, dropped

    @_untrapped
    def update(
        self,
        gradient_sum: TwoPartSum | PyTree[Array],
        model: PyTree,
        state: OptimiserState,
        *,
        key: Key[Array, ""],
        microbatch_size: int | None = None,
        num_devices: int = 1,
        count_within: Float[Array, ""] | None = None,
    ) -> tuple[PyTree, OptimiserState]:
        """The rest of a step, from a *sum* of gradients clipped at `clip_norm`, without noise.

        For sums that `step` does not make, over several devices for example. The account holds
        if they are `clipped_gradient_sum_in_parts` or `clipped_gradient_sum` at this clip norm
        over this sampler's batches of this key (with secret noise those of `sample_secretly`),
        added by `jaxdp.clipping.sum_over_devices` where there are several parts: what a `psum`
        rounds is not covered.

        Args:
            gradient_sum: the sum, in two parts or rounded, of gradients at `iterate(model, state)`,
                which without an average is the model.
            model, state, key: as in `step`.
            microbatch_size: that of the sum; it bounds its rounding.
            num_devices: how many parts `sum_over_devices` added; with correlated noise the same
                number at every step, since the proof has one scale for all of them.
            count_within: where the clip norm adapts, half of the batch's records with gradients no
                longer than `clip_norm_at(state)`, minus half of those with longer ones.

        Raises:
            ValueError: all steps that are accounted for have been made, the key is another than
                before where one is needed, or secret noise is asked for under `jit` or where sums
                are not proved (XLA's fast math, a TPU).
        """
        is_valid = self._is_valid
        weights_of(model)
        made = steps_made(state, self.num_steps)
        self.iterate(model, state)
        self.noise_strategy.require_arrays((self.learning_rate, gradient_sum, model, state, key))
        digest = None
        if self.sampler.needs_one_key:
            digest, is_same = digest_of_run(state, key)
            is_valid &= is_same
        clip_norm = self.clip_norm_at(state)
        sizes = {"microbatch_size": microbatch_size, "num_devices": num_devices}
        noisy, buffers = self._noisy_sum(
            gradient_sum, made, state.buffers, clip_norm, key=key, **sizes
        )
        clip_norm = self._next_clip_norm(state, count_within, made, key)
        mean = jax.tree.map(lambda leaf: leaf / self.sampler.expected_batch_size, noisy)
        # A traced number out of its range leaves no weights, as it leaves no simulated risk; nor
        # does a traced key that is not the one of the steps before.
        mean = _nothing_unless(is_valid, mean)
        before = OptimiserState(state.inner, made, state.iterate, buffers, digest, clip_norm)
        move = _moved_compiled if self.steps_on_host else moved
        length = jnp.asarray(self.num_steps, jnp.int32)
        new = move(self.transformation, mean, model, before, self.average, length)
        if concrete(made) is not None:
            return new
        # A traced loop that goes on for too long is given nothing more.
        goes_on = made < self.num_steps

        def choose(after, before):
            return jnp.where(goes_on, after, before) if eqx.is_array(after) else after

        return jax.tree.map(choose, new, (model, state))

    @_untrapped
    def noisy_sum(
        self,
        gradient_sum: TwoPartSum | PyTree[Array],
        step: int | Int[Array, ""],
        *,
        key: Key[Array, ""],
        microbatch_size: int | None = None,
        num_devices: int = 1,
        buffers: PyTree[Array] | None = None,
    ) -> PyTree[Array]:
        """What step number `step`, from 0, releases: the sum with its noise.

        Args:
            gradient_sum, key, microbatch_size, num_devices: as in `update`.
            buffers: of the state before the step, with correlated noise; else None.

        Returns:
            A pytree like the sum: JAX arrays, or float64 NumPy arrays with secret noise.
        """
        is_valid = self.require_valid()
        if isinstance(self.clip_norm, AdaptiveClip):
            raise ValueError("expected a fixed clip norm, got one that adapts: use update")
        sizes = {"microbatch_size": microbatch_size, "num_devices": num_devices}
        noisy, _ = self._noisy_sum(gradient_sum, step, buffers, self.clip_norm, key=key, **sizes)
        return _nothing_unless(is_valid, noisy)

    def _next_clip_norm(self, state, count, step, key):
        """The clip norm of the next step from a noisy count; None where it is fixed."""
        clip = self.clip_norm
        if not isinstance(clip, AdaptiveClip):
            return None
        if count is None:
            raise ValueError("expected count_within where the clip norm adapts, got None")
        places, strategy = self.sampler.capacity, self.noise_strategy
        noisy = strategy.noisy_count(count, clip.count_noise, places / 2, step, key=key)
        return clip.after(state.clip_norm, noisy, self.sampler.expected_batch_size)

    def _noisy_sum(
        self, gradient_sum, step, buffers, clip_norm, *, key, microbatch_size, num_devices
    ):
        require_key(key)
        weights_of(gradient_sum, "gradient_sum")
        require_step(step)
        total, is_rounded = gradient_sum, not isinstance(gradient_sum, TwoPartSum)
        if is_rounded:
            total = TwoPartSum(gradient_sum, jax.tree.map(jnp.zeros_like, gradient_sum))
        weights = jax.tree.leaves(eqx.filter(total.high, eqx.is_inexact_array))
        num_weights = sum(np.size(leaf) for leaf in weights)
        # Devices have equal shares of a batch, some with an empty place.
        places = -(-self.sampler.capacity // num_devices) * num_devices
        noise = self.noise_strategy
        find = functools.partial(sensitivity_excess, places, num_weights, num_devices=num_devices)
        # One record moves a sum in floating point by up to C (1 + excess).
        excess = find(microbatch_size=microbatch_size, is_rounded=is_rounded)
        if noise.has_one_scale:
            excess = max(excess, find(microbatch_size=None, is_rounded=True))
        if math.isinf(excess):
            raise ValueError(
                "expected batches whose rounding is bounded, up to about 2^22 records, got a "
                f"capacity of {places}"
            )
        if noise.is_on_host:
            clip_norm = float(clip_norm)
        # One, to the last bit, where the clip norm is fixed.
        std = self.noise_std_of_sum * (clip_norm / self.first_clip_norm) * (1 + excess)
        bound = places * clip_norm * (1 + excess)
        scale = Scale(std, self.sum_multiplier, bound, num_weights)
        return noise.added(total, scale, buffers, step, key=key)


def _nothing_unless(is_valid: Any, noisy: PyTree[Array]) -> PyTree[Array]:
    """The noisy numbers, or NaN if a traced number is found to be out of its range."""
    if not isinstance(is_valid, Tracer):
        return noisy
    return jax.tree.map(lambda leaf: jnp.where(is_valid, leaf, jnp.nan), noisy)


@eqx.filter_jit
@on_auto_axes
def _clipped_sum(
    loss, model, inputs, targets, batch, step, clip_norm, microbatch_size, mesh=None
) -> tuple[TwoPartSum, Int[Array, ""], Float[Array, ""]]:
    """The sum of a batch's clipped gradients, how many were not finite, and how many were short.

    The last is half of those no longer than the clip norm minus half of the longer ones: halves,
    which float32 adds exactly up to 2^23. Each device of a mesh has a share of the batch.
    """
    indices, mask = (jnp.pad(part, (0, -len(part) % (mesh.size if mesh else 1))) for part in batch)
    records = jax.tree.map(lambda leaf: jnp.asarray(leaf)[indices], (inputs, targets))
    records = with_keys_of(records, step)
    require_gradient(loss, model, *records)
    arrays, static = eqx.partition(model, eqx.is_array)

    def of_share(arrays, clip_norm, records, mask):
        total, norms = clipped_gradient_sum_in_parts(
            loss,
            eqx.combine(arrays, static),
            *records,
            clip_norm=clip_norm,
            mask=mask,
            microbatch_size=microbatch_size,
        )
        is_finite = jnp.isfinite(norms)
        halves = jnp.where(mask & is_finite, jnp.where(norms <= clip_norm, 0.5, -0.5), 0.0)
        dropped = jnp.sum(mask & ~is_finite, dtype=jnp.int32)
        return total, dropped, jnp.sum(halves, dtype=jnp.float32)

    if mesh is None:
        return of_share(arrays, clip_norm, records, mask)
    [axis] = mesh.axis_names

    def joined(*share):
        total, *counts = of_share(*share)
        return sum_over_devices(total, axis), *jax.lax.psum(counts, axis)

    whole, split = PartitionSpec(), PartitionSpec(axis)
    specs = {"in_specs": (whole, whole, split, split), "out_specs": whole}
    return jax.shard_map(joined, mesh=mesh, check_vma=False, **specs)(
        arrays, clip_norm, records, mask
    )


def moved(
    transformation: Transformation,
    mean: PyTree[Float[Array, "..."]],
    model: PyTree,
    state: OptimiserState,
    average: AbstractAverage | None,
    num_steps: Int[Array, ""],
) -> tuple[PyTree, OptimiserState]:
    """Model and state after the optimiser has seen the noisy mean of the clipped gradients.

    The state is that before the step, but with the noise's buffers and the key's digest after it.
    """
    weights, rest = eqx.partition(model, eqx.is_inexact_array)
    mean = jax.tree.map(lambda leaf, weight: jnp.asarray(leaf, weight.dtype), mean, weights)
    iterate = weights if state.iterate is None else state.iterate
    updates, inner = transformation.update(mean, state.inner, iterate)
    iterate, count = optax.apply_updates(iterate, updates), state.num_released + 1
    kept = state.buffers, state.key_digest, state.clip_norm
    if average is None:
        return eqx.combine(iterate, rest), OptimiserState(inner, count, None, *kept)
    averaged = average.after(weights, iterate, count, num_steps)
    return eqx.combine(averaged, rest), OptimiserState(inner, count, iterate, *kept)


_moved_compiled = eqx.filter_jit(on_auto_axes(moved))
