"""The logistic loss of two classes."""

from typing import ClassVar

import jax
import numpy as np
import scipy

from jaxdp.losses.base import AbstractMarginLoss, ClippedSlope
from jaxdp.losses.gaussian.logistic import clipped_sigmoid, expected_softplus


class Logistic(AbstractMarginLoss):
    r"""The logistic loss, $\ln(1 + e^{-yf})$ for labels y = -1 and +1.

    Its slope is $-y/(1 + e^{yf})$. A prediction names the class of its sign; zero names both.

    Example:
        >>> from jaxdp.losses import Logistic
        >>> print(f"{Logistic().value(2.0, 1.0):.3f}, {Logistic().slope(2.0, -1.0):.3f}")
        0.127, 0.881
    """

    curvature_bound: ClassVar[float] = 0.25
    slope_bound: ClassVar[float] = 1.0
    is_decreasing: ClassVar[bool] = True

    def value_at(self, u, xp):
        return xp.logaddexp(0.0, -u)

    def slope_at(self, u, xp):
        return -_sigmoid(-u, xp)

    def curvature_at(self, u, xp):
        return _sigmoid(u, xp) * _sigmoid(-u, xp)

    def expected_value_at(self, mean, variance):
        return expected_softplus(mean, variance)

    def clipped_slope_at(self, mean, variance, limit):
        found = clipped_sigmoid(mean, variance, limit)
        return ClippedSlope(-found.mean, found.square, found.derivative, found.clipped)


def _sigmoid(u, xp):
    return scipy.special.expit(u) if xp is np else jax.nn.sigmoid(u)
