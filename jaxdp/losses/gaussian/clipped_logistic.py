r"""Moments of the clipped slope of the logistic loss where the prediction is Gaussian.

With the margin $u \sim N(n, v)$, $s = \sqrt v$, and $\sigma(-u) = 1/(1 + e^u)$ the size of the
slope, clipped at k, the clip bites below the crossing $c = \ln(1/k - 1)$, so that

$$ E[\min(\sigma(-u), k)] = k\,\Phi\Bigl(\frac{c - n}s\Bigr)
   + \int_{(c - n)/s}^\infty \sigma(-n - sz)\,\varphi(z)\,dz, $$

and likewise for the square; the mean derivative is minus the same integral of
$\sigma(u)\sigma(-u)$, without the first term. Beyond the crossing everything is smooth, but for
large s the integrand turns steeply where u = 0, which the nodes of
`jaxdp.losses.gaussian.arcsinh_rule` follow, over seven deviations.

Errors, measured for n from -60 to 60 and k from 1e-6 to 1, relative to k (the square's to its
square): in float64 below 1e-11 for s <= 8 and 1e-9 for s <= 200, in float32 below 1e-6.
Derived: test_clipped_slope.
"""

import math

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

from jaxdp.core.arrays import float_dtype
from jaxdp.losses.base import ClippedSlope
from jaxdp.losses.gaussian.arcsinh_rule import arcsinh_step, nodes_of_arcsinh

# The normal's mass beyond so many deviations is 3e-12.
_DEVIATIONS = 7.0
# A crossing farther away, in deviations, is at infinity.
_LARGEST = 40.0
_ROOT_TWO_PI = math.sqrt(2 * math.pi)


def clipped_sigmoid(
    mean: Float[Array, "*shape"], variance: Float[Array, "*shape"], limit: Float[Array, "*shape"]
) -> ClippedSlope:
    r"""Moments of $\min(\sigma(-u), k)$ for $u \sim N(n, v)$, but minus the mean derivative.

    Args:
        mean: n.
        variance: v >= 0.
        limit: k >= 0, may be infinite.
    """
    dtype = float_dtype((mean, variance, limit))
    arguments = (jnp.asarray(value, dtype) for value in (mean, variance, limit))
    return ClippedSlope(*_moments(*jnp.broadcast_arrays(*arguments)))


@jax.custom_jvp
def _moments(mean, variance, limit):
    std, is_fixed = _deviation(variance)
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
    std, is_fixed = _deviation(variance)
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


def _deviation(variance):
    is_fixed = ~(variance > 0)
    return jnp.sqrt(jnp.where(is_fixed, 1, variance)), is_fixed


def _crossing(mean, std, limit):
    """The limit where it bites, the margin at which it does, and its distance in deviations."""
    is_inside = (limit > 0) & (limit < 1)
    level = jnp.where(is_inside, limit, 0.5)
    crossing = jnp.log1p(-level) - jnp.log(level)
    crossing = jnp.where(is_inside, crossing, jnp.where(limit > 0, -jnp.inf, jnp.inf))
    distance = jnp.clip((crossing - mean) / std, -_LARGEST, _LARGEST)
    return jnp.where(is_inside, limit, 0), crossing, distance


def _beyond(functions, mean, std, crossing, is_fixed):
    """Integrals of several functions against the normal density, over margins past the crossing."""
    reach = _DEVIATIONS * std
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
