r"""Losses that are two lines with a rounded corner: absolute, quantile and hinge.

A corner, where a slope jumps, has no curvature bound, on which the cap of a step and the proof of a
private minimiser rest (PK Assumption 6). So it is rounded on a stretch of half-length w; beyond,
the losses are the absolute, quantile and hinge loss themselves.
"""

import abc
import functools
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.special import ndtr
from jaxtyping import Array, ArrayLike, Float

from jaxdp.core.arrays import as_float
from jaxdp.core.checks import concrete, require_positive, require_scalar
from jaxdp.core.numerics.clipped_gaussian import clipped_mean, clipped_square, inside_probability
from jaxdp.losses.base import (
    AbstractMarginLoss,
    AbstractResidualLoss,
    AbstractUnivariateLoss,
    ClippedSlope,
)
from jaxdp.losses.gaussian.huber import expected_huber


class AbstractRoundedCorner(AbstractUnivariateLoss):
    """The function $c|x| + tx$ of $x = u - u_0$, with $x^2/(2w) + w/2$ for $|x|$ up to w.

    Its slope rises from t - c to t + c on a line of steepness c/w, where a Gaussian u gives a
    clipped Gaussian. w is the `width`, $u_0$ the `corner`, c the `half_rise`, t the `tilt`.
    """

    width: eqx.AbstractVar[Float[Array, ""]]
    corner: eqx.AbstractClassVar[float]
    half_rise: eqx.AbstractClassVar[float]

    def __check_init__(self):
        require_positive("width", self.width)

    @property
    @abc.abstractmethod
    def tilt(self) -> Any:
        """The number t, the slope in the middle of the corner."""

    @property
    def curvature_bound(self):
        return self.half_rise / self.width

    @property
    def slope_bound(self):
        return abs(self.tilt) + self.half_rise

    def value_at(self, u, xp):
        x = u - self.corner
        size = xp.abs(x)
        inside = xp.maximum(self.width - size, 0)
        # What the corner adds to the two lines: on the flat side of a hinge all terms are zero.
        return self.half_rise * (size + inside * (inside / self.width) / 2) + self.tilt * x

    def slope_at(self, u, xp):
        # The difference comes first: u - u0 is exact near the corner, u0 + w would be rounded.
        cut = xp.clip(u - self.corner, -self.width, self.width)
        return cut / self.width * self.half_rise + self.tilt

    def curvature_at(self, u, xp):
        return xp.where(xp.abs(u - self.corner) <= self.width, self.curvature_bound, 0.0)

    def expected_value_at(self, mean, variance):
        mean = mean - self.corner
        modulus = expected_huber(mean, variance, self.width) / self.width + self.width / 2
        return jnp.maximum(self.half_rise * modulus + self.tilt * mean, 0)

    def clipped_slope_at(self, mean, variance, limit):
        steepness = self.curvature_bound
        line, spread = self.tilt + steepness * (mean - self.corner), steepness**2 * variance
        lowest, highest = self.tilt - self.half_rise, self.tilt + self.half_rise
        # A finite limit: derivatives of what is not taken would be infinity times zero.
        limit = jnp.minimum(limit, self.slope_bound)
        low, high = jnp.maximum(lowest, -limit), jnp.minimum(highest, limit)
        # An interval around its own middle is what a clip at both sides of zero knows.
        middle, half = (low + high) / 2, (high - low) / 2
        centred = line - middle, spread, half
        inner, square = clipped_mean(*centred), clipped_square(*centred)
        is_fixed = ~(spread > 0)
        std = jnp.sqrt(jnp.where(is_fixed, 1, spread))

        def beyond(excess):
            return jnp.where(is_fixed, jnp.where(excess > 0, 1.0, 0.0), ndtr(excess / std))

        # A slope that the loss itself has cut is not clipped.
        clipped = jnp.where(limit < highest, beyond(line - limit), 0)
        clipped += jnp.where(-limit > lowest, beyond(-limit - line), 0)
        return ClippedSlope(
            mean=middle + inner,
            square=jnp.maximum(middle**2 + 2 * middle * inner + square, 0),
            derivative=steepness * inside_probability(*centred),
            clipped=clipped,
        )


class SmoothedAbsolute(AbstractRoundedCorner, AbstractResidualLoss):
    r"""The absolute loss $|r|$ of $r = f - y$ with its corner rounded.

    $r^2/(2w) + w/2$ for $|r| \le w$, and $|r|$ beyond. Its minimiser estimates a median.

    Args:
        width: w > 0, half the length of the rounded corner.

    Raises:
        ValueError: the width is not positive and finite.

    Example:
        >>> from jaxdp.losses import SmoothedAbsolute
        >>> loss = SmoothedAbsolute(width=0.5)
        >>> [float(loss.value(f, 0.0)) for f in (-2.0, 0.0, 0.5)], float(loss.curvature_bound)
        ([2.0, 0.25, 0.5], 2.0)
    """

    width: Float[Array, ""] = eqx.field(converter=functools.partial(as_float, name="width"))

    corner: ClassVar[float] = 0.0
    half_rise: ClassVar[float] = 1.0

    tilt: ClassVar[float] = 0.0


class SmoothedQuantile(AbstractRoundedCorner, AbstractResidualLoss):
    r"""The quantile (pinball) loss with its corner rounded.

    $\max(q(y - f), (1 - q)(f - y))$ but for $|f - y| \le w$, where it is
    $r^2/(4w) + w/4 + (\frac12 - q)r$ with $r = f - y$. Its minimiser estimates the q-quantile of a
    label given its input.

    Args:
        level: q in (0, 1); 1/2 is half of `SmoothedAbsolute`.
        width: w > 0, half the length of the rounded corner.

    Raises:
        ValueError: the level is not in (0, 1), or the width not positive and finite.

    Example:
        >>> from jaxdp.losses import SmoothedQuantile
        >>> loss = SmoothedQuantile(level=0.75, width=0.5)
        >>> [float(loss.value(f, 0.0)) for f in (-2.0, 0.0, 2.0)], float(loss.slope_bound)
        ([1.5, 0.125, 0.5], 0.75)
    """

    level: Float[Array, ""]
    width: Float[Array, ""]

    corner: ClassVar[float] = 0.0
    half_rise: ClassVar[float] = 0.5

    def __init__(self, level: ArrayLike, width: ArrayLike):
        self.level, self.width = as_float(level, "level"), as_float(width, "width")
        require_scalar("level", self.level)
        known = concrete(self.level)
        if known is not None and not 0 < known < 1:
            raise ValueError(f"expected 0 < level < 1, got {known}")

    @property
    def tilt(self):
        return 0.5 - self.level


class HuberHinge(AbstractRoundedCorner, AbstractMarginLoss):
    r"""The hinge $\max(0, 1 - m)$ of the margin m = y f with its corner rounded.

    $(1 + w - m)^2/(4w)$ for $|1 - m| \le w$, 0 above and $1 - m$ below. Source: Chaudhuri,
    Monteleoni and Sarwate (2011), the Huber loss.

    Args:
        width: w > 0, half the length of the rounded corner.

    Raises:
        ValueError: the width is not positive and finite.

    Example:
        >>> from jaxdp.losses import HuberHinge
        >>> loss = HuberHinge(width=0.5)
        >>> [float(loss.value(f, 1.0)) for f in (-1.0, 1.0, 2.0)], float(loss.curvature_bound)
        ([2.0, 0.125, 0.0], 1.0)
    """

    width: Float[Array, ""] = eqx.field(converter=functools.partial(as_float, name="width"))

    corner: ClassVar[float] = 1.0
    half_rise: ClassVar[float] = 0.5
    tilt: ClassVar[float] = -0.5
    is_decreasing: ClassVar[bool] = True
