r"""The first four powers of a Gaussian of any mean, clipped at both sides, on average.

With X ~ N(m, v), limit k and s = clip(X, +-k),

$$ E[s^p] = E[X^p; |X| < k] + k^p\,\bigl(P(X > k) + (-1)^p P(X < -k)\bigr) $$

in closed form. Where k is small against the deviation the terms cancel, and

$$ E[s^p] = \int_0^k p\,y^{p-1}\,\bigl(P(X > y) + (-1)^p P(X < -y)\bigr)\,\mathrm dy $$

is summed by Gauss and Legendre's rule. `clipped_gaussian` has the first two powers to the last
digits and with derivatives; here all four share their exponentials, for recursions that evaluate
them many times a step. Derived: test_clipped_powers.
"""

import math

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

_ROOT_TWO_PI = math.sqrt(2 * math.pi)
# Below this ratio of limit to deviation the integrals are summed.
_SMALL_RATIO = 0.5
_NODES, _WEIGHTS = (part / 2 for part in np.polynomial.legendre.leggauss(6))
_NODES = _NODES + 0.5
# Beyond this many deviations every tail is zero to the last bit of float64.
_LARGEST = 40.0


def clipped_powers(
    mean: Float[Array, "*shape"], std: Float[Array, ""], limit: Float[Array, "*shape"]
) -> tuple[Float[Array, "*shape"], ...]:
    """E[s^p] for p = 1, 2, 3, 4, and the probability that X is beyond the limit.

    Args:
        mean: m.
        std: the square root of v, >= 0.
        limit: k > 0; infinite for no clipping.
    """
    is_fixed = std <= 0
    scale = jnp.where(is_fixed, 1, std)
    above = jnp.clip((limit - mean) / scale, -_LARGEST, _LARGEST)
    below = jnp.clip((limit + mean) / scale, -_LARGEST, _LARGEST)
    over, under = ndtr(-above), ndtr(-below)
    finite = jnp.where(jnp.isinf(limit), 0, limit)
    direct = _direct(mean, scale, finite, above, below, over, under)
    small = jnp.where(limit < _SMALL_RATIO * scale, limit, 0)
    # Most calls have no small limit, and the nodes cost several times the rest.
    summed = lax.cond(jnp.any(small > 0), _summed, lambda *_: direct, mean, scale, small)
    fixed = jnp.clip(mean, -limit, limit)
    powers = tuple(
        jnp.where(is_fixed, fixed**power, jnp.where(small > 0, near, far))
        for power, near, far in zip((1, 2, 3, 4), summed, direct, strict=True)
    )
    return *powers, jnp.where(is_fixed, jnp.abs(mean) > limit, over + under)


def _direct(mean, std, limit, above, below, over, under):
    """From the integrals of 1, z, ..., z^4 over the standardised interval."""
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


def _summed(mean, std, limit):
    """From the tails at nodes between 0 and the limit."""
    totals = [jnp.zeros_like(mean)] * 4
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        point = limit * float(node)
        over, under = ndtr((mean - point) / std), ndtr((-mean - point) / std)
        for power in (1, 2, 3, 4):
            tails = over + under if power % 2 == 0 else over - under
            totals[power - 1] += float(weight) * power * limit * point ** (power - 1) * tails
    return tuple(totals)


def _density(z):
    return jnp.exp(-(z**2) / 2) / _ROOT_TWO_PI
