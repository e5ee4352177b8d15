"""The algorithm itself, step by step, in all its dimensions.

Random numbers dominate the cost, so they are drawn in chunks of steps that fit the cache; each
draw depends on its run's key and its step alone, never on the chunk. Memory is O(records).
"""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Key

from jaxdp.algorithms.base import AbstractAlgorithm
from jaxdp.core.arrays import float_dtype
from jaxdp.core.checks import require_count
from jaxdp.core.keys import purpose_key, run_keys
from jaxdp.core.recording import record_steps
from jaxdp.core.trajectory import Trajectory, status_of
from jaxdp.problems.base import AbstractProblem
from jaxdp.simulation.base import AbstractSimulator, Progress, known_length

# Random numbers per draw over all runs: two megabytes of float32, measured best on two cores.
_CHUNK_NUMBERS = 500_000
_PROGRESS_BLOCKS = 20


class _State(eqx.Module):
    parameters: Float[Array, " dim"]
    clipped: Int[Array, ""]
    capped: Int[Array, ""]


class _Run(eqx.Module):
    """What one run fixes before its first step."""

    prepared: Any
    sampling_key: Key[Array, ""]
    noise_key: Key[Array, ""]


class Iterates(AbstractSimulator):
    """Step by step in `dim` dimensions: exact in law for every problem and algorithm with steps.

    Args:
        chunk_size: steps whose random numbers are drawn together; None sizes it to the cache. The
            values do not depend on it.
    """

    chunk_size: int | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        if self.chunk_size is not None:
            require_count("chunk_size", self.chunk_size)

    def covers(self, problem, algorithm):
        if not isinstance(problem, AbstractProblem):
            return f"it needs a problem with samples and gradients, got {type(problem).__name__}"
        if not isinstance(algorithm, AbstractAlgorithm):
            return f"it needs an algorithm with steps, got {type(algorithm).__name__}"
        return None

    def simulate(
        self, problem, algorithm, *, key, num_runs, records, keep_parameters, progress
    ) -> Trajectory:
        num_steps = known_length(problem, algorithm)
        at_record, slots = np.unique(record_steps(num_steps, records), return_inverse=True)
        starts, ends = at_record[:-1], at_record[1:]
        chunk_size, num_chunks = self._chunks(
            int((ends - starts).max()), num_runs * algorithm.batch_size * problem.dim
        )
        runs, state, first_risk = _begin(problem, algorithm, run_keys(key, num_runs))
        advance = functools.partial(
            _advance, problem, algorithm, runs, chunk_size=chunk_size, num_chunks=num_chunks
        )
        risks, clipped, capped = [first_risk[:, None]], [], []
        for block_starts, block_ends in _blocks(starts, ends, progress):
            state, recorded = advance(state, block_starts, block_ends)
            for values, new in zip((risks, clipped, capped), recorded, strict=True):
                values.append(new)
            if progress is not None:
                jax.block_until_ready(state)
                progress(float(block_ends.max()) / num_steps)
        final_risk, parameters = _finish(problem, algorithm, runs, state)
        kept = len(ends)
        risk = jnp.concatenate(risks, axis=1)[:, slots]
        samples = at_record * algorithm.batch_size

        def share(counts):
            counts = jnp.concatenate(counts, axis=1)[:, :kept]
            counts = jnp.concatenate([jnp.zeros_like(counts[:, :1]), counts], axis=1)
            return (counts / np.maximum(samples, 1).astype(risk.dtype))[:, slots]

        return Trajectory(
            time=jnp.asarray(at_record[slots] / num_steps, risk.dtype),
            risk=risk,
            final_risk=final_risk,
            status=status_of(risk, final_risk),
            observables={"clipped_fraction": share(clipped), "capped_fraction": share(capped)},
            parameters=parameters if keep_parameters else None,
            label="simulated",
        )

    def _chunks(self, longest: int, numbers_per_step: int) -> tuple[int, int]:
        """Steps per chunk and chunks per record: even, so that little is padded."""
        target = self.chunk_size or max(1, _CHUNK_NUMBERS // numbers_per_step)
        num_chunks = -(-longest // target)
        return -(-longest // num_chunks), num_chunks


def _blocks(starts, ends, progress: Progress | None):
    """The records' step ranges, in one block or in equal blocks padded with empty ranges."""
    count = len(starts)
    size = count if progress is None else -(-count // _PROGRESS_BLOCKS)
    for first in range(0, count, size):
        block = starts[first : first + size], ends[first : first + size]
        missing = size - len(block[0])
        padding = np.full(missing, ends[-1])
        yield np.append(block[0], padding), np.append(block[1], padding)


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
    state = _State(jnp.zeros((*keys.shape, problem.dim), dtype), zero, zero)
    risk = jax.vmap(problem.risk)(prepared, state.parameters)
    return runs, state, risk


@eqx.filter_jit
def _advance(problem, algorithm, runs, state, starts, ends, *, chunk_size: int, num_chunks: int):
    """Runs the records' step ranges (start, end] one after the other."""

    def one_run(run, state):
        def record(state, bounds):
            start, end = bounds
            state = _range(problem, algorithm, run, state, start, end, chunk_size, num_chunks)
            risk = problem.risk(run.prepared, state.parameters)
            return state, (risk, state.clipped, state.capped)

        return lax.scan(record, state, (starts, ends))

    return jax.vmap(one_run)(runs, state)


def _range(
    problem: AbstractProblem,
    algorithm: AbstractAlgorithm,
    run: _Run,
    state: _State,
    start: Int[Array, ""],
    end: Int[Array, ""],
    chunk_size: int,
    num_chunks: int,
) -> _State:
    """The updates start + 1, ..., end; steps beyond the end are padding and change nothing."""
    dtype = state.parameters.dtype

    def chunk(index, state):
        steps = start + index * chunk_size + 1 + jnp.arange(chunk_size)
        active = steps <= end
        samples = _samples(problem, run, steps, algorithm.batch_size)
        step_sizes = jnp.where(active, algorithm.step_size(steps), 0)
        # The last update's noise comes after the last record.
        noisy = active & (steps < algorithm.num_steps)
        stds = jnp.where(noisy, algorithm.noise_std(steps, problem.dim), 0)
        noise = lax.cond(
            jnp.any(stds != 0),
            lambda: stds[:, None] * _normals(run.noise_key, steps, problem.dim, dtype),
            lambda: jnp.zeros((chunk_size, problem.dim), dtype),
        )

        def step(state, drawn):
            samples, smoothness, step_size, noise, active = drawn
            gradients = problem.gradient(state.parameters, samples)
            update = algorithm.update(state.parameters, gradients, smoothness, step_size, noise)
            return _State(
                update.parameters.astype(dtype),
                state.clipped + jnp.sum(update.clipped & active, dtype=jnp.int32),
                state.capped + jnp.sum(update.capped & active, dtype=jnp.int32),
            ), None

        drawn = (samples, problem.smoothness(samples), step_sizes, noise, active)
        return lax.scan(step, state, drawn)[0]

    return lax.fori_loop(0, num_chunks, chunk, state)


def _samples(problem: AbstractProblem, run: _Run, steps, batch_size: int):
    """The samples of each step, with a batch axis when there is more than one."""

    def draw(index):
        return problem.draw(run.prepared, run.sampling_key, index)

    if batch_size == 1:
        return jax.vmap(draw)(steps - 1)
    first = (steps - 1) * batch_size
    return jax.vmap(jax.vmap(draw))(first[:, None] + jnp.arange(batch_size))


def _normals(key, steps, dim: int, dtype):
    return jax.vmap(lambda step: jr.normal(jr.fold_in(key, step), (dim,), dtype))(steps)


@eqx.filter_jit
def _finish(problem, algorithm, runs, state):
    """The last update's noise, the released iterate's risk, and the iterate."""

    def one_run(run, state):
        last = jnp.asarray([algorithm.num_steps])
        normal = _normals(run.noise_key, last, problem.dim, state.parameters.dtype)[0]
        std = algorithm.noise_std(last, problem.dim)[0]
        parameters = state.parameters + jnp.where(std != 0, std * normal, 0)
        risk = problem.risk(run.prepared, parameters)
        return risk, problem.in_input_coordinates(parameters)

    return jax.vmap(one_run)(runs, state)
