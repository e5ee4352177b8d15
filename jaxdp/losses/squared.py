r"""Losses of regression: squares of the residual r = f - y, and Huber's, which ends in lines.

Their slopes are lines that clipping cuts off, so that their moments are those of a clipped
Gaussian (`jaxdp.core.numerics.clipped_gaussian`), exact and in closed form, and so are their mean
values.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdp.core.arrays import as_float
from jaxdp.core.checks import require_positive
from jaxdp.core.numerics.clipped_gaussian import clipped_mean, clipped_square, inside_probability
from jaxdp.losses.base import AbstractScalarLoss, ClippedSlope
from jaxdp.losses.gaussian.expected_huber import expected_huber
from jaxdp.losses.labels import require_real_labels
from jaxdp.losses.residual import AbstractResidualLoss


class Squared(AbstractScalarLoss):
    r"""The squared loss, $(f - y)^2$, of slope $2(f - y)$: the loss of `DPGD`.

    Example:
        >>> from jaxdp.losses import Squared
        >>> Squared().value(3.0, 1.0), Squared().slope(3.0, 1.0)
        (4.0, 4.0)
    """

    @property
    def curvature_bound(self):
        return 2.0

    @property
    def slope_bound(self):
        return jnp.inf

    def value(self, prediction, label):
        return (prediction - label) ** 2

    def slope(self, prediction, label):
        return 2 * (prediction - label)

    def clipped_slope(self, mean, variance, label, limit):
        return _of_gaussian(self.slope(mean, label), 4 * variance, 2, limit)

    def expected_value(self, mean, variance, label):
        return (mean - label) ** 2 + variance

    def require_labels(self, name, labels):
        require_real_labels(name, labels)


class HalfSquared(AbstractScalarLoss):
    r"""Half the squared loss, $(f - y)^2/2$, of slope $f - y$: the loss of `LinearRegression`.

    Example:
        >>> from jaxdp.losses import HalfSquared
        >>> HalfSquared().value(3.0, 1.0), HalfSquared().slope(3.0, 1.0)
        (2.0, 2.0)
    """

    @property
    def curvature_bound(self):
        return 1.0

    @property
    def slope_bound(self):
        return jnp.inf

    def value(self, prediction, label):
        return (prediction - label) ** 2 / 2

    def slope(self, prediction, label):
        return prediction - label

    def clipped_slope(self, mean, variance, label, limit):
        return _of_gaussian(self.slope(mean, label), variance, 1, limit)

    def expected_value(self, mean, variance, label):
        return ((mean - label) ** 2 + variance) / 2

    def require_labels(self, name, labels):
        require_real_labels(name, labels)


class Huber(AbstractScalarLoss, AbstractResidualLoss):
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

    width: Float[Array, ""] = eqx.field(converter=lambda value: as_float(value, "width"))

    def __check_init__(self):
        require_positive("width", self.width)

    @property
    def curvature_bound(self):
        return 1.0

    @property
    def slope_bound(self):
        return self.width

    def value(self, prediction, label):
        # Without a square of the residual, which may overflow.
        slope = self.slope(prediction, label)
        return slope * (prediction - label - slope / 2)

    def slope(self, prediction, label):
        return jnp.clip(prediction - label, -self.width, self.width)

    def clipped_slope(self, mean, variance, label, limit):
        found = _of_gaussian(mean - label, variance, 1, jnp.minimum(limit, self.width))
        # A slope that the loss itself has cut is not clipped.
        is_clipping = limit < self.width
        clipped = jnp.where(is_clipping, found.clipped, jnp.zeros_like(found.clipped))
        return ClippedSlope(found.mean, found.square, found.derivative, clipped)

    def expected_value(self, mean, variance, label):
        return expected_huber(mean - label, variance, self.width)

    def require_labels(self, name, labels):
        require_real_labels(name, labels)

    @property
    def lipschitz(self):
        return float(self.width)

    @property
    def smoothness(self):
        return 1.0

    def value_of_residual(self, residuals):
        slopes = self.slope_of_residual(residuals)
        return slopes * (residuals - slopes / 2)

    def slope_of_residual(self, residuals):
        return np.clip(residuals, -self.lipschitz, self.lipschitz)

    def curvature_of_residual(self, residuals):
        return np.where(np.abs(residuals) <= self.lipschitz, 1.0, 0.0)


def _of_gaussian(mean, variance, steepness, limit) -> ClippedSlope:
    """Moments of a Gaussian slope, cut at a limit, which moves `steepness` times the prediction."""
    inside = inside_probability(mean, variance, limit)
    return ClippedSlope(
        mean=clipped_mean(mean, variance, limit),
        square=clipped_square(mean, variance, limit),
        derivative=steepness * inside,
        clipped=1 - inside,
    )
