r"""A learning-rate schedule: time in [0, 1] to a non-increasing value.

The private noise of AC equation (2) is a difference of squared learning rates, which cancels in
float32 when there are many steps. A schedule therefore also knows its rate `at_step` and the
`squared_drop` over one step from whole step numbers, in forms that do not cancel and that belong
together.
"""

import abc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxdp.core.checks import concrete
from jaxdp.core.description import AbstractDescription

_CHECK_POINTS, _MOST_CHECK_POINTS = 4001, 200_001
# By how much rounding may lift a constant rate, in all.
_ROUNDING = 1e-5


class AbstractSchedule(AbstractDescription):
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
