"""One step of a private optimiser: draw a batch, clip and sum, add noise, update.

All that follows the noise is post-processing. The sum is always compiled. With secret noise, which
the host adds, the update is compiled separately; otherwise a caller's `jit` covers it.

Source: Abadi et al. (2016), "Deep learning with differential privacy", Algorithm 1, with any
optimiser in place of its last line.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.core import Tracer
from jax.sharding import PartitionSpec
from jaxtyping import Array, Float, Int, PyTree

from jaxdp.algorithms.base import StepResult
from jaxdp.algorithms.private_optimiser.noise import Scale
from jaxdp.algorithms.private_optimiser.state import (
    AbstractAverage,
    OptimiserState,
    digest_of_run,
    steps_made,
    with_keys_of,
)
from jaxdp.clipping import (
    TwoPartSum,
    clipped_gradient_sum_in_parts,
    sensitivity_excess,
    sum_over_devices,
)
from jaxdp.clipping.arguments import num_rows_of, records_of, weights_of
from jaxdp.clipping.ghost.traced_loss import require_gradient
from jaxdp.core.arrays import on_auto_axes
from jaxdp.core.checks import concrete, require_key
from jaxdp.privacy.batches.base import require_step


def untrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a part of a step with host noise raise nothing for NaN or overflow.

    NumPy and JAX can be set to raise FloatingPointError. Such an error depends on the data and
    comes before the step counts as made: repeated with fresh noise, errors would select the run.
    """

    @functools.wraps(function)
    def wrapped(optimiser, *args, **kwargs):
        if not optimiser.steps_on_host:
            return function(optimiser, *args, **kwargs)
        with np.errstate(all="ignore"), jax.debug_nans(False), jax.debug_infs(False):
            return function(optimiser, *args, **kwargs)

    return wrapped


@untrapped
def private_step(
    optimiser, loss, model, state, inputs, targets, key, microbatch_size=None, mesh=None, batch=None
) -> StepResult:
    """One step of a `PrivateOptimiser`, with the arguments of `PrivateOptimiser.step`.

    A `mesh` of one axis splits the batch over its devices. A `batch` drawn before gives the indices
    of its records among `inputs` and which of its places are real; the account holds only for a
    batch of this sampler, step and key.
    """
    start = _begin(optimiser, model, state, key, (inputs, targets))

    # Draw: a fixed number of places, some of them empty.
    if batch is None:
        inputs, targets = records_of(inputs, targets)
        optimiser.require_rows(num_rows_of(inputs, targets))
        batch = optimiser.noise_strategy.batch(optimiser.sampler, start.step, key=key)

    # Clip each record's gradient and add them up.
    clip_norm = jnp.asarray(start.clip_norm, float)
    clipped = _clipped_batch_sum(
        loss, start.iterate, inputs, targets, batch, start.step, clip_norm, microbatch_size, mesh
    )

    # Add noise: the mean is released, and what is computed from it is post-processing.
    sizes = {"microbatch_size": microbatch_size, "num_devices": mesh.size if mesh else 1}
    noisy = _noisy_mean(optimiser, start, clipped.total, clipped.count_within, state, key, **sizes)

    # Update, with any optimiser of optax.
    model, state = _updated(optimiser, start, noisy, model, state)
    return StepResult(model, state, clipped.num_dropped)


@untrapped
def update_from_sum(
    optimiser, gradient_sum, count_within, model, state, key, **sizes
) -> tuple[PyTree, OptimiserState]:
    """The second half of a step, from a clipped sum made by the caller."""
    start = _begin(optimiser, model, state, key, gradient_sum)
    noisy = _noisy_mean(optimiser, start, gradient_sum, count_within, state, key, **sizes)
    return _updated(optimiser, start, noisy, model, state)


class _Start(NamedTuple):
    """The public numbers and the weights that a step begins with."""

    step: Int[Array, ""]  # its number, from 0
    iterate: PyTree  # the model at which gradients are taken
    clip_norm: Any
    key_digest: Array | None  # of the run's key, if one key has to serve all steps
    is_valid: Any  # whether traced numbers and a traced key are those of the account


def _begin(optimiser, model, state, key, arrays) -> _Start:
    """The start of a step; an error if the account would not cover the step."""
    require_key(key)
    is_valid = optimiser.validity
    weights_of(model)
    step = steps_made(state, optimiser.num_steps)
    iterate = optimiser.iterate(model, state)
    clip_norm = optimiser.clip.norm_at(state.clip_norm)
    optimiser.noise_strategy.require_arrays((optimiser.learning_rate, model, state, key, arrays))
    digest = None
    if optimiser.sampler.needs_one_key:
        digest, is_same = digest_of_run(state, key)
        is_valid = is_valid & is_same
    return _Start(step, iterate, clip_norm, digest, is_valid)


class _ClippedSum(NamedTuple):
    """The contribution of a batch to a step, which is private."""

    total: TwoPartSum
    num_dropped: Int[Array, ""]  # how many gradients were not finite
    # (Records within the clip norm - others) / 2: halves are exact in float32 up to 2^23.
    count_within: Float[Array, ""]


@eqx.filter_jit
@on_auto_axes
def _clipped_batch_sum(
    loss, model, inputs, targets, batch, step, clip_norm, microbatch_size, mesh
) -> _ClippedSum:
    """The sum of a batch's clipped gradients; each device of a mesh has a share of the batch."""
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
        return _ClippedSum(total, dropped, jnp.sum(halves, dtype=jnp.float32))

    if mesh is None:
        return of_share(arrays, clip_norm, records, mask)
    [axis] = mesh.axis_names

    def joined(*share):
        total, *counts = of_share(*share)
        return _ClippedSum(sum_over_devices(total, axis), *jax.lax.psum(counts, axis))

    whole, split = PartitionSpec(), PartitionSpec(axis)
    specs = {"in_specs": (whole, whole, split, split), "out_specs": whole}
    return jax.shard_map(joined, mesh=mesh, check_vma=False, **specs)(
        arrays, clip_norm, records, mask
    )


class _NoisyMean(NamedTuple):
    """The release of a step, and the parts of the next state that come with it."""

    mean: PyTree[Float[Any, "..."]]
    buffers: PyTree[Array] | None  # of past noise
    clip_norm: Float[Array, ""] | None  # of the next step, if it adapts


def _noisy_mean(optimiser, start, total, count, state, key, **sizes) -> _NoisyMean:
    """The noisy sum over the expected batch size, and with an adaptive clip norm a noisy count."""
    noisy, buffers = add_noise(
        optimiser, total, start.step, state.buffers, start.clip_norm, key=key, **sizes
    )
    sampler, next_norm = optimiser.sampler, None
    if optimiser.clip.is_adaptive:
        std, bound = optimiser.clip.count_noise, sampler.capacity / 2
        count = _bounded_count(count, bound)
        count = optimiser.noise_strategy.noisy_count(count, std, bound, start.step, key=key)
        next_norm = optimiser.clip.next_norm(start.clip_norm, count, sampler.expected_batch_size)
    mean = jax.tree.map(lambda leaf: leaf / sampler.expected_batch_size, noisy)
    # A traced number out of its range, or a traced key other than before, makes all weights NaN.
    return _NoisyMean(nan_unless(start.is_valid, mean), buffers, next_norm)


def _bounded_count(count, bound: float) -> Float[Array, ""]:
    """The count as a half-integer within half a batch; one record moves it by at most 1."""
    if count is None:
        raise ValueError("expected count_within because the clip norm adapts, got None")
    if np.shape(count) != () or jnp.iscomplexobj(count):
        came = f"shape {np.shape(count)} of {jnp.result_type(count)}"
        raise TypeError(f"expected count_within to be one real number, got {came}")
    count = jnp.asarray(count, jnp.float32)
    count = jnp.round(2 * jnp.where(jnp.isnan(count), 0.0, count)) / 2
    return jnp.clip(count, -bound, bound)


def add_noise(
    optimiser, total, step, buffers, clip_norm, *, key, microbatch_size, num_devices
) -> tuple[PyTree, PyTree | None]:
    """A sum at this clip norm with the noise of a step, and the noise buffers after it."""
    require_key(key)
    weights_of(total, "gradient_sum")
    optimiser.noise_strategy.require_arrays((total, step, clip_norm, key))
    require_step(step)
    noise, known = optimiser.noise_strategy, concrete(step)
    over = noise.over_steps
    if over is not None and known is not None and known >= over.num_steps:
        raise ValueError(f"expected step < num_steps = {over.num_steps}, got {known}")
    is_rounded = not isinstance(total, TwoPartSum)
    if is_rounded:
        total = TwoPartSum(total, jax.tree.map(jnp.zeros_like, total))
    weights = jax.tree.leaves(eqx.filter(total.high, eqx.is_inexact_array))
    num_weights = sum(np.size(leaf) for leaf in weights)
    # Devices have equal shares of a batch, some with an empty place.
    places = -(-optimiser.sampler.capacity // num_devices) * num_devices
    find = functools.partial(sensitivity_excess, places, num_weights, num_devices=num_devices)
    # One record moves a sum in floating point by up to C (1 + excess).
    excess = find(microbatch_size=microbatch_size, is_rounded=is_rounded)
    # The proof of noise over the steps has one scale for all of them.
    if over is not None:
        excess = max(excess, find(microbatch_size=None, is_rounded=True))
    if math.isinf(excess):
        expected = "batches whose rounding is bounded, up to about 2^22 records"
        raise ValueError(f"expected {expected}, got a capacity of {places}")
    if noise.is_on_host:
        clip_norm = float(clip_norm)
    # A fixed clip norm over the initial one is exactly 1.
    std = optimiser.nominal_std_of_sum * (clip_norm / optimiser.clip.initial) * (1 + excess)
    bound = places * clip_norm * (1 + excess)
    sizes = optimiser.sum_multiplier, optimiser.correlation_sensitivity, bound, num_weights
    return noise.added(total, Scale(std, *sizes), buffers, step, key=key)


def nan_unless(is_valid: Any, noisy: PyTree[Array]) -> PyTree[Array]:
    """The noisy numbers, or NaN if a traced argument is out of its range."""
    # A concrete False has raised in `require_valid`.
    if not isinstance(is_valid, Tracer):
        return noisy
    return jax.tree.map(lambda leaf: jnp.where(is_valid, leaf, jnp.nan), noisy)


def _updated(optimiser, start, noisy, model, state) -> tuple[PyTree, OptimiserState]:
    """Model and state after the optimiser has received the noisy mean."""
    move = _moved_compiled if optimiser.steps_on_host else moved
    length = jnp.asarray(optimiser.num_steps, jnp.int32)
    next_model, next_state = move(
        optimiser.transformation, noisy.mean, model, state, optimiser.average, length
    )
    kept = {"buffers": noisy.buffers, "clip_norm": noisy.clip_norm, "key_digest": start.key_digest}
    found = next_model, dataclasses.replace(next_state, **kept)
    if concrete(start.step) is not None:
        return found
    # A traced loop that goes on for too long is given nothing more.
    goes_on = start.step < optimiser.num_steps

    def choose(after, before):
        return jnp.where(goes_on, after, before) if eqx.is_array(after) else after

    return jax.tree.map(choose, found, (model, state))


def moved(
    transformation, mean, model, state: OptimiserState, average: AbstractAverage | None, num_steps
) -> tuple[PyTree, OptimiserState]:
    """Weights, optimiser state, count and average after a step with this mean gradient."""
    weights, rest = eqx.partition(model, eqx.is_inexact_array)
    mean = jax.tree.map(lambda leaf, weight: jnp.asarray(leaf, weight.dtype), mean, weights)
    iterate = weights if state.iterate is None else state.iterate
    updates, inner = transformation.update(mean, state.inner, iterate)
    iterate, count = optax.apply_updates(iterate, updates), state.num_released + 1
    released = iterate if average is None else average.after(weights, iterate, count, num_steps)
    state = dataclasses.replace(
        state, inner=inner, num_released=count, iterate=None if average is None else iterate
    )
    return eqx.combine(released, rest), state


_moved_compiled = eqx.filter_jit(on_auto_axes(moved))
