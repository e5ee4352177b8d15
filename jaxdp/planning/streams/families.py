r"""Families of schedules, and the risk of one schedule by fixed steps on a clock that suits it.

The state $Z = y + K\tilde\eta^2$ has all noise to come added: $Z' = v(Z - K\tilde\eta^2,
\tilde\eta)$ needs no derivative of the schedule. A good schedule falls over a time of order
$\gamma$, so steps are even in $\log(t + \tau)$; schedules that end like a root of 1 - t need the
same at the other end.
"""

import abc
import inspect
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from jaxdp.core.checks import described, require_count
from jaxdp.core.description import AbstractDescription, constructor_arguments
from jaxdp.core.numerics.precision import on_host
from jaxdp.planning.streams.setting import AbstractSetting
from jaxdp.schedules import AbstractSchedule, PiecewiseLinear
from jaxdp.schedules.callables import Plain, as_schedule

# tau in units of min(gamma, 1), and offset of the two-sided clock at t = 1.
_START, _END = 0.3, 1e-4
_MOST_CAPS, _STEEPNESS = 1.5, 10.0  # penalty of first rates beyond this multiple of the cap
# Starts of a first parameter, a rate, in units of the cap; and of others, numbers around 1.
_RATES = np.geomspace(2e-3, 0.9, 8)
_FARTHEST = 25.0
_NUMBERS = np.asarray([0.003, 0.03, 0.2, 0.7, 3.0])
_A_NUMBER = 0.7


class Clock(NamedTuple):
    """Times at even readings of a clock from 0 to 1, and their derivatives."""

    time: Float[Array, " readings"]  # t(s), from 0 to 1
    speed: Float[Array, " readings"]  # dt/ds


def log_clock(gamma: Float[Array, ""], count: int) -> Clock:
    r"""`count` readings of $t = \tau(e^{sL} - 1)$."""
    start = _START * jnp.minimum(gamma, 1)
    length = jnp.log1p(1 / start)
    grown = jnp.exp(length * jnp.linspace(0.0, 1.0, count))
    time = start * (grown - 1)
    return Clock(time.at[-1].set(1), length * start * grown)


def two_sided_clock(gamma: Float[Array, ""], count: int) -> Clock:
    r"""`count` readings of a clock that is even in $\log\frac{t + \tau}{1 - t + \tau'}$."""
    start = _START * jnp.minimum(gamma, 1)
    whole = 1 + _END
    length = jnp.log(whole / _END) + jnp.log1p(1 / start)
    ratio = start / whole * jnp.exp(length * jnp.linspace(0.0, 1.0, count))
    time = (whole * ratio - start) / (1 + ratio)
    speed = length * (time + start) * (whole - time) / (whole + start)
    return Clock(jnp.clip(time, 0, 1).at[0].set(0).at[-1].set(1), speed)


def at_stages(values: Float[Array, " readings"]) -> Float[Array, " stages"]:
    """Values at an odd number of readings, repeated for the four stages of every step."""
    middle = values[1::2]
    return jnp.stack([values[:-1:2], middle, middle, values[2::2]], axis=1).ravel()


def runge_kutta_stages(paces: Float[Array, " readings"]) -> tuple[Array, ...]:
    """Time, reach along the last change, weight and end flag of all stages, for one loop."""
    steps = len(paces) // 2
    each = (
        jnp.asarray([0, 1 / 2, 1 / 2, 1]),
        jnp.asarray([1 / 6, 1 / 3, 1 / 3, 1 / 6]),
        jnp.asarray([False, False, False, True]),
    )
    return at_stages(paces), *(jnp.tile(part, steps) for part in each)


def schedule_log_risk(
    schedule: AbstractSchedule,
    log_clip_scale: Float[Array, ""],
    setting: AbstractSetting,
    clock: Clock,
) -> Float[Array, ""]:
    """The logarithm of the released risk; infinite if the state leaves its range."""
    rates = schedule(clock.time)
    clip_scale = jnp.exp(log_clip_scale)
    strength = setting.noise_strength(clip_scale)

    def stage(carry, given):
        state, last, total, is_sound = carry
        pace, reach, weight, is_end, rate = given
        found = state + reach * last - strength * rate**2
        is_sound &= setting.is_possible(found)
        change = pace * setting.velocity(found, rate, clip_scale)
        total = total + weight * change
        state = state + jnp.where(is_end, total, 0)
        return (state, change, jnp.where(is_end, 0, total), is_sound), None

    start = setting.start + strength * rates[0] ** 2
    zero = jnp.zeros_like(start)
    stages = runge_kutta_stages(clock.speed / (len(rates) // 2))
    (final, _, _, is_sound), _ = lax.scan(
        stage, (start, zero, zero, jnp.array(True)), (*stages, at_stages(rates))
    )
    excess = jnp.log(jnp.maximum(rates[0] / (_MOST_CAPS * setting.cap), 1))
    is_sound &= setting.is_possible(final)
    risk = jnp.where(is_sound, setting.risk(final), 1)
    is_sound &= risk > 0
    value = jnp.log(jnp.where(is_sound, risk, 1)) + _STEEPNESS * excess**2
    return jnp.where(is_sound, value, jnp.inf)


class AbstractFamily(AbstractDescription):
    """Schedules to be fitted: a function of free numbers, such as logarithms."""

    @abc.abstractmethod
    def schedule(
        self, numbers: Float[Array, " size"], setting: AbstractSetting
    ) -> AbstractSchedule:
        """The schedule of some numbers; the setting has the cap and the knots."""

    @abc.abstractmethod
    def parts(
        self, numbers: Float[np.ndarray, " size"], setting: AbstractSetting
    ) -> tuple[Callable[..., AbstractSchedule], dict[str, Any]]:
        """The schedule as a function of named arguments, and these; the first is a rate."""

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
    """A callable from positive parameters, those without a default, to a schedule."""

    make: Callable[..., Any] = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, make):
        self.make = make
        self.names = _free_parameters(make)
        made = make(**dict.fromkeys(self.names, _A_NUMBER))
        if not callable(made):
            raise TypeError(
                "expected schedule to be a callable from positive parameters to a schedule, such "
                "as jaxdp.Constant or lambda peak: jaxdp.FromSteps(optax.cosine_decay_schedule("
                f"peak, n), n), got one that gives {described(made)} for {_A_NUMBER}: a single "
                "schedule cannot be fitted"
            )
        as_schedule(made)

    def schedule(self, numbers, setting):
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
        others = itertools.repeat(np.log(_NUMBERS), len(self.names) - 1)
        return np.asarray(list(itertools.product(rates, *others)))


class FreeForm(AbstractFamily):
    r"""Any non-increasing schedule, as straight lines between knots that are dense near t = 0.

    The value at knot k is the cap ($2/\gamma$ for least squares) times
    $\prod_{j \le k}\mathrm{sigmoid}(x_j)$, so gradient descent over x needs no constraint. The
    knots are evenly spaced in $\log(t + 0.3\gamma)$.

    Args:
        num_knots: number of knots, >= 2; 24 came within 0.06 % of the best risk in 19 settings.

    Example:
        >>> import jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> schedule = jaxdp.planning.FreeForm(24)
        >>> plan = jaxdp.plan(problem, num_samples=1000, rho=1.0, schedule=schedule)
        >>> print(f"{plan.predicted.final_risk:.4f}")
        0.0565
    """

    num_knots: int = eqx.field(static=True)

    def __init__(self, num_knots: int):
        self.num_knots = require_count("num_knots", num_knots, least=2)

    def schedule(self, numbers, setting):
        values = setting.cap * jnp.cumprod(jax.nn.sigmoid(numbers))
        return PiecewiseLinear(log_clock(setting.gamma, self.num_knots).time, values)

    def parts(self, numbers, setting):
        with on_host():
            found = self.schedule(jnp.asarray(numbers), jax.tree.map(jnp.asarray, setting))
            return Knots(np.array(found.knots)), {"learning_rate": np.array(found.values)}

    def clock(self, setting):
        # Steps end at the knots, so none crosses a kink.
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
    """The free numbers of values as shares of the cap; flat parts fall a little."""
    ratios = np.clip(shares / np.append(1, shares[:-1]), 1e-6, 1 - 1e-3)
    return np.log(ratios) - np.log1p(-ratios)


def _free_parameters(make: Any) -> tuple[str, ...]:
    if not callable(make) or isinstance(make, AbstractSchedule):
        raise TypeError(
            "expected schedule to be jaxdp.Optimal, jaxdp.planning.FreeForm(num_knots) or a "
            "callable from positive parameters to a schedule, such as jaxdp.Polynomial, "
            f"got {described(make)}"
        )
    if inspect.isclass(make) and issubclass(make, AbstractDescription):
        return constructor_arguments(make)
    found = inspect.signature(make).parameters.values()
    names = tuple(each.name for each in found if each.default is inspect.Parameter.empty)
    if not names:
        raise TypeError(
            "expected schedule to have a free parameter (one without a default), got "
            f"{described(make)}"
        )
    return names
