r"""The risk of a given schedule, in any setting, by a method of fixed steps.

With $Z = y + K\tilde\eta^2$, the state as it would be if all the noise that is still to come came
now, no schedule is differentiated: $Z' = v(Z - K\tilde\eta^2, \tilde\eta)$, and the risk of what is
released is that of Z(1). A search asks for thousands of such risks and their gradients: fixed steps
on a clock that follows the schedule cost less than an adaptive solver, whose answer they are held
against.

A good schedule falls over a time of order $\gamma$, so that even steps in t would spend nearly all
of themselves where nothing happens. With $t = \tau(e^{sL} - 1)$ they are even in $\log(t + \tau)$.
Schedules that end like a root of 1 - t need the same at the other end.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from jaxdp.planning.streams.setting import AbstractSetting
from jaxdp.schedules import AbstractSchedule

# tau, in units of min(gamma, 1), and how close to t = 1 the two-sided clock is even.
_START, _END = 0.3, 1e-4
# Beyond so many caps a schedule is not worth a look, and how steeply it is punished there.
_MOST_CAPS, _STEEPNESS = 1.5, 10.0


class Clock(NamedTuple):
    """Times at even readings of a clock from 0 to 1, and how fast they pass there."""

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
    """The four stages of every step of Runge and Kutta's method, one after the other.

    As a single loop they are compiled once: the time that each covers, how far along the change of
    the stage before it looks, its weight, and whether it is the last of its step.
    """
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
    """The logarithm of the risk of what is released; infinite where the method fails.

    Much noise that is still to come and a rate far beyond the cap let the steps fail so that the
    risk goes below 0, where a search that saw it cut off at 0 would find impossible risks. There
    the risk is infinite, and beyond 1.5 caps it is punished.
    """
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
    # All noise has come: this is the state of what is released.
    is_sound &= setting.is_possible(final)
    risk = jnp.where(is_sound, setting.risk(final), 1)
    is_sound &= risk > 0
    value = jnp.log(jnp.where(is_sound, risk, 1)) + _STEEPNESS * excess**2
    return jnp.where(is_sound, value, jnp.inf)
