"""The constants of a loss on which the privacy of its minimiser rests, checked on a grid.

PK Assumption 6 lets second derivatives jump; the proof in `objective_calibration` allows that. PK
Assumption 1, that a loss lies in [0, 1], is left out: of convex functions on the line only
constants satisfy it.
"""

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from jaxdp.losses import AbstractLoss, Softmax

# Relative excess over the stated constants that is attributed to rounding.
_ROUNDING = 1e-9
_COMPARED = np.linspace(-16, 16, 513)


def on_host(loss: Any) -> Any:
    """The loss in float64 on the host; float32 would round its bounds down."""
    return loss.on_host() if isinstance(loss, AbstractLoss) else loss


def require_true_constants(loss: AbstractLoss) -> None:
    """Raise unless a loss on the host keeps, on a grid of predictions, the bounds that it states.

    A grid can find wrong constants but proves none. With several outputs only `Softmax` itself
    passes, because its calibration covers that loss alone.
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
        # The method that a fit calls, even if a subclass overrides it.
        found = loss.slope(sign * arguments, np.full(arguments.shape, label), xp=np)
        _require_slopes(loss, arguments, sign * np.asarray(found, np.float64))


def compared_slopes(loss: AbstractLoss) -> Float[np.ndarray, " m"]:
    """Slopes on a grid, which distinguish losses of one class name; none for `Softmax`."""
    if loss.num_outputs is not None:
        return np.zeros(0)
    length = loss.slope_bound / loss.curvature_bound
    points = np.concatenate([_COMPARED, length * _COMPARED])
    return np.asarray(loss.slope(points, np.ones(points.shape), xp=np), np.float64)


def _grid(loss: AbstractLoss) -> Float[np.ndarray, " m"]:
    """Numbers of every size and sign, dense near the places at which slopes change."""
    wide = np.geomspace(1e-3, 1e6, 2000)
    # Curvature times length is the slope's range; margin losses have their corner at 1.
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
