"""Steps of a full-batch algorithm on features, many runs together.

One step of R runs is two products of (R, n) and (n, features) arrays. Each normal depends on its
run's key and its step alone. Memory is O(records).
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import lax
from jax.lax import Precision
from jaxtyping import Array, Float, Int, Key

from jaxdp.algorithms.base import AbstractFullBatchAlgorithm
from jaxdp.core.arrays import float_dtype
from jaxdp.core.keys import numbered_key, purpose_key, run_keys, stream_key
from jaxdp.core.recording import record_steps
from jaxdp.core.trajectory import Trajectory, status_of, void_unless
from jaxdp.problems.features import ReducedFeatures
from jaxdp.simulation.base import Progress

_PROGRESS_BLOCKS = 20

Draw = Callable[[Key[Array, ""], Int[Array, ""], int, Any], Float[Array, " features"]]
"""Standard normals from a run's key, the number of the step, their number and their type."""


def independent_normals(key, step, count, dtype):
    """What one step adds to one run."""
    return jr.normal(numbered_key(key, step), (count,), dtype)


class _State(eqx.Module):
    seen: Float[Array, "runs seen"]
    unseen: Float[Array, "runs unseen"]
    clipped: Float[Array, " runs"]  # share of the samples, summed over the steps since a record


def simulate_full_batch(
    problem: ReducedFeatures,
    algorithm: AbstractFullBatchAlgorithm,
    *,
    key: Key[Array, ""],
    num_runs: int,
    records: int,
    progress: Progress | None,
    draw: Draw = independent_normals,
) -> Trajectory:
    """Independent runs of the algorithm on the features that training sees.

    The coordinates that it never sees get the noise of all steps between two records at once.
    """
    at_record = record_steps(algorithm.num_steps, records)
    slots = np.arange(records + 1)
    if isinstance(at_record, np.ndarray):
        at_record, slots = np.unique(at_record, return_inverse=True)
    # Runs of any length share what is compiled.
    algorithm = algorithm.with_traced_length()
    keys = jax.vmap(lambda run: purpose_key(run, "noise"))(run_keys(key, num_runs))
    state, first = _begin(problem, algorithm, keys)
    recorded = [first]
    count = len(at_record) - 1
    block = count if progress is None else -(-count // _PROGRESS_BLOCKS)
    for start in range(0, count, block):
        bounds = at_record[start : start + block + 1]
        state, new = _advance(problem, algorithm, keys, state, jnp.asarray(bounds), draw)
        recorded.append(new)
        if progress is not None:
            jax.block_until_ready(state)
            progress(min(1.0, (start + block) / count))
    risk, clipped = (jnp.concatenate(parts, axis=1) for parts in zip(*recorded, strict=True))
    risk, clipped = risk[:, slots], jnp.cumsum(clipped, axis=1)[:, slots]
    done = jnp.asarray(at_record)[slots]
    trajectory = Trajectory(
        time=done.astype(risk.dtype) * algorithm.learning_rate,
        risk=risk,
        final_risk=risk[:, -1],
        status=status_of(risk, risk[:, -1]),
        observables={"clipped_fraction": clipped / jnp.maximum(done, 1).astype(risk.dtype)},
        parameters=jnp.concatenate([state.seen, state.unseen], axis=1),
        label="simulated",
    )
    return void_unless(problem.is_valid & algorithm.is_valid, trajectory)


@eqx.filter_jit
def _begin(problem: ReducedFeatures, algorithm, keys):
    dtype = float_dtype(problem, algorithm)
    runs = len(keys)
    state = _State(
        jnp.zeros((runs, problem.train_factor.shape[1]), dtype),
        jnp.zeros((runs, problem.unseen_factor.shape[1]), dtype),
        jnp.zeros(runs, dtype),
    )
    return state, _record(problem, state)


@eqx.filter_jit
def _advance(problem: ReducedFeatures, algorithm, keys, state, bounds, draw: Draw):
    """Runs the steps between neighbouring bounds, one range after the other."""
    norms = problem.feature_norms()
    std = algorithm.noise_std(problem.num_train)

    def step(index, state: _State):
        residuals = _product(state.seen, problem.train_factor.T) - problem.train_labels
        slopes, is_clipped = algorithm.clipped_slopes(residuals, norms)
        gradient = _product(slopes, problem.train_factor) / problem.num_train
        noise = _noise(draw, std, keys, index + 1, state.seen)
        seen = state.seen - algorithm.learning_rate * gradient + noise
        clipped = state.clipped + is_clipped.mean(axis=1, dtype=state.clipped.dtype)
        return _State(seen.astype(state.seen.dtype), state.unseen, clipped)

    def record(state: _State, bounds):
        start, end = bounds
        state = eqx.tree_at(lambda tree: tree.clipped, state, jnp.zeros_like(state.clipped))
        state = lax.fori_loop(start, end, step, state)
        root = jnp.sqrt((end - start).astype(state.unseen.dtype))
        unseen_keys = jax.vmap(lambda key: stream_key(key, "unseen features"))(keys)
        unseen = state.unseen + _noise(draw, std * root, unseen_keys, end, state.unseen)
        state = _State(state.seen, unseen.astype(state.unseen.dtype), state.clipped)
        return state, _record(problem, state)

    state, recorded = lax.scan(record, state, (bounds[:-1], bounds[1:]))
    risk, clipped = recorded
    return state, (risk[..., 0].T, clipped[..., 0].T)


def _record(problem: ReducedFeatures, state: _State):
    """Test error, and clipped shares since the last record, (runs, 1) each."""
    predictions = _product(state.seen, problem.test_factor.T)
    predictions += _product(state.unseen, problem.unseen_factor.T)
    risk = jnp.mean((predictions - problem.test_labels) ** 2, axis=1)
    return risk[:, None], state.clipped[:, None]


def _noise(draw: Draw, std, keys, step, like: Any):
    """Noise of standard deviation `std`, one row a run; none is drawn where it is 0."""
    dtype = jnp.result_type(std, like)

    def drawn():
        def one(key):
            return draw(key, step, like.shape[1], like.dtype)

        return (std * jax.vmap(one)(keys)).astype(dtype)

    return lax.cond(std != 0, drawn, lambda: jnp.zeros(like.shape, dtype))


def _product(left, right):
    # Residuals decide a clip, and a rounded sum of clipped gradients is a longer one.
    return jnp.matmul(left, right, precision=Precision.HIGHEST)
