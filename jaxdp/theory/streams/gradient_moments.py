r"""The two moments of a sample's clipped and capped gradient, through which data enter the theory.

They are A(R) and N(R) of `jaxdp.theory.streams.modes`, which derives them. Where all inputs have
one scale they are products of the clip's two factors; else each scale has its own clip level, its
own cap and its own residual, and the moments are averages over the scales.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdp.clipping import NormClip
from jaxdp.theory.streams.modes import Modes


class GradientMoments(NamedTuple):
    """What one step's gradients do on average.

    Attributes:
        descent: A, of the capped rate times the scale times the descent factor.
        diffusion: N, times what the step shares of the noise.
        clipped: the probability that a gradient's norm is clipped.
    """

    descent: Float[Array, ""]
    diffusion: Float[Array, ""]
    clipped: Float[Array, ""]


def gradient_moments(
    modes: Modes,
    clip: NormClip,
    risk: Float[Array, ""],
    rates: Float[Array, "*levels"],
    share: Float[Array, ""] | float,
) -> GradientMoments:
    """The moments at a risk.

    Args:
        risk: R.
        rates: as capped, one for each scale of the inputs.
        share: of the gradient's noise in the step's, gamma in continuous time.
    """
    values, weights = modes.levels(risk.dtype)
    second_moment = modes.second_moment(values * risk)
    if modes.loss is None:
        descent, variance = clip.moments(values * second_moment)
        square, clipped = variance * second_moment, 1 - descent
    else:
        # The residual is a centred normal number; |x| is the root of s in units of sqrt(d).
        zero = jnp.zeros_like(second_moment)
        limits = jnp.broadcast_to(clip.scale / values**0.5, zero.shape)
        slope = modes.loss.clipped_slope(zero, second_moment, zero, limits)
        descent, square, clipped = slope.derivative, slope.square, slope.clipped
    pull = weights * values * rates
    push = weights * values * rates**2 * share
    return GradientMoments(
        jnp.sum(pull * descent), jnp.sum(push * square) / 2, jnp.sum(weights * clipped)
    )
