"""Functions as schedules, either of time in [0, 1] or of a number of steps."""

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxdp.core.checks import concrete, described, require_count, require_positive
from jaxdp.core.display import called
from jaxdp.core.numerics.precision import on_host
from jaxdp.schedules.base import AbstractSchedule
from jaxdp.schedules.closed_forms import Constant

# A line to 0 over 20 steps loses this share in its first step, schedules of more steps less.
# A warm-up begins at a smaller share of its peak.
_LITTLE = 0.05
# Relative variation of a constant rate by rounding in float64.
_ROUNDING = 1e-12
# Number of checked times; a late one, by which a warm-up has made more than this share of its rise.
_POINTS, _LATE, _RISEN = 1001, 900, 0.96
_OF_STEPS = "if it is a function of the number of steps, use jaxdp.FromSteps(function, num_steps)"


class _Opaque(eqx.Module):
    """A function that is not a pytree, stored as a static field."""

    function: Callable[[Any], Any] = eqx.field(static=True)

    def __call__(self, time):
        return self.function(time)

    def __repr__(self):
        return called(self.function)


class Plain(AbstractSchedule):
    """Any callable of time as a schedule, evaluated only within [0, 1].

    In float32 the noise of one step has an error of about `num_steps` roundings, its sum over the
    steps of a few: `squared_drop` is a plain difference.

    Args:
        function: maps an array of times to an array of learning rates; must be traceable. A
            callable pytree (an `equinox.Module`) keeps its arrays as parameters; a plain function
            must not close over traced values.

    Example:
        >>> import jax.numpy as jnp
        >>> from jaxdp.schedules import Plain
        >>> rate = Plain(lambda time: 3 * jnp.exp(-time))
        >>> [round(float(rate(time)), 3) for time in (0.0, 1.0)]
        [3.0, 1.104]
    """

    function: Callable[[Any], Any]

    def __init__(self, function: Callable[[Any], Any]):
        self.function = _as_pytree(function)

    def __call__(self, time):
        return jnp.asarray(self.function(jnp.clip(time, 0, 1))) * jnp.ones_like(time)

    def at_step(self, step, num_steps):
        # Exactly 1 at the end: a compiler may make k/K a product that misses it.
        return self(jnp.where(step >= num_steps, 1, step / num_steps))


class FromSteps(AbstractSchedule):
    r"""A function of the number of steps, such as an optax schedule, as a schedule on [0, 1].

    $\tilde\eta(t) = f(tK)$: step k of K has the rate $\tilde\eta(k/K) = f(k)$ exactly. An algorithm
    with another number of steps stretches the schedule. `jaxdp.OnePassDPSGD` moves by
    $\tilde\eta(k/K)/K$ in step k.

    Args:
        function: maps a scalar number of steps to a learning rate; must be traceable, and
            non-increasing from 0 to K. A callable pytree keeps its arrays as parameters.
        num_steps: K >= 1, the number of steps for which the function was made.

    Raises:
        TypeError: the function is a schedule of jaxdp, or JAX cannot trace it.
        ValueError: num_steps is below 1.

    Example:
        >>> import jaxdp, optax
        >>> schedule = jaxdp.FromSteps(optax.linear_schedule(3.0, 1.0, 100), num_steps=100)
        >>> print(schedule(0.5))
        2.0
    """

    function: Callable[[Any], Any]
    num_steps: int = eqx.field(static=True)

    def __init__(self, function: Callable[[Any], Any], num_steps: int):
        if isinstance(function, AbstractSchedule) or not callable(function):
            raise TypeError(
                "expected function to map a number of steps to a learning rate, as an optax "
                f"schedule does, got {described(function)}"
            )
        self.function = _as_pytree(function)
        self.num_steps = require_count("num_steps", num_steps)
        _require_traceable(self, "function to be a function of a number of steps")

    def __call__(self, time):
        return self._at(jnp.clip(time, 0, 1) * self.num_steps)

    def at_step(self, step, num_steps):
        # A traced number of steps may equal `self.num_steps`; whole numbers are exact.
        stretched = jnp.where(step >= num_steps, 1, step / num_steps) * self.num_steps
        return self._at(jnp.where(num_steps == self.num_steps, step, stretched))

    def _at(self, steps):
        dtype = jnp.result_type(steps, float)
        # Optax's schedules are for scalars; some are wrong for arrays.
        return jnp.vectorize(lambda step: jnp.asarray(self.function(step), dtype))(steps)


def as_schedule(learning_rate: Any) -> AbstractSchedule:
    """Convert a number or a callable of time to a schedule; schedules stay as they are.

    Args:
        learning_rate: a schedule, a positive number, or a traceable callable of t in [0, 1].

    Returns:
        A schedule.

    Raises:
        TypeError: it is none of these, or an optax schedule, which is a function of steps.
        ValueError: the number is not a positive scalar; or a callable is constant on [0, 1], or
            only rises from nearly zero, as functions of steps do. `Plain` accepts such a callable.

    Warns:
        UserWarning: a callable changes little on [0, 1], or only rises.

    Example:
        >>> from jaxdp.schedules import as_schedule
        >>> type(as_schedule(3.0)).__name__, float(as_schedule(3.0)(0.5))
        ('Constant', 3.0)
    """
    if isinstance(learning_rate, AbstractSchedule):
        return learning_rate
    if _is_number(learning_rate):
        require_positive("learning_rate", learning_rate)
        return Constant(learning_rate)
    if not callable(learning_rate):
        raise TypeError(
            "expected learning_rate to be a number, a schedule such as jaxdp.Polynomial(3.0, "
            f"power=0.5) or a callable of t, got {type(learning_rate).__name__}: {learning_rate}"
        )
    if _is_of_optax(learning_rate):
        raise TypeError(
            "expected learning_rate to be a function of the time t in [0, 1], got a schedule of "
            "optax, which is a function of the number of steps; "
            "use jaxdp.FromSteps(schedule, num_steps)"
        )
    schedule = Plain(learning_rate)
    _require_traceable(schedule, "learning_rate to be a function of an array of times", _OF_STEPS)
    _look_for_steps(schedule)
    return schedule


def _as_pytree(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    is_opaque = jax.tree.structure(function) == jax.tree.structure(0)
    return _Opaque(function) if is_opaque else function


def _require_traceable(schedule: AbstractSchedule, expected: str, advice: str = "") -> None:
    try:
        jax.eval_shape(schedule, jax.ShapeDtypeStruct((2,), jnp.result_type(float)))
    except Exception as error:
        raise TypeError(
            f"expected {expected} that JAX can trace "
            "(jax.numpy instead of numpy or math, jax.numpy.where instead of if), also at "
            f"fractions; it raised {type(error).__name__}{advice and '; '}{advice}"
        ) from error


def _is_number(value: Any) -> bool:
    is_array = isinstance(value, (Tracer, jax.Array, np.ndarray, np.generic))
    return is_array or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _is_of_optax(function: Any) -> bool:
    """Whether optax made the callable, also inside `functools.partial` and decorators."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    function = getattr(function, "__func__", function)
    module = getattr(function, "__module__", None) or ""
    return module.split(".")[0] == "optax"


def _look_for_steps(schedule: Plain) -> None:
    """Refuse, or warn of, a callable that looks like a function of steps; ignore traced ones.

    Evaluated in float64: in float32 the cosine of a thousand steps is constant over its first.
    """
    with jax.ensure_compile_time_eval(), on_host():
        rates = concrete(schedule(jnp.linspace(0.0, 1.0, _POINTS)))
    if rates is None or not np.isfinite(rates[1:-1]).all():
        return
    first, last, inner = rates[0], rates[-1], rates[1:-1]
    found = None
    # Without the ends: the first step may be special, and t = 1 is the second step.
    if np.ptp(inner) <= _ROUNDING * np.abs(inner).max():
        found = f"is {inner[0]:.6g} all the time"
        instead = "if the rate is constant, give the number or jaxdp.Constant(number)"
    # A warm-up in time ends long before the run.
    is_late = rates[_LATE] - first < _RISEN * (last - first)
    is_rising = is_late and (np.diff(rates) >= 0).all()
    if is_rising and first <= _LITTLE * last:
        found = f"only rises, from {first:.6g} to {last:.6g}"
        instead = "if it is to rise all along, give jaxdp.schedules.Plain(function)"
    if found is not None:
        raise ValueError(
            "expected learning_rate to be a function of the time t in [0, 1], the whole run, got "
            f"one that {found}; {_OF_STEPS}; {instead}"
        )
    if is_rising or np.ptp(rates) < _LITTLE * rates.max():
        warnings.warn(
            f"the learning rate only goes from {first:.6g} to {last:.6g} over t in [0, 1], the "
            f"whole run; {_OF_STEPS}",
            UserWarning,
            stacklevel=4,
        )
