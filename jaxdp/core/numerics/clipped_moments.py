r"""Moments of a clipped Gaussian, the two numbers through which clipping enters the theory.

With g ~ N(0, 1) and clip_z(g) = g min(1, z/|g|):

- descent factor  $\mu(z) = E[\mathrm{clip}_z(g)\, g] = \mathrm{erf}(z/\sqrt2)$,
- variance factor $\nu(z) = E[\mathrm{clip}_z(g)^2] = z^2\,\mathrm{erfc}(z/\sqrt2) +
  \mathrm{erf}(z/\sqrt2) - \sqrt{2/\pi}\, z e^{-z^2/2}$.

Source: AC Lemma 11, equations (18) to (20), with z = c' = c / sqrt(2 P). The printed difference erf
- z exp cancels for small z; here it is summed as a series, so that float32 keeps its digits.

Speed counts, as the equations evaluate little else. Beyond 1 all comes from one exponential, with
the tail $\mathrm{erfc}(z/\sqrt2) = e^{-z^2/2} h(z)$ and h a polynomial in 1/(z + 3.5); XLA's erf
and erfc are several times slower in float64. Derived: test_moments_keep_their_digits.

Fluctuations of the risk need moments up to the fourth. With s = clip_z(g), $\varphi$ the normal
density and the two integrals inside the clip,

$$ I_2 = E[g^2; |g| \le z] = P(\chi^2_3 \le z^2), \qquad
   I_4 = E[g^4; |g| \le z] = 3 P(\chi^2_5 \le z^2) = 3 I_2 - 2 z^3\varphi(z), $$

Stein's identity gives all others:

$$ E[s^3 g] = 3 I_2, \qquad E[s^2 g^2] = \nu + 2 I_2, \qquad
   E[s^4] = I_4 + z^4\,\mathrm{erfc}(z/\sqrt2). $$

Derived: test_fourth_moments_are_what_clipping_does_to_a_gaussian.
"""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import lax
from jax.scipy.special import erfc
from jaxtyping import Array, Float
from numpy.polynomial import Chebyshev

_SQRT_HALF = math.sqrt(0.5)
_DENSITY = math.sqrt(2 / math.pi)  # twice the standard normal density at 0
# P(|g| <= z) = _DENSITY * z * sum_k (-z^2/2)^k / (k! (2k + 1)).
_WITHIN = [(-0.5) ** k / (math.factorial(k) * (2 * k + 1)) for k in range(16)]
# P(|g| <= z weighted by g^2) = _DENSITY * z^3 * sum_k (-z^2/2)^k / (k! (2k + 3)).
_WEIGHTED = [(-0.5) ** k / (math.factorial(k) * (2 * k + 3)) for k in range(16)]
# P(|g| <= z weighted by g^4) = _DENSITY * z^5 * sum_k (-z^2/2)^k / (k! (2k + 5)).
_FOURTH = [(-0.5) ** k / (math.factorial(k) * (2 * k + 5)) for k in range(16)]
# Both factors are 1 to the last bit of float64 beyond either of the two.
LARGEST_RATIO, _LAST = 40.0, 9.0
_SHIFT = 3.5
# 1/(z + _SHIFT) from 1 to _LAST, stretched to [-1, 1].
_MIDDLE, _HALF = ((1 / (1 + _SHIFT) + sign / (_LAST + _SHIFT)) / 2 for sign in (1, -1))


def _scaled_tail(place: np.ndarray) -> np.ndarray:
    return scipy.special.erfcx(_SQRT_HALF * (1 / (_MIDDLE + _HALF * place) - _SHIFT))


@functools.cache
def _tail_coefficients() -> np.ndarray:
    return Chebyshev.interpolate(_scaled_tail, 14).convert(kind=np.polynomial.Polynomial).coef


@jax.custom_jvp
def descent_factor(ratio: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    r"""$\mu(z)$ for a ratio z >= 0 of clip level to standard deviation; 1 at z = inf.

    Source: AC (18). Relative error below 1e-6 in float32 and 1e-14 in float64.
    """
    square = jnp.minimum(ratio, 1.0) ** 2
    series = _DENSITY * jnp.minimum(ratio, 1.0) * _horner(_WITHIN, square)
    return jnp.where(ratio < 1, series, 1 - _beyond_one(ratio)[1])


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
    below = jnp.minimum(ratio, 1.0)
    square = below**2
    inner = below * _DENSITY * square * _horner(_WEIGHTED, square)
    inner += square * (1 - below * _DENSITY * _horner(_WITHIN, square))
    density, tail = _beyond_one(ratio)
    last = jnp.clip(ratio, 1.0, _LAST)
    return jnp.where(ratio < 1, inner, 1 + (last**2 - 1) * tail - _DENSITY * last * density)


@variance_factor.defjvp
def _(primals, tangents):
    (ratio,), (tangent,) = primals, tangents
    ratio_below = jnp.minimum(ratio, LARGEST_RATIO)
    slope = 2 * ratio_below * erfc(ratio_below * _SQRT_HALF)
    return variance_factor(ratio), slope * tangent


class JointMoments(NamedTuple):
    """Moments of a standard normal g and of s, which is g clipped at +-z."""

    descent: Float[Array, "*shape"]  # E[s g], the descent factor
    square: Float[Array, "*shape"]  # E[s^2], the variance factor
    square_square: Float[Array, "*shape"]  # E[s^2 g^2]
    cube_first: Float[Array, "*shape"]  # E[s^3 g]
    fourth: Float[Array, "*shape"]  # E[s^4]


def joint_moments(ratio: Float[Array, "*shape"]) -> JointMoments:
    """The moments for a finite ratio z >= 0 of clip level to standard deviation.

    Relative errors are below 1e-5 in float32 and 1e-13 in float64 for z from 1e-5 to 40.
    """
    square = variance_factor(ratio)
    second, fourth = _inside(ratio)
    return JointMoments(
        descent=descent_factor(ratio),
        square=square,
        square_square=square + 2 * second,
        cube_first=3 * second,
        fourth=fourth + ratio**4 * erfc(ratio * _SQRT_HALF),
    )


def _inside(ratio):
    """I_2 and I_4; below 1, where the differences cancel, as series."""
    below, above = jnp.minimum(ratio, 1.0), jnp.maximum(ratio, 1.0)
    series = below**3 * _DENSITY * _horner(_WEIGHTED, below**2)
    density = _DENSITY * jnp.exp(-(above**2) / 2)
    direct = 1 - erfc(above * _SQRT_HALF) - above * density
    fourth_series = below**5 * _DENSITY * _horner(_FOURTH, below**2)
    direct_fourth = 3 * direct - above**3 * density
    return jnp.where(ratio < 1, series, direct), jnp.where(ratio < 1, fourth_series, direct_fourth)


def _beyond_one(ratio):
    """$e^{-z^2/2}$ and $P(|g| > z)$ for z >= 1, taken at 1 below it."""
    ratio = jnp.clip(ratio, 1.0, _LAST)
    density = jnp.exp(-(ratio**2) / 2)
    place = (1 / (ratio + _SHIFT) - _MIDDLE) / _HALF
    return density, density * _horner(_tail_coefficients(), place)


def _horner(
    coefficients: Sequence[float] | np.ndarray, argument: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    value = jnp.full_like(argument, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        # JAX traces operations of `lax` in a third of the time of those of `jax.numpy`, and these
        # are a third of all that a short command traces.
        value = lax.add(lax.mul(value, argument), np.asarray(coefficient, value.dtype))
    return value
