"""Quasi-Newton descents of many functions at once, with exact gradients.

A search over schedules starts from several points, and a grid of budgets is as many searches. All
are rows of one batch here: each has its own matrix and its own step (Broyden, Fletcher, Goldfarb
and Shanno; halved until the value falls enough), and one call evaluates them all.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

# No step is longer: the variables are logarithms, so that this is a factor of seven.
_LONGEST = 2.0
_HALVINGS = 30
# Share of the fall that the slope promises, with which a step is content.
_ENOUGH = 1e-4


class Descent(NamedTuple):
    """Where the descents ended.

    Attributes:
        points: the lowest that were found.
        values: there; infinite where a start was no better.
    """

    points: Float[np.ndarray, "batch size"]
    values: Float[np.ndarray, " batch"]


Evaluate = Callable[[Float[np.ndarray, "batch size"]], tuple[np.ndarray, np.ndarray]]


def descend(
    evaluate: Evaluate,
    starts: Float[np.ndarray, "batch size"],
    *,
    most_steps: int = 200,
    tolerance: float = 1e-10,
) -> Descent:
    """Local minima of functions of the logarithms of things.

    Args:
        evaluate: from the points to the values, and to the gradients, row by row; not finite where
            a point is no good.
        starts: one per function.
        most_steps: after so many the descent ends where it is.
        tolerance: it also ends where a full step would promise no larger fall.
    """
    evaluate = _guarded(evaluate)
    points = np.array(starts, np.float64)
    values, gradients = evaluate(points)
    batch, size = points.shape
    inverses = np.broadcast_to(np.eye(size), (batch, size, size)).copy()
    is_fresh = np.ones(batch, bool)
    is_done = ~np.isfinite(values)
    for _ in range(most_steps):
        steps, promise = _steps(inverses, gradients)
        is_done |= is_fresh & (promise > -tolerance)
        if is_done.all():
            break
        found = _search_lines(evaluate, points, values, steps, promise, is_done)
        moved = found.has_fallen
        _learn(inverses, found.points - points, found.gradients - gradients, moved)
        # What fails along the learnt direction tries plain descent once before it ends.
        is_stuck = ~moved | (found.values >= values - tolerance)
        is_done |= is_stuck & is_fresh
        inverses[is_stuck] = np.eye(size)
        is_fresh = is_stuck
        points, values, gradients = found.points, found.values, found.gradients
    return Descent(points, values)


class _Found(NamedTuple):
    points: np.ndarray
    values: np.ndarray
    gradients: np.ndarray
    has_fallen: Bool[np.ndarray, " batch"]


def _guarded(evaluate: Evaluate) -> Evaluate:
    def call(points):
        values, gradients = (np.array(part, np.float64) for part in evaluate(points))
        is_bad = ~(np.isfinite(values) & np.isfinite(gradients).all(axis=-1))
        values[is_bad], gradients[is_bad] = np.inf, 0
        return values, gradients

    return call


def _steps(inverses, gradients):
    """The steps, none too long, and the falls that the slopes promise of them, below 0."""
    steps = -np.einsum("bij,bj->bi", inverses, gradients)
    longest = np.abs(steps).max(axis=1, initial=1e-300)
    steps *= np.minimum(1, _LONGEST / longest)[:, None]
    return steps, np.einsum("bi,bi->b", steps, gradients)


def _search_lines(evaluate, points, values, steps, promise, is_done) -> _Found:
    best = _Found(points.copy(), values.copy(), np.zeros_like(points), np.zeros(len(points), bool))
    share = 1.0
    is_open = ~is_done
    for _ in range(_HALVINGS):
        tried = np.where(is_open[:, None], points + share * steps, best.points)
        new_values, new_gradients = evaluate(tried)
        falls = is_open & (new_values <= values + _ENOUGH * share * promise)
        is_open &= ~falls
        settled = ~is_open
        best.points[falls], best.values[falls] = tried[falls], new_values[falls]
        best.gradients[settled] = new_gradients[settled]
        best.has_fallen[falls] = True
        if not is_open.any():
            return best
        share /= 2
    _, gradients = evaluate(best.points)
    return best._replace(gradients=gradients)


def _learn(inverses, moves, turns, moved):
    """The quasi-Newton update of the inverse matrices that moved along a convex direction."""
    curvature = np.einsum("bi,bi->b", moves, turns)
    for row in np.flatnonzero(moved & (curvature > 1e-14)):
        move, turn, scale = moves[row], turns[row], 1 / curvature[row]
        left = np.eye(len(move)) - scale * np.outer(move, turn)
        inverses[row] = left @ inverses[row] @ left.T + scale * np.outer(move, move)
