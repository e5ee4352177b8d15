r"""Minimising a perturbed objective until its gradient is certified to be small, or not at all.

Damped Newton steps come first, and nearly always suffice. Accelerated gradient steps follow, for
which the number that suffices is known without looking at the data. Source of the latter: Nesterov
(2004); Bubeck (2015), Theorem 3.18.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float

from jaxdp.core.checks import require_count, require_positive
from jaxdp.kernels.margin.perturbed_objective import PerturbedObjective, Point

_NEWTON_STEPS = 50
# More coefficients have a curvature that takes longer than accelerated steps do.
_MOST_FOR_NEWTON = 3000
_HALVINGS = 40
# The share of the predicted decrease that a shortened step must bring.
_SUFFICIENT = 1e-4
_VALUE_ROUNDING = 1e-11


class Minimum(NamedTuple):
    """What `minimise` found: coefficients, a bound on the true gradient's norm, steps taken."""

    coefficients: Float[np.ndarray, " outputs"]
    gradient_norm: float
    num_steps: int


def minimise(
    objective: PerturbedObjective, *, tolerance: float, max_steps: int | None = None
) -> Minimum:
    r"""A point at which the gradient's norm is certified to be at most the tolerance.

    Args:
        objective: to be minimised, from zero on.
        tolerance: $\tau$ > 0, on the norm of the gradient of J.
        max_steps: >= 1; None for a number that is enough whatever the data are: 50 Newton steps
            and `num_accelerated_steps` of half the tolerance.

    Raises:
        ValueError: the tolerance is not positive and finite, or is below four times what rounding
            may do to the gradient, by a bound that depends on no data; or max_steps < 1.
        RuntimeError: the tolerance was not met within `max_steps`.
    """
    require_positive("tolerance", tolerance)
    least = 4 * objective.gradient_rounding(objective.coefficient_bound)
    if tolerance < least:
        raise ValueError(
            f"expected a tolerance of {least:.1e} at least, below which rounding decides, got "
            f"{tolerance:.1e}; a larger ridge allows for a smaller one"
        )
    if max_steps is None:
        max_steps = _NEWTON_STEPS + objective.num_accelerated_steps(tolerance / 2)
    require_count("max_steps", max_steps)
    for step, point in zip(range(max_steps + 1), _points(objective), strict=False):
        norm = objective.gradient_norm(point)
        if norm <= tolerance:
            return Minimum(point.coefficients, norm, step)
    raise RuntimeError(
        f"the minimiser was not found to a gradient of {tolerance:.1e} in {max_steps} steps: "
        "nothing is released"
    )


def newton_step(objective: PerturbedObjective, point: Point) -> Point | None:
    """A Newton step, halved until it helps; None when rounding lets none help."""
    factors = scipy.linalg.cho_factor(objective.curvature(point.coefficients), check_finite=False)
    direction = -scipy.linalg.cho_solve(factors, point.gradient, check_finite=False)
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


def _points(objective: PerturbedObjective) -> Iterator[Point]:
    """Zero, Newton's points, and then, from the best of them, accelerated ones without end."""
    point = best = objective.at(np.zeros(len(objective.linear_term)))
    yield point
    is_small = len(point.coefficients) <= _MOST_FOR_NEWTON
    for _ in range(_NEWTON_STEPS if is_small else 0):
        following = newton_step(objective, point)
        if following is None:
            break
        yield following
        point = following
        best = min(best, point, key=lambda seen: np.linalg.norm(seen.gradient))
    yield from _accelerated_points(objective, best)


def _accelerated_points(objective: PerturbedObjective, point: Point) -> Iterator[Point]:
    """Nesterov's gradient steps for a strongly convex objective, each followed by its momentum.

    They start no farther from the minimiser than zero is allowed to be: the point's gradient is no
    larger than that at zero.
    """
    root = math.sqrt(objective.smoothness / objective.ridge)
    momentum = (root - 1) / (root + 1)
    last = point.coefficients
    while True:
        following = point.coefficients - point.gradient / objective.smoothness
        point = objective.at(following + momentum * (following - last))
        last = following
        yield point
