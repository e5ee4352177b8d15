"""Schedules in closed form, whose squared drops are accurate over any number of steps."""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, ArrayLike, Float

from jaxdp.core.arrays import as_wide_float
from jaxdp.core.checks import concrete, require_non_negative, require_positive
from jaxdp.schedules.base import AbstractSchedule


class Constant(AbstractSchedule):
    """A constant learning rate: output perturbation (AC equation (6), alpha = 0).

    Args:
        value: the learning rate, > 0.

    Example:
        >>> import jaxdp
        >>> float(jaxdp.Constant(3.0)(0.5))
        3.0
    """

    is_falling: ClassVar[bool] = True
    is_constant: ClassVar[bool] = True
    value: Float[Array, ""]

    def __init__(self, value: ArrayLike):
        self.value = as_wide_float(value, "value")
        require_positive("value", self.value)

    def __call__(self, time):
        return self.value * jnp.ones_like(time)

    def at_step(self, step, num_steps):
        return self.value * jnp.ones_like(step)

    def squared_drop(self, step, num_steps):
        return jnp.zeros_like(self.value * step)


class Polynomial(AbstractSchedule):
    r"""Polynomial decay $\tilde\eta(t) = \text{peak}\,(1 - t)^{\text{power}}$.

    Source: AC equation (6). Power 1/2 makes the private noise constant over the steps.

    Args:
        peak: the learning rate at t = 0, > 0.
        power: the exponent alpha, >= 0.

    Example:
        >>> import jaxdp
        >>> rate = jaxdp.Polynomial(3.0, power=0.5)
        >>> [round(float(rate(time)), 3) for time in (0.0, 0.5, 1.0)]
        [3.0, 2.121, 0.0]
    """

    is_falling: ClassVar[bool] = True
    peak: Float[Array, ""]
    power: Float[Array, ""]

    def __init__(self, peak: ArrayLike, power: ArrayLike):
        self.peak = as_wide_float(peak, "peak")
        self.power = as_wide_float(power, "power")
        require_positive("peak", self.peak)
        require_non_negative("power", self.power)

    def __call__(self, time):
        return self.peak * _power(1 - time, self.power)

    def at_step(self, step, num_steps):
        # From whole numbers: 1 - k/K is inaccurate near the end.
        return self.peak * _power((num_steps - step) / num_steps, self.power)

    def squared_drop(self, step, num_steps):
        left = jnp.maximum(num_steps - step, 1)
        share = 1 / left
        partial = left > 1
        kept = 2 * self.power * jnp.log1p(-jnp.where(partial, share, 0))
        # The last interval loses the whole rest, or nothing if the power is 0.
        lost = jnp.where(partial, -jnp.expm1(kept), jnp.where(self.power > 0, 1.0, 0.0))
        return self.peak**2 * _power(left / num_steps, 2 * self.power) * lost

    @property
    def is_constant(self):
        power = concrete(self.power)
        return power is not None and bool(np.all(power == 0))


class Hyperbolic(AbstractSchedule):
    r"""Hyperbolic decay $\tilde\eta(t) = \text{peak} / (1 + t/\text{knee})$; it does not end at 0.

    Args:
        peak: the learning rate at t = 0, > 0.
        knee: the time at which it has halved, > 0.

    Example:
        >>> import jaxdp
        >>> rate = jaxdp.Hyperbolic(3.0, knee=0.25)
        >>> [round(float(rate(time)), 3) for time in (0.0, 0.25, 1.0)]
        [3.0, 1.5, 0.6]
    """

    is_falling: ClassVar[bool] = True
    peak: Float[Array, ""]
    knee: Float[Array, ""]

    def __init__(self, peak: ArrayLike, knee: ArrayLike):
        self.peak = as_wide_float(peak, "peak")
        self.knee = as_wide_float(knee, "knee")
        require_positive("peak", self.peak)
        require_positive("knee", self.knee)

    def __call__(self, time):
        return self.peak / (1 + time / self.knee)

    def at_step(self, step, num_steps):
        return self(jnp.asarray(step) / num_steps)

    def squared_drop(self, step, num_steps):
        first, last = self.at_step(step, num_steps), self.at_step(step + 1, num_steps)
        return first * last / (self.peak * self.knee * num_steps) * (first + last)


class PiecewiseLinear(AbstractSchedule):
    """Linear interpolation between knots, constant outside them.

    Args:
        knots: increasing times.
        values: learning rates at the knots, >= 0 and non-increasing.

    Example:
        >>> import jaxdp
        >>> rate = jaxdp.PiecewiseLinear([0.0, 0.5, 1.0], [3.0, 1.0, 0.0])
        >>> [round(float(rate(time)), 3) for time in (0.0, 0.25, 0.75)]
        [3.0, 2.0, 0.5]
    """

    knots: Float[Array, " knots"]
    values: Float[Array, " knots"]

    def __init__(self, knots: Any, values: Any):
        self.knots = as_wide_float(knots, "knots")
        self.values = as_wide_float(values, "values")
        if self.knots.ndim != 1 or self.knots.shape != self.values.shape or self.knots.size < 2:
            raise ValueError(
                "expected knots and values of one shape (n,) with n >= 2, "
                f"got {self.knots.shape} and {self.values.shape}"
            )
        knots, values = concrete(self.knots), concrete(self.values)
        if knots is not None and not np.all(np.diff(knots) > 0):
            raise ValueError(f"expected increasing knots, got {knots}")
        if values is not None and not (np.all(np.diff(values) <= 0) and values[-1] >= 0):
            raise ValueError(f"expected non-increasing values >= 0, got {values}")

    def __call__(self, time):
        return jnp.interp(time, self.knots, self.values)

    def at_step(self, step, num_steps):
        # Summed from the end, where the rate may be small and must keep its digits.
        left = jnp.expand_dims((num_steps - step) / num_steps, -1)
        begins, ends, steepness = self._pieces(left.ndim)
        below = jnp.maximum(jnp.minimum(left, begins) - ends, 0)
        return self.values[-1] + jnp.sum(steepness * below, axis=-1)

    def squared_drop(self, step, num_steps):
        width = 1 / jnp.asarray(num_steps, self.values.dtype)
        # Knots relative to the step, from the end: exact for short widths.
        left = jnp.expand_dims((num_steps - step) / num_steps, -1)
        begins, ends, steepness = self._pieces(left.ndim)
        since, until = left - begins, left - ends
        overlap = jnp.maximum(jnp.minimum(until, width) - jnp.maximum(since, 0), 0)
        small = jnp.sum(steepness * overlap, axis=-1)
        first, last = self.at_step(step, num_steps), self.at_step(step + 1, num_steps)
        # A large drop may lie between knots moved by rounding; a small one would cancel.
        drop = jnp.where(first - last > 1e-2 * first, first - last, small)
        return drop * (first + last)

    @property
    def kinks(self):
        return self.knots[1:-1]

    def _pieces(self, rank: int) -> list[Float[Array, "*ones pieces"]]:
        """Begin and end of each piece, measured from t = 1, and its slope, along the last axis."""
        steepness = -jnp.diff(self.values) / jnp.diff(self.knots)
        pieces = 1 - self.knots[:-1], 1 - self.knots[1:], steepness
        return [lax.broadcast_to_rank(part, rank) for part in pieces]

    @property
    def is_falling(self):
        knots, values = concrete(self.knots), concrete(self.values)
        if knots is None or values is None:
            return False
        return bool(np.all(np.diff(knots) > 0) and np.all(np.diff(values) <= 0))

    @property
    def is_constant(self):
        values = concrete(self.values)
        return values is not None and bool(np.all(values == values.flat[0]))


def _power(base, exponent):
    """base ** exponent for base >= 0 with 0 ** 0 = 1 and finite derivatives at base = 0."""
    positive = base > 0
    value = jnp.exp(exponent * jnp.log(jnp.where(positive, base, 1)))
    return jnp.where(positive, value, jnp.where(exponent > 0, 0.0, 1.0))
