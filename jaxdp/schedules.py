r"""Learning-rate schedules: time in [0, 1] to a non-increasing value.

The private noise of AC equation (2) is a difference of squared learning rates, which cancels in
float32 when there are many steps. A schedule therefore also knows its rate `at_step` and the
`squared_drop` over one step from whole step numbers, in forms that do not cancel and that belong
together. Any callable of t works as a schedule; then the difference is taken as it stands.
"""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxdp.core.arrays import as_wide_float
from jaxdp.core.checks import concrete, require_non_negative, require_positive

_CHECK_POINTS, _MOST_CHECK_POINTS = 4001, 200_001
# By how much rounding may lift a constant rate, in all.
_ROUNDING = 1e-5


class AbstractSchedule(eqx.Module):
    r"""A non-increasing learning rate $\tilde\eta(t) \ge 0$ on [0, 1]."""

    @abc.abstractmethod
    def __call__(self, time: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The learning rate at each time."""

    @abc.abstractmethod
    def at_step(
        self, step: Int[Any, "*shape"] | int, num_steps: int | Int[Array, ""]
    ) -> Float[Array, "*shape"]:
        r"""$\tilde\eta(k/K)$ for step k <= K."""

    @abc.abstractmethod
    def squared_drop(
        self, step: Int[Any, "*shape"] | int, num_steps: int | Int[Array, ""]
    ) -> Float[Array, "*shape"]:
        r"""$\tilde\eta^2(k/K) - \tilde\eta^2((k+1)/K)$ for step k < K."""

    @property
    @abc.abstractmethod
    def kinks(self) -> Float[Array, " kinks"]:
        """Times inside (0, 1) at which the rate has a kink, which a solver should not step over."""

    @property
    @abc.abstractmethod
    def is_constant(self) -> bool:
        """Whether it is known, whatever its parameters, that the rate never changes."""


class Constant(AbstractSchedule):
    """The same learning rate throughout: output perturbation (AC equation (6), alpha = 0).

    Args:
        value: the learning rate, > 0.
    """

    value: Float[Array, ""] = eqx.field(converter=as_wide_float)

    def __check_init__(self):
        require_positive("value", self.value)

    def __call__(self, time):
        return self.value * jnp.ones_like(time)

    def at_step(self, step, num_steps):
        return self.value * jnp.ones_like(step)

    def squared_drop(self, step, num_steps):
        return jnp.zeros_like(self.value * step)

    @property
    def kinks(self):
        return jnp.zeros(0)

    @property
    def is_constant(self):
        return True


class Polynomial(AbstractSchedule):
    r"""Polynomial decay $\tilde\eta(t) = \text{peak}\,(1 - t)^{\text{power}}$.

    Source: AC equation (6). Power 1/2 makes the private noise constant over the steps.

    Args:
        peak: the learning rate at t = 0, > 0.
        power: the exponent alpha, >= 0.
    """

    peak: Float[Array, ""] = eqx.field(converter=as_wide_float)
    power: Float[Array, ""] = eqx.field(converter=as_wide_float)

    def __check_init__(self):
        require_positive("peak", self.peak)
        require_non_negative("power", self.power)

    def __call__(self, time):
        return self.peak * _power(1 - time, self.power)

    def at_step(self, step, num_steps):
        # From whole numbers: 1 - k/K would lose the digits that matter at the end.
        return self.peak * _power((num_steps - step) / num_steps, self.power)

    def squared_drop(self, step, num_steps):
        left = jnp.maximum(num_steps - step, 1)
        share = 1 / left
        partial = left > 1
        kept = 2 * self.power * jnp.log1p(-jnp.where(partial, share, 0))
        # The last interval loses all that is left, and nothing when the power is 0.
        lost = jnp.where(partial, -jnp.expm1(kept), jnp.where(self.power > 0, 1.0, 0.0))
        return self.peak**2 * _power(left / num_steps, 2 * self.power) * lost

    @property
    def kinks(self):
        return jnp.zeros(0)

    @property
    def is_constant(self):
        power = concrete(self.power)
        return power is not None and bool(np.all(power == 0))


class Hyperbolic(AbstractSchedule):
    r"""Hyperbolic decay $\tilde\eta(t) = \text{peak} / (1 + t/\text{knee})$; it does not end at 0.

    Args:
        peak: the learning rate at t = 0, > 0.
        knee: the time at which it has halved, > 0.
    """

    peak: Float[Array, ""] = eqx.field(converter=as_wide_float)
    knee: Float[Array, ""] = eqx.field(converter=as_wide_float)

    def __check_init__(self):
        require_positive("peak", self.peak)
        require_positive("knee", self.knee)

    def __call__(self, time):
        return self.peak / (1 + time / self.knee)

    def at_step(self, step, num_steps):
        return self(jnp.asarray(step) / num_steps)

    def squared_drop(self, step, num_steps):
        first, last = self.at_step(step, num_steps), self.at_step(step + 1, num_steps)
        return first * last / (self.peak * self.knee * num_steps) * (first + last)

    @property
    def kinks(self):
        return jnp.zeros(0)

    @property
    def is_constant(self):
        return False


class PiecewiseLinear(AbstractSchedule):
    """Linear interpolation between knots, constant outside them.

    Args:
        knots: increasing times.
        values: learning rates at the knots, >= 0 and non-increasing.
    """

    knots: Float[Array, " knots"] = eqx.field(converter=as_wide_float)
    values: Float[Array, " knots"] = eqx.field(converter=as_wide_float)

    def __check_init__(self):
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
        begins, ends = 1 - self.knots[:-1], 1 - self.knots[1:]
        below = jnp.maximum(jnp.minimum(left, begins) - ends, 0)
        return self.values[-1] + jnp.sum(self._steepness * below, axis=-1)

    def squared_drop(self, step, num_steps):
        width = 1 / jnp.asarray(num_steps, self.values.dtype)
        # Knots as seen from the step, again from the end, so that a short width keeps its digits.
        left = jnp.expand_dims((num_steps - step) / num_steps, -1)
        since, until = left - (1 - self.knots[:-1]), left - (1 - self.knots[1:])
        overlap = jnp.maximum(jnp.minimum(until, width) - jnp.maximum(since, 0), 0)
        small = jnp.sum(self._steepness * overlap, axis=-1)
        first, last = self.at_step(step, num_steps), self.at_step(step + 1, num_steps)
        # A large drop may lie between two knots that rounding moves; a small one would cancel.
        drop = jnp.where(first - last > 1e-2 * first, first - last, small)
        return drop * (first + last)

    @property
    def kinks(self):
        return self.knots[1:-1]

    @property
    def _steepness(self):
        return -jnp.diff(self.values) / jnp.diff(self.knots)

    @property
    def is_constant(self):
        values = concrete(self.values)
        return values is not None and bool(np.all(values == values.flat[0]))


class _Opaque(eqx.Module):
    """A function that is no pytree, which JAX must not look into."""

    function: Callable[[Any], Any] = eqx.field(static=True)

    def __call__(self, time):
        return self.function(time)


class Plain(AbstractSchedule):
    """Any callable of t, only ever asked within [0, 1].

    Its `squared_drop` is a plain difference of the rates that are used: in float32 the noise of one
    step is then known to about `num_steps` roundings, the sum over the steps to a few.

    Args:
        function: maps an array of times to an array of learning rates; it must be traceable. A
            callable pytree (an `equinox.Module`) keeps its arrays as parameters; a plain function
            must not close over traced values.
    """

    function: Callable[[Any], Any]

    def __init__(self, function):
        is_opaque = jax.tree.structure(function) == jax.tree.structure(0)
        self.function = _Opaque(function) if is_opaque else function

    def __call__(self, time):
        return jnp.asarray(self.function(jnp.clip(time, 0, 1))) * jnp.ones_like(time)

    def at_step(self, step, num_steps):
        # Exactly 1 at the end: a compiler may make k/K a product that misses it.
        return self(jnp.where(step >= num_steps, 1, step / num_steps))

    def squared_drop(self, step, num_steps):
        first, last = self.at_step(step, num_steps), self.at_step(step + 1, num_steps)
        return (first - last) * (first + last)

    @property
    def kinks(self):
        return jnp.zeros(0)

    @property
    def is_constant(self):
        return False


def as_schedule(learning_rate: Any) -> AbstractSchedule:
    """The schedule itself, or a plain callable made one.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(learning_rate, AbstractSchedule):
        return learning_rate
    if callable(learning_rate):
        schedule = Plain(learning_rate)
        try:
            jax.eval_shape(schedule, jax.ShapeDtypeStruct((2,), jnp.result_type(float)))
        except Exception as error:
            raise TypeError(
                "expected learning_rate to be a function of an array of times that JAX can trace "
                "(jax.numpy instead of numpy or math, jax.numpy.where instead of if); it raised "
                f"{type(error).__name__}"
            ) from error
        return schedule
    raise TypeError(
        "expected learning_rate to be a schedule such as jaxdp.Constant(3.0) or a callable of t, "
        f"got {type(learning_rate).__name__}: {learning_rate}"
    )


def require_non_increasing(schedule: AbstractSchedule, num_points: int = _CHECK_POINTS) -> None:
    """Raise ValueError when a schedule of concrete parameters increases or is negative.

    AC equation (2) has the variance of the private noise as the decrease of the squared learning
    rate: an increasing schedule would need a negative one.
    """
    with jax.ensure_compile_time_eval():
        time = jnp.linspace(0, 1, min(max(num_points, _CHECK_POINTS), _MOST_CHECK_POINTS))
        rates = concrete(schedule(time))
    if rates is None:
        return
    if not np.all(np.isfinite(rates)) or np.any(rates < 0):
        worst = int(np.argmax(~np.isfinite(rates) | (rates < 0)))
        raise ValueError(
            f"expected a finite learning rate >= 0 on [0, 1], got {rates[worst]} at "
            f"t = {time[worst]:.4g}"
        )
    lowest = np.minimum.accumulate(rates)
    rises = rates > lowest * (1 + _ROUNDING)
    if rises.any():
        at = int(np.argmax(rates / np.maximum(lowest, np.finfo(float).tiny)))
        since = int(np.argmin(rates[: at + 1]))
        raise ValueError(
            "expected a non-increasing learning rate, because the private noise has the variance "
            f"(eta_k^2 - eta_(k+1)^2) / rho^2; got {rates[since]:.6g} at t = {time[since]:.4g} and "
            f"{rates[at]:.6g} at t = {time[at]:.4g}"
        )


def is_non_increasing(schedule: AbstractSchedule) -> Bool[Array, ""]:
    """The same of a schedule whose parameters may be traced, on a coarser grid."""
    rates = schedule(jnp.linspace(0, 1, 257))
    lowest = lax.cummin(rates)
    return jnp.all(jnp.isfinite(rates) & (rates >= 0) & (rates <= lowest * (1 + _ROUNDING)))


def _power(base, exponent):
    """base ** exponent for base >= 0 with 0 ** 0 = 1 and finite derivatives at base = 0."""
    positive = base > 0
    value = jnp.exp(exponent * jnp.log(jnp.where(positive, base, 1)))
    return jnp.where(positive, value, jnp.where(exponent > 0, 0.0, 1.0))
