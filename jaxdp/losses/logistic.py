r"""The logistic loss of two classes.

The margin is $u \sim N(n, v)$, $s = \sqrt v$. For large s a function of the sigmoid is steep at u =
0 on the scale of s: its singularities are $u = \pm i\pi$. With $u = \pi\sinh\tau$ they are at a
distance $\pi/2$ from the real line for every s, so 48 to 80 Gauss-Legendre nodes suffice.

**The clipped slope.** With $\sigma(-u) = 1/(1 + e^u)$ the size of the slope, clipped at k, clipping
is active below the crossing $c = \ln(1/k - 1)$, so that

$$ E[\min(\sigma(-u), k)] = k\,\Phi\Bigl(\frac{c - n}s\Bigr)
   + \int_{(c - n)/s}^\infty \sigma(-n - sz)\,\varphi(z)\,dz, $$

with squares for the mean square; the mean derivative is minus the same integral of
$\sigma(u)\sigma(-u)$, without the first term. Errors for n from -60 to 60 and k from 1e-6 to 1,
relative to k (for the square, to $k^2$): in float64 below 1e-11 for s <= 8 and 1e-9 for s <= 200,
in float32 below 1e-6. Derived: test_clipped_slope.

**The mean loss**, $E\ln(1 + e^{-u})$. For a large positive mean it is dominated by the far tail:
$\ln(1 + e^{-u})\,\varphi(z)$, with $u = n + sz$, is log-concave, falls faster than $e^{-(z -
z_0)^2/2}$ on both sides of its peak $z_0$, and peaks near $-s$ or u = 0, whichever is nearer to the
mean. The nodes span eight deviations on both sides of that place, so that small losses keep their
relative accuracy. Relative error for n from -60 to 60 and v up to 1e7: in float64 below 1e-9, in
float32 below 1e-6 (2e-6 for losses below 1e-10). Derived: test_expected_value.
"""

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

from jaxdp.losses.base import AbstractMarginLoss, ClippedSlope, alike, along_last, deviation_of

# The normal's mass beyond these deviations is 3e-12 for slopes and 1e-15 for losses.
_SLOPE_DEVIATIONS, _LOSS_DEVIATIONS = 7.0, 8.0
_NUM_LOSS_NODES = 80
# A crossing farther away, in deviations, counts as infinite.
_LARGEST = 40.0
# Beyond this deviation the bend at u = 0 is a point mass, in float64.
_WIDE = 1e3
_ROOT_TWO_PI = math.sqrt(2 * math.pi)


def clipped_sigmoid(
    mean: Float[Array, "*shape"], variance: Float[Array, "*shape"], limit: Float[Array, "*shape"]
) -> ClippedSlope:
    r"""Moments of $\min(\sigma(-u), k)$ for $u \sim N(n, v)$, with minus the mean derivative."""
    return ClippedSlope(*_moments(*alike(mean, variance, limit)))


@jax.custom_jvp
def _moments(mean, variance, limit):
    std, is_fixed = deviation_of(variance)
    level, crossing, distance = _crossing(mean, std, limit)
    size, square, derivative = _beyond(
        lambda u: (_falling(u), _falling(u) ** 2, _bump(u)), mean, std, crossing, is_fixed
    )
    clipped = jnp.where(is_fixed, (mean < crossing).astype(mean.dtype), ndtr(distance))
    clipped = jnp.where(limit < 1, clipped, 0)
    return level * clipped + size, level * (level * clipped) + square, derivative, clipped


@_moments.defjvp
def _(primals, tangents):
    """Derivatives in the variance are half the second ones in the mean."""
    mean, variance, limit = primals
    std, is_fixed = deviation_of(variance)
    level, crossing, distance = _crossing(mean, std, limit)
    found = _moments(*primals)
    _, _, derivative, clipped = found

    def parts(u):
        falling, bump = _falling(u), _bump(u)
        odd = 1 - 2 * falling
        return (
            2 * falling * bump,
            -bump * odd,
            2 * bump * (falling * (2 * falling - 1) - bump),
            bump * (odd**2 - 2 * bump),
        )

    weighted, bent, weighted_bent, twice_bent = _beyond(parts, mean, std, crossing, is_fixed)
    # The density of the margin at the crossing, and what jumps or bends there.
    is_edge = ~is_fixed & (limit < 1) & (limit > 0)
    density = jnp.where(is_edge, jnp.exp(-(distance**2) / 2) / (_ROOT_TWO_PI * std), 0)
    jump = level * (1 - level)
    safe_jump = jnp.where(is_edge, jump, 1)
    derivative_in_mean = bent + jump * density
    weighted_in_mean = weighted_bent + 2 * level * jump * density
    steep = jump * (2 * level - 1)
    derivative_in_variance = twice_bent + density * (jump * distance / std + steep)
    slopes = (
        (-derivative, -derivative_in_mean / 2, clipped),
        (-weighted, -weighted_in_mean / 2, 2 * level * clipped),
        (derivative_in_mean, derivative_in_variance / 2, density),
        (-density, -density * distance / (2 * std), -density / safe_jump),
    )
    in_mean, in_variance, in_limit = tangents
    # A limit at infinity does not move.
    in_limit = jnp.where(limit < 1, in_limit, 0)
    return found, tuple(
        slope[0] * in_mean + slope[1] * in_variance + slope[2] * in_limit for slope in slopes
    )


def _crossing(mean, std, limit):
    """The active limit (else 0), its margin, and the distance of the margin in deviations."""
    crossing = crossing_of(limit)
    distance = jnp.clip((crossing - mean) / std, -_LARGEST, _LARGEST)
    return jnp.where((limit > 0) & (limit < 1), limit, 0), crossing, distance


def crossing_of(limit: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The margin below which a slope is clipped."""
    is_inside = (limit > 0) & (limit < 1)
    level = jnp.where(is_inside, limit, 0.5)
    beyond = jnp.where(limit > 0, -jnp.inf, jnp.inf)
    return jnp.where(is_inside, jnp.log1p(-level) - jnp.log(level), beyond)


def _beyond(functions, mean, std, crossing, is_fixed):
    """Integrals of several functions against the normal density, over margins past the crossing."""
    reach = _SLOPE_DEVIATIONS * std
    upper = arcsinh_step(mean / jnp.pi, reach / jnp.pi)
    lower = arcsinh_step(mean / jnp.pi, jnp.clip(crossing - mean, -reach, reach) / jnp.pi)
    # Nothing lies beyond the crossing of a limit of zero.
    width = jnp.where(crossing == jnp.inf, 0, upper - lower)
    middle, half = upper - width / 2, width / 2
    z, measure = nodes_of_arcsinh(mean, std, middle, half)
    values = functions(mean[..., None] + std[..., None] * z)
    return tuple(
        jnp.where(
            is_fixed, jnp.where(mean > crossing, at_mean, 0), jnp.sum(measure * at_nodes, axis=-1)
        )
        for at_mean, at_nodes in zip(functions(mean), values, strict=True)
    )


def _falling(u):
    """sigma(-u), the size of the slope."""
    return jax.nn.sigmoid(-u)


def _bump(u):
    """sigma(u) sigma(-u), the size of the derivative of the slope."""
    return jax.nn.sigmoid(u) * jax.nn.sigmoid(-u)


@jax.custom_jvp
def _expected(mean, variance):
    r"""$E\ln(1 + e^{-u})$ for $u \sim N(n, v)$."""
    std, is_fixed = deviation_of(variance)
    is_wide = std > _WIDE
    random = jnp.where(is_wide, _of_wide(mean, std), _summed(mean, jnp.minimum(std, _WIDE)))
    return jnp.where(is_fixed, jax.nn.softplus(-mean), random)


@_expected.defjvp
def _(primals, tangents):
    """The derivative in the variance is half the second one in the mean."""
    mean, variance = primals
    in_mean, in_variance = tangents
    found = clipped_sigmoid(mean, variance, jnp.full_like(mean, jnp.inf))
    slope = found.derivative / 2 * in_variance - found.mean * in_mean
    return _expected(mean, variance), slope


def _summed(mean, std):
    peak = -jnp.clip(mean / std, 0, std)
    lower = arcsinh_step(mean / jnp.pi, std * (peak - _LOSS_DEVIATIONS) / jnp.pi)
    upper = arcsinh_step(mean / jnp.pi, std * (peak + _LOSS_DEVIATIONS) / jnp.pi)
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    z, measure = nodes_of_arcsinh(mean, std, middle, half, _NUM_LOSS_NODES)
    values = jax.nn.softplus(-mean[..., None] - std[..., None] * z)
    return jnp.sum(measure * values, axis=-1)


def _of_wide(mean, std):
    r"""$E(-u)_+$, and $\ln(1 + e^{-|u|})$ as a point mass at u = 0 with a second derivative."""
    level = mean / std
    density = jnp.exp(-(level**2) / 2) / _ROOT_TWO_PI
    curved = 7 * math.pi**4 / 360 * (level**2 - 1) / std**2
    return std * (density - level * ndtr(-level)) + density / std * (math.pi**2 / 6 + curved)


def nodes_of_arcsinh(
    mean: Float[Array, "*shape"],
    std: Float[Array, "*shape"],
    middle: Float[Array, "*shape"],
    half: Float[Array, "*shape"],
    num_nodes: int = 48,
) -> tuple[Float[Array, "*shape nodes"], Float[Array, "*shape nodes"]]:
    r"""Deviations z = (u - n)/s of the nodes, and their weights times the normal density.

    `middle` is the midpoint of the range of $\tau$ minus the $\tau$ of the mean (`arcsinh_step`),
    `half` half the range's length.
    """
    start = jnp.arcsinh(mean / jnp.pi)
    nodes, weights = along_last(np.polynomial.legendre.leggauss(num_nodes), half)
    step = middle[..., None] + half[..., None] * nodes
    # A difference of hyperbolic sines as a product, for deviations that are small.
    scale, start = jnp.pi / std[..., None], start[..., None]
    z = 2 * scale * jnp.cosh(start + step / 2) * jnp.sinh(step / 2)
    measure = half[..., None] * weights * scale * jnp.cosh(start + step)
    return z, measure * jnp.exp(-(z**2) / 2) / _ROOT_TWO_PI


def arcsinh_step(
    start: Float[Array, "*shape"], step: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """arcsinh(start + step) - arcsinh(start), accurate for small steps."""
    # No branch depends on a sum, which a compiler may round differently in each place of use.
    sign = jnp.where(start < 0, -1, 1)
    start, step = jnp.abs(start), sign * step
    end = start + step
    root, end_root = jnp.sqrt(1 + start**2), jnp.sqrt(1 + end**2)
    rise = step * (1 + (start + end) / (root + end_root)) / (start + root)
    # Beyond zero the two have opposite signs, and a large step would leave nothing of 1 + rise.
    is_beyond = step < -start
    near = jnp.log1p(jnp.where(is_beyond, 0, rise))
    return sign * jnp.where(is_beyond, jnp.arcsinh(end) - jnp.arcsinh(start), near)


class Logistic(AbstractMarginLoss):
    r"""The logistic loss, $\ln(1 + e^{-yf})$ for labels y = -1 and +1, of slope $-y/(1 + e^{yf})$.

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
        return _expected(*alike(mean, variance))

    def clipped_slope_at(self, mean, variance, limit):
        found = clipped_sigmoid(mean, variance, limit)
        return ClippedSlope(-found.mean, found.square, found.derivative, found.clipped)


def _sigmoid(u, xp):
    return scipy.special.expit(u) if xp is np else jax.nn.sigmoid(u)
