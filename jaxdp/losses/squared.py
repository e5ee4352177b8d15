r"""Losses of regression: the square of the residual r = f - y, and Huber's loss.

Slopes are piecewise linear, so their moments are those of a clipped Gaussian
(`jaxdp.core.numerics.clipped_gaussian`), exact and in closed form, and so are the mean losses.

**The mean of Huber's loss.** With $r \sim N(m, v)$, $s = \sqrt v$, width w, $a = |w - |m||/s$, $b =
(w + |m|)/s$ and $T(z) = E[(x - z)_+^2] = (z^2 + 1)\Phi(-z) - z\varphi(z)$ for a standard normal x,
the loss $H(r) = r^2/2 - (|r| - w)_+^2/2$ has

$$ E[H(r)] = H(m) + \frac v2\,\begin{cases}1 - T(a) - T(b), & |m| < w\\ T(a) - T(b) & \text{else,}
   \end{cases} $$

without cancellation of large terms. If w is small against s, 1 - T(a) - T(b) does cancel, and
$E[H(r)] = \int_0^w E(|r| - t)_+\,dt$ is summed by quadrature instead. Derived: test_expected_value.
"""

import functools
import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

from jaxdp.core.arrays import as_float
from jaxdp.core.checks import require_positive
from jaxdp.core.numerics.clipped_gaussian import clipped_mean, clipped_square, inside_probability
from jaxdp.losses.base import AbstractResidualLoss, ClippedSlope, alike, along_last, deviation_of

_ROOT_TWO_PI = math.sqrt(2 * math.pi)
# Below this ratio of width to deviation the integral is summed; ten nodes then are exact.
_SMALL_RATIO = 0.5
_NODES, _WEIGHTS = (part / 2 for part in np.polynomial.legendre.leggauss(10))
_NODES = _NODES + 0.5
# Beyond this many deviations every tail is zero to the last bit of float64.
_LARGEST = 40.0


@jax.custom_jvp
def _expected(mean, variance, width):
    """The mean of Huber's loss for a residual of this mean and variance >= 0."""
    std, is_fixed = deviation_of(variance)
    size = jnp.abs(mean)
    slope = jnp.minimum(size, width)
    at_mean = slope * (size - slope / 2)
    near, far = jnp.abs(width - size) / std, (width + size) / std
    # Each tail is below one half, so that their difference from 1 keeps its digits.
    excess = jnp.where(size < width, 1 - _square_tail(near), _square_tail(near))
    direct = at_mean + std**2 / 2 * (excess - _square_tail(far))
    nodes, weights = along_last((_NODES, _WEIGHTS), std)
    points = jnp.minimum(width, _SMALL_RATIO * std)[..., None] * nodes
    beyond = _excess(mean[..., None], std[..., None], points)
    summed = width * jnp.sum(beyond * weights, axis=-1)
    random = jnp.where(width < _SMALL_RATIO * std, summed, direct)
    return jnp.where(is_fixed, at_mean, random)


@_expected.defjvp
def _(primals, tangents):
    """The slope's mean, and half the mean of the second derivative."""
    (mean, variance, width), (in_mean, in_variance, in_width) = primals, tangents
    std, is_fixed = deviation_of(variance)
    outside = jnp.where(is_fixed, jax.nn.relu(jnp.abs(mean) - width), _excess(mean, std, width))
    slope = clipped_mean(mean, variance, width) * in_mean
    slope += inside_probability(mean, variance, width) / 2 * in_variance
    return _expected(mean, variance, width), slope + outside * in_width


def _excess(mean, std, level):
    """$E(|r| - t)_+$ for a level t >= 0."""
    return sum(
        jax.nn.relu(sign * mean - level) + std * _tail_area(jnp.abs(sign * mean - level) / std)
        for sign in (1, -1)
    )


def _tail_area(distance):
    """E(x - z)_+ of a standard normal x, z >= 0."""
    distance = jnp.minimum(distance, _LARGEST)
    return jnp.maximum(_density(distance) - distance * ndtr(-distance), 0)


def _square_tail(distance):
    """T(z) for z >= 0."""
    distance = jnp.minimum(distance, _LARGEST)
    tail = (distance**2 + 1) * ndtr(-distance) - distance * _density(distance)
    return jnp.maximum(tail, 0)


def _density(z):
    return jnp.exp(-(z**2) / 2) / _ROOT_TWO_PI


class AbstractSquaredLoss(AbstractResidualLoss):
    r"""The square $\frac c2 (f - y)^2$, with c its `curvature_bound` and `square_curvature`."""

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
    """The squared loss, $(f - y)^2$, of slope $2(f - y)$: the loss of `DPGD`.

    Example:
        >>> from jaxdp.losses import Squared
        >>> Squared().value(3.0, 1.0), Squared().slope(3.0, 1.0)
        (4.0, 4.0)
    """

    curvature_bound: ClassVar[float] = 2.0
    square_curvature: ClassVar[float] = 2.0


class HalfSquared(AbstractSquaredLoss):
    r"""Half the squared loss, $(f - y)^2/2$, of slope $f - y$: the loss of `LinearRegression`.

    Example:
        >>> from jaxdp.losses import HalfSquared
        >>> HalfSquared().value(3.0, 1.0), HalfSquared().slope(3.0, 1.0)
        (2.0, 2.0)
    """

    curvature_bound: ClassVar[float] = 1.0
    square_curvature: ClassVar[float] = 1.0


class Huber(AbstractResidualLoss):
    r"""Huber's loss: $r^2/2$ for residuals $|r| \le w$ and $w|r| - w^2/2$ beyond.

    Its slope is the residual $r = f - y$ clipped at $\pm w$. Source: Huber (1964), "Robust
    estimation of a location parameter".

    Args:
        width: w > 0 and finite.

    Raises:
        ValueError: the width is not positive and finite.

    Example:
        >>> from jaxdp.losses import Huber
        >>> float(Huber(width=1.0).value(3.0, 0.0))
        2.5
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
        return _expected(*alike(mean, variance, self.width))

    def clipped_slope_at(self, mean, variance, limit):
        found = _of_gaussian(mean, variance, 1, jnp.minimum(limit, self.width))
        # A slope that the loss itself bounds does not count as clipped.
        is_clipping = limit < self.width
        clipped = jnp.where(is_clipping, found.clipped, jnp.zeros_like(found.clipped))
        return ClippedSlope(found.mean, found.square, found.derivative, clipped)


def _of_gaussian(mean, variance, steepness, limit) -> ClippedSlope:
    """Moments of a Gaussian slope, `steepness` times the prediction, clipped at a limit."""
    inside = inside_probability(mean, variance, limit)
    return ClippedSlope(
        mean=clipped_mean(mean, variance, limit),
        square=clipped_square(mean, variance, limit),
        derivative=steepness * inside,
        clipped=1 - inside,
    )
