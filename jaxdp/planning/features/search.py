"""The search for learning rate and clip norm at given steps and batches: a grid, then L-BFGS-B.

In the logarithms the loss is a curved valley, since more clipping compensates a larger rate.
"""

import itertools
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import scipy

_TOLERANCE = 1e-6  # relative; predictions in float32 are hardly more precise
_MOST_STEPS = 25
_SQUARE = (0, 0), (-1, 0), (1, 0), (0, -1), (0, 1), (-1, 1), (1, -1)
_MOST_SQUARES = 3
_ALONG_LIMIT = 0.5, 0.15, 0.05  # half sides of squares along a limit of stability
_NEAR = 0.9  # share of the largest rate from which a point counts as at the limit


class Point(NamedTuple):
    """Logarithms of a learning rate and a clip norm, and the predicted risk."""

    log_rate: float
    log_clip_norm: float
    risk: float
    is_stable: bool  # whether the prediction is within the limits of stability


class Evaluation(NamedTuple):
    """A point and the gradient of its risk."""

    point: Point
    gradient: np.ndarray


def grid(*, rate: float, clip_norm: float) -> list[tuple[float, float]]:
    """Logarithms of rates up to the largest, and of clip norms around one, as starts."""
    rates = rate * np.asarray([0.005, 0.03, 0.12, 0.4, 0.95])
    clips = clip_norm * np.asarray([0.01, 0.05, 0.2, 0.6, 1.5])
    return list(itertools.product(np.log(rates), np.log(clips)))


def around(point: Point) -> list[tuple[float, float]]:
    """A point and its neighbours at a factor of 3."""
    steps = np.log(3.0) * np.asarray([0, -1, 1])
    return [(point.log_rate + a, point.log_clip_norm + b) for a in steps for b in steps]


def best_point(
    evaluate: Callable[[tuple[float, float]], Evaluation],
    starts: Iterable[tuple[float, float]],
    *,
    log_rates: tuple[float, float],
    log_clip_norms: tuple[float, float],
) -> Point | None:
    """The stable point of least risk that L-BFGS-B finds from the best start, or None.

    If unstable points have less, squares follow the limit of stability.
    """
    seen: list[Point] = []
    bounds = log_rates, log_clip_norms

    def look(start):
        found = evaluate((float(start[0]), float(start[1])))
        seen.append(found.point)
        return found

    low, high = zip(*bounds, strict=True)
    for start in sorted({tuple(np.clip(start, low, high).tolist()) for start in starts}):
        look(start)
    first = _best(seen)
    if first is None:
        return None

    def risk(place):
        found = look(place)
        value, gradient = found.point.risk, np.asarray(found.gradient, np.float64)
        # The line search turns back if a prediction diverges.
        if not (math.isfinite(value) and np.all(np.isfinite(gradient))):
            return 1e30, np.zeros(2)
        # Tolerances are relative to 1. Errors may round to 0 or less.
        scale = max(first.risk, 1e-6)
        return value / scale, gradient / scale

    scipy.optimize.minimize(
        risk,
        np.asarray(first[:2]),
        jac=True,
        bounds=bounds,
        method="L-BFGS-B",
        options={"maxiter": _MOST_STEPS, "ftol": _TOLERANCE, "gtol": 1e-4},
    )
    best = _best(seen) or first
    if all(one.risk >= best.risk for one in seen if math.isfinite(one.risk)):
        return best
    # Gradients lead out of the stable rates and not along their limit.
    return best_of_values(
        lambda place: evaluate(place).point,
        [best[:2]],
        widths=_ALONG_LIMIT,
        log_rates=log_rates,
        log_clip_norms=log_clip_norms,
    )


def best_of_values(
    value: Callable[[tuple[float, float]], Point],
    starts: Iterable[tuple[float, float]],
    *,
    widths: Iterable[float],
    log_rates: tuple[float, float],
    log_clip_norms: tuple[float, float],
) -> Point | None:
    """The stable point of least risk that quadratic functions through squares find, or None."""
    low, high = np.asarray([log_rates, log_clip_norms]).T
    seen: dict[tuple[float, float], Point] = {}

    def look(places):
        new = {tuple(np.clip(place, low, high).round(9).tolist()) for place in places}
        seen.update({place: value(place) for place in sorted(new - seen.keys())})
        return _best(seen.values())

    best = look(starts)
    for width in widths:
        for _ in range(_MOST_SQUARES):
            if best is None:
                return None
            center = np.asarray(best[:2])
            best = look(center + width * np.asarray(_SQUARE)) or best
            if np.allclose(center, best[:2]):
                break
        if best is not None:
            best = look([_floor(list(seen.values()), best, width)])
    return best


def is_held_back(
    value: Callable[[tuple[float, float]], Point], point: Point, log_rates: tuple[float, float]
) -> bool:
    """Whether a slightly larger rate is out of bounds or not stable."""
    log_rate = point.log_rate - math.log(_NEAR)
    return log_rate > log_rates[1] or not value((log_rate, point.log_clip_norm)).is_stable


def _floor(seen: list[Point], best: Point, width: float) -> tuple[float, float]:
    """The minimum of a quadratic function through the points near the best one."""
    offsets = np.asarray([one[:2] for one in seen]) - best[:2]
    risks = np.asarray([one.risk if one.is_stable else np.inf for one in seen])
    near = np.isfinite(risks) & (np.abs(offsets) < 1.01 * width).all(axis=1)
    if near.sum() < 6:
        return best[:2]
    # Points of high risk say less about the minimum.
    weights = best.risk / risks[near]
    logs = -np.log(weights)
    fitted = np.linalg.lstsq(weights[:, None] * _terms(offsets[near]), weights * logs)[0]
    grid = np.linspace(-width, width, 41)
    places = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    found = places[np.argmin(_terms(places) @ fitted)] + best[:2]
    return float(found[0]), float(found[1])


def _terms(places):
    x, y = places.T
    return np.stack([np.ones_like(x), x, y, x * x, x * y, y * y], axis=1)


def _best(seen: Iterable[Point]) -> Point | None:
    stable = [one for one in seen if one.is_stable and math.isfinite(one.risk)]
    return min(stable, key=lambda one: one.risk, default=None)
