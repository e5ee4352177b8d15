"""The algorithm itself, step by step, in all its dimensions.

Random numbers dominate the cost, so they are drawn in chunks of steps that fit the cache; each
draw depends on its run's key and its step alone, never on the chunk. Memory is O(records).
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Key

from jaxdp.algorithms.base import AbstractFullBatchAlgorithm, AbstractOnePassAlgorithm
from jaxdp.algorithms.pair import require_pair
from jaxdp.algorithms.stability import warn_if_unstable
from jaxdp.core.arrays import float_dtype, plain_number
from jaxdp.core.checks import require_count
from jaxdp.core.keys import purpose_key, run_keys
from jaxdp.core.recording import record_steps
from jaxdp.core.trajectory import Trajectory, status_of, void_unless
from jaxdp.problems.base import AbstractSampleProblem
from jaxdp.problems.features import AbstractFeatureProblem, ReducedFeatures
from jaxdp.simulation.base import AbstractSimulator, known_length
from jaxdp.simulation.full_batch import simulate_full_batch

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


class _Chunks(NamedTuple):
    """How the steps are cut: `records` ranges are drawn at once, or one range in several goes."""

    records: int
    steps: int
    per_record: int


class Iterates(AbstractSimulator):
    """Step by step in `dim` dimensions: exact in law for every problem and algorithm with steps.

    Args:
        chunk_size: steps whose random numbers are drawn together; None sizes it to the cache. The
            values do not depend on it.
    """

    chunk_size: int | None = eqx.field(static=True, converter=plain_number, default=None)

    def __check_init__(self):
        if self.chunk_size is not None:
            require_count("chunk_size", self.chunk_size)

    def covers(self, problem, algorithm):
        require_pair(problem, algorithm)
        if isinstance(problem, AbstractSampleProblem):
            if not isinstance(algorithm, AbstractOnePassAlgorithm):
                return (
                    "samples one after the other need an algorithm that uses each once, such as "
                    f"OnePassDPSGD, got {type(algorithm).__name__}"
                )
            return None
        if isinstance(problem, AbstractFeatureProblem):
            if not isinstance(algorithm, AbstractFullBatchAlgorithm):
                return (
                    "features on fixed rows need a full-batch algorithm such as DPGD, got "
                    f"{type(algorithm).__name__}"
                )
            if problem.num_features is None:
                return (
                    "infinitely many features cannot be written down; use FunctionSpace() or "
                    "problem.reduced()"
                )
            return None
        return f"it needs a problem with samples or features, got {type(problem).__name__}"

    def simulate(
        self, problem, algorithm, *, key, num_runs, records, keep_parameters, progress
    ) -> Trajectory:
        run = _full_batch if isinstance(problem, AbstractFeatureProblem) else self._one_pass
        trajectory = run(
            problem, algorithm, key=key, num_runs=num_runs, records=records, progress=progress
        )
        return trajectory if keep_parameters else dataclasses.replace(trajectory, parameters=None)

    def _one_pass(self, problem, algorithm, *, key, num_runs, records, progress) -> Trajectory:
        num_steps = known_length(problem, algorithm)
        at_record, slots = np.unique(record_steps(num_steps, records), return_inverse=True)
        starts, ends = at_record[:-1], at_record[1:]
        # Without a listener all records are one block.
        block = len(ends) if progress is None else -(-len(ends) // _PROGRESS_BLOCKS)
        chunks = self._chunks(
            int((ends - starts).max()), block, num_runs * algorithm.batch_size * problem.dim
        )
        runs, state, first_risk = _begin(problem, algorithm, run_keys(key, num_runs))
        risks, clipped, capped = [first_risk[:, None]], [], []
        for block_starts, block_ends in _blocks(starts, ends, block, chunks.records):
            state, recorded = _advance(
                problem, algorithm, runs, state, block_starts, block_ends, chunks=chunks
            )
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

        trajectory = Trajectory(
            time=jnp.asarray(at_record[slots] / num_steps, risk.dtype),
            risk=risk,
            final_risk=final_risk,
            status=status_of(risk, final_risk),
            observables={"clipped_fraction": share(clipped), "capped_fraction": share(capped)},
            parameters=parameters,
            label="simulated",
        )
        return void_unless(problem.is_valid & algorithm.is_valid, trajectory)

    def _chunks(self, longest: int, num_records: int, numbers_per_step: int) -> _Chunks:
        """Chunks of about the cache's size, cut evenly so that little is padded."""
        target = self.chunk_size or max(1, _CHUNK_NUMBERS // numbers_per_step)
        if target < longest:
            per_record = -(-longest // target)
            return _Chunks(records=1, steps=-(-longest // per_record), per_record=per_record)
        groups = -(-num_records // min(num_records, target // longest))
        return _Chunks(records=-(-num_records // groups), steps=longest, per_record=1)


def _full_batch(problem: AbstractFeatureProblem, algorithm, **options) -> Trajectory:
    """Explicit features: training sees them all."""
    train, test = problem.train_features(), problem.test_features()
    unseen = jnp.zeros((problem.num_test, 0), test.dtype)
    explicit = ReducedFeatures(train, test, unseen, problem.train_labels, problem.test_labels)
    warn_if_unstable(algorithm, explicit.stability_limit)
    return simulate_full_batch(explicit, algorithm, **options)


def _blocks(starts, ends, size: int, group: int):
    """The records' step ranges in blocks of `size`, each in rows of `group`.

    Rows are padded with empty ranges after the block's last.
    """
    for first in range(0, len(starts), size):
        block_starts, block_ends = starts[first : first + size], ends[first : first + size]
        missing = -(-size // group) * group - len(block_ends)
        padding = np.full(missing, block_ends[-1])
        yield tuple(
            np.append(bounds, padding).reshape(-1, group) for bounds in (block_starts, block_ends)
        )


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
def _advance(problem, algorithm, runs, state, starts, ends, *, chunks: _Chunks):
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

    Updates beyond a range's end are padding: their rate is zero and nothing is counted.
    """
    dtype, dim = state.parameters.dtype, problem.dim
    steps = begins[:, None] + 1 + jnp.arange(num_steps)
    active = steps <= ends[:, None]
    samples = _samples(problem, run, steps, algorithm.batch_size)
    step_sizes = jnp.where(active, algorithm.step_size(steps), 0)
    # The last update's noise comes after the last record.
    noisy = active & (steps < algorithm.num_steps)
    stds = jnp.where(noisy, algorithm.noise_std(steps, dim), 0)
    noise = lax.cond(
        jnp.any(stds != 0),
        lambda: stds[..., None] * _normals(run.noise_key, steps, dim, dtype),
        lambda: jnp.zeros((*steps.shape, dim), dtype),
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

    def record(state, drawn):
        state, _ = lax.scan(step, state, drawn)
        return state, (problem.risk(run.prepared, state.parameters), state.clipped, state.capped)

    drawn = (samples, problem.smoothness(samples), step_sizes, noise, active)
    return lax.scan(record, state, drawn)


def _samples(problem: AbstractSampleProblem, run: _Run, steps, batch_size: int):
    """The samples of each step, with a batch axis when there is more than one."""
    index = (steps - 1) * batch_size
    if batch_size > 1:
        index = index[..., None] + jnp.arange(batch_size)
    draw = functools.partial(problem.draw, run.prepared, run.sampling_key)
    return _over(index, draw)


def _normals(key, steps, dim: int, dtype):
    return _over(steps, lambda step: jr.normal(jr.fold_in(key, step), (dim,), dtype))


def _over(index, function):
    """The function of each entry of an array of whole numbers, along the array's axes."""
    results = jax.vmap(function)(index.reshape(-1))
    return jax.tree.map(lambda leaf: leaf.reshape(*index.shape, *leaf.shape[1:]), results)


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
