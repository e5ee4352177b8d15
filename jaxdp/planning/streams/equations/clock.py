r"""The clock of the search: even steps in s, dense in t where schedules change fast.

A good schedule falls over a time of order $\gamma$, so that even steps in t would spend nearly all
of themselves where nothing happens. With $t = \tau(e^{sL} - 1)$ they are even in $\log(t + \tau)$.
Schedules that end like a root of 1 - t need the same at the other end.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

# tau, in units of min(gamma, 1), and how close to t = 1 the two-sided clock is even.
_START, _END = 0.3, 1e-4


class Clock(NamedTuple):
    """Times at even readings of a clock from 0 to 1, and how fast they pass there.

    Attributes:
        time: t(s), from 0 to 1.
        speed: dt/ds.
    """

    time: Float[Array, " readings"]
    speed: Float[Array, " readings"]


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
    """What is known at an odd number of readings, at the four stages of every step between them."""
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
