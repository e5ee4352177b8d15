"""Fits a family of schedules: the clip scale and the free numbers with the least risk.

The risk has several local minima in these numbers, so that descents begin at several starts. They
are quasi-Newton descents (Broyden, Fletcher, Goldfarb and Shanno) with exact gradients, and rows of
one batch: one compiled call evaluates all, sooner than SciPy would have them one by one.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxdp.core.numerics.precision import on_host
from jaxdp.planning.streams.families import AbstractFamily
from jaxdp.planning.streams.schedule_risk import schedule_log_risk
from jaxdp.planning.streams.setting import AbstractSetting
from jaxdp.planning.streams.signal_setting import SignalSetting

# Clip scales over the size of the slopes at the start, that are tried.
_CLIPS = np.geomspace(0.02, 4, 9)
# So many tangents cost less than a reverse pass. Not through the moments of a signal's slopes,
# whose own rule takes derivatives forward in a reverse pass too.
_FEW = 4
# No step is longer: the variables are logarithms, so that this is a factor of seven.
_LONGEST = 2.0
_HALVINGS = 30
# Share of the fall that the slope promises, with which a step is content.
_ENOUGH = 1e-4

Evaluate = Callable[[Float[np.ndarray, "batch size"]], tuple[np.ndarray, np.ndarray]]


class Fit(NamedTuple):
    """The best member of a family."""

    point: Float[np.ndarray, " numbers"]  # ln c, then the family's numbers
    risk: float  # of what is released; infinite where nothing sound was found


def fit(
    family: AbstractFamily,
    setting: AbstractSetting,
    starts: Float[np.ndarray, "starts numbers"],
    least: float,
) -> Fit:
    """The best clip scale and numbers, from points (ln c first) of which the best few are improved.

    What seems to be below `least`, where no risk can be, is an error of the integration.
    """
    kept, tolerance = setting.effort
    with on_host():
        values = np.array(_values(family, jnp.asarray(starts), setting))
        values[~(values >= np.log(least))] = np.inf
        best = starts[np.argsort(values)[:kept]]
        points, values = descend(
            lambda points: _values_and_gradients(family, jnp.asarray(points), setting),
            best,
            tolerance=tolerance,
        )
    risks = np.where(values >= np.log(least), np.exp(values), np.inf)
    place = int(np.argmin(risks))
    return Fit(points[place], float(risks[place]))


def risk_at(
    family: AbstractFamily, point: Float[np.ndarray, " numbers"], setting: AbstractSetting
) -> float:
    with on_host():
        return float(np.exp(np.asarray(_values(family, jnp.asarray(point)[None], setting))[0]))


def cold_starts(
    family: AbstractFamily, setting: AbstractSetting
) -> Float[np.ndarray, "starts numbers"]:
    """Every clip scale with each of the family's own starts."""
    weakest = min(1.0, min(1.0, float(setting.rho)) ** 2 / float(setting.gamma) ** 0.5)
    clips = np.log(float(setting.slope_scale) * _CLIPS * min(1.0, 10 * weakest))
    numbers = family.starts(setting)
    return np.concatenate(
        [np.repeat(clips, len(numbers))[:, None], np.tile(numbers, (len(clips), 1))], axis=1
    )


def log_risk(family: AbstractFamily, point, setting: AbstractSetting):
    schedule = family.schedule(point[1:], setting)
    return schedule_log_risk(schedule, point[0], setting, family.clock(setting))


@eqx.filter_jit
def _values(family, points, setting):
    return jax.vmap(lambda point: log_risk(family, point, setting))(points)


@eqx.filter_jit
def _values_and_gradients(family, points, setting):
    def value(point):
        return log_risk(family, point, setting)

    def twice(point):
        found = value(point)
        return found, found

    if points.shape[-1] > _FEW or isinstance(setting, SignalSetting):
        return jax.vmap(jax.value_and_grad(value))(points)
    gradients, values = jax.vmap(jax.jacfwd(twice, has_aux=True))(points)
    return values, gradients


def descend(
    evaluate: Evaluate,
    starts: Float[np.ndarray, "batch size"],
    *,
    most_steps: int = 200,
    tolerance: float = 1e-10,
) -> tuple[Float[np.ndarray, "batch size"], Float[np.ndarray, " batch"]]:
    """Local minima of functions of the logarithms of things: the points, and the values there.

    `evaluate` gives values and gradients row by row, not finite where a point is no good. A descent
    also ends where a full step would promise no larger fall than `tolerance`.
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
        # What fails along the learnt direction tries plain descent once before it ends.
        is_stuck = ~moved | (values >= before[1] - tolerance)
        is_done |= is_stuck & is_fresh
        inverses[is_stuck] = np.eye(size)
        is_fresh = is_stuck
    return points, values


def _finite(values, gradients) -> tuple[np.ndarray, np.ndarray]:
    """Infinite values without a slope where either is not finite."""
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
        points[falls], values[falls], gradients[falls] = (
            tried[falls],
            new_values[falls],
            new_gradients[falls],
        )
        moved |= falls
        is_open = is_open & ~falls
        if not is_open.any():
            break
        share /= 2
    return points, values, gradients, moved


def _learn(inverses, moves, turns, moved):
    """The quasi-Newton update of the inverse matrices that moved along a convex direction."""
    curvature = np.einsum("bi,bi->b", moves, turns)
    for row in np.flatnonzero(moved & (curvature > 1e-14)):
        move, turn, scale = moves[row], turns[row], 1 / curvature[row]
        left = np.eye(len(move)) - scale * np.outer(move, turn)
        inverses[row] = left @ inverses[row] @ left.T + scale * np.outer(move, move)
