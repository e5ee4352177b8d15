"""DP-SGD with clipping, predicted step by step by the Gaussian closure."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdp.algorithms.dp_gd import DPGD
from jaxdp.algorithms.on_rows import algorithm_on_rows
from jaxdp.algorithms.stability import warn_if_unstable
from jaxdp.core.arrays import float_dtype, plain_number
from jaxdp.core.checks import require_count
from jaxdp.core.recording import record_steps
from jaxdp.theory.base import AbstractTheory
from jaxdp.theory.coverage import require_rows
from jaxdp.theory.features.closed_moments import Closure, Moments
from jaxdp.theory.features.linear_recursion import LinearRecursion, linear_recursion
from jaxdp.theory.features.modes import KernelModes, kernel_modes
from jaxdp.theory.features.readout import Readout, SquaredForm
from jaxdp.theory.features.spread import feedback
from jaxdp.theory.solver import prediction

DEFAULT_RANK = 256
# The spread over runs is followed with this rank at most, and at so many of the records.
_SPREAD_RANK, _SPREAD_PLACES = 64, (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1)


class GaussianClosure(AbstractTheory):
    r"""Expected test loss of DP-SGD as it is run, for T finite steps, and its spread over runs.

    Covered are `DPGD`, and `PrivateOptimiser` with an optimiser that is linear in gradient and
    state (gradient descent with schedules, momentum, Nesterov's step, weight decay, averages), any
    sampler and any loss of `jaxdp.losses`, on features of fixed rows. The optimiser's matrices are
    read off the optax transformation itself.

    The closure treats weights and predictions as Gaussian. With squared loss and without clipping
    mean and covariance are exact. Else the simulated mean lies within about 1 % of it, from no
    clipping to nearly everything clipped, where n >= 10 d; at n = 3 d and noise beyond the signal
    it falls 2 % short. Beyond the stability limits that a warning names it is not to be trusted.

    `std` of the prediction is the standard deviation of the test loss over runs, with the feedback
    of clipping on it (`spread`), at a sixteenth to all of the steps, in between by interpolation;
    for squared losses and a known number of steps, else None.

    Costs T steps of O(n rank^2 + n r) after one eigendecomposition; for very many steps of DP-GD
    `ClippedDiffusion` is cheaper. `jax.grad` with respect to learning rate, clip norm or noise
    keeps records + T/records copies of the moments; a traced `num_steps` of `DPGD` can be
    differentiated through forward only.

    Args:
        rank: how many leading modes keep their covariances in full; the others keep variances. At
            256 the expected test error differs by at most .1 % from the full closure in every
            case tried (n up to 2000; tanh and ReLU; equal and unequal row norms), at 0 by .9 %.
            A rank of min(n, p) or more is the full closure.

    Example:
        >>> import jax, jaxdp
        >>> problem = jaxdp.RandomFeatures.sample(40, 20, 5, 200, key=jax.random.key(0))
        >>> algorithm = jaxdp.DPGD(learning_rate=0.02, clip_norm=1.0, num_steps=50, noise_scale=0.5)
        >>> predicted = jaxdp.predict(problem, algorithm, theory=jaxdp.GaussianClosure(rank=8))
        >>> sorted(predicted.observables)
        ['bias', 'clipped_fraction', 'train_risk', 'variance']
    """

    rank: int = eqx.field(static=True, converter=plain_number, default=DEFAULT_RANK)

    def __check_init__(self):
        require_rank(self.rank)

    def covers(self, problem, algorithm):
        return require_rows(problem, algorithm)

    def predict(self, problem, algorithm, *, records):
        modes = kernel_modes(problem)
        on_rows = algorithm_on_rows(algorithm, modes.num_train)
        recursion = linear_recursion(algorithm, modes.num_train)
        if isinstance(algorithm, DPGD):
            warn_if_unstable(algorithm, modes.stability_limit)
        steps = algorithm.num_steps
        at_record = jnp.asarray(record_steps(steps, records))
        limits = modes.slope_limits(algorithm)
        risk, observables, variance = _predict(modes, recursion, limits, at_record, self.rank)
        std = None
        if modes.is_square and isinstance(steps, int):
            rank = min(self.rank, _SPREAD_RANK)
            if rank < min(self.rank, len(modes.eigenvalues)):
                variance = _predict(modes, recursion, limits, at_record, rank)[2]
            places = _places(np.asarray(at_record))
            std = _spread(modes, recursion, limits, steps, at_record, places, variance, rank)
        return prediction(
            modes.is_valid & on_rows.is_valid,
            time=on_rows.time(at_record, modes.num_train),
            risk=risk,
            final_risk=risk[-1],
            observables=observables,
            std=std,
            label="Gaussian closure",
        )


def require_rank(rank: int) -> None:
    """Raise unless the number of modes with covariances is a Python int >= 0."""
    require_count("rank", rank, least=0)


@eqx.filter_jit
def _predict(modes: KernelModes, recursion: LinearRecursion, limits, at_record, rank: int):
    """Risk, observables and Gaussian variance of the risk at the records."""
    dtype = float_dtype(modes, recursion, limits)
    closure = Closure(modes, limits.astype(dtype), rank)
    readout = Readout(closure, recursion.output)
    form = SquaredForm(readout, modes.unseen_factor) if modes.is_square else None
    longest = jnp.max(jnp.diff(at_record))

    @jax.checkpoint
    def step(moments, index):
        new = closure.step(moments, recursion, recursion.at(index))
        return jax.tree.map(lambda after, before: after.astype(before.dtype), new, moments)

    @jax.checkpoint
    def record(moments: Moments, bounds):
        start, last = bounds
        moments = lax.fori_loop(
            0,
            longest,
            lambda index, moments: lax.cond(
                start + index < last, step, lambda moments, _: moments, moments, start + index
            ),
            moments,
        )
        return moments, read(moments)

    def read(moments):
        found = readout.observables(moments) | {"clipped_fraction": moments.clipped}
        return readout.risk(moments), found, None if form is None else form.variance(moments)

    start = closure.start(dtype, recursion.size)
    _, rest = lax.scan(record, start, (at_record[:-1], at_record[1:]))
    risk, observables, variance = jax.tree.map(
        lambda first, others: jnp.concatenate([first[None], others]), read(start), rest
    )
    observables["clipped_fraction"] /= jnp.maximum(at_record, 1)
    return risk, observables, variance


def _places(at_record: np.ndarray) -> np.ndarray:
    """The records, as numbers of steps, at which the spread is followed with its feedback."""
    wanted = at_record[-1] * np.asarray(_SPREAD_PLACES)
    found = np.unique(at_record[np.abs(at_record[None] - wanted[:, None]).argmin(axis=1)])
    return found[found > 0]


@eqx.filter_jit
def _spread(modes, recursion, limits, num_steps: int, at_record, places, variance, rank: int):
    """Standard deviations of the risk at the records, from those of a Gaussian with feedback."""
    dtype = float_dtype(modes, recursion, limits)
    closure = Closure(modes, limits.astype(dtype), rank)
    readout = Readout(closure, recursion.output)
    form = SquaredForm(readout, modes.unseen_factor)
    start = closure.start(dtype, recursion.size)
    found, gaussian = feedback(
        closure, recursion, start, readout.risk, form.variance, num_steps, places
    )
    ratio = jnp.where(gaussian > 0, found / jnp.where(gaussian > 0, gaussian, 1), 1)
    steps = jnp.concatenate([jnp.zeros(1, dtype), places.astype(dtype)])
    ratio = jnp.concatenate([jnp.ones(1, dtype), ratio])
    return jnp.sqrt(jnp.maximum(variance * jnp.interp(at_record.astype(dtype), steps, ratio), 0))
