r"""Losses of regression: squares of the residual r = f - y, and Huber's, which ends in lines.

Their slopes are lines that clipping cuts off, so that their moments are those of a clipped
Gaussian (`jaxdp.core.numerics.clipped_gaussian`), exact and in closed form, and so are their mean
values.
"""

import functools
import math
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdp.core.arrays import as_float
from jaxdp.core.checks import require_positive
from jaxdp.core.numerics.clipped_gaussian import clipped_mean, clipped_square, inside_probability
from jaxdp.losses.base import AbstractResidualLoss, ClippedSlope
from jaxdp.losses.gaussian.huber import expected_huber


class AbstractSquaredLoss(AbstractResidualLoss):
    r"""The square $\frac c2 (f - y)^2$, c its `curvature_bound`."""

    @property
    def square_curvature(self):
        return self.curvature_bound

    slope_bound: ClassVar[float] = math.inf

    def value_at(self, u, xp):
        return self.curvature_bound * u**2 / 2

    def slope_at(self, u, xp):
        return self.curvature_bound * u

    def curvature_at(self, u, xp):
        return self.curvature_bound * xp.ones_like(u)

    def expected_value_at(self, mean, variance):
        return self.curvature_bound * (mean**2 + variance) / 2

    def clipped_slope_at(self, mean, variance, limit):
        c = self.curvature_bound
        return _of_gaussian(c * mean, c**2 * variance, c, limit)


class Squared(AbstractSquaredLoss):
    r"""The squared loss, $(f - y)^2$, of slope $2(f - y)$: the loss of `DPGD`.

    Example:
        >>> from jaxdp.losses import Squared
        >>> Squared().value(3.0, 1.0), Squared().slope(3.0, 1.0)
        (4.0, 4.0)
    """

    curvature_bound: ClassVar[float] = 2.0


class HalfSquared(AbstractSquaredLoss):
    r"""Half the squared loss, $(f - y)^2/2$, of slope $f - y$: the loss of `LinearRegression`.

    Example:
        >>> from jaxdp.losses import HalfSquared
        >>> HalfSquared().value(3.0, 1.0), HalfSquared().slope(3.0, 1.0)
        (2.0, 2.0)
    """

    curvature_bound: ClassVar[float] = 1.0


class Huber(AbstractResidualLoss):
    r"""Huber's loss, whose slope is the residual $r = f - y$ cut at $\pm w$.

    $r^2/2$ for $|r| \le w$ and $w|r| - w^2/2$ beyond.

    Source: Huber (1964), "Robust estimation of a location parameter".

    Args:
        width: w > 0 and finite.

    Raises:
        ValueError: the width is not positive and finite.

    Example:
        >>> from jaxdp.losses import Huber
        >>> loss = Huber(width=1.0)
        >>> float(loss.value(3.0, 0.0)), float(loss.slope(3.0, 0.0))
        (2.5, 1.0)
    """

    curvature_bound: ClassVar[float] = 1.0

    width: Float[Array, ""] = eqx.field(converter=functools.partial(as_float, name="width"))

    def __check_init__(self):
        require_positive("width", self.width)

    @property
    def slope_bound(self):
        return self.width

    def value_at(self, u, xp):
        # Without a square of the residual, which may overflow.
        slope = self.slope_at(u, xp)
        return slope * (u - slope / 2)

    def slope_at(self, u, xp):
        return xp.clip(u, -self.width, self.width)

    def curvature_at(self, u, xp):
        return xp.where(xp.abs(u) <= self.width, 1.0, 0.0)

    def expected_value_at(self, mean, variance):
        return expected_huber(mean, variance, self.width)

    def clipped_slope_at(self, mean, variance, limit):
        found = _of_gaussian(mean, variance, 1, jnp.minimum(limit, self.width))
        # A slope that the loss itself has cut is not clipped.
        is_clipping = limit < self.width
        clipped = jnp.where(is_clipping, found.clipped, jnp.zeros_like(found.clipped))
        return ClippedSlope(found.mean, found.square, found.derivative, clipped)


def _of_gaussian(mean, variance, steepness, limit) -> ClippedSlope:
    """Moments of a Gaussian slope, cut at a limit, which moves `steepness` times the prediction."""
    inside = inside_probability(mean, variance, limit)
    return ClippedSlope(
        mean=clipped_mean(mean, variance, limit),
        square=clipped_square(mean, variance, limit),
        derivative=steepness * inside,
        clipped=1 - inside,
    )
