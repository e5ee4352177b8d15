"""The Gaussian closure of DP-SGD with clipping on features, and its limit of small steps."""

from typing import NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.algorithms.private_optimiser.readings import adam_constants
from jaxdp.core.arrays import float_dtype, in_types_of, plain_number
from jaxdp.core.checks import NotCoveredError, require_count
from jaxdp.core.numerics.precision import product, safe_sqrt
from jaxdp.core.trajectory import trajectory_of
from jaxdp.problems.rows.features import AbstractFeatureProblem
from jaxdp.theory.base import AbstractTheory, require_dp_gd, require_fixed_rows
from jaxdp.theory.features.adam_closure import (
    LARGEST,
    AdamUpdates,
    adam_step,
    adam_updates,
    start_of_adam,
)
from jaxdp.theory.features.closed_moments import (
    Closure,
    Moments,
    closure_trajectory,
    mean_clipped,
    record_numbers,
    recorded_closure,
)
from jaxdp.theory.features.linear_recursion import LinearRecursion, linear_recursion
from jaxdp.theory.features.modes import KernelModes, explicit_modes, kernel_modes, record_times
from jaxdp.theory.features.readout import (
    DrawnSpread,
    Readout,
    SquaredForm,
    all_states,
    moments_at,
    spread_over_runs,
    spread_places,
)
from jaxdp.theory.features.stability import growth, warn_beyond_stability
from jaxdp.theory.solver import Tolerances, require_adjoint, solve

DEFAULT_RANK = 256
# The spread uses the whole rank up to this many modes; there is no spread beyond this many steps.
_SPREAD_RANK, _SPREAD_MODES, _SPREAD_STEPS = 16, 64, 2**14
# Largest number of stored covariances; with more the rank is 0.
_SPREAD_NUMBERS = 2**26


class ClosureReading(NamedTuple):
    """A pair with the updates of its optimiser; one of `linear` and `adam` is None."""

    problem: AbstractFeatureProblem
    algorithm: DPGD | PrivateOptimiser
    linear: LinearRecursion | None
    adam: AdamUpdates | None


class GaussianClosure(AbstractTheory):
    """Predict the test loss of DP-SGD with clipping on fixed features, and its spread over runs.

    Covers `DPGD`, and `PrivateOptimiser` with Adam or an optimiser that is linear in gradient and
    state (gradient descent with schedules, momentum, Nesterov's step, weight decay, averages; read
    off the optax transformation), a sampler with `inclusion_moments` (not Poisson batches that
    often overflow, nor epochs of unequal batches) and any loss of `jaxdp.losses`. Beyond the
    stability limits, which give a warning and a status, do not trust the prediction.

    Weights and predictions are treated as Gaussian: exact for squared loss without clipping and
    independent batches. Relative errors against simulations (n = 200 to 240; mean 60 cases of 600
    runs, standard deviation 2,000 to 3,000 runs a case; Adam 24 cases of 200 runs):

    | setting | expected test loss | standard deviation |
    |---|---|---|
    | linear optimiser | 1 to 2 % | 3 % (logistic loss: 5 %, unclipped 14 % too high) |
    | `ShuffledEpochs`, s small, 1/3, 2/3 | 0.4 %, 1 to 3 %, 5 % | 5 % |
    | Adam, at the end | 1 % | 4 % too high |
    | Adam, early | 3 % (logistic), 27 % (squared) too high | 46 % too high |
    | `BandedNoise`, 4 cells of 1,000 runs | 2.5 % | 2 %; most rows clipped: 7 to 15 % too low |

    With logistic loss on 81 features, n = 1,000, in 12 planned cells of 6,000 runs, the standard
    deviation of the loss was 3 % too low to 2 % too high, that of the accuracy 3 % too low to 2 %
    too high. Losses of runs have heavy tails: a standard deviation of 30 runs is 15 to 26 % off.

    Here s is curvature times learning rate times squared feature norm over batch size, the share of
    a row's residual that one step on it removes. `SecretNoise`'s noise for rounding, not included,
    adds up to 0.8 %.

    `std`, over runs, is found at six places from 1/16 to all of the steps and interpolated. With
    squared losses it includes the feedback of clipping (`readout`) and needs a known number of
    steps up to 2^14, otherwise it is None. With Adam, other losses of one output, `BandedNoise` or
    batches in a `FixedOrder` it has no feedback; classes add the observable "accuracy_std".

    Costs T steps of O(n rank^2 + n r) after one eigendecomposition, and three times as much again
    for the spread; `ClippedDiffusion` is cheaper for very many steps of DP-GD. Memory is 15 n^2
    numbers, and for the spread the moments of every step. `jax.grad` in learning rate, clip norm or
    noise keeps records + T/records copies of the moments, with the spread T and more. A traced
    `num_steps` of `DPGD` allows forward differentiation only.

    Args:
        rank: number of leading modes with full covariances, default 256; the others keep variances.
            At 256 the expected loss is within 0.1 % of the full closure, which min(n, p) gives (n
            up to 2000; tanh and ReLU; equal and unequal row norms); at 0 within 0.9 %.
            It is 0 for `BandedNoise` and for batches in a `FixedOrder`.
        spread_rank: rank for the spread if there are more than 64 modes, at most `rank`, default
            16. None omits the spread, and most of the time and memory of a search or a gradient.

    Example:
        >>> import jax, jaxdp
        >>> problem = jaxdp.RandomFeatures.sample(40, 20, 5, 200, key=jax.random.key(0))
        >>> algorithm = jaxdp.DPGD(learning_rate=0.02, clip_norm=1.0, num_steps=50, noise_scale=0.5)
        >>> predicted = jaxdp.predict(problem, algorithm, theory=jaxdp.GaussianClosure(rank=8))
        >>> sorted(predicted.observables)
        ['bias', 'clipped_fraction', 'train_risk', 'variance']
    """

    rank: int = eqx.field(static=True, converter=plain_number, default=DEFAULT_RANK)
    spread_rank: int | None = eqx.field(static=True, converter=plain_number, default=_SPREAD_RANK)

    def __check_init__(self):
        require_count("rank", self.rank, least=0)
        if self.spread_rank is not None:
            require_count("spread_rank", self.spread_rank, least=0)

    def read(self, problem, algorithm) -> ClosureReading:
        require_fixed_rows(problem, algorithm)
        try:
            linear = linear_recursion(algorithm, problem.num_train)
        except NotCoveredError as error:
            try:
                constants = adam_constants(algorithm)
            except NotCoveredError as other:
                raise NotCoveredError(f"{error}; nor is it Adam: {other}") from None
            adam = adam_updates(problem, algorithm, constants)
            return ClosureReading(problem, algorithm, linear=None, adam=adam)
        return ClosureReading(problem, algorithm, linear, adam=None)

    def solve(self, reading, records):
        problem, algorithm, linear, adam = reading
        modes = explicit_modes(problem) if linear is None else kernel_modes(problem)
        at_record, longest = record_numbers(algorithm, records)
        given = modes, adam if linear is None else linear, modes.slope_limits(algorithm), at_record
        if linear is None:
            found, unstable = _predict(*given, longest, LARGEST, not modes.outputs), False
            risk, observables, std = found
            observables.pop("steepest")
        else:
            risk, observables, std = self._linear(*given, longest, algorithm.num_steps)
            clipped, steepest = observables["clipped_fraction"][-1], observables.pop("steepest")
            grows = growth(modes, linear, steepest[-1])
            warn_beyond_stability(grows, clipped)
            unstable = grows.is_unstable(clipped)
        found = {"label": "Gaussian closure", "unstable": unstable, "std": std}
        return closure_trajectory(modes, algorithm, at_record, risk, observables, **found)

    def _linear(self, modes: KernelModes, recursion, limits, at_record, longest, steps):
        rank = recursion.rank(min(self.rank, len(modes.eigenvalues)))
        spread_rank = self._spread_rank(modes, recursion, steps, rank)
        given = modes, recursion, limits, at_record
        if spread_rank is None:
            has_spread = self.spread_rank is not None and not modes.outputs
            has_spread &= any(recursion.num_draws) or not modes.is_square
            return _predict(*given, longest, rank, has_spread)
        found = _predict_with_spread(*given, spread_places(at_record), steps, spread_rank)
        if spread_rank == rank:
            return found
        return *_predict(*given, longest, rank, has_spread=False)[:2], found[2]

    def _spread_rank(self, modes: KernelModes, recursion, steps, rank: int) -> int | None:
        """The rank for the spread's moments, or None if there is no spread."""
        is_short = isinstance(steps, int) and steps <= _SPREAD_STEPS
        is_covered = modes.is_square and is_short and not any(recursion.num_draws)
        if self.spread_rank is None or not is_covered:
            return None
        if len(modes.eigenvalues) > _SPREAD_MODES:
            rank = min(rank, self.spread_rank)
        return 0 if steps * (recursion.size * rank) ** 2 > _SPREAD_NUMBERS else rank


@eqx.filter_jit
def _predict(modes, updates, limits, at_record, longest, rank: int, has_spread: bool):
    dtype = float_dtype(modes, updates, limits)
    closure = Closure(modes, limits.astype(dtype), rank)
    is_adam = isinstance(updates, AdamUpdates)

    def step(state, index):
        if is_adam:
            return adam_step(closure, updates, state, index)
        return closure.step(state, updates, updates.at(index))

    readout = Readout(closure, 0 if is_adam else updates.output)
    kind = SquaredForm if modes.is_square else DrawnSpread
    read = _reader(readout, kind(readout) if has_spread else None)
    if is_adam:
        start = start_of_adam(closure, dtype)
        return recorded_closure(step, start, lambda state: read(state.moments), at_record, longest)
    start = closure.start(dtype, updates.size, updates.num_draws)
    return recorded_closure(step, start, read, at_record, longest)


def _reader(readout: Readout, spread: SquaredForm | DrawnSpread | None):
    """A function of moments: risk, observables, and standard deviation if given a spread."""

    def read(moments: Moments):
        found = readout.observables(moments) | {"clipped_fraction": moments.clipped}
        found["steepest"] = moments.steepest.value
        variances = {} if spread is None else spread.variances(moments)
        stds = {f"{name}_std": safe_sqrt(one) for name, one in variances.items()}
        std = stds.pop("risk_std", None)
        return readout.risk(moments), found | stds, std

    return read


@eqx.filter_jit
def _predict_with_spread(
    modes, recursion: LinearRecursion, limits, at_record, places, num_steps: int, rank: int
):
    dtype = float_dtype(modes, recursion, limits)
    closure = Closure(modes, limits.astype(dtype), rank)
    readout = Readout(closure, recursion.output)
    at_record, places = jnp.asarray(at_record), jnp.asarray(places)

    def step(moments, index):
        return closure.step(moments, recursion, recursion.at(index))

    states = all_states(step, closure.start(dtype, recursion.size), num_steps)
    read = _reader(readout, None)
    risk, observables, _ = lax.map(read, moments_at(states, at_record))
    observables = mean_clipped(observables, at_record)
    std = spread_over_runs(closure, recursion, states, readout, at_record, places)
    return risk, observables, std


def _largest_error(error):
    """The largest entry: a root mean square hides errors of the mean behind many covariances."""
    return jnp.max(
        jnp.stack([jnp.max(jnp.abs(part)) for part in jax.tree.leaves(error) if part.size])
    )


_TOLERANCES = Tolerances((1e-9, 1e-12), (1e-6, 1e-8), _largest_error, max_steps=2**14)


class ClippedDiffusion(AbstractTheory):
    r"""Predict the test error of DP-GD with clipping for many small steps, the diffusion PF (3.5).

    The limit of `GaussianClosure`. Learning rate and steps matter only through $\tau = \eta T$ and
    the noise: the cost does not grow with T, and `num_steps` may be traced in forward and reverse
    mode. Memory: 25 n^2 numbers, and min(n, rank)^2 more for each record.

    Args:
        rank: number of leading modes with full covariances, as for `GaussianClosure`.
        adjoint: how diffrax differentiates the solution. The default serves `jax.grad`;
            `diffrax.ForwardMode()` serves `jax.jvp` and `jax.jacfwd`.

    Example:
        >>> import jax, jaxdp
        >>> problem = jaxdp.RandomFeatures.sample(40, 20, 5, 200, key=jax.random.key(0))
        >>> algorithm = jaxdp.DPGD(learning_rate=0.02, clip_norm=1.0, num_steps=50, noise_scale=0.5)
        >>> theory = jaxdp.theory.ClippedDiffusion()
        >>> predicted = jaxdp.predict(problem, algorithm, theory=theory, records=2)
        >>> predicted.risk.shape, bool(predicted.final_risk < predicted.risk[0])
        ((3,), True)
    """

    rank: int = eqx.field(static=True, converter=plain_number, default=DEFAULT_RANK)
    adjoint: diffrax.AbstractAdjoint = diffrax.RecursiveCheckpointAdjoint()

    def __check_init__(self):
        require_count("rank", self.rank, least=0)
        require_adjoint(self.adjoint)

    def read(self, problem, algorithm) -> tuple[AbstractFeatureProblem, DPGD]:
        require_dp_gd(problem, algorithm)
        return problem, algorithm

    def solve(self, reading, records):
        problem, algorithm = reading
        modes = kernel_modes(problem)
        at_record, time = record_times(algorithm, records)
        diffusion = algorithm.diffusion(modes.num_train)
        # The compiled program does not depend on the number of steps.
        bias, variance, clipped, stopped = _solve_diffusion(
            modes,
            modes.slope_limits(algorithm),
            algorithm.duration,
            diffusion,
            at_record / jnp.asarray(algorithm.num_steps, float),
            self.rank,
            self.adjoint,
        )
        variance = variance + diffusion**2 * time * jnp.mean(modes.unseen_norms)
        risk = bias + variance
        return trajectory_of(
            modes.is_valid & algorithm.is_valid,
            time=time,
            risk=risk,
            final_risk=risk[-1],
            observables={"bias": bias, "variance": variance, "clipped_fraction": clipped},
            label="clipped diffusion",
            stopped=stopped,
        )


@eqx.filter_jit
def _solve_diffusion(modes, limits, duration, diffusion, share, rank: int, adjoint):
    dtype = float_dtype(modes, limits, duration, diffusion)
    # Coordinates in which the largest eigenvalue is 1: predictions and moments are of order one.
    largest = jnp.where(modes.eigenvalues[0] > 0, modes.eigenvalues[0], 1)
    scaled = eqx.tree_at(
        lambda tree: (tree.factor, tree.test_factor),
        modes,
        (modes.factor / jnp.sqrt(largest), modes.test_factor / jnp.sqrt(largest)),
    )
    closure = Closure(scaled, limits.astype(dtype), rank)
    rate = duration * largest

    rank = closure.rank

    def velocity(_, state):
        mean, leading, others, _ = state
        forces = closure.forces(mean, leading, others)
        decay = product(forces.leading, leading)
        found = (
            -rate * forces.pull,
            rate * (diffusion**2 * jnp.eye(rank, dtype=dtype) - decay - decay.T),
            rate * (diffusion**2 - 2 * forces.others * others),
            # The clipped share is integrated over the fraction of the time.
            forces.clipped,
        )
        return in_types_of(found, state)

    zero = closure.start(dtype)
    start = zero.mean[0], zero.leading[0, 0], zero.others[0, 0], zero.clipped
    (mean, leading, others, clipped), stopped = solve(
        velocity, start, share.astype(dtype), tolerances=_TOLERANCES, adjoint=adjoint
    )
    test = scaled.test_factor
    test_leading = product(test[:, :rank].T, test[:, :rank]) / test.shape[0]
    variance = jnp.sum(test_leading[None] * leading, axis=(1, 2))
    variance += jnp.sum(jnp.mean(test[:, rank:] ** 2, axis=0)[None] * others, axis=1)
    return scaled.bias(mean), variance, clipped / jnp.where(share > 0, share, 1), stopped
