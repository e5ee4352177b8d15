"""Roots of monotone functions, approached from one side: on the host in float64, or traced."""

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

# Halvings of a bracket of 1e24 down to neighbouring numbers, by bytes of their type.
_TRACED_STEPS = {4: 34, 8: 64}


def largest_within(
    excess: Callable[[float], float],
    lowest: float = 1e-150,
    highest: float = 1e150,
    *,
    strictly: bool = False,
) -> float:
    """The largest float64 x with excess(x) <= 0 (< 0 if `strictly`); excess changes sign once.

    The answer was evaluated, and so was the next float64, at which the condition fails. It is 0.0
    if the condition fails at `lowest`, infinity if it holds at `highest`. The bracket is halved on
    a logarithmic scale to a factor of two and then narrowed by secants from both sides (Alefeld,
    Potra and Shi, 1995), with a third of the evaluations of halving. Only signs decide.
    """
    known: dict[float, float] = {}

    def holds(x):
        known[x] = excess(x)
        return known[x] < 0 or (known[x] == 0 and not strictly)

    if holds(highest):
        return math.inf
    if not holds(lowest):
        return 0.0
    low, high = lowest, highest

    def narrow(x):
        nonlocal low, high
        if low < x < high:
            low, high = (x, high) if holds(x) else (low, x)

    while high > 2 * low:
        narrow(math.sqrt(low) * math.sqrt(high))
    while low < (middle := low + (high - low) / 2) < high:
        width, slope = high - low, (known[high] - known[low]) / (high - low)
        if 0 < slope < math.inf:
            narrow(low - known[low] / slope)
            # Twice the secant step, and at least the next number: the other end moves.
            near, far = sorted((low, high), key=lambda end: abs(known[end]))
            step = -2 * known[near] / slope
            beyond = near + step if step * (far - near) > 0 else near
            narrow(math.nextafter(near, far) if beyond == near else beyond)
        if high - low > width / 4:
            narrow(middle if low < middle < high else low + (high - low) / 2)
    return low


def log_excess(amount: float, limit: float) -> float:
    """The logarithm of amount / limit in float64, with exactly the sign of amount - limit."""
    amount, limit = float(amount), float(limit)
    quotient = amount / limit if amount > 0 and limit > 0 else 0.0
    # The quotient of different numbers may round to 1, or to 0.
    return (math.log(quotient) if quotient > 0 else 0.0) or amount - limit


def traced_largest_within(holds: Callable[[Any], Any], like: Any) -> Any:
    """The largest value from 1e-12 to 1e12 that holds, for traced arrays like `like`."""

    def halve(_, ends):
        lower, upper = ends
        middle = jnp.sqrt(lower * upper)
        is_within = holds(middle)
        return jnp.where(is_within, middle, lower), jnp.where(is_within, upper, middle)

    ends = jnp.full_like(like, 1e-12), jnp.full_like(like, 1e12)
    lower, _ = lax.fori_loop(0, _TRACED_STEPS[like.dtype.itemsize], halve, ends)
    return lower
