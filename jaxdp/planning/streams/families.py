"""Families of schedules: a schedule as a function of free positive numbers.

A fit needs three things of a family beside the schedule: where to begin, on which clock such a
schedule can be integrated with few steps, and what its numbers are called.
"""

import abc
import inspect
import itertools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdp.core.checks import described, require_count
from jaxdp.core.description import AbstractDescription, constructor_arguments
from jaxdp.core.numerics.precision import on_host
from jaxdp.planning.streams.schedule_risk import Clock, log_clock, two_sided_clock
from jaxdp.planning.streams.setting import AbstractSetting
from jaxdp.schedules import AbstractSchedule, PiecewiseLinear
from jaxdp.schedules.callables import Plain, as_schedule

# A first parameter is a rate, and is tried in these shares of the cap; others are numbers around 1.
_RATES = np.geomspace(2e-3, 0.9, 8)
_FARTHEST = 25.0
_NUMBERS = np.asarray([0.003, 0.03, 0.2, 0.7, 3.0])
_A_NUMBER = 0.7


class AbstractFamily(AbstractDescription):
    """Schedules that are fitted: from logarithms, or other free numbers, to a schedule."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """How many free numbers there are."""

    @abc.abstractmethod
    def schedule(
        self, numbers: Float[Array, " size"], setting: AbstractSetting
    ) -> AbstractSchedule:
        """The schedule of some numbers; the setting has the cap and the knots."""

    @abc.abstractmethod
    def parts(
        self, numbers: Float[np.ndarray, " size"], setting: AbstractSetting
    ) -> tuple[Callable[..., AbstractSchedule], dict[str, Any]]:
        """The schedule as a function of arguments by name, and these; the first is a rate."""

    @abc.abstractmethod
    def clock(self, setting: AbstractSetting) -> Clock:
        """The clock on which such schedules are integrated."""

    @abc.abstractmethod
    def starts(self, setting: AbstractSetting) -> Float[np.ndarray, "starts size"]:
        """Numbers from which a fit begins."""


class Knots(eqx.Module):
    """Straight lines between given knots, as a function of the values there."""

    knots: Float[np.ndarray, " knots"]

    def __call__(self, learning_rate):
        return PiecewiseLinear(self.knots, learning_rate)


class Parametric(AbstractFamily):
    """A callable from positive parameters to a schedule, whose logarithms are free.

    Parameters without a value are free. The first is taken for a rate, the others for numbers
    around 1.
    """

    make: Callable[..., Any] = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, make):
        self.make = make
        self.names = _free_parameters(make)
        # One look at numbers that are not special; others may well make a constant rate.
        made = make(**dict.fromkeys(self.names, _A_NUMBER))
        if not callable(made):
            raise TypeError(
                "expected schedule to be a callable from positive parameters to a schedule, such "
                "as jaxdp.Constant or lambda peak: jaxdp.FromSteps(optax.cosine_decay_schedule("
                f"peak, n), n), got one that gives {described(made)} for {_A_NUMBER}: a single "
                "schedule is no family to be fitted"
            )
        as_schedule(made)

    @property
    def size(self):
        return len(self.names)

    def schedule(self, numbers, setting):
        # A best parameter may be 0 or infinite: a power of 0, or a knee that never comes.
        values = jnp.exp(jnp.clip(numbers, -_FARTHEST, _FARTHEST))
        return self._made(**{name: values[place] for place, name in enumerate(self.names)})

    def parts(self, numbers, setting):
        values = np.exp(np.clip(numbers, -_FARTHEST, _FARTHEST))
        return self._made, dict(zip(self.names, values.tolist(), strict=True))

    def _made(self, **arguments):
        made = self.make(**arguments)
        return made if isinstance(made, AbstractSchedule) else Plain(made)

    def clock(self, setting):
        return two_sided_clock(setting.gamma, 2 * setting.num_steps + 1)

    def starts(self, setting):
        rates = np.log(_RATES * float(setting.cap))
        others = itertools.repeat(np.log(_NUMBERS), self.size - 1)
        return np.asarray(list(itertools.product(rates, *others)))


class FreeForm(AbstractFamily):
    r"""Any non-increasing schedule, as straight lines between knots that are dense near t = 0.

    The value at knot k is the cap ($2/\gamma$ for least squares) times
    $\prod_{j \le k}\mathrm{sigmoid}(x_j)$: non-increasing and below the cap for every x, so that
    gradient descent over x needs no constraint. The knots are evenly spaced in
    $\log(t + .3\gamma)$.

    Args:
        num_knots: >= 2; 24 came within .06 % of the best of all in 19 settings.

    Example:
        >>> import jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> plan = jaxdp.plan(problem, num_samples=1000, rho=1.0, schedule=jaxdp.FreeForm(24))
        >>> print(f"{plan.predicted.final_risk:.4f}")
        0.0565
    """

    num_knots: int = eqx.field(static=True)

    def __init__(self, num_knots: int):
        self.num_knots = require_count("num_knots", num_knots, least=2)

    @property
    def size(self):
        return self.num_knots

    def schedule(self, numbers, setting):
        values = setting.cap * jnp.cumprod(jax.nn.sigmoid(numbers))
        return PiecewiseLinear(log_clock(setting.gamma, self.num_knots).time, values)

    def parts(self, numbers, setting):
        with on_host():
            found = self.schedule(jnp.asarray(numbers), jax.tree.map(jnp.asarray, setting))
            return Knots(np.array(found.knots)), {"learning_rate": np.array(found.values)}

    def clock(self, setting):
        # Steps that end at the knots, so that none crosses a kink.
        pieces = self.num_knots - 1
        return log_clock(setting.gamma, 2 * pieces * -(-setting.num_steps // (2 * pieces)) + 1)

    def starts(self, setting):
        """Hyperbolic schedules of several heights."""
        with on_host():
            time = np.asarray(log_clock(jnp.asarray(setting.gamma), self.num_knots).time)
        shares = [
            peak / (1 + peak * float(setting.cap) * time / 2) for peak in (0.7, 0.2, 0.05, 0.01)
        ]
        return np.stack([numbers_of(share) for share in shares])


def numbers_of(shares: Float[np.ndarray, " knots"]) -> Float[np.ndarray, " knots"]:
    """The free numbers of values as shares of the cap; what is flat falls a little."""
    ratios = np.clip(shares / np.append(1, shares[:-1]), 1e-6, 1 - 1e-3)
    return np.log(ratios) - np.log1p(-ratios)


def _free_parameters(make: Any) -> tuple[str, ...]:
    if not callable(make) or isinstance(make, AbstractSchedule):
        raise TypeError(
            "expected schedule to be jaxdp.Optimal, jaxdp.FreeForm(num_knots) or a callable from "
            f"positive parameters to a schedule, such as jaxdp.Polynomial, got {described(make)}"
        )
    if inspect.isclass(make) and issubclass(make, AbstractDescription):
        return constructor_arguments(make)
    found = inspect.signature(make).parameters.values()
    names = tuple(each.name for each in found if each.default is inspect.Parameter.empty)
    if not names:
        raise TypeError(
            "expected schedule to have a free parameter (one without a value), got "
            f"{described(make)}"
        )
    return names
