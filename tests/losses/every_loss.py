"""Every loss of one output, with its formulas in literal NumPy: the table of the contracts."""

from collections.abc import Callable
from typing import Any, NamedTuple

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


def _pinball(u):
    inside = u**2 / 2 + 0.125 - 0.375 * u
    return np.where(np.abs(u) < 0.5, inside, np.maximum(-0.875 * u, 0.125 * u))


def _hinge(u):
    return np.where(np.abs(1 - u) < 0.5, (1.5 - u) ** 2 / 2, np.maximum(1 - u, 0))


SCALAR = {
    "squared": Entry(losses.Squared(), lambda u: u**2, lambda u: 2 * u),
    "half squared": Entry(losses.HalfSquared(), lambda u: u**2 / 2, lambda u: u),
    "Huber": Entry(
        losses.Huber(0.625),
        lambda u: np.where(np.abs(u) < 0.625, u**2 / 2, 0.625 * (np.abs(u) - 0.3125)),
        lambda u: np.clip(u, -0.625, 0.625),
        (-0.625, 0.625),
    ),
    "absolute": Entry(
        losses.SmoothedAbsolute(0.25),
        lambda u: np.where(np.abs(u) < 0.25, 2 * u**2 + 0.125, np.abs(u)),
        lambda u: np.clip(4 * u, -1, 1),
        (-0.25, 0.25),
    ),
    "quantile": Entry(
        losses.SmoothedQuantile(0.875, 0.5),
        _pinball,
        lambda u: np.clip(u - 0.375, -0.875, 0.125),
        (-0.5, 0.5),
    ),
    "logistic": Entry(
        losses.Logistic(), lambda u: np.logaddexp(0, -u), lambda u: -expit(-u), is_margin=True
    ),
    "hinge": Entry(
        losses.HuberHinge(0.5), _hinge, lambda u: -np.clip(1.5 - u, 0, 1), (0.5, 1.5), True
    ),
}
# With slopes that are bounded, as certified minimisers need them.
BOUNDED = {name: entry for name, entry in SCALAR.items() if np.isfinite(entry.loss.slope_bound)}
