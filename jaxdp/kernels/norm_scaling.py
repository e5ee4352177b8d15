"""Inputs brought into a ball, for kernels that are bounded nowhere else."""

import equinox as eqx
import jax.numpy as jnp
from jax.lax import Precision
from jaxtyping import Array, Float

from jaxdp.core.arrays import as_float
from jaxdp.core.checks import require_positive
from jaxdp.kernels.base import AbstractInputScaling, as_rows, require_feature_map, safe_sqrt


class NormScaling(AbstractInputScaling):
    r"""$z(x \min(1, R / |x|))$: a map of inputs that are scaled down to a public norm.

    Args:
        base: z, on the ball of radius R.
        radius: R > 0, known without the data.

    Raises:
        ValueError: the radius is not positive and finite, or not a scalar.
    """

    radius: Float[Array, ""] = eqx.field(converter=as_float)

    def __check_init__(self):
        require_feature_map("base", self.base)
        require_positive("radius", self.radius)

    def __call__(self, inputs):
        rows = as_rows("inputs", inputs, self.dim)
        radius = self.radius.astype(rows.dtype)
        # Divided by the largest entry first, so that no square overflows.
        largest = jnp.maximum(jnp.max(jnp.abs(rows), axis=1, keepdims=True), radius)
        unit = rows / largest
        squares = jnp.einsum("ij,ij->i", unit, unit, precision=Precision.HIGHEST)[:, None]
        return self.base(unit * (radius / jnp.maximum(safe_sqrt(squares), radius / largest)))
