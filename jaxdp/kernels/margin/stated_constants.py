"""The constants of a loss on which the privacy of its minimiser rests, looked at on a grid.

Paper: PK Assumption 6, which lets second derivatives jump: the proof in `objective_calibration`
says why they may. PK Assumption 1, that a loss lies in [0, 1], is left out: no convex function
on the line does unless it is constant.
"""

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from jaxdp.losses import AbstractLoss, Softmax

# How far beyond its stated constants rounding may take a loss on the grid.
_ROUNDING = 1e-9
_COMPARED = np.linspace(-16, 16, 513)


def on_host(loss: Any) -> Any:
    """The loss in float64 on the host: float32 would round its bounds down. Others as they are."""
    return loss.on_host() if isinstance(loss, AbstractLoss) else loss


def require_true_constants(loss: AbstractLoss) -> None:
    """Raise unless a loss on the host keeps, on a grid of predictions, what it states.

    A grid finds wrong constants; it proves no right ones. With several outputs only
    `Softmax` itself passes: its calibration is that of this very loss.
    """
    if loss.num_outputs is not None:
        if type(loss) is not Softmax:
            raise TypeError(f"expected Softmax itself, got {type(loss)}")
        return
    for name in ("slope_bound", "curvature_bound"):
        if not 0 < getattr(loss, name) < math.inf:
            raise ValueError(f"expected finite {name} > 0, got {getattr(loss, name)}")
    arguments = _grid(loss)
    for label in loss.class_labels or (0.0,):
        sign = -1.0 if label < 0 else 1.0
        # What a fit calls, whatever a subclass makes of it.
        found = loss.slope(sign * arguments, np.full(arguments.shape, label), xp=np)
        _require_slopes(loss, arguments, sign * np.asarray(found, np.float64))


def compared_slopes(loss: AbstractLoss) -> Float[np.ndarray, " m"]:
    """Slopes by which a loss is told from another of its name; `Softmax` is told by its name."""
    if loss.num_outputs is not None:
        return np.zeros(0)
    length = loss.slope_bound / loss.curvature_bound
    points = np.concatenate([_COMPARED, length * _COMPARED])
    return np.asarray(loss.slope(points, np.ones(points.shape), xp=np), np.float64)


def _grid(loss: AbstractLoss) -> Float[np.ndarray, " m"]:
    """Numbers of every size and sign, and densely near where slopes change."""
    wide = np.geomspace(1e-3, 1e6, 2000)
    # Curvature times length is the slope's range; a corner of a margin stands at 1.
    length = loss.slope_bound / loss.curvature_bound
    corners = length * np.linspace(-4, 4, 4001), 1 + np.linspace(-2, 2, 4001)
    return np.unique(np.concatenate([-wide, [0.0], wide, *corners]))


def _require_slopes(loss: AbstractLoss, arguments: Any, slopes: Any) -> None:
    if slopes.shape != arguments.shape or not np.isfinite(slopes).all():
        raise ValueError("expected loss.slope to give one finite number per prediction")
    room = _ROUNDING * loss.slope_bound
    rises, gaps = np.diff(slopes), np.diff(arguments)
    for is_broken, claim in (
        (np.abs(slopes).max() > loss.slope_bound + room, f"|slope| <= {loss.slope_bound}"),
        (rises.min() < -room, "a convex loss"),
        (
            np.any(rises > loss.curvature_bound * gaps + room),
            f"curvature <= {loss.curvature_bound}",
        ),
        (loss.is_decreasing and slopes.max() > 0, "a decreasing loss"),
    ):
        if is_broken:
            raise ValueError(f"expected {claim}, as {type(loss).__name__} states; it is not")
