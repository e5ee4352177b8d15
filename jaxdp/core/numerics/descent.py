"""Quasi-Newton descents (BFGS with exact gradients) of many points at once."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

# No step is longer: the variables are logarithms, so that this is a factor of seven.
_LONGEST = 2.0
_HALVINGS = 30
# Sufficient share of the fall that the slope promises.
_ENOUGH = 1e-4

Evaluate = Callable[[Float[np.ndarray, "batch size"]], tuple[np.ndarray, np.ndarray]]


def descend(
    evaluate: Evaluate,
    starts: Float[np.ndarray, "batch size"],
    *,
    most_steps: int = 200,
    tolerance: float = 1e-10,
) -> tuple[Float[np.ndarray, "batch size"], Float[np.ndarray, " batch"]]:
    """Local minima of functions of logarithms: the points, and the values there.

    `evaluate` gives values and gradients row by row, not finite at invalid points. A descent also
    ends if a full step promises a fall of at most `tolerance`.
    """
    points = np.array(starts, np.float64)
    values, gradients = _finite(*evaluate(points))
    batch, size = points.shape
    inverses = np.broadcast_to(np.eye(size), (batch, size, size)).copy()
    is_fresh, is_done = np.ones(batch, bool), ~np.isfinite(values)
    for _ in range(most_steps):
        steps = -np.einsum("bij,bj->bi", inverses, gradients)
        longest = np.abs(steps).max(axis=1, initial=1e-300)
        steps *= np.minimum(1, _LONGEST / longest)[:, None]
        promise = np.einsum("bi,bi->b", steps, gradients)
        is_done |= is_fresh & (promise > -tolerance)
        if is_done.all():
            break
        before = points, values, gradients
        points, values, gradients, moved = _along(evaluate, *before, steps, promise, ~is_done)
        _learn(inverses, points - before[0], gradients - before[2], moved)
        # A failed descent tries the gradient's direction once before it ends.
        is_stuck = ~moved | (values >= before[1] - tolerance)
        is_done |= is_stuck & is_fresh
        inverses[is_stuck] = np.eye(size)
        is_fresh = is_stuck
    return points, values


def _finite(values, gradients) -> tuple[np.ndarray, np.ndarray]:
    values, gradients = np.array(values, np.float64), np.array(gradients, np.float64)
    is_bad = ~(np.isfinite(values) & np.isfinite(gradients).all(axis=-1))
    values[is_bad], gradients[is_bad] = np.inf, 0
    return values, gradients


def _along(evaluate: Evaluate, points, values, gradients, steps, promise, is_open):
    """Points, values and gradients after a step, halved until the value falls enough, and where."""
    points, values, gradients = points.copy(), values.copy(), gradients.copy()
    moved, share = np.zeros(len(points), bool), 1.0
    for _ in range(_HALVINGS):
        tried = points + share * steps * is_open[:, None]
        new_values, new_gradients = _finite(*evaluate(tried))
        falls = is_open & (new_values <= values + _ENOUGH * share * promise)
        points[falls], values[falls] = tried[falls], new_values[falls]
        gradients[falls] = new_gradients[falls]
        moved |= falls
        is_open = is_open & ~falls
        if not is_open.any():
            break
        share /= 2
    return points, values, gradients, moved


def _learn(inverses, moves, turns, moved):
    """The BFGS update of the inverse matrices that moved along a convex direction."""
    curvature = np.einsum("bi,bi->b", moves, turns)
    for row in np.flatnonzero(moved & (curvature > 1e-14)):
        move, turn, scale = moves[row], turns[row], 1 / curvature[row]
        left = np.eye(len(move)) - scale * np.outer(move, turn)
        inverses[row] = left @ inverses[row] @ left.T + scale * np.outer(move, move)
