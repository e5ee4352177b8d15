"""Roots of monotone functions, on the host in float64 or traced.

A privacy bound is inverted by bisection on a logarithmic scale: it cannot leave its bracket, and
the end that it returns is on the side that was asked for.
"""

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

_HOST_STEPS = 200
# Enough to leave neighbouring numbers of a bracket of 1e24, by bytes of their type.
_TRACED_STEPS = {4: 34, 8: 64}


def largest_within(
    holds: Callable[[float], bool], lowest: float = 1e-150, highest: float = 1e150
) -> float:
    """The largest x, to rounding, with `holds(x)`, for a predicate that is true below some point.

    Returns a point at which the predicate was seen to hold: 0.0 when it fails at `lowest`,
    infinity when it holds at `highest`.
    """
    if holds(highest):
        return math.inf
    if not holds(lowest):
        return 0.0
    for _ in range(_HOST_STEPS):
        middle = math.sqrt(lowest) * math.sqrt(highest)
        if not lowest < middle < highest:
            break
        lowest, highest = (middle, highest) if holds(middle) else (lowest, middle)
    return lowest


def traced_largest_within(holds: Callable[[Any], Any], like: Any) -> Any:
    """The same for traced arrays shaped as `like`, between 1e-12 and 1e12, without a derivative.

    Whoever calls it states the derivative of the root.
    """

    def halve(_, ends):
        lower, upper = ends
        middle = jnp.sqrt(lower * upper)
        is_within = holds(middle)
        return jnp.where(is_within, middle, lower), jnp.where(is_within, upper, middle)

    ends = jnp.full_like(like, 1e-12), jnp.full_like(like, 1e12)
    lower, _ = lax.fori_loop(0, _TRACED_STEPS[like.dtype.itemsize], halve, ends)
    return lower
