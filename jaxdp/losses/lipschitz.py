"""Losses of a prediction whose slope is bounded and Lipschitz, in float64 NumPy on the host.

A private minimiser (`jaxdp.kernels.PrivateKernelClassifier`, `PrivateKernelRegressor`) rests on
their constants. Paper: PK Assumption 6, which lets second derivatives jump: the proof in
`kernels.margin.objective_calibration` says why they may. PK Assumption 1, that a loss lies in
[0, 1], is left out: no convex function on the line does unless it is constant.
"""

import abc
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from jaxdp.core.description import AbstractDescription

# How far beyond its stated constants rounding may take a loss on the grid of the check.
_ROUNDING = 1e-9


class AbstractLipschitzLoss(AbstractDescription):
    r"""A loss $\ell(y, f)$: non-negative and convex in the prediction f, its slope Lipschitz.

    Source: PK Assumption 6.
    """

    @property
    @abc.abstractmethod
    def num_outputs(self) -> int | None:
        """How many numbers a prediction has, in an axis of their own; None where it is one."""

    @property
    @abc.abstractmethod
    def lipschitz(self) -> float:
        r"""$c_1$: the largest norm of the slope $\partial\ell/\partial f$."""

    @property
    @abc.abstractmethod
    def smoothness(self) -> float:
        r"""$c_2$: the largest second derivative, or its largest eigenvalue, where it exists."""

    @abc.abstractmethod
    def value_at(
        self, predictions: Float[np.ndarray, "n ..."], labels: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        r"""$\ell(y, f)$."""

    @abc.abstractmethod
    def slope_at(
        self, predictions: Float[np.ndarray, "n ..."], labels: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n ..."]:
        r"""$\partial\ell/\partial f$, to a rounding of $(64 + k) \cdot 2^{-53} c_1$ for k outputs.

        Residuals f - y, where the loss is one of them, may be rounded besides.
        """

    @abc.abstractmethod
    def curvature_at(
        self, predictions: Float[np.ndarray, "n ..."], labels: Float[np.ndarray, " n"]
    ) -> Callable[[Float[np.ndarray, "n ..."]], Float[np.ndarray, "n ..."]]:
        r"""Multiplication of small changes of f by $\partial^2\ell/\partial f^2$.

        Where the second derivative jumps, any value in between.
        """


def wide_grid(corners: Float[np.ndarray, " n"]) -> Float[np.ndarray, " m"]:
    """Where a loss is checked: numbers of every size and sign, and densely near its corners."""
    wide = np.geomspace(1e-3, 1e6, 2000)
    return np.unique(np.concatenate([-wide[::-1], [0.0], wide, corners]))


def check_constants(loss: AbstractLipschitzLoss) -> None:
    """Raise ValueError unless the constants that a loss states are positive and finite."""
    for name in ("lipschitz", "smoothness"):
        if not 0 < getattr(loss, name) < math.inf:
            raise ValueError(f"expected finite {name} > 0, got {getattr(loss, name)}")


def check_slopes(
    loss: AbstractLipschitzLoss,
    points: Float[np.ndarray, " m"],
    slopes: Any,
    source: str,
) -> Float[np.ndarray, " m"]:
    """The slopes as an array, after a check of the stated constants on a grid.

    A grid finds wrong constants; it proves no right ones.

    Args:
        loss: of one output, its constants positive and finite (`check_constants`).
        points: ascending; predictions, margins or residuals.
        slopes: of the loss at these points.
        source: which method gave them, for the error.

    Raises:
        ValueError: a slope is not finite, leaves its bound, falls, or rises faster than stated.
    """
    slopes = np.asarray(slopes, np.float64)
    if slopes.shape != points.shape or not np.isfinite(slopes).all():
        raise ValueError(f"expected loss.{source} to give one finite number per point")
    room = _ROUNDING * loss.lipschitz
    rises, gaps = np.diff(slopes), np.diff(points)
    for is_broken, claim in (
        (np.abs(slopes).max() > loss.lipschitz + room, f"|slope| <= {loss.lipschitz}"),
        (rises.min() < -room, "a convex loss"),
        (np.any(rises > loss.smoothness * gaps + room), f"curvature <= {loss.smoothness}"),
    ):
        require_claim(loss, claim, is_broken)
    return slopes


def require_claim(loss: AbstractLipschitzLoss, claim: str, is_broken: Any) -> None:
    """Raise ValueError where a loss does not keep what it states."""
    if is_broken:
        raise ValueError(f"expected {claim}, as {type(loss).__name__} states; it is not")
