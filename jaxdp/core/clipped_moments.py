r"""Moments of a clipped Gaussian, the two numbers through which clipping enters the theory.

With g ~ N(0, 1) and clip_z(g) = g min(1, z/|g|):

- descent factor  $\mu(z) = E[\mathrm{clip}_z(g)\, g] = \mathrm{erf}(z/\sqrt2)$,
- variance factor $\nu(z) = E[\mathrm{clip}_z(g)^2]
  = z^2\,\mathrm{erfc}(z/\sqrt2) + \mathrm{erf}(z/\sqrt2) - \sqrt{2/\pi}\, z e^{-z^2/2}$.

Source: AC Lemma 11, equations (18) to (20), with z = c' = c / sqrt(2 P). The printed difference
erf - z exp cancels for small z; here it is summed as a series, so that float32 keeps its digits.
"""

import math

import jax
import jax.numpy as jnp
from jax.scipy.special import erf, erfc
from jaxtyping import Array, Float

_SQRT_HALF = math.sqrt(0.5)
_DENSITY = math.sqrt(2 / math.pi)  # twice the standard normal density at 0
# P(|g| <= z weighted by g^2) = _DENSITY * z^3 * sum_k (-z^2/2)^k / (k! (2k + 3)).
_SERIES = [(-0.5) ** k / (math.factorial(k) * (2 * k + 3)) for k in range(16)]
# Beyond this both factors are 1 to the last bit of float64.
LARGEST_RATIO = 40.0


@jax.custom_jvp
def descent_factor(ratio: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    r"""$\mu(z)$ for a ratio z >= 0 of clip level to standard deviation; 1 at z = inf.

    Source: AC (18). Relative error below 1e-6 in float32 and 1e-14 in float64.
    """
    return erf(ratio * _SQRT_HALF)


@descent_factor.defjvp
def _(primals, tangents):
    (ratio,), (tangent,) = primals, tangents
    return descent_factor(ratio), _DENSITY * jnp.exp(-(ratio**2) / 2) * tangent


@jax.custom_jvp
def variance_factor(ratio: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    r"""$\nu(z)$ for a ratio z >= 0 of clip level to standard deviation; 1 at z = inf.

    Source: AC (19) and (20), in the stable form of this module. Relative error below 5e-6 in
    float32 and 1e-14 in float64 for z from 1e-6 to 1e3.
    """
    ratio = jnp.minimum(ratio, LARGEST_RATIO)
    square = ratio**2
    below_one = jnp.minimum(square, 1.0)
    series = jnp.zeros_like(square)
    for coefficient in reversed(_SERIES):
        series = series * below_one + coefficient
    direct = erf(ratio * _SQRT_HALF) - _DENSITY * ratio * jnp.exp(-square / 2)
    within = jnp.where(ratio < 1, _DENSITY * series * square * ratio, direct)
    return square * erfc(ratio * _SQRT_HALF) + within


@variance_factor.defjvp
def _(primals, tangents):
    (ratio,), (tangent,) = primals, tangents
    ratio_below = jnp.minimum(ratio, LARGEST_RATIO)
    slope = 2 * ratio_below * erfc(ratio_below * _SQRT_HALF)
    return variance_factor(ratio), slope * tangent
