r"""A Gaussian of any mean, clipped at both sides: its mean, and how likely it stays inside.

With X ~ N(m, v), limit k, $a = (k - m)/\sqrt v$, $b = (k + m)/\sqrt v$ and
$G(z) = \int_{-\infty}^z\Phi = z\Phi(z) + \varphi(z)$,

$$ E[\mathrm{clip}(X, \pm k)] = \mathrm{clip}(m, \pm k) - \sqrt v\,\bigl(G(-|a|) - G(-|b|)\bigr),
   \qquad P(|X| < k) = \Phi(a) - \Phi(-b). $$

The mean's form has no large terms that cancel when k is large; where k is small against the
deviation, both are integrals over (0, k), summed by Gauss and Legendre's rule. The variance is the
argument, not the deviation, so that derivatives exist where it is zero.
Derived: integrating tails by parts; test_clipped_gaussian.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

from jaxdp.core.arrays import float_dtype

_ROOT_TWO_PI = math.sqrt(2 * math.pi)
# Below this ratio of limit to deviation the integrals are summed; ten nodes then are exact.
_SMALL_RATIO = 0.5
_NODES, _WEIGHTS = (part / 2 for part in np.polynomial.legendre.leggauss(10))
_NODES = _NODES + 0.5
# Beyond this many deviations every tail is zero to the last bit of float64.
_LARGEST = 40.0


@jax.custom_jvp
def clipped_mean(
    mean: Float[Array, "*shape"], variance: Float[Array, "*shape"], limit: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """The mean of a Gaussian clipped at +-limit; limit >= 0 may be infinite, variance zero."""
    mean, variance, limit = _arrays(mean, variance, limit)
    std, above, below, is_fixed = _standard(mean, variance, limit)
    beyond = std * (_tail_area(jnp.abs(above)) - _tail_area(jnp.abs(below)))
    clipped = jnp.clip(mean, -limit, limit)
    points, width, is_small = _points(std, limit)
    excess = ndtr((mean[..., None] - points) / std[..., None])
    excess -= ndtr((-mean[..., None] - points) / std[..., None])
    summed = width * jnp.sum(excess * _WEIGHTS.astype(std.dtype), axis=-1)
    return jnp.where(is_fixed, clipped, jnp.where(is_small, summed, clipped - beyond))


@clipped_mean.defjvp
def _(primals, tangents):
    mean, variance, limit = _arrays(*primals)
    std, above, below, is_fixed = _standard(mean, variance, limit)
    in_mean = inside_probability(mean, variance, limit)
    in_variance = jnp.where(is_fixed, 0, (_density(below) - _density(above)) / (2 * std))
    above_limit = jnp.where(is_fixed, mean > limit, ndtr(-above))
    below_limit = jnp.where(is_fixed, mean < -limit, ndtr(-below))
    slopes = in_mean, in_variance, above_limit - below_limit
    return clipped_mean(mean, variance, limit), _chain(slopes, tangents, limit)


@jax.custom_jvp
def inside_probability(
    mean: Float[Array, "*shape"], variance: Float[Array, "*shape"], limit: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """P(|X| < limit) of a Gaussian; limit >= 0 may be infinite, variance zero.

    It is the derivative of `clipped_mean` with respect to the mean.
    """
    mean, variance, limit = _arrays(mean, variance, limit)
    std, above, below, is_fixed = _standard(mean, variance, limit)
    points, width, is_small = _points(std, limit)
    density = _density((points - mean[..., None]) / std[..., None])
    density += _density((points + mean[..., None]) / std[..., None])
    summed = width / std * jnp.sum(density * _WEIGHTS.astype(std.dtype), axis=-1)
    # Small tails are subtracted from 1, not large ones from each other.
    direct = jnp.where(
        above * below > 0, 1 - ndtr(-above) - ndtr(-below), jnp.abs(ndtr(above) - ndtr(-below))
    )
    random = jnp.where(is_small, summed, direct)
    return jnp.where(is_fixed, (jnp.abs(mean) < limit).astype(random.dtype), random)


@inside_probability.defjvp
def _(primals, tangents):
    mean, variance, limit = _arrays(*primals)
    std, above, below, is_fixed = _standard(mean, variance, limit)
    at_above, at_below = _density(above), _density(below)
    slopes = (
        (at_below - at_above) / std,
        -(above * at_above + below * at_below) / (2 * std**2),
        (at_above + at_below) / std,
    )
    slopes = (jnp.where(is_fixed, 0, slope) for slope in slopes)
    return inside_probability(mean, variance, limit), _chain(slopes, tangents, limit)


def _arrays(*values):
    return jnp.broadcast_arrays(*(jnp.asarray(value, float_dtype(values)) for value in values))


def _standard(mean, variance, limit):
    """Deviation, the limits' distances in deviations, and where there is no deviation."""
    is_fixed = ~(variance > 0)
    std = jnp.sqrt(jnp.where(is_fixed, 1, variance))
    above = jnp.minimum((limit - mean) / std, _LARGEST)
    below = jnp.minimum((limit + mean) / std, _LARGEST)
    return std, above, below, is_fixed


def _points(std, limit):
    """Nodes between 0 and the limit, its length, and where it is small."""
    is_small = limit < _SMALL_RATIO * std
    width = jnp.where(is_small, limit, _SMALL_RATIO * std)
    return width[..., None] * _NODES.astype(std.dtype), width, is_small


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
