"""DP-SGD with clipping, predicted before it is run: the theory that `predict` asks on features.

The mean and the covariance of the weights are followed step by step as if they were normal
(`closed_moments`, `adam_closure`), and the test error and its spread over runs are read off them
(`readout`).
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import lax

from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.algorithms.private_optimiser.readings import adam_constants
from jaxdp.core.arrays import float_dtype, plain_number
from jaxdp.core.checks import NotCoveredError, require_count
from jaxdp.core.numerics.precision import safe_sqrt
from jaxdp.problems.rows.features import AbstractFeatureProblem
from jaxdp.theory.base import AbstractTheory, require_fixed_rows
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
from jaxdp.theory.features.modes import KernelModes, explicit_modes, kernel_modes
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

DEFAULT_RANK = 256
_LABEL = "Gaussian closure"
# The spread over runs is followed with the whole rank up to so many modes, and up to so many steps.
_SPREAD_RANK, _SPREAD_MODES, _SPREAD_STEPS = 16, 64, 2**14
# How many numbers of covariances may be kept; with more the rank is 0.
_SPREAD_NUMBERS = 2**26


class ClosureReading(NamedTuple):
    """What the closure needs of a pair; one of `linear` and `adam` is None."""

    problem: AbstractFeatureProblem
    algorithm: DPGD | PrivateOptimiser
    linear: LinearRecursion | None  # the updates of an optimiser that is linear
    adam: AdamUpdates | None  # those of Adam


class GaussianClosure(AbstractTheory):
    r"""Expected test loss of DP-SGD as it is run, for T finite steps, and its spread over runs.

    Covered are `DPGD`, and `PrivateOptimiser` with Adam or an optimiser that is linear in gradient
    and state (gradient descent with schedules, momentum, Nesterov's step, weight decay, averages),
    a sampler that states its `inclusion_moments` (not Poisson batches that often overflow, nor
    epochs of unequal batches) and any loss of `jaxdp.losses`, on features of fixed rows. The
    optimiser's matrices are read off the optax transformation itself.

    The closure treats weights and predictions as Gaussian. With squared loss, without clipping and
    with batches that are drawn independently, mean and covariance are exact. Else the simulated
    mean lay within 1 to 2 % of it, from no clipping to nearly everything clipped, on random
    features with 10 and with 3 times as many rows as inputs, and on a table of cosines (60 cases of
    600 runs). With Adam (24 cases of 200 runs, rates .02 and .1) it lay within 1 % at the end, but
    while the loss falls the closure is too high by up to 3 % with logistic losses and up to 27 %
    with squared ones. Where batches share out the rows of an epoch (`ShuffledEpochs`), the error
    grows with the share of a row's residual that one step on this row removes: the loss's curvature
    times the learning rate times the squared norm of the row's features, over the batch size. The
    mean was at most .4 % off where that share is small, 1 to 3 % off at a third and 5 % at two
    thirds (n = 200). Beyond the stability limits that a warning and the status name, the closure is
    not to be trusted. The closure leaves out the noise that `SecretNoise` adds for the rounding of
    sums, up to .8 %.

    `std` of the prediction is the standard deviation of the test loss over runs, with the feedback
    of clipping on it (`readout`), found at a sixteenth to all of the steps and in between by
    interpolation. For squared losses `std` needs a known number of steps up to 2^14, else it is
    None; of Adam and of other losses of one number it is without feedback, and with classes the
    observable "accuracy_std" is that of the accuracy (`readout.DrawnSpread`). At n = 200 (3,000
    runs a case, whose own error is 1.5 %) that of squares lay within 3 % of the simulated one for
    gradient descent, heavy ball, Nesterov's step and averages, from nothing to 80 % clipped, and
    within 5 % for batches that share out an epoch. With the logistic loss (n = 240, 2,000 runs a
    case) those of loss and accuracy lay within 5 % where rows were clipped, up to 14 % too high
    where none was, and those of Adam 46 % too high in the first quarter and 4 % at the end.

    Costs T steps of O(n rank^2 + n r) after one eigendecomposition, and as much again three times
    for the spread; for very many steps of DP-GD `ClippedDiffusion` is cheaper. Memory is 15 n^2
    numbers, and with the spread the moments of every step beside. Without the spread
    `jax.grad` with respect to learning rate, clip norm or noise keeps records + T/records copies of
    the moments, with it T and more; a traced `num_steps` of `DPGD` can be differentiated through
    forward only.

    Args:
        rank: how many leading modes keep their covariances in full; the others keep variances. At
            256 the expected test error differs by at most .1 % from the full closure in every
            case tried (n up to 2000; tanh and ReLU; equal and unequal row norms), at 0 by .9 %.
            A rank of min(n, p) or more is the full closure.
        spread_rank: the same for the spread over runs, where there are more than 64 modes; there it
            is at most `rank`. None leaves the spread out, which saves most of the time and memory
            of a search or a gradient.

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
        problem, algorithm = reading.problem, reading.algorithm
        if reading.linear is not None:
            modes = kernel_modes(problem)
            at_record, longest = record_numbers(algorithm, records)
            risk, observables, std = self._linear(
                modes, reading.linear, algorithm, at_record, longest
            )
            grows, clipped = growth(modes, reading.linear), observables["clipped_fraction"][-1]
            warn_beyond_stability(modes, algorithm, grows, clipped)
            unstable = grows.is_unstable(clipped)
            parts = modes, algorithm, at_record, risk, observables
            return closure_trajectory(*parts, label=_LABEL, unstable=unstable, std=std)
        modes = explicit_modes(problem)
        at_record, longest = record_numbers(algorithm, records)
        limits = modes.slope_limits(algorithm)
        risk, observables, std = _predict_adam(modes, reading.adam, limits, at_record, longest)
        parts = modes, algorithm, at_record, risk, observables
        return closure_trajectory(*parts, label=_LABEL, unstable=False, std=std)

    def _linear(self, modes: KernelModes, recursion, algorithm, at_record, longest):
        steps, limits = algorithm.num_steps, modes.slope_limits(algorithm)
        rank = min(self.rank, len(modes.eigenvalues))
        spread_rank_used = self._spread_rank(modes, recursion, steps, rank)
        if spread_rank_used is None:
            has_spread = self.spread_rank is not None and not (modes.is_square or modes.outputs)
            return _predict(modes, recursion, limits, at_record, longest, rank, has_spread)
        places = spread_places(at_record)
        risk, observables, std = _predict_with_spread(
            modes, recursion, limits, at_record, places, steps, spread_rank_used
        )
        if spread_rank_used != rank:
            plain = _predict(modes, recursion, limits, at_record, longest, rank, has_spread=False)
            risk, observables, _ = plain
        return risk, observables, std

    def _spread_rank(self, modes: KernelModes, recursion, steps, rank: int) -> int | None:
        """The rank with which the spread is followed, or None where it is not."""
        is_short = isinstance(steps, int) and steps <= _SPREAD_STEPS
        if self.spread_rank is None or not (modes.is_square and is_short):
            return None
        if len(modes.eigenvalues) > _SPREAD_MODES:
            rank = min(rank, self.spread_rank)
        return 0 if steps * (recursion.size * rank) ** 2 > _SPREAD_NUMBERS else rank


@eqx.filter_jit
def _predict(modes, recursion, limits, at_record, longest, rank: int, has_spread: bool):
    """Risk, observables and, if it `has_spread`, the risk's standard deviation at the records."""
    dtype = float_dtype(modes, recursion, limits)
    closure = Closure(modes, limits.astype(dtype), rank)

    def step(moments, index):
        return closure.step(moments, recursion, recursion.at(index))

    readout = Readout(closure, recursion.output)
    read = _reader(readout, DrawnSpread(readout) if has_spread else None)
    start = closure.start(dtype, recursion.size)
    return recorded_closure(step, start, read, at_record, longest)


@eqx.filter_jit
def _predict_adam(modes: KernelModes, updates: AdamUpdates, limits, at_record, longest):
    """Adam's risk, observables and the risk's standard deviation at each record."""
    dtype = float_dtype(modes, updates, limits)
    closure = Closure(modes, limits.astype(dtype), LARGEST)

    def step(state, index):
        return adam_step(closure, updates, state, index)

    readout = Readout(closure, output=0)
    kind = SquaredForm if modes.is_square else DrawnSpread
    read = _reader(readout, None if modes.outputs else kind(readout))
    start = start_of_adam(closure, dtype)
    return recorded_closure(step, start, lambda state: read(state.moments), at_record, longest)


def _reader(readout: Readout, spread: SquaredForm | DrawnSpread | None):
    """What is read off moments: risk, observables, and standard deviations if there is a spread."""

    def read(moments: Moments):
        found = readout.observables(moments) | {"clipped_fraction": moments.clipped}
        std = None
        if isinstance(spread, SquaredForm):
            std = safe_sqrt(spread.variance(moments))
        elif spread is not None:
            stds = {name: safe_sqrt(one) for name, one in spread.variances(moments).items()}
            std = stds.pop("risk")
            found |= {f"{name}_std": one for name, one in stds.items()}
        return readout.risk(moments), found, std

    return read


@eqx.filter_jit
def _predict_with_spread(
    modes, recursion: LinearRecursion, limits, at_record, places, num_steps: int, rank: int
):
    """Risk, observables and the standard deviation of the risk at the records."""
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
