"""Clipping of a gradient by its norm, with the Gaussian moments that theory needs of it."""

import functools

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdp.core.arrays import as_float
from jaxdp.core.checks import require_positive
from jaxdp.core.description import AbstractDescription
from jaxdp.core.numerics.clipped_moments import (
    LARGEST_RATIO,
    JointMoments,
    descent_factor,
    joint_moments,
    variance_factor,
)


def clip_factor(
    norm: Float[Array, "*#batch"], clip_norm: Float[Array, "*#batch"]
) -> Float[Array, "*#batch"]:
    r"""$\min(1, C / \|g\|)$; 1 for a zero gradient, 0 where float32 has too few digits for it."""
    clipped = norm > clip_norm
    factor = jnp.where(clipped, clip_norm / jnp.where(clipped, norm, 1), 1)
    return jnp.where(factor < jnp.finfo(factor.dtype).tiny, 0, factor)


class NormClip(AbstractDescription):
    r"""Clip the norm of a gradient in dimension d at $C = c\sqrt d$.

    Source: AC Algorithm 1 (clip) and Assumption 2 (scaling of C).

    Args:
        scale: c, in units of the residual (a gradient x r has norm about $\sqrt d\,|r|$); > 0,
            infinite for no clipping.

    Example:
        >>> from jaxdp.clipping.norm_clip import NormClip
        >>> clip = NormClip(scale=0.5)
        >>> print(f"norm {clip.norm(4):.1f}, factor {clip.factor(5.0, 4):.1f}")
        norm 1.0, factor 0.2
    """

    scale: Float[Array, ""] = eqx.field(converter=functools.partial(as_float, name="scale"))

    def __check_init__(self):
        require_positive("scale", self.scale, infinite=True)

    def norm(self, dim: int) -> Float[Array, "*cells"]:
        r"""The clip norm $C = c\sqrt d$."""
        return self.scale * jnp.sqrt(jnp.asarray(dim, self.scale.dtype))

    def factor(self, gradient_norm: Float[Array, "*batch"], dim: int) -> Float[Array, "*batch"]:
        r"""$\min(1, C / \|g\|)$; 1 for a zero gradient."""
        return clip_factor(gradient_norm, self.norm(dim))

    def moments(
        self, second_moment: Float[Array, "*shape"]
    ) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
        r"""Descent and variance factors $\mu_c, \nu_c$ at a residual's variance.

        Source: AC Lemma 11.
        """
        ratio = self._ratio(second_moment)
        return descent_factor(ratio), variance_factor(ratio)

    def joint_moments(self, second_moment: Float[Array, "*shape"]) -> JointMoments:
        """Moments to the fourth of a Gaussian residual and its clipped value, standardised."""
        return joint_moments(self._ratio(second_moment))

    def _ratio(self, second_moment: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The clip scale over the residual's standard deviation, at most 40."""
        root = jnp.sqrt(jnp.maximum(second_moment, jnp.finfo(second_moment.dtype).tiny))
        # Beyond this ratio, an infinite scale included, nothing is clipped to the last bit.
        clips = self.scale < LARGEST_RATIO * root
        return jnp.where(clips, self.scale, LARGEST_RATIO) / jnp.where(clips, root, 1)
