"""Steps of any algorithm for fixed rows, with full batches or drawn ones, many runs together.

One step of R runs is two products of (R, n) and (n, features) arrays: the rows that a batch leaves
out have slope zero. Each normal depends on its run's key and its step alone. Memory is O(records).
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax import lax
from jax.lax import Precision
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxdp.algorithms.base import AbstractRowsAlgorithm
from jaxdp.core.arrays import float_dtype
from jaxdp.core.keys import numbered_key, purpose_key, run_keys, stream_key
from jaxdp.core.trajectory import Trajectory
from jaxdp.problems.features import ReducedFeatures
from jaxdp.simulation.base import Progress
from jaxdp.simulation.driver import AbstractRuns, Reading, drive, ranges_of

Draw = Callable[[Key[Array, ""], Int[Array, ""], int, Any], Float[Array, " features"]]
"""Standard normals from a run's key, the number of the step, their number and their type."""


def independent_normals(key, step, count, dtype):
    """What one step adds to one run."""
    return jr.normal(numbered_key(key, step), (count,), dtype)


class _State(eqx.Module):
    seen: Float[Array, "runs seen"]
    unseen: Float[Array, "runs unseen"]
    inner: PyTree  # of the algorithm
    # Shares of the samples, summed over the steps since a record.
    clipped: Float[Array, " runs"]
    used: Float[Array, " runs"] | None  # None where every step uses all of them


class RowRuns(AbstractRuns):
    """Runs on the features that training sees, all in one product.

    The coordinates that it never sees get the noise of all steps between two records at once.
    """

    problem: ReducedFeatures
    algorithm: AbstractRowsAlgorithm
    keys: Key[Array, " runs"]
    draw: Draw = eqx.field(static=True)

    @property
    def is_valid(self):
        return self.problem.is_valid & self.algorithm.is_valid

    def begin(self):
        return _begin(self.problem, self.algorithm, self.keys)

    def advance(self, state, starts, ends):
        bounds = jnp.asarray(starts), jnp.asarray(ends)
        return _advance(self.problem, self.algorithm, self.keys, state, bounds, self.draw)

    def finish(self, state):
        seen = self.algorithm.released(state.seen, state.inner)
        return None, jnp.concatenate([seen, state.unseen], axis=1)

    def time(self, steps):
        dtype = float_dtype(self.problem, self.algorithm)
        return self.algorithm.time(jnp.asarray(steps).astype(dtype), self.problem.num_train)

    def observables(self, reading, steps):
        totals = {name: jnp.cumsum(sums, axis=1) for name, sums in reading.sums.items()}
        used = totals.get("used", steps.astype(reading.risk.dtype)[None])
        return {"clipped_fraction": totals["clipped"] / jnp.where(used > 0, used, 1)}


def simulate_on_rows(
    problem: ReducedFeatures,
    algorithm: AbstractRowsAlgorithm,
    *,
    key: Key[Array, ""],
    num_runs: int,
    records: int,
    keep_parameters: bool,
    progress: Progress | None,
    draw: Draw = independent_normals,
) -> Trajectory:
    """Independent runs of the algorithm on the features that training sees."""
    ranges = ranges_of(algorithm.num_steps, records, progress)
    # Runs of any length share what is compiled.
    runs = RowRuns(problem, algorithm.with_traced_length(), run_keys(key, num_runs), draw)
    return drive(runs, ranges, keep_parameters=keep_parameters, progress=progress)


@eqx.filter_jit
def _begin(problem: ReducedFeatures, algorithm: AbstractRowsAlgorithm, keys):
    dtype = float_dtype(problem, algorithm)
    seen = jnp.zeros((len(keys), problem.train_factor.shape[1]), dtype)
    unseen = jnp.zeros((len(keys), problem.unseen_factor.shape[1]), dtype)
    zero = jnp.zeros(len(keys), dtype)
    # Asked for its shape alone, a batch uses no key up.
    batch = eqx.filter_eval_shape(algorithm.batch, jnp.asarray(0), keys)
    used = None if batch is None else zero
    state = _State(seen, unseen, algorithm.init(seen), zero, used)
    risk, sums = _record(problem, algorithm, state)
    return state, Reading(risk[:, None], jax.tree.map(lambda total: total[:, None], sums))


@eqx.filter_jit
def _advance(problem: ReducedFeatures, algorithm, keys, state, bounds, draw: Draw):
    """Runs the steps between neighbouring bounds, one range after the other."""
    norms = problem.feature_norms()
    std = algorithm.noise_std(problem.num_train)
    noise_keys = jax.vmap(lambda key: purpose_key(key, "noise"))(keys)

    def step(index, state: _State):
        predictions = _product(state.seen, problem.train_factor.T)
        slopes = problem.loss.slope(predictions, problem.train_labels[None])
        slopes, is_clipped = algorithm.clipped_slopes(slopes, norms)
        batch, used = algorithm.batch(index, keys), None
        if batch is not None:
            slopes, is_clipped = jnp.where(batch, slopes, 0), is_clipped & batch
            used = state.used + batch.mean(axis=1, dtype=state.clipped.dtype)
        total = _product(slopes, problem.train_factor)
        noise = _noise(draw, std, noise_keys, index + 1, state.seen)
        seen, inner = algorithm.step(state.seen, state.inner, total, noise, problem.num_train)
        clipped = state.clipped + is_clipped.mean(axis=1, dtype=state.clipped.dtype)
        return _State(seen.astype(state.seen.dtype), state.unseen, inner, clipped, used)

    def record(state: _State, bounds):
        start, end = bounds
        nothing = jax.tree.map(jnp.zeros_like, (state.clipped, state.used))
        state = _State(state.seen, state.unseen, state.inner, *nothing)
        state = lax.fori_loop(start, end, step, state)
        root = jnp.sqrt((end - start).astype(state.unseen.dtype))
        unseen_keys = jax.vmap(lambda key: stream_key(key, "unseen features"))(noise_keys)
        unseen = state.unseen + _noise(draw, std * root, unseen_keys, end, state.unseen)
        unseen = unseen.astype(state.unseen.dtype)
        state = _State(state.seen, unseen, state.inner, state.clipped, state.used)
        return state, _record(problem, algorithm, state)

    state, (risk, sums) = lax.scan(record, state, bounds)
    return state, Reading(risk.T, jax.tree.map(jnp.transpose, sums))


def _record(problem: ReducedFeatures, algorithm: AbstractRowsAlgorithm, state: _State):
    """Test error of each run, and the sums since the last record."""
    seen = algorithm.released(state.seen, state.inner)
    predictions = _product(seen, problem.test_factor.T)
    predictions += _product(state.unseen, problem.unseen_factor.T)
    risk = jnp.mean(problem.loss.value(predictions, problem.test_labels[None]), axis=1)
    sums = {"clipped": state.clipped, "used": state.used}
    return risk, {name: total for name, total in sums.items() if total is not None}


def _noise(draw: Draw, std, keys, step, like: Any):
    """Noise of standard deviation `std`, one row a run; none is drawn where it is 0."""
    dtype = jnp.result_type(std, like)
    # As plain numbers: where `std` is batched, `lax.cond` selects among its operands, and a key
    # counts as used up by that.
    words, kind = jr.key_data(keys), jr.key_impl(keys)

    def drawn():
        def one(key):
            return draw(key, step, like.shape[1], like.dtype)

        return (std * jax.vmap(one)(jr.wrap_key_data(words, impl=kind))).astype(dtype)

    return lax.cond(std != 0, drawn, lambda: jnp.zeros(like.shape, dtype))


def _product(left, right):
    # Residuals decide a clip, and a rounded sum of clipped gradients is a longer one.
    return jnp.matmul(left, right, precision=Precision.HIGHEST)
