"""The Markov chain of radii behind `Reduced`; the runs of all cells lie on the last axis."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Complex, Float, Inexact, Int

from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.clipping.norm_clip import NormClip
from jaxdp.core.arrays import float_dtype
from jaxdp.core.keys import purpose_key, run_keys, stream_key
from jaxdp.core.numerics.batching import side_by_side
from jaxdp.core.numerics.counter_normals import Words, chi_square, key_words, normal_pairs
from jaxdp.core.numerics.precision import safe_sqrt
from jaxdp.losses.base import AbstractScalarLoss
from jaxdp.problems.streams.input_scales import NormalLevels
from jaxdp.problems.streams.linear import LinearRegression
from jaxdp.simulation.driver import Reading, even_chunks


class State(eqx.Module):
    """Radii of the runs of one problem, their rounding errors (`excess`), and counts of samples."""

    radii: Float[Array, "blocks runs"]
    excess: Float[Array, "blocks runs"]
    clipped: Int[Array, " runs"]
    capped: Int[Array, " runs"]


class RandomStreams(eqx.Module):
    """The counter-based random streams of each run."""

    sampling: Words
    noise: Words


@eqx.filter_jit
def random_streams(key, num_runs: int) -> RandomStreams:
    """Each run's random streams, from a program that all problems and algorithms share."""
    # Apart from the keys of other simulators, so that two of them can share a key.
    keys = run_keys(stream_key(key, "Reduced"), num_runs)

    def words(purpose):
        return key_words(jax.vmap(lambda key: purpose_key(key, purpose))(keys))

    return RandomStreams(words("sampling"), words("noise"))


class _RunConstants(eqx.Module):
    """The constants of each run; the last axis has length 1 if all runs share it."""

    eigenvalues: Float[Array, " blocks #runs"]
    label_noise: Float[Array, " #runs"]
    levels: NormalLevels | None
    loss: AbstractScalarLoss
    clip: NormClip
    dim: int = eqx.field(static=True)


class _Steps(eqx.Module):
    samples: Complex[Array, "steps blocks runs"]
    labels: Inexact[Array, "steps runs"]
    rates: Float[Array, " steps #runs"]
    active: Bool[Array, " steps"]
    noise: Complex[Array, "steps blocks runs"] | None
    stds: Float[Array, " steps #runs"]


def _reading(eigenvalues, state: State) -> Reading:
    risk, distance = _risk(eigenvalues, state.radii), jnp.sum(state.radii**2, axis=0)
    counts = {"clipped": state.clipped, "capped": state.capped}
    return Reading(risk, counts, {"distance": distance})


def _risk(eigenvalues, radii):
    return (jnp.sum(eigenvalues * radii**2, axis=0) / 2).astype(radii.dtype)


@eqx.filter_jit
def begin(problem: LinearRegression, algorithm: OnePassDPSGD, num_runs: int):
    dtype = jnp.promote_types(float_dtype(problem, algorithm), jnp.float32)
    radii = jnp.sqrt(problem.blocks.squared_target).astype(dtype)
    zero = jnp.zeros(num_runs, jnp.int32)
    radii = jnp.broadcast_to(radii[:, None], (len(radii), num_runs))
    state = State(radii, jnp.zeros_like(radii), zero, zero)
    reading = _reading(problem.blocks.eigenvalues[:, None], state)
    return state, jax.tree.map(lambda part: part[:, None], reading)


def draw(
    words: Words, steps: Int[Array, " steps"], sizes: tuple[int, ...], dtype
) -> Complex[Array, "steps blocks runs"]:
    """Normals along each block's direction and, as imaginary parts, chi-squares across it."""
    blocks = jnp.arange(len(sizes))
    parallel, across = normal_pairs(words, steps[:, None, None], blocks[:, None], dtype)
    return lax.complex(parallel, chi_square(across, tuple(size - 1 for size in sizes)))


def _with_noise(state: State, noise, std) -> State:
    """The state after isotropic noise, split along and across the radii."""
    std = lax.broadcast_to_rank(std, noise.ndim)
    return _moved(state, std * noise.real, std**2 * noise.imag)


def _moved(state: State, along, square_across) -> State:
    r"""The state with radii $\sqrt{(r + \text{along})^2 + \text{across}^2}$, by Kahan's sum."""
    radii = state.radii
    total = radii + safe_sqrt((radii + along) ** 2 + square_across)
    change = (along * (along + 2 * radii) + square_across) / jnp.where(total > 0, total, 1)
    change -= state.excess
    moved = jnp.maximum(radii + change, 0)
    return State(moved, (moved - radii) - change, state.clipped, state.capped)


@eqx.filter_jit
def advance(
    problem: LinearRegression, algorithm, streams, state: State, bounds, *, longest, is_noisy
) -> tuple[State, Reading]:
    """Run ranges (start, end] of at most `longest` steps; the last state, a reading at each end."""
    description, static = eqx.partition((problem, algorithm), eqx.is_array)
    blocks, has_scales = problem.blocks.sizes, problem.input_scales is not None

    def many(description, streams, state, bounds):
        leaves = jax.tree.leaves((description, streams, state))
        cells, runs = max(len(leaf) for leaf in leaves), state.clipped.shape[-1]
        flat = functools.partial(_flat, cells=cells, runs=runs)
        each = functools.partial(_of_each, description, static)
        constants = jax.tree.map(flat, each(_run_constants))
        words = jax.tree.map(jnp.ravel, streams)
        num_chunks, size = even_chunks(longest, (4 * len(blocks) + 1) * cells * runs)

        def spread(leaf):
            return jnp.tile(leaf, cells * runs // leaf.shape[-1])

        def step(state: State, now: _Steps):
            state = _descend(constants, state, now)
            return state if now.noise is None else _with_noise(state, now.noise, now.stds), None

        def chunk(state, steps, active):
            rates, stds = (flat(x) for x in each(functools.partial(_rates, steps, active)))
            dtype = state.radii.dtype
            noise = draw(words.noise, steps, blocks, dtype) if is_noisy else None
            samples = draw(words.sampling, steps, blocks, dtype)
            place = jnp.asarray(len(blocks))
            labels, scales = normal_pairs(words.sampling, steps[:, None], place, dtype)
            # With scales of the inputs, their normals are the imaginary parts.
            labels = lax.complex(labels, scales) if has_scales else labels
            samples, labels, noise = jax.tree.map(spread, (samples, labels, noise))
            rates, stds = rates.astype(dtype), stds.astype(dtype)
            todo = _Steps(samples, labels, rates, active, noise, stds)
            return lax.scan(step, state, todo)[0]

        def one_range(state, bounds):
            def one_chunk(index, state):
                steps = bounds[0] + 1 + index * size + jnp.arange(size)
                return chunk(state, steps, steps <= bounds[1])

            state = lax.fori_loop(0, num_chunks, one_chunk, state)
            return state, _reading(constants.eigenvalues, state)

        first = jax.tree.map(lambda leaf: spread(flat(leaf)), state)
        last, recorded = lax.scan(one_range, first, jax.tree.map(lambda leaf: leaf[0], bounds))

        def apart(leaf):
            return jnp.moveaxis(leaf.reshape(*leaf.shape[:-1], cells, -1), -2, 0)

        return jax.tree.map(apart, (last, recorded))

    state, recorded = side_by_side(many)(description, streams, state, bounds)
    return state, jax.tree.map(jnp.transpose, recorded)


@eqx.filter_jit
def final_risk(problem, algorithm, streams: RandomStreams, state: State):
    dtype, last = state.radii.dtype, jnp.asarray([algorithm.num_steps])
    noise = draw(streams.noise, last, problem.blocks.sizes, dtype)[0]
    std = algorithm.noise_std(last, problem.dim)[0].astype(dtype)
    radii = _with_noise(state, noise, std).radii
    return _risk(problem.blocks.eigenvalues[:, None], radii)


def _run_constants(problem: LinearRegression, algorithm: OnePassDPSGD) -> _RunConstants:
    scales = problem.input_scales
    levels = None if scales is None else NormalLevels.of(scales)
    levels, loss = jax.tree.map(lambda leaf: leaf[..., None], (levels, problem.loss))
    return _RunConstants(
        problem.blocks.eigenvalues[:, None],
        problem.label_noise[None],
        levels,
        loss,
        eqx.tree_at(lambda clip: clip.scale, algorithm.clip, algorithm.clip.scale[None]),
        problem.dim,
    )


def _rates(steps, active, problem, algorithm: OnePassDPSGD):
    """Step sizes and noise; those of inactive steps are 0."""
    # The last update's noise comes after the last record.
    noisy = active & (steps < algorithm.num_steps)
    stds = jnp.where(noisy, algorithm.noise_std(steps, problem.dim), 0)
    return jnp.where(active, algorithm.step_size(steps), 0)[:, None], stds[:, None]


def _of_each(description, static, function: Callable[..., Any]):
    """The function of each cell's problem and algorithm, evaluated once if all cells share them."""
    shared, own = eqx.partition(description, lambda leaf: len(leaf) == 1)
    shared = jax.tree.map(lambda leaf: leaf[0], shared)
    if not jax.tree.leaves(own):
        return jax.tree.map(lambda leaf: leaf[None], function(*eqx.combine(shared, static)))
    return jax.vmap(lambda own: function(*eqx.combine(own, shared, static)))(own)


def _flat(leaf, *, cells: int, runs: int):
    """From axes (cells or 1, ..., runs or 1) to (..., cells * runs or 1)."""
    if leaf.shape[0] == leaf.shape[-1] == 1:
        return leaf[0]
    full = jnp.broadcast_to(leaf, (cells, *leaf.shape[1:-1], runs))
    return jnp.moveaxis(full, 0, -2).reshape(*leaf.shape[1:-1], cells * runs)


def _descend(constants: _RunConstants, state: State, now: _Steps) -> State:
    along = safe_sqrt(constants.eigenvalues) * now.samples.real
    across = constants.eigenvalues * now.samples.imag
    labels = now.labels
    if constants.levels is not None:
        scale = constants.levels.at(labels.imag)[None].astype(along.dtype)
        along, across, labels = jnp.sqrt(scale) * along, scale * across, labels.real
    # Both without the target's part, which cancels in their difference.
    prediction, label = jnp.sum(along * state.radii, axis=0), constants.label_noise * labels
    slope = constants.loss.slope(prediction, label)
    square = jnp.sum(along**2 + across, axis=0)
    factor = constants.clip.factor(jnp.abs(slope) * jnp.sqrt(square), constants.dim)
    limit = 2 / (constants.loss.curvature_bound * square)
    pull = jnp.minimum(now.rates, limit) * factor * slope
    moved = _moved(state, -pull[None] * along, pull[None] ** 2 * across)
    clipped = state.clipped + ((factor < 1) & now.active)
    return State(moved.radii, moved.excess, clipped, state.capped + (limit < now.rates))
