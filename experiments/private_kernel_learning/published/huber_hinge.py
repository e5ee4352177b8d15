"""The loss by which the published objective perturbation is shown not to be private."""

from typing import ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from jaxdp.core.arrays import as_float
from jaxdp.core.checks import NotCoveredError, require_positive
from jaxdp.losses import AbstractMarginLoss


class HuberHinge(AbstractMarginLoss):
    r"""The hinge $\max(0, 1 - m)$ of the margin m = y f with its corner rounded.

    $(1 + w - m)^2/(4w)$ for $|1 - m| \le w$, 0 above and $1 - m$ below. Source: Chaudhuri,
    Monteleoni and Sarwate (2011), the Huber loss.

    Args:
        width: w > 0, half the length of the rounded corner.

    Raises:
        ValueError: the width is not positive and finite.

    Example:
        >>> from experiments.private_kernel_learning.published import HuberHinge
        >>> loss = HuberHinge(width=0.5)
        >>> [float(loss.value(f, 1.0)) for f in (-1.0, 1.0, 2.0)], float(loss.curvature_bound)
        ([2.0, 0.125, 0.0], 1.0)
    """

    slope_bound: ClassVar[float] = 1.0
    is_decreasing: ClassVar[bool] = True

    width: Float[Array, ""] = eqx.field(converter=as_float)

    def __check_init__(self):
        require_positive("width", self.width)

    @property
    def curvature_bound(self):
        return 0.5 / self.width

    def value_at(self, u, xp):
        depth = xp.clip(1 - u, -self.width, self.width)
        return (depth + self.width) ** 2 / (4 * self.width) + xp.maximum(1 - u - self.width, 0)

    def slope_at(self, u, xp):
        # The difference comes first: u - 1 is exact near the corner, 1 + w would be rounded.
        return xp.clip(u - 1, -self.width, self.width) / self.width * 0.5 - 0.5

    def curvature_at(self, u, xp):
        return xp.where(xp.abs(u - 1) <= self.width, self.curvature_bound, 0.0)

    def expected_value_at(self, mean, variance):
        raise NotCoveredError("no theory asks for the mean of this loss")

    def clipped_slope_at(self, mean, variance, limit):
        raise NotCoveredError("no theory asks for the mean slope of this loss")
