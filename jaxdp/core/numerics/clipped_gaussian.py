r"""A Gaussian of any mean, clipped at both sides: its moments and the chance to stay inside.

With X ~ N(m, v), limit k, $a = (k - m)/\sqrt v$, $b = (k + m)/\sqrt v$ and $G(z) =
\int_{-\infty}^z\Phi = z\Phi(z) + \varphi(z)$,

$$ E[\mathrm{clip}(X, \pm k)] = \mathrm{clip}(m, \pm k) - \sqrt v\,\bigl(G(-|a|) - G(-|b|)\bigr),
   \qquad P(|X| < k) = \Phi(a) - \Phi(-b), $$

and, with $P = P(|X| < k)$,

$$ E[\mathrm{clip}(X, \pm k)^2] = (m^2 + v)P + 2m\sqrt v\,(\varphi(b) - \varphi(a))
   - v\,(a\varphi(a) + b\varphi(b)) + k^2(1 - P). $$

The mean has no large terms that cancel for large k; for k small against the deviation, all are
integrals over (0, k), summed by Gauss and Legendre's rule. The argument is the variance, so that
derivatives exist at zero. Derived: integrating tails by parts; test_clipped_gaussian.

`clipped_powers` has the first four powers of s = clip(X, +-k), which share their exponentials, for
recursions that evaluate them many times a step:

$$ E[s^p] = E[X^p; |X| < k] + k^p\,\bigl(P(X > k) + (-1)^p P(X < -k)\bigr)
   = \int_0^k p\,y^{p-1}\,\bigl(P(X > y) + (-1)^p P(X < -y)\bigr)\,\mathrm dy, $$

by the integral for small k, where the closed form cancels. Derived:
test_powers_agree_with_quadrature.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

from jaxdp.core.arrays import float_dtype

_ROOT_TWO_PI = math.sqrt(2 * math.pi)
# Below this ratio of limit to deviation ten nodes sum the integrals exactly.
_SMALL_RATIO = 0.5
_NODES, _WEIGHTS = (part / 2 for part in np.polynomial.legendre.leggauss(10))
_NODES = _NODES + 0.5
_FEW_NODES, _FEW_WEIGHTS = (part / 2 for part in np.polynomial.legendre.leggauss(6))
_FEW_NODES = _FEW_NODES + 0.5
# Beyond this many deviations every tail is zero to the last bit of float64.
_LARGEST = 40.0


@jax.custom_jvp
def clipped_mean(
    mean: Float[Array, "*shape"], variance: Float[Array, "*shape"], limit: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """The mean of a Gaussian clipped at +-limit; limit >= 0 may be infinite, variance zero."""
    mean, variance, limit, std, above, below, is_fixed = _standard(mean, variance, limit)
    beyond = std * (_tail_area(jnp.abs(above)) - _tail_area(jnp.abs(below)))
    clipped = jnp.clip(mean, -limit, limit)
    points, width, is_small = _points(std, limit)
    excess = ndtr((mean[..., None] - points) / std[..., None])
    excess -= ndtr((-mean[..., None] - points) / std[..., None])
    summed = width * _summed(excess)
    return jnp.where(is_fixed, clipped, jnp.where(is_small, summed, clipped - beyond))


@clipped_mean.defjvp
def _(primals, tangents):
    mean, variance, limit, std, above, below, is_fixed = _standard(*primals)
    in_mean = inside_probability(mean, variance, limit)
    # The heat equation: d/dv is half of d^2/dm^2, the difference of the densities at the limits.
    in_variance = jnp.where(is_fixed, 0, (_density(below) - _density(above)) / (2 * std))
    above_limit = jnp.where(is_fixed, mean > limit, ndtr(-above))
    below_limit = jnp.where(is_fixed, mean < -limit, ndtr(-below))
    slopes = in_mean, in_variance, above_limit - below_limit
    return clipped_mean(mean, variance, limit), _chain(slopes, tangents, limit)


@jax.custom_jvp
def clipped_square(
    mean: Float[Array, "*shape"], variance: Float[Array, "*shape"], limit: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """The mean square of a Gaussian clipped at +-limit; limit >= 0 may be infinite, variance zero.

    Right to the rounding of limit^2 or of the unclipped mean square, whichever is smaller.
    """
    mean, variance, limit, std, above, below, is_fixed = _standard(mean, variance, limit)
    points, width, is_small = _points(std, limit)
    beyond = ndtr((mean[..., None] - points) / std[..., None])
    beyond += ndtr((-mean[..., None] - points) / std[..., None])
    summed = width * _summed(2 * points * beyond)
    at_above, at_below = _density(above), _density(below)
    within = inside_probability(mean, variance, limit)
    direct = (mean**2 + std**2) * within + 2 * mean * std * (at_below - at_above)
    direct -= std**2 * (above * at_above + below * at_below)
    # The product in this order, as the square of a large limit would overflow.
    finite = jnp.where(jnp.isinf(limit), 0, limit)
    direct += finite * (finite * (ndtr(-above) + ndtr(-below)))
    random = jnp.where(is_small, summed, jnp.maximum(direct, 0))
    return jnp.where(is_fixed, jnp.clip(mean, -limit, limit) ** 2, random)


@clipped_square.defjvp
def _(primals, tangents):
    mean, variance, limit, std, above, below, is_fixed = _standard(*primals)
    at_above, at_below = _density(above), _density(below)
    finite = jnp.where(jnp.isinf(limit), 0, limit)
    # The derivative by the mean is twice the mean over the inside.
    outside = jnp.where(is_fixed, mean > limit, ndtr(-above))
    outside -= jnp.where(is_fixed, mean < -limit, ndtr(-below))
    in_mean = 2 * (clipped_mean(mean, variance, limit) - finite * outside)
    spread = jnp.where(is_fixed, 0, finite * (at_above + at_below) / std)
    in_variance = inside_probability(mean, variance, limit) - spread
    slopes = in_mean, in_variance, 2 * finite * _outside(mean, limit, above, below, is_fixed)
    return clipped_square(mean, variance, limit), _chain(slopes, tangents, limit)


@jax.custom_jvp
def inside_probability(
    mean: Float[Array, "*shape"], variance: Float[Array, "*shape"], limit: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """P(|X| < limit) of a Gaussian, the derivative of `clipped_mean` by the mean.

    The limit >= 0 may be infinite, and the variance zero.
    """
    mean, variance, limit, std, above, below, is_fixed = _standard(mean, variance, limit)
    points, width, is_small = _points(std, limit)
    density = _density((points - mean[..., None]) / std[..., None])
    density += _density((points + mean[..., None]) / std[..., None])
    summed = width / std * _summed(density)
    # Small tails are subtracted from 1, not large ones from each other.
    direct = jnp.where(
        above * below > 0, 1 - ndtr(-above) - ndtr(-below), jnp.abs(ndtr(above) - ndtr(-below))
    )
    random = jnp.where(is_small, summed, direct)
    return jnp.where(is_fixed, (jnp.abs(mean) < limit).astype(random.dtype), random)


@inside_probability.defjvp
def _(primals, tangents):
    mean, variance, limit, std, above, below, is_fixed = _standard(*primals)
    at_above, at_below = _density(above), _density(below)
    slopes = (
        (at_below - at_above) / std,
        -(above * at_above + below * at_below) / (2 * std**2),
        (at_above + at_below) / std,
    )
    slopes = (jnp.where(is_fixed, 0, slope) for slope in slopes)
    return inside_probability(mean, variance, limit), _chain(slopes, tangents, limit)


def _standard(*values):
    """The arguments as arrays, the deviation, both limits in deviations, and whether it is zero."""
    dtype = float_dtype(values)
    mean, variance, limit = jnp.broadcast_arrays(*(jnp.asarray(each, dtype) for each in values))
    is_fixed = ~(variance > 0)
    std = jnp.sqrt(jnp.where(is_fixed, 1, variance))
    above = jnp.minimum((limit - mean) / std, _LARGEST)
    below = jnp.minimum((limit + mean) / std, _LARGEST)
    return mean, variance, limit, std, above, below, is_fixed


def _outside(mean, limit, above, below, is_fixed):
    """P(|X| > limit), which 1 - P(|X| < limit) would round to 0 far from the limits."""
    fixed = (jnp.abs(mean) > limit).astype(above.dtype)
    return jnp.where(is_fixed, fixed, ndtr(-above) + ndtr(-below))


def _points(std, limit):
    """Nodes between 0 and a small limit, the interval's length, and whether the limit is small."""
    is_small = limit < _SMALL_RATIO * std
    width = jnp.where(is_small, limit, _SMALL_RATIO * std)
    nodes = lax.broadcast_to_rank(_NODES.astype(std.dtype), width.ndim + 1)
    return width[..., None] * nodes, width, is_small


def _summed(values):
    weights = lax.broadcast_to_rank(_WEIGHTS.astype(values.dtype), values.ndim)
    return jnp.sum(values * weights, axis=-1)


def _density(z):
    return jnp.exp(-(z**2) / 2) / _ROOT_TWO_PI


def _tail_area(distance):
    """G(-z) for z >= 0."""
    distance = jnp.minimum(distance, _LARGEST)
    return jnp.maximum(_density(distance) - distance * ndtr(-distance), 0)


def _chain(slopes, tangents, limit):
    in_mean, in_variance, in_limit = slopes
    mean, variance, width = tangents
    # A limit at infinity does not move.
    moved = jnp.where(jnp.isinf(limit), 0, in_limit) * jnp.where(jnp.isinf(limit), 0, width)
    return in_mean * mean + in_variance * variance + moved


def clipped_powers(
    mean: Float[Array, "*shape"], std: Float[Array, ""], limit: Float[Array, "*shape"]
) -> tuple[Float[Array, "*shape"], ...]:
    """E[s^p] for p = 1, 2, 3, 4, and the probability that X is beyond the limit k > 0."""
    is_fixed = std <= 0
    scale = jnp.where(is_fixed, 1, std)
    above = jnp.clip((limit - mean) / scale, -_LARGEST, _LARGEST)
    below = jnp.clip((limit + mean) / scale, -_LARGEST, _LARGEST)
    over, under = ndtr(-above), ndtr(-below)
    finite = jnp.where(jnp.isinf(limit), 0, limit)
    direct = _powers_inside(mean, scale, finite, above, below, over, under)
    small = jnp.where(limit < _SMALL_RATIO * scale, limit, 0)
    # Most calls have no small limit, and nodes cost several times the rest.
    summed = lax.cond(jnp.any(small > 0), _powers_summed, lambda *_: direct, mean, scale, small)
    fixed = jnp.clip(mean, -limit, limit)
    powers = tuple(
        jnp.where(is_fixed, fixed**power, jnp.where(small > 0, near, far))
        for power, near, far in zip((1, 2, 3, 4), summed, direct, strict=True)
    )
    return *powers, jnp.where(is_fixed, jnp.abs(mean) > limit, over + under)


def _powers_inside(mean, std, limit, above, below, over, under):
    """The closed form of the powers, by the integrals of 1, z, ..., z^4 between the limits."""
    dense_above, dense_below = _density(above), _density(below)
    zero = 1 - over - under
    one = dense_below - dense_above
    two = zero - above * dense_above - below * dense_below
    three = 2 * one - above**2 * dense_above + below**2 * dense_below
    four = 3 * two - above**3 * dense_above - below**3 * dense_below
    return (
        mean * zero + std * one + limit * (over - under),
        mean**2 * zero + 2 * mean * std * one + std**2 * two + limit**2 * (over + under),
        mean**3 * zero
        + 3 * mean * std * (mean * one + std * two)
        + std**3 * three
        + limit**3 * (over - under),
        mean**4 * zero
        + mean * std * (4 * mean**2 * one + 6 * mean * std * two + 4 * std**2 * three)
        + std**4 * four
        + limit**4 * (over + under),
    )


def _powers_summed(mean, std, limit):
    """The powers as integrals of the tails, by nodes between 0 and the limit."""
    totals = [jnp.zeros_like(mean)] * 4
    for node, weight in zip(_FEW_NODES, _FEW_WEIGHTS, strict=True):
        point = limit * float(node)
        over, under = ndtr((mean - point) / std), ndtr((-mean - point) / std)
        for power in (1, 2, 3, 4):
            tails = over + under if power % 2 == 0 else over - under
            totals[power - 1] += float(weight) * power * limit * point ** (power - 1) * tails
    return tuple(totals)
