"""The abstract learning-rate schedule, and the check that a schedule does not increase."""

import abc
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int

from jaxdp.core.arrays import as_float, in_jax
from jaxdp.core.description import AbstractDescription

# Numbers of checked times: for concrete and for traced schedules.
_POINTS, _TRACED_POINTS = 4001, 257
# Largest number of steps that are all checked (0.25 s), and how many at once.
MOST_STEPS, _BLOCK = 2**22, 2**16
# Units of rounding by which a rate may exceed an earlier one: units of the rate itself at a step,
# since `OnePassDPSGD` ignores a rise of four; of the largest rate, the size of a formula's terms,
# at a time.
_ROUNDINGS = 3


class AbstractSchedule(AbstractDescription):
    r"""A non-increasing learning rate $\tilde\eta(t) \ge 0$ on [0, 1].

    The private noise of AC equation (2) is a difference of squared rates, which cancels in float32
    over many steps: `at_step` and `squared_drop` use whole step numbers and consistent formulas.
    """

    @abc.abstractmethod
    def __call__(self, time: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The learning rate at each time."""

    @abc.abstractmethod
    def at_step(
        self, step: Int[Any, "*shape"] | int, num_steps: int | Int[Array, ""]
    ) -> Float[Array, "*shape"]:
        r"""$\tilde\eta(k/K)$ for step k <= K."""

    def squared_drop(
        self, step: Int[Any, "*shape"] | int, num_steps: int | Int[Array, ""]
    ) -> Float[Array, "*shape"]:
        r"""$\tilde\eta^2(k/K) - \tilde\eta^2((k+1)/K)$ for step k < K; here a plain difference."""
        first, last = self.at_step(step, num_steps), self.at_step(step + 1, num_steps)
        return (first - last) * (first + last)

    @property
    def kinks(self) -> Float[Array, " kinks"]:
        """Times inside (0, 1) at which the rate has a kink, which a solver should not step over."""
        return jnp.zeros(0)

    @property
    def is_constant(self) -> bool:
        """True if the rate is known to be constant for all values of traced parameters."""
        return False

    @property
    def is_falling(self) -> bool:
        """True if the formula guarantees a non-increasing rate, so that no step needs a check."""
        return False


def require_non_increasing(schedule: AbstractSchedule, num_steps: int | None = None) -> None:
    """Raise ValueError if a schedule with concrete parameters increases or is negative.

    The variance of the private noise (AC equation (2)) is the decrease of the squared rate.
    Theories read the rate at any time, privacy depends on the steps: 4,001 times are checked, and
    every step, or 2^22 evenly spaced ones of more (`is_checked`).
    """
    fault, _ = _looked_at(schedule, num_steps)
    if fault is not None:
        raise ValueError(fault)


def _looked_at(schedule: AbstractSchedule, num_steps: int | None) -> tuple[str | None, bool]:
    """The schedule's fault in words, or None, and whether its rates are concrete."""
    with jax.ensure_compile_time_eval():
        time = np.linspace(0, 1, _POINTS)
        rates = _rates_at_times(schedule, as_float(time))
        if isinstance(rates, Tracer):
            return None, False
        fault, _ = _fault_among(rates, time, "t = {:.4g}", of_steps=False)
        if fault is not None or num_steps is None or schedule.is_falling:
            return fault, True
        lowest = None
        for steps in _blocks_of_steps(num_steps):
            rates = _rates_at_steps(schedule, *in_jax((steps, num_steps)))
            fault, lowest = _fault_among(rates, steps, "step {}", lowest, of_steps=True)
            if fault is not None:
                return fault, True
    return None, True


# Without jit each operation of a formula is a program.
_rates_at_times = eqx.filter_jit(lambda schedule, time: schedule(time))
_rates_at_steps = eqx.filter_jit(lambda schedule, *steps: schedule.at_step(*steps))


def _blocks_of_steps(num_steps: int) -> Iterator[Int[np.ndarray, " steps"]]:
    """All steps from 1 to the last, or 2^22 evenly spaced ones of more, in blocks."""
    count = min(num_steps, MOST_STEPS)
    for start in range(0, count, _BLOCK):
        places = np.arange(start, min(start + _BLOCK, count))
        yield 1 + places * (num_steps - 1) // max(count - 1, 1)


def _slack(rates: Float[Array, " points"]) -> float:
    """The share of a rate by which rounding may lift it; float32's at most."""
    return _ROUNDINGS * float(min(jnp.finfo(rates.dtype).eps, jnp.finfo(jnp.float32).eps))


def _fault_among(
    found: Float[Array, " points"],
    at: np.ndarray,
    place: str,
    before: tuple[float, str] | None = None,
    *,
    of_steps: bool,
) -> tuple[str | None, tuple[float, str]]:
    """The first non-finite, negative or rising rate in words, or None; and the lowest so far."""
    rates, (bound, where) = np.asarray(found, np.float64), before or (np.inf, "")
    is_wrong = ~np.isfinite(rates) | (rates < 0)
    if is_wrong.any():
        worst = int(np.argmax(is_wrong))
        fault = f"expected a finite learning rate >= 0 on [0, 1], got {rates[worst]}"
        return f"{fault} at {place.format(at[worst])}", (bound, where)
    lowest = np.minimum(np.minimum.accumulate(rates), bound)
    risen = rates - lowest - _slack(found) * (lowest if of_steps else rates.max())
    worst = int(np.argmax(risen))
    least = int(np.argmin(rates[: worst + 1] if risen[worst] > 0 else rates))
    if rates[least] < bound:
        bound, where = float(rates[least]), place.format(at[least])
    if not risen[worst] > 0:
        return None, (bound, where)
    fault = (
        "expected a non-increasing learning rate, because the private noise has the variance "
        f"(eta_k^2 - eta_(k+1)^2) / rho^2; got {bound:.8g} at {where} and "
        f"{rates[worst]:.8g} at {place.format(at[worst])}"
    )
    return fault, (bound, where)


def is_checked(schedule: AbstractSchedule, num_steps: Any) -> bool:
    """True if `require_non_increasing` checks every step, or the formula needs no check."""
    if schedule.is_falling:
        return True
    is_traced = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((schedule, num_steps)))
    return not is_traced and int(num_steps) <= MOST_STEPS


def is_non_increasing(
    schedule: AbstractSchedule, num_steps: int | None = None
) -> Bool[Array, ""] | bool:
    """Whether the rates are finite, >= 0 and never rise: at the points of `require_non_increasing`,
    or on a grid of times for traced parameters.
    """
    fault, is_known = _looked_at(schedule, num_steps)
    if is_known:
        return fault is None
    time = jnp.linspace(0, 1, _TRACED_POINTS)
    if schedule.is_falling:
        # With parameters out of range it rises everywhere, is negative or not finite: few points
        # show it.
        time = time[np.asarray([0, -2, -1])]
    rates = schedule(time)
    lowest = lax.cummin(rates)
    has_fallen = rates <= lowest + _slack(rates) * jnp.max(rates)
    return jnp.all(jnp.isfinite(rates) & (rates >= 0) & has_fallen)
