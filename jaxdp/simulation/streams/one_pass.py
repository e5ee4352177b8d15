"""Steps of an algorithm that uses each sample once, on samples that a problem hands out.

Random numbers are drawn in chunks of steps (`jaxdp.simulation.driver`); each draw depends on its
run's key and its step alone. Memory is O(records).
"""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxdp.algorithms.base import AbstractOnePassAlgorithm
from jaxdp.core.arrays import float_dtype
from jaxdp.core.keys import numbered_key, purpose_key
from jaxdp.problems.base import AbstractSampleProblem
from jaxdp.simulation.driver import AbstractPassRuns, Chunks, Reading


class _State(eqx.Module):
    parameters: Float[Array, "*runs dim"]
    inner: PyTree  # of the algorithm
    clipped: Int[Array, "*runs"]
    capped: Int[Array, "*runs"]


class _Run(eqx.Module):
    """What one run fixes before its first step."""

    prepared: Any
    sampling_key: Key[Array, "*runs"]
    noise_key: Key[Array, "*runs"]


class OnePassRuns(AbstractPassRuns):
    """Runs that draw samples and noise in chunks of steps."""

    problem: AbstractSampleProblem
    algorithm: AbstractOnePassAlgorithm
    keys: Key[Array, " runs"]
    chunks: Chunks = eqx.field(static=True)

    @property
    def is_valid(self):
        return self.problem.is_valid & self.algorithm.is_valid

    def begin(self):
        runs, state, recorded = _begin(self.problem, self.algorithm, self.keys)
        return (runs, state), Reading(*jax.tree.map(lambda values: values[:, None], recorded))

    def advance(self, state, starts, ends):
        rows = self._rows(starts, ends)
        runs, state = state
        state, recorded = _advance(
            self.problem, self.algorithm, runs, state, *rows, chunks=self.chunks
        )
        # What was recorded of padding is left out.
        kept = jax.tree.map(lambda values: values[:, : len(ends)], recorded)
        return (runs, state), Reading(*kept)

    def _rows(self, starts, ends):
        """The ranges in rows of one draw, padded with empty ranges after the last."""
        shape = self.chunks.rows, self.chunks.records
        padding = np.full(shape[0] * shape[1] - len(ends), ends[-1])
        return tuple(np.append(bounds, padding).reshape(shape) for bounds in (starts, ends))

    def finish(self, state):
        return _finish(self.problem, self.algorithm, *state)


@eqx.filter_jit
def _begin(problem, algorithm, keys):
    dtype = float_dtype(problem, algorithm)
    # One run at a time: preparing may gather half a table.
    prepared = lax.map(lambda key: problem.prepare(purpose_key(key, "data")), keys)
    runs = _Run(
        prepared=prepared,
        sampling_key=jax.vmap(lambda key: purpose_key(key, "sampling"))(keys),
        noise_key=jax.vmap(lambda key: purpose_key(key, "noise"))(keys),
    )
    zero = jnp.zeros(keys.shape, jnp.int32)
    parameters = jnp.zeros((*keys.shape, problem.dim), dtype)
    state = _State(parameters, jax.vmap(algorithm.init)(parameters), zero, zero)
    return runs, state, jax.vmap(lambda run, state: _recorded(problem, run, state))(runs, state)


def _recorded(problem: AbstractSampleProblem, run: _Run, state: _State):
    risk = problem.risk(run.prepared, state.parameters)
    counts = {"clipped": state.clipped, "capped": state.capped}
    return risk, counts, problem.observables(state.parameters)


@eqx.filter_jit
def _advance(problem, algorithm, runs, state, starts, ends, *, chunks: Chunks):
    """Runs step ranges (start, end] one after the other; returns what is recorded at their ends.

    `starts` and `ends` have a row of `chunks.records` ranges whose random numbers are drawn at
    once.
    """

    def one_run(run, state):
        def row(state, bounds):
            def chunk(state, index):
                begin = bounds[0] + index * chunks.steps
                return _chunk(problem, algorithm, run, state, begin, bounds[1], chunks.steps)

            state, recorded = lax.scan(chunk, state, jnp.arange(chunks.per_record))
            return state, jax.tree.map(lambda values: values[-1], recorded)

        return lax.scan(row, state, (starts, ends))

    state, recorded = jax.vmap(one_run)(runs, state)
    return state, jax.tree.map(lambda values: values.reshape(len(values), -1), recorded)


def _chunk(
    problem: AbstractSampleProblem,
    algorithm: AbstractOnePassAlgorithm,
    run: _Run,
    state: _State,
    begins: Int[Array, " ranges"],
    ends: Int[Array, " ranges"],
    num_steps: int,
):
    """Up to `num_steps` updates of each range, with all random numbers drawn beforehand.

    Updates beyond a range's end are padding: their rate is zero, nothing is counted, and the
    algorithm's state stays as it is.
    """
    dtype, dim = state.parameters.dtype, problem.dim
    steps = begins[:, None] + 1 + jnp.arange(num_steps)[None]
    active = steps <= ends[:, None]
    samples = _samples(problem, run, steps, algorithm.batch_size)
    step_sizes = jnp.where(active, algorithm.step_size(steps), 0)
    noisy = active
    if not algorithm.releases_every_iterate:
        # The last update's noise comes after the last record.
        noisy &= steps < algorithm.num_steps
    stds = jnp.where(noisy, algorithm.noise_std(steps, dim), 0)
    noise = lax.cond(
        jnp.any(stds != 0),
        lambda: stds[..., None] * _normals(run.noise_key, steps, dim, dtype),
        lambda: jnp.zeros((*steps.shape, dim), dtype),
    )

    def step(state, drawn):
        samples, smoothness, step_size, noise, active = drawn
        gradients = problem.gradient(state.parameters, samples)
        update = algorithm.step(
            state.parameters, state.inner, gradients, smoothness, step_size, noise
        )
        inner = jax.tree.map(
            lambda new, old: jnp.where(active, new, old), update.state, state.inner
        )
        return _State(
            update.parameters.astype(dtype),
            inner,
            state.clipped + jnp.sum(update.clipped & active, dtype=jnp.int32),
            state.capped + jnp.sum(update.capped & active, dtype=jnp.int32),
        ), None

    def record(state, drawn):
        state, _ = lax.scan(step, state, drawn)
        return state, _recorded(problem, run, state)

    drawn = (samples, problem.smoothness(samples), step_sizes, noise, active)
    return lax.scan(record, state, drawn)


def _samples(problem: AbstractSampleProblem, run: _Run, steps, batch_size: int):
    """The samples of each step, with a batch axis when there is more than one."""
    index = (steps - 1) * batch_size
    if batch_size > 1:
        index = index[..., None] + lax.broadcast_to_rank(jnp.arange(batch_size), index.ndim + 1)
    draw = functools.partial(problem.draw, run.prepared, run.sampling_key)
    return _over(index, draw)


def _normals(key, steps, dim: int, dtype):
    return _over(steps, lambda step: jr.normal(numbered_key(key, step), (dim,), dtype))


def _over(index, function):
    """The function of each entry of an array of whole numbers, along the array's axes."""
    results = jax.vmap(function)(index.reshape(-1))
    return jax.tree.map(lambda leaf: leaf.reshape(*index.shape, *leaf.shape[1:]), results)


@eqx.filter_jit
def _finish(problem, algorithm, runs, state):
    """The last update's noise, the released iterate's risk, and the iterate.

    No risk, and no noise, where every iterate is released as it was recorded.
    """
    if algorithm.releases_every_iterate:
        return None, jax.vmap(problem.in_input_coordinates)(state.parameters)

    def one_run(run, state):
        last = jnp.asarray([algorithm.num_steps])
        normal = _normals(run.noise_key, last, problem.dim, state.parameters.dtype)[0]
        std = algorithm.noise_std(last, problem.dim)[0]
        parameters = state.parameters + jnp.where(std != 0, std * normal, 0)
        risk = problem.risk(run.prepared, parameters)
        return risk, problem.in_input_coordinates(parameters)

    return jax.vmap(one_run)(runs, state)
