"""Steps of any algorithm on fixed rows, with full or drawn batches, many runs together."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax import lax
from jax.lax import Precision
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.clipping.norm_clip import clip_factor
from jaxdp.core.arrays import float_dtype
from jaxdp.core.keys import numbered_key, purpose_key, run_keys, stream_key
from jaxdp.core.trajectory import Trajectory
from jaxdp.problems.rows.features import ReducedFeatures
from jaxdp.simulation.base import Progress
from jaxdp.simulation.driver import AbstractRuns, Reading, drive, ranges_of

Draw = Callable[[Key[Array, ""], Int[Array, ""], int, Any], Float[Array, " count"]]
"""Standard normals from a run's key, the number of the step, their number and their type.

Of several outputs, those of one feature follow one another.
"""


def independent_normals(key, step, count, dtype):
    return jr.normal(numbered_key(key, step), (count,), dtype)


class OptimiserOnRows(eqx.Module):
    """A private optimiser with the methods of `DPGD` for all runs, and the formula's noise."""

    optimiser: PrivateOptimiser
    # Noise of several steps cannot be drawn at once, because an optimiser need not add it up.
    is_sum_of_noise: ClassVar[bool] = False

    @property
    def is_valid(self):
        return self.optimiser.is_valid

    def start(self, parameters):
        return eqx.filter_vmap(self.optimiser.init)(parameters)

    def batch(self, step, keys):
        sampler = self.optimiser.sampler

        def one(key):
            indices, is_real = sampler.sample(step, key=key)
            return jnp.zeros(sampler.num_records, bool).at[indices].max(is_real)

        return jax.vmap(one)(keys)

    def iterate(self, parameters, state):
        return self.optimiser.iterate(parameters, state)

    def clipped_slopes(self, slopes, feature_norms):
        clip_norm = self.optimiser.clip_norm
        norms = jnp.abs(slopes) * lax.broadcast_to_rank(feature_norms, slopes.ndim)
        scaled = slopes * clip_factor(norms, clip_norm)
        is_finite = jnp.isfinite(norms)
        return jnp.where(is_finite, scaled, 0), is_finite & (norms > clip_norm)

    def noise_std(self, num_samples):
        return self.optimiser.nominal_std_of_sum

    def move(self, parameters, state, gradient_sum, noise, num_samples):
        optimiser = self.optimiser

        def one(parameters, state, total, fresh):
            made = state.num_released
            shaped, buffers = optimiser.noise_strategy.shaped(fresh, state.buffers, made)
            mean = (total + shaped) / optimiser.sampler.expected_batch_size
            return optimiser.moved_by(mean, parameters, dataclasses.replace(state, buffers=buffers))

        # One run at a time: an optimiser may look at all of its parameters.
        return eqx.filter_vmap(one)(parameters, state, gradient_sum, noise)

    def time(self, steps, num_samples):
        return self.optimiser.time(steps, num_samples)


RowsAlgorithm = DPGD | OptimiserOnRows


class _State(eqx.Module):
    stepped: Float[Array, "runs stepped *outputs"]  # coordinates that the algorithm's steps move
    noisy: Float[Array, "runs noisy *outputs"]  # coordinates that only collect noise
    inner: PyTree  # of the algorithm
    # Shares of the samples, summed over the steps since a record.
    clipped: Float[Array, " runs"]
    used: Float[Array, " runs"] | None  # None if every step uses all of them


class RowRuns(AbstractRuns):
    """Runs on the features that training sees; coordinates of pure noise get it once per record."""

    problem: ReducedFeatures
    algorithm: RowsAlgorithm
    keys: Key[Array, " runs"]
    draw: Draw = eqx.field(static=True)

    @property
    def is_valid(self):
        return self.problem.is_valid & self.algorithm.is_valid

    @eqx.filter_jit
    def begin(self):
        problem, algorithm, keys = self.problem, self.algorithm, self.keys
        dtype = float_dtype(problem, algorithm)
        num_noisy = problem.unseen_factor.shape[1] if algorithm.is_sum_of_noise else 0
        outputs = () if problem.loss.num_outputs is None else (problem.loss.num_outputs,)
        stepped = jnp.zeros((len(keys), problem.num_features - num_noisy, *outputs), dtype)
        noisy = jnp.zeros((len(keys), num_noisy, *outputs), dtype)
        zero = jnp.zeros(len(keys), dtype)
        # Asked for its shape alone, a batch uses no key up.
        batch = eqx.filter_eval_shape(algorithm.batch, jnp.asarray(0), keys)
        used = None if batch is None else zero
        state = _State(stepped, noisy, algorithm.start(stepped), zero, used)
        read = jax.tree.map(lambda value: value[:, None], _record(problem, algorithm, state))
        return state, Reading(*read)

    def advance(self, state, starts, ends):
        bounds = jnp.asarray(starts), jnp.asarray(ends)
        return _advance(self.problem, self.algorithm, self.keys, state, bounds, self.draw)

    def finish(self, state):
        return None, jnp.concatenate([state.stepped, state.noisy], axis=1)

    def time(self, steps):
        dtype = float_dtype(self.problem, self.algorithm)
        return self.algorithm.time(jnp.asarray(steps).astype(dtype), self.problem.num_train)

    def observables(self, reading, steps):
        totals = {name: jnp.cumsum(sums, axis=1) for name, sums in reading.sums.items()}
        used = totals.get("used", steps.astype(reading.risk.dtype)[None])
        fraction = totals["clipped"] / jnp.where(used > 0, used, 1)
        return {"clipped_fraction": fraction, **reading.values}


def simulate_on_rows(
    problem: ReducedFeatures,
    algorithm: DPGD | PrivateOptimiser,
    *,
    key: Key[Array, ""],
    num_runs: int,
    records: int,
    keep_parameters: bool,
    progress: Progress | None,
    draw: Draw = independent_normals,
) -> Trajectory:
    """Independent runs of the algorithm on the features that training sees, for any loss."""
    ranges = ranges_of(algorithm.num_steps, records, progress)
    # Runs of any length share compiled programs.
    traced = algorithm.with_traced_length()
    view = OptimiserOnRows(traced) if isinstance(traced, PrivateOptimiser) else traced
    runs = RowRuns(problem, view, run_keys(key, num_runs), draw)
    return drive(runs, ranges, keep_parameters=keep_parameters, progress=progress)


@eqx.filter_jit
def _advance(problem: ReducedFeatures, algorithm, keys, state, bounds, draw: Draw):
    """Run the steps between neighbouring bounds, one range after the other."""
    norms = problem.feature_norms()
    std = algorithm.noise_std(problem.num_train)
    noise_keys = jax.vmap(lambda key: purpose_key(key, "noise"))(keys)
    num_seen = problem.train_factor.shape[1]

    def step(index, state: _State):
        iterate = algorithm.iterate(state.stepped, state.inner)
        predictions = predictions_of(iterate[:, :num_seen], problem.train_factor)
        slopes = problem.loss.slope(predictions, problem.train_labels[None])
        slopes, is_clipped = clipped_slopes(algorithm, slopes, norms)
        batch, used = algorithm.batch(index, keys), None
        if batch is not None:
            is_used = batch.reshape(batch.shape + (1,) * (slopes.ndim - 2))
            slopes, is_clipped = jnp.where(is_used, slopes, 0), is_clipped & batch
            used = state.used + batch.mean(axis=1, dtype=state.clipped.dtype)
        total = gradient_sums(slopes, problem.train_factor)
        # Zeros for the coordinates that no training row has.
        missing = (0, state.stepped.shape[1] - num_seen)
        total = jnp.pad(total, ((0, 0), missing) + ((0, 0),) * (total.ndim - 2))
        noise = _noise(draw, std, noise_keys, index + 1, state.stepped)
        stepped, inner = algorithm.move(state.stepped, state.inner, total, noise, problem.num_train)
        clipped = state.clipped + is_clipped.mean(axis=1, dtype=state.clipped.dtype)
        return _State(stepped.astype(state.stepped.dtype), state.noisy, inner, clipped, used)

    def record(state: _State, bounds):
        start, end = bounds
        nothing = jax.tree.map(jnp.zeros_like, (state.clipped, state.used))
        state = _State(state.stepped, state.noisy, state.inner, *nothing)
        state = lax.fori_loop(start, end, step, state)
        root = jnp.sqrt((end - start).astype(state.noisy.dtype))
        unseen_keys = jax.vmap(lambda key: stream_key(key, "unseen features"))(noise_keys)
        noisy = state.noisy + _noise(draw, std * root, unseen_keys, end, state.noisy)
        noisy = noisy.astype(state.noisy.dtype)
        state = _State(state.stepped, noisy, state.inner, state.clipped, state.used)
        return state, _record(problem, algorithm, state)

    state, read = lax.scan(record, state, bounds)
    return state, Reading(*jax.tree.map(jnp.transpose, read))


def _record(problem: ReducedFeatures, algorithm: RowsAlgorithm, state: _State):
    """The `Reading` of each run: values of the released model, and counts since the last record."""
    loss, features = problem.loss, problem.test_features()
    released = state.stepped
    num_stepped, num_seen = released.shape[1], problem.train_factor.shape[1]
    on_test = predictions_of(released, features[:, :num_stepped])
    on_test += predictions_of(state.noisy, features[:, num_stepped:])
    on_train = predictions_of(released[:, :num_seen], problem.train_factor)
    test = on_test, problem.test_labels[None]
    train = on_train, problem.train_labels[None]
    values = {"train_risk": jnp.mean(loss.value(*train), axis=1)}
    for prefix, rows in (("", test), ("train_", train)):
        measures = loss.measures(*rows)
        values |= {f"{prefix}{name}": jnp.mean(each, axis=1) for name, each in measures.items()}
    sums = {"clipped": state.clipped, "used": state.used}
    sums = {name: total for name, total in sums.items() if total is not None}
    return jnp.mean(loss.value(*test), axis=1), sums, values


def _noise(draw: Draw, std, keys, step, like: Any):
    """Noise of standard deviation `std` for each run, drawn only if it is not 0."""
    dtype = jnp.result_type(std, like)
    if like.size == 0:
        return jnp.zeros(like.shape, dtype)
    # As plain numbers: with a batched `std`, `lax.cond` selects operands, which uses a key up.
    words, kind = jr.key_data(keys), jr.key_impl(keys)
    shape = like.shape[1:]

    def drawn():
        def one(key):
            return draw(key, step, math.prod(shape), like.dtype).reshape(shape)

        return (std * jax.vmap(one)(jr.wrap_key_data(words, impl=kind))).astype(dtype)

    return lax.cond(std != 0, drawn, lambda: jnp.zeros(like.shape, dtype))


def predictions_of(
    parameters: Float[Array, "runs features *outputs"], features: Float[Array, "rows features"]
) -> Float[Array, "runs rows *outputs"]:
    """The predictions of each run's model for the rows."""
    # Residuals decide a clip: products at full precision, here and below.
    if parameters.ndim == 2:
        return jnp.matmul(parameters, features.T, precision=Precision.HIGHEST)
    return jnp.einsum("rfk,nf->rnk", parameters, features, precision=Precision.HIGHEST)


def gradient_sums(
    slopes: Float[Array, "runs rows *outputs"], features: Float[Array, "rows features"]
) -> Float[Array, "runs features *outputs"]:
    """The sum over the rows of slope times features."""
    # A rounded sum of clipped gradients is a longer one.
    if slopes.ndim == 2:
        return jnp.matmul(slopes, features, precision=Precision.HIGHEST)
    return jnp.einsum("rnk,nf->rfk", slopes, features, precision=Precision.HIGHEST)


def clipped_slopes(
    algorithm: RowsAlgorithm,
    slopes: Float[Array, "runs rows *outputs"],
    feature_norms: Float[Array, " rows"],
) -> tuple[Float[Array, "runs rows *outputs"], Bool[Array, "runs rows"]]:
    """Clipped slopes, and which were; several outputs are scaled as one slope of their norm."""
    if slopes.ndim == 2:
        return algorithm.clipped_slopes(slopes, feature_norms)
    lengths = jnp.linalg.norm(slopes, axis=-1)
    clipped, is_clipped = algorithm.clipped_slopes(lengths, feature_norms)
    is_zero = clipped == 0
    factors = clipped / jnp.where(is_zero, 1, lengths)
    return jnp.where(is_zero[..., None], 0, slopes * factors[..., None]), is_clipped
