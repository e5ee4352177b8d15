"""Every loss of one output, with its formulas in literal NumPy: the table of the contracts."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from scipy.special import expit

from jaxdp import losses


class Entry(NamedTuple):
    """A loss as a function of one number u: its margin, or else its residual."""

    loss: Any
    value: Callable
    slope: Callable
    bends: tuple[float, ...] = ()
    is_margin: bool = False

    @property
    def labels(self):
        return (-1.0, 1.0) if self.is_margin else (-1.5, 0.0, 2.0)

    def argument(self, prediction, label):
        """u, and its derivative in the prediction."""
        return (label * prediction, label) if self.is_margin else (prediction - label, 1.0)

    def value_of(self, prediction, label):
        return self.value(self.argument(prediction, label)[0])

    def slope_of(self, prediction, label):
        u, sign = self.argument(prediction, label)
        return sign * self.slope(u)


class ShiftedSquare(losses.AbstractResidualLoss):
    """A user's own loss, (r + s)^2 / 2 of the residual r: its slope is not odd."""

    shift: float = eqx.field(static=True)
    curvature_bound, slope_bound = 1.0, np.inf

    def value_at(self, u, xp):
        return (u + self.shift) ** 2 / 2

    def slope_at(self, u, xp):
        return u + self.shift

    def curvature_at(self, u, xp):
        return xp.ones_like(u)

    def expected_value_at(self, mean, variance):
        return losses.HalfSquared().expected_value_at(mean + self.shift, variance)

    def clipped_slope_at(self, mean, variance, limit):
        return losses.HalfSquared().clipped_slope_at(mean + self.shift, variance, limit)


SCALAR = {
    "squared": Entry(losses.Squared(), lambda u: u**2, lambda u: 2 * u),
    "half squared": Entry(losses.HalfSquared(), lambda u: u**2 / 2, lambda u: u),
    "Huber": Entry(
        losses.Huber(0.625),
        lambda u: np.where(np.abs(u) < 0.625, u**2 / 2, 0.625 * (np.abs(u) - 0.3125)),
        lambda u: np.clip(u, -0.625, 0.625),
        (-0.625, 0.625),
    ),
    "shifted": Entry(ShiftedSquare(0.375), lambda u: (u + 0.375) ** 2 / 2, lambda u: u + 0.375),
    "logistic": Entry(
        losses.Logistic(), lambda u: np.logaddexp(0, -u), lambda u: -expit(-u), is_margin=True
    ),
}
# With slopes that are bounded, as certified minimisers need them.
BOUNDED = {name: entry for name, entry in SCALAR.items() if np.isfinite(entry.loss.slope_bound)}
