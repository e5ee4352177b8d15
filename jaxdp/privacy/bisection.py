"""Roots of monotone functions, on the host in float64 or traced.

A privacy bound is inverted by bisection on a logarithmic scale: it cannot leave its bracket, and
the end that it returns is on the side that was asked for.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

_HOST_STEPS = 200
_TRACED_STEPS = 64


def largest_within(
    holds: Callable[[float], bool], lowest: float = 1e-40, highest: float = 1e40
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
        middle = math.sqrt(lowest * highest)
        if not lowest < middle < highest:
            break
        lowest, highest = (middle, highest) if holds(middle) else (lowest, middle)
    return lowest


def traced_root(function: Callable[[Any], Any], lowest: float, highest: float, like: Any) -> Any:
    """Root in [lowest, highest] of a traced increasing function, differentiable through it.

    The bisection itself carries no derivative; one Newton step at its end does, so that the
    result has the derivative of the implicit function.
    """
    lower = jnp.full_like(like, math.log(lowest))
    upper = jnp.full_like(like, math.log(highest))

    def halve(_, ends):
        lower, upper = ends
        middle = (lower + upper) / 2
        below = function(jnp.exp(middle)) < 0
        return jnp.where(below, middle, lower), jnp.where(below, upper, middle)

    lower, upper = lax.fori_loop(0, _TRACED_STEPS, halve, (lower, upper))
    root = lax.stop_gradient(jnp.exp((lower + upper) / 2))
    value, slope = jax.jvp(function, (root,), (jnp.ones_like(root),))
    step = value / lax.stop_gradient(slope)
    # Only its derivative is wanted: the bisection is already as close as rounding allows.
    return root - (step - lax.stop_gradient(step))
