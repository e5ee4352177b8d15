"""The predicted test loss of a learning rate and a clip norm, with its gradient in forward mode."""

import abc
import dataclasses
import math
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PyTree

from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.algorithms.private_optimiser.readings import (
    adam_constants,
    linear_state_of,
    with_average,
)
from jaxdp.algorithms.private_optimiser.state import AbstractAverage
from jaxdp.algorithms.transformations.linear_state import linear_state
from jaxdp.algorithms.transformations.transformation import Transformation
from jaxdp.core.arrays import as_wide_float, float_dtype, in_types_of
from jaxdp.losses.linear_model import slope_limits
from jaxdp.planning.features.search import Point
from jaxdp.theory.features.adam_closure import LARGEST, AdamUpdates, adam_step, start_of_adam
from jaxdp.theory.features.closed_moments import Closure, Moments
from jaxdp.theory.features.linear_recursion import LinearRecursion, of_batches, with_epochs
from jaxdp.theory.features.modes import KernelModes, some_rows
from jaxdp.theory.features.readout import Readout
from jaxdp.theory.features.stability import growth

_RANK = 0  # number of modes whose covariances are kept in the search
_BELOW, _ABOVE, _RATES = -6.0, 3.0, 64  # decades around the stability limit, rates of two grids
# Most training rows in a search of softmax losses: in the first search of a cell; in the last one
# of the best cells, and near the settings for another budget; in the last one of a plan that
# compares noise. In 9 cells of three tables with 2,500 or 5,000 rows, a first search on more rows
# led to the same risk.
FIRST_ROWS, MOST_ROWS, FINE_ROWS = 2**10, 2**12, 2**13
# Least learning rate over the largest, and bounds of the clip norm over a gradient's norm.
_LEAST_RATE, _CLIP_NORMS = 1e-6, (1e-5, 1e2)
BEYOND = 30.0  # largest learning rate of a search for a head over the limit without clipping
# Used share of a limit of stability, next to which the closure is least accurate; and the margin
# on the clipped share of the rows.
_MARGIN, _LESS_CLIPPED = 0.98, 0.05


class Draw(eqx.Module):
    """Moments of the batches and of the noise of one cell."""

    own: Float[Array, ""]  # variance of the draw of a batch, as in `LinearRecursion`
    joint: Float[Array, ""]  # covariance of the draw of a batch
    noise: Float[Array, ""]  # standard deviation of a mean gradient's noise over the clip norm

    @classmethod
    def of(cls, algorithm: PrivateOptimiser, share: float = 1.0) -> Self:
        """The draw of an algorithm, for any clip norm, if a share of the rows represents all."""
        moments = algorithm.sampler.inclusion_moments
        joint = moments.covariance
        own = joint + (moments.variance - joint) * share if share < 1 else moments.variance
        noise = algorithm.nominal_std_of_mean / algorithm.clip_norm
        return cls(*map(as_wide_float, (own, joint, noise)))


class AbstractClosureRisk(eqx.Module):
    """The predicted test loss, or share of errors, of one optimiser on one problem."""

    modes: eqx.AbstractVar[KernelModes]  # the problem
    criterion: eqx.AbstractVar[str]  # "loss", or "accuracy" for 1 minus the accuracy

    @property
    def is_coarse(self) -> bool:
        """Whether the search uses values alone: gradients of softmax losses are expensive."""
        return self.modes.loss.num_outputs is not None

    def on_fewer_rows(self, most: int = MOST_ROWS) -> tuple[Self, float]:
        """A cheaper, slightly higher risk on some of the training rows, and their share."""
        if self.modes.num_train <= 1.5 * most:
            return self, 1.0
        modes = self.modes.on_rows(some_rows(self.modes.num_train, most))
        return dataclasses.replace(self, modes=modes), most / self.modes.num_train

    @abc.abstractmethod
    def final(
        self,
        rate: Float[Array, ""],
        clip_norm: Float[Array, ""],
        draw: Draw,
        num_steps: Int[Array, ""],
    ) -> tuple[Closure, Moments, int, Bool[Array, ""]]:
        """The moments after the last step, the index of the released numbers, and whether the
        prediction is within the limits of stability.
        """

    def point(self, place: Any, draw: Draw, num_steps: Any) -> Point:
        """The predicted risk at logarithms of learning rate and clip norm."""
        risk, is_stable, _ = self.value(jnp.asarray(place), draw, num_steps)
        return Point(place[0], place[1], float(risk), bool(is_stable))

    @eqx.filter_jit
    def value_and_gradient(
        self, point: Float[Array, "2"], draw: Draw, num_steps: Int[Array, ""]
    ) -> tuple[Float[Array, ""], Float[Array, "2"], Bool[Array, ""]]:
        """Risk, its gradient in the logarithms, and whether it is within the limits."""

        def value(point):
            return self._value(point, draw, num_steps)[:2]

        def along(direction):
            return jax.jvp(value, (point,), (direction,), has_aux=True)

        axes = None, 0, None
        return jax.vmap(along, out_axes=axes)(jnp.eye(2, dtype=point.dtype))

    @eqx.filter_jit
    def value(
        self, point: Float[Array, "2"], draw: Draw, num_steps: Int[Array, ""]
    ) -> tuple[Float[Array, ""], Bool[Array, ""], tuple[Array, Array]]:
        """Risk, whether it is within the limits of stability, and means and variances of the test
        predictions.
        """
        return self._value(point, draw, num_steps)

    def _value(self, point, draw, num_steps):
        rate, clip_norm = jnp.exp(point)
        closure, moments, output, is_stable = self.final(rate, clip_norm, draw, num_steps)
        readout = Readout(closure, output)
        risk = readout.risk(moments) if self.criterion == "loss" else readout.errors(moments)
        return risk, is_stable, readout.test_predictions(moments)


class LinearRisk(AbstractClosureRisk):
    """The predicted risk of an optimiser that is linear in gradient and state."""

    modes: KernelModes  # the problem
    optimiser: Any = eqx.field(static=True)  # a factory of transformations, given a learning rate
    average: AbstractAverage | None  # what is released instead of the last iterate, or None
    num_read: int = eqx.field(static=True)  # steps whose matrices are read: 1 if equal, else T
    epoch_steps: int = eqx.field(static=True)  # batches that partition the rows; 1 without epochs
    criterion: str = eqx.field(static=True, default="loss")  # "loss" or "accuracy"
    is_kept: bool = eqx.field(static=True, default=False)  # the same batches in every epoch
    noise: Float[Array, "steps steps"] | None = None  # covariance over the steps; None: identity

    @property
    def beyond(self) -> float:
        """The largest rate of a search over the largest stable one without clipping."""
        # The kernel of a network changes with large steps.
        return BEYOND if self.modes.train_start is None else 1.0

    def recursion(
        self, rate: Float[Array, ""], clip_norm: Float[Array, ""], draw: Draw
    ) -> LinearRecursion:
        transformation = Transformation(self.optimiser, rate, self.num_read)
        state = linear_state(transformation, self.num_read)
        if self.average is not None:
            state = with_average(state, self.average)
        noise = draw.noise * clip_norm
        found = of_batches(state, noise, own=draw.own, joint=draw.joint)
        found = dataclasses.replace(found, noise=self.noise)
        if self.is_kept:
            return dataclasses.replace(found, kept=self.epoch_steps)
        return with_epochs(found, self.num_read, self.epoch_steps)

    def final(self, rate, clip_norm, draw, num_steps):
        recursion = self.recursion(rate, clip_norm, draw)
        limits = slope_limits(clip_norm, self.modes.feature_norms)
        closure = Closure(self.modes, limits, _RANK)
        dtype = float_dtype(self.modes, recursion)
        start = closure.start(dtype, recursion.size, recursion.num_draws)

        def step(index, moments):
            return closure.step(moments, recursion, recursion.at(index))

        moments = _loop(num_steps, step, start)
        larger = self.recursion(rate / _MARGIN, clip_norm, draw)
        found = growth(self.modes, larger, moments.steepest.value)
        is_unstable = found.is_unstable(moments.clipped / num_steps - _LESS_CLIPPED)
        return closure, moments, recursion.output, ~is_unstable


class AdamRisk(AbstractClosureRisk):
    """The predicted risk of Adam; the closure keeps all covariances."""

    modes: KernelModes  # the problem in its own features
    optimiser: Any = eqx.field(static=True)  # a factory of transformations that are Adam
    criterion: str = eqx.field(static=True, default="loss")  # "loss" or "accuracy"

    def final(self, rate, clip_norm, draw, num_steps):
        found = adam_constants(Transformation(self.optimiser, rate, 1), 1)
        rates, noise = as_wide_float(found.learning_rate), draw.noise * clip_norm
        constants = found.b1, found.b2, found.eps
        updates = AdamUpdates(*constants, rates, noise, draw.own, draw.joint)
        limits = slope_limits(clip_norm, self.modes.feature_norms)
        closure = Closure(self.modes, limits, LARGEST)
        start = start_of_adam(closure, float_dtype(self.modes, updates))

        def step(index, state):
            return adam_step(closure, updates, state, index)

        return closure, _loop(num_steps, step, start).moments, 0, jnp.array(True)


def closure_risk(
    modes: KernelModes,
    algorithms: list[PrivateOptimiser],
    *,
    is_linear: bool,
    criterion: str = "loss",
) -> list[AbstractClosureRisk]:
    """One predicted risk for each of several algorithms that differ only in batches and steps."""
    modes = modes.with_shared_nodes()
    if not is_linear:
        return [AdamRisk(modes, algorithms[0].optimiser, criterion)] * len(algorithms)
    risks: list[AbstractClosureRisk] = []
    for one in algorithms:
        drawn = one.sampler.inclusion_moments
        epoch_steps = drawn.epoch_steps or 1
        is_kept = drawn.is_kept and epoch_steps > 1
        is_constant = linear_state_of(one).is_constant and (is_kept or epoch_steps == 1)
        num_read = 1 if is_constant else int(one.num_steps)
        parts = {"average": one.average, "num_read": num_read, "epoch_steps": epoch_steps}
        parts["is_kept"] = is_kept
        risks.append(LinearRisk(modes, optimiser=one.optimiser, criterion=criterion, **parts))
    return risks


def _loop(num_steps: Int[Array, ""], step: Any, start: PyTree[Array]) -> Any:
    """The state after all steps, in the types of the first."""
    return lax.fori_loop(
        0, num_steps, lambda index, state: in_types_of(step(index, state), state), start
    )


def largest_rate(risk: LinearRisk, draw: Draw) -> float:
    """The largest learning rate of a search; 0 if no rate is stable."""
    limit = risk.modes.stability_limit()
    scale = limit if np.isfinite(limit) else 1.0
    rates = np.geomspace(10.0**_BELOW, 10.0**_ABOVE, _RATES) * scale
    for _ in range(2):
        stable = np.asarray(_are_stable(risk, draw, jnp.asarray(rates)))
        # Rates beyond the first unstable one do not count, stable or not.
        count = len(rates) if stable.all() else int(np.argmin(stable))
        if count in (0, len(rates)):
            break
        rates = np.geomspace(rates[count - 1], rates[count], _RATES)
    return risk.beyond * float(rates[count - 1]) if count else 0.0


def search_bounds(largest: float, norm: float) -> dict[str, tuple[float, float]]:
    """Bounds of a search for rates up to the largest, and clip norms around one."""
    low, high = (math.log(factor * norm) for factor in _CLIP_NORMS)
    rates = math.log(_LEAST_RATE * largest), math.log(largest)
    return {"log_rates": rates, "log_clip_norms": (low, high)}


@eqx.filter_jit
def _are_stable(risk: LinearRisk, draw: Draw, rates: Float[Array, " rates"]) -> Array:
    """Whether descent without clipping and without the draw of batches is stable at each rate."""
    modes = risk.modes
    steepest = modes.loss.curvature_bound * modes.eigenvalues[0] / modes.num_train

    def one(rate):
        # The limit does not depend on the clip norm.
        found = growth(modes, risk.recursion(rate, jnp.ones_like(rate), draw), steepest)
        return ~found.is_unstable(jnp.ones(()))

    return jax.vmap(one)(rates)
