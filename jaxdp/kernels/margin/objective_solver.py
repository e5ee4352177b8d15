"""Minimising a perturbed objective until its gradient is certified to be small, on every data set.

A solver may not give up: failing for one table and not for its neighbour would distinguish the two,
for any noise. Damped Newton steps with conjugate gradients nearly always suffice. Accelerated
gradient steps follow; a data-independent number of them is enough in exact arithmetic. Plain
gradient steps from zero come last: a data-independent number is proved to be enough in machine
arithmetic (`PerturbedObjective.num_gradient_steps`).

Source: Nesterov (2004); Bubeck (2015), Theorem 3.18.
"""

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from jaxdp.kernels.margin.perturbed_objective import PerturbedObjective, Point

_NEWTON_STEPS = 200
_CONJUGATE_STEPS = 1000
# The share of the gradient that a Newton step's equations leave.
_LEFT = 0.03
_HALVINGS = 40
# The share of the predicted decrease that a shortened step must bring.
_SUFFICIENT = 1e-4
_VALUE_ROUNDING = 1e-11


class Minimum(NamedTuple):
    """A minimiser: coefficients, a bound on the true gradient's norm, number of steps."""

    coefficients: Float[np.ndarray, " outputs"]
    gradient_norm: float
    num_steps: int


def minimise(
    objective: PerturbedObjective, *, tolerance: float, max_steps: int | None = None
) -> Minimum:
    r"""A point at which the gradient's norm is certified to be at most the tolerance $\tau$ > 0.

    `max_steps` limits Newton's method, None for 200; the gradient steps after them are as many as
    any data set may need: `num_accelerated_steps` for half the tolerance, then
    `num_gradient_steps`. Raises ValueError if the tolerance is below `least_tolerance`, which
    depends on no data, and RuntimeError if the loss is not convex or violates its bounds.
    """
    least = objective.least_tolerance
    if tolerance < least:
        raise ValueError(
            f"expected a tolerance of {least:.1e} at least, below which rounding decides, got "
            f"{tolerance:.1e}; a larger ridge allows for a smaller one"
        )
    num_newton = _NEWTON_STEPS if max_steps is None else max_steps
    for step, point in enumerate(_points(objective, tolerance, num_newton)):
        norm = objective.gradient_norm(point)
        if norm <= tolerance:
            return Minimum(point.coefficients, norm, step)
    raise RuntimeError(
        f"expected a convex loss whose slopes and their changes are bounded as it states, got "
        f"{objective.loss}, of which no minimum was found"
    )


def newton_step(objective: PerturbedObjective, point: Point) -> Point | None:
    """A Newton step, halved until it lowers the objective; None if rounding prevents that."""
    direction = _newton_direction(objective, point)
    decrease = float(point.gradient @ direction)
    norm, room = np.linalg.norm(point.gradient), _VALUE_ROUNDING * (1 + abs(point.value))
    for halving in range(_HALVINGS):
        size = 0.5**halving
        trial = objective.at(point.coefficients + size * direction)
        # Near the minimum the objective's decrease is below its rounding, the gradient's is not.
        is_halved = np.linalg.norm(trial.gradient) <= norm / 2
        if trial.value <= point.value + (room if is_halved else _SUFFICIENT * size * decrease):
            return trial
    return None


def _newton_direction(
    objective: PerturbedObjective, point: Point
) -> Float[np.ndarray, " coefficients"]:
    """The Newton direction by conjugate gradients, which need no matrix of (k M)^2 numbers."""
    times = objective.curvature_at(point.coefficients)
    found, left = np.zeros_like(point.gradient), -point.gradient
    direction, square = left, left @ left
    enough = _LEFT**2 * square
    for _ in range(_CONJUGATE_STEPS):
        bent = times(direction)
        curvature = direction @ bent
        # Rounding may take a small one below zero.
        if not curvature > 0:
            break
        found = found + square / curvature * direction
        left = left - square / curvature * bent
        square, last = left @ left, square
        if square <= enough:
            break
        direction = left + square / last * direction
    return found


def _points(objective: PerturbedObjective, tolerance: float, num_newton: int) -> Iterator[Point]:
    """Zero, Newton's points, accelerated ones from the best, then gradient steps from zero.

    The best point's gradient is no larger than at zero, so the bound on the distance holds there.
    """
    start = point = best = objective.at(np.zeros(len(objective.linear_term)))
    yield start
    for _ in range(num_newton):
        following = newton_step(objective, point)
        if following is None:
            break
        yield following
        point = following
        best = min(best, point, key=lambda seen: np.linalg.norm(seen.gradient))
    root = math.sqrt(objective.smoothness / objective.ridge)
    accelerated = _gradient_points(objective, best, (root - 1) / (root + 1))
    yield from itertools.islice(accelerated, objective.num_accelerated_steps(tolerance / 2))
    plain = _gradient_points(objective, start, 0.0)
    yield from itertools.islice(plain, objective.num_gradient_steps(tolerance))


def _gradient_points(
    objective: PerturbedObjective, point: Point, momentum: float
) -> Iterator[Point]:
    """Nesterov's gradient steps for a strongly convex objective, each followed by its momentum."""
    last = point.coefficients
    while True:
        following = point.coefficients - point.gradient / objective.smoothness
        point = objective.at(following + momentum * (following - last))
        last = following
        yield point
