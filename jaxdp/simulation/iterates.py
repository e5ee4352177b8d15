"""The algorithm itself, step by step, in all its dimensions, in O(records) memory."""

import functools
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxdp.algorithms.base import AbstractOnePassAlgorithm
from jaxdp.algorithms.dp_gd import DPGD, warn_if_unstable
from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.core.arrays import float_dtype, plain_number
from jaxdp.core.checks import require_count
from jaxdp.core.keys import numbered_key, purpose_key, run_keys
from jaxdp.core.trajectory import Trajectory
from jaxdp.problems.base import AbstractSampleProblem
from jaxdp.problems.rows.features import AbstractFeatureProblem, ReducedFeatures
from jaxdp.simulation.base import AbstractSimulator, length_of_pass
from jaxdp.simulation.driver import AbstractPassRuns, Chunks, Reading, drive, ranges_of
from jaxdp.simulation.rows.fixed_rows import simulate_on_rows
from jaxdp.simulation.rows.function_space import FunctionSpace


class Iterates(AbstractSimulator):
    """The algorithm itself, step by step in `dim` dimensions: exact in distribution.

    Memory besides problem and result: 10 numbers a run for each coordinate, row and test row; on a
    stream ten times the random numbers of a chunk, 20 MB on a CPU. Observables on features:
    "clipped_fraction", "train_risk" and, for classification, "accuracy" and "train_accuracy".

    Args:
        chunk_size: number of steps whose random numbers are drawn together; None fits the cache.

    Example:
        >>> import jax, jaxdp
        >>> problem = jaxdp.RandomFeatures.sample(40, 20, 5, 200, key=jax.random.key(0))
        >>> algorithm = jaxdp.DPGD(learning_rate=0.02, clip_norm=1.0, num_steps=50, noise_scale=0.5)
        >>> how = {"num_runs": 3, "simulator": jaxdp.Iterates(), "keep_parameters": True}
        >>> jaxdp.simulate(problem, algorithm, key=jax.random.key(1), **how).parameters.shape
        (3, 200)
    """

    has_parameters: ClassVar[bool] = True
    chunk_size: int | None = eqx.field(static=True, converter=plain_number, default=None)

    def __check_init__(self):
        if self.chunk_size is not None:
            require_count("chunk_size", self.chunk_size)

    def reason_against(self, problem, algorithm):
        if isinstance(problem, AbstractSampleProblem):
            if not isinstance(algorithm, AbstractOnePassAlgorithm):
                came = f"such as OnePassDPSGD, got {type(algorithm).__name__}"
                return f"samples need an algorithm that uses each once, {came}"
            return None
        if isinstance(problem, AbstractFeatureProblem):
            reason = None
            if isinstance(algorithm, PrivateOptimiser):
                reason = algorithm.reason_not_simulated()
            elif not isinstance(algorithm, DPGD):
                came = type(algorithm).__name__
                return f"features on fixed rows need DPGD or a PrivateOptimiser, got {came}"
            if reason is None and problem.num_features is None:
                instead = (
                    "use FunctionSpace() or problem.reduced()"
                    if FunctionSpace().reason_against(problem, algorithm) is None
                    else "give it weights, or simulate problem.reduced()"
                )
                reason = f"infinitely many features cannot be written down; {instead}"
            return reason
        return f"it needs a problem with samples or features, got {type(problem).__name__}"

    def simulate(
        self, problem, algorithm, *, key, num_runs, records, keep_parameters, progress
    ) -> Trajectory:
        how = {"keep_parameters": keep_parameters, "progress": progress}
        if isinstance(problem, AbstractFeatureProblem):
            train, test = problem.train_features(), problem.test_features()
            unseen = jnp.zeros((problem.num_test, 0), test.dtype)
            labels = problem.train_labels, problem.test_labels
            explicit = ReducedFeatures(train, test, unseen, *labels, problem.loss)
            if isinstance(algorithm, PrivateOptimiser):
                algorithm.require_rows(problem.num_train)
            else:
                warn_if_unstable(algorithm, explicit.stability_limit)
            return simulate_on_rows(
                explicit, algorithm, key=key, num_runs=num_runs, records=records, **how
            )
        ranges = ranges_of(length_of_pass(problem, algorithm), records, progress)
        numbers_per_step = num_runs * algorithm.batch_size * problem.dim
        chunks = Chunks.of(ranges, numbers_per_step, self.chunk_size)
        runs = OnePassRuns(problem, algorithm, run_keys(key, num_runs), chunks)
        return drive(runs, ranges, **how)


class _State(eqx.Module):
    parameters: Float[Array, "*runs dim"]
    inner: PyTree  # of the algorithm
    clipped: Int[Array, "*runs"]
    capped: Int[Array, "*runs"]


class _Run(eqx.Module):
    """The values of a run that are fixed before its first step."""

    prepared: Any
    sampling_key: Key[Array, "*runs"]
    noise_key: Key[Array, "*runs"]


class OnePassRuns(AbstractPassRuns):
    """Runs that draw samples and noise in chunks of steps, each by its run's key and its step."""

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
        # Ranges in rows of one draw, padded with empty ranges after the last.
        shape = self.chunks.rows, self.chunks.records
        padding = np.full(shape[0] * shape[1] - len(ends), ends[-1])
        rows = (np.append(bounds, padding).reshape(shape) for bounds in (starts, ends))
        runs, state = state
        state, recorded = _advance(
            self.problem, self.algorithm, runs, state, *rows, chunks=self.chunks
        )
        kept = jax.tree.map(lambda values: values[:, : len(ends)], recorded)
        return (runs, state), Reading(*kept)

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
    """Run step ranges (start, end], in rows of `chunks.records`, and record their ends."""

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


def _chunk(problem, algorithm, run: _Run, state: _State, begins, ends, num_steps: int):
    """Up to `num_steps` updates of each range; those beyond its end have no effect."""
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
    """The samples of each step, with a batch axis if there is more than one."""
    index = (steps - 1) * batch_size
    if batch_size > 1:
        index = index[..., None] + lax.broadcast_to_rank(jnp.arange(batch_size), index.ndim + 1)
    draw = functools.partial(problem.draw, run.prepared, run.sampling_key)
    return _over(index, draw)


def _normals(key, steps, dim: int, dtype):
    return _over(steps, lambda step: jr.normal(numbered_key(key, step), (dim,), dtype))


def _over(index, function):
    results = jax.vmap(function)(index.reshape(-1))
    return jax.tree.map(lambda leaf: leaf.reshape(*index.shape, *leaf.shape[1:]), results)


@eqx.filter_jit
def _finish(problem, algorithm, runs, state):
    """The last update's noise, the released iterate's risk (None if recorded), and the iterate."""
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
