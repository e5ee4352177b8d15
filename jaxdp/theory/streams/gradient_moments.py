r"""The two moments of a sample's clipped and capped gradient, through which data enter the theory.

They are A(R) and N(R) of `jaxdp.theory.streams.modes`, which derives them. Where all inputs have
one scale they are products of the clip's two factors; else each scale has its own clip level, its
own cap and its own residual, and the moments are averages over the scales.
"""

from typing import NamedTuple

import equinox as eqx
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
    cut, is_clipping = clip, True
    if modes.slope_bound is not None:
        # The residual is cut at c/sqrt(s), or before it by the loss: both times sqrt(s).
        own_cut = modes.slope_bound * values**0.5
        is_clipping = clip.scale < own_cut
        cut = eqx.tree_at(lambda clip: clip.scale, clip, jnp.minimum(clip.scale, own_cut))
    descent, variance = cut.moments(values * second_moment)
    pull = weights * values * rates
    push = weights * values * rates**2 * share
    return GradientMoments(
        jnp.sum(pull * descent),
        jnp.sum(push * variance * second_moment) / 2,
        jnp.sum(weights * jnp.where(is_clipping, 1 - descent, 0)),
    )
