"""Predictions and clipped gradients of linear models, many runs together, of one output or more.

Parameters are (runs, features), or (runs, features, outputs). All runs share the rows' features, so
that each of these is one product of two matrices.
"""

import jax.numpy as jnp
from jax.lax import Precision
from jaxtyping import Array, Bool, Float

from jaxdp.algorithms.base import AbstractRowsAlgorithm


def predictions_of(
    parameters: Float[Array, "runs features *outputs"], features: Float[Array, "rows features"]
) -> Float[Array, "runs rows *outputs"]:
    """What the model of each run predicts for the rows."""
    # Residuals decide a clip: products at full precision, here and below.
    if parameters.ndim == 2:
        return jnp.matmul(parameters, features.T, precision=Precision.HIGHEST)
    return jnp.einsum("rfk,nf->rnk", parameters, features, precision=Precision.HIGHEST)


def gradient_sums(
    slopes: Float[Array, "runs rows *outputs"], features: Float[Array, "rows features"]
) -> Float[Array, "runs features *outputs"]:
    """The sum over the rows of slope times features."""
    # A rounded sum of clipped gradients is a longer one.
    if slopes.ndim == 2:
        return jnp.matmul(slopes, features, precision=Precision.HIGHEST)
    return jnp.einsum("rnk,nf->rfk", slopes, features, precision=Precision.HIGHEST)


def clipped_slopes(
    algorithm: AbstractRowsAlgorithm,
    slopes: Float[Array, "runs rows *outputs"],
    feature_norms: Float[Array, " rows"],
) -> tuple[Float[Array, "runs rows *outputs"], Bool[Array, "runs rows"]]:
    r"""The slopes as the algorithm clips them, and which samples were clipped.

    The gradient of a sample with features $\varphi$ and slopes s, one an output, is the matrix
    $\varphi s^\top$, of norm $\|\varphi\|\,\|s\|$: its slopes are scaled together, as one slope of
    their norm would be.
    """
    if slopes.ndim == 2:
        return algorithm.clipped_slopes(slopes, feature_norms)
    lengths = jnp.linalg.norm(slopes, axis=-1)
    clipped, is_clipped = algorithm.clipped_slopes(lengths, feature_norms)
    is_zero = clipped == 0
    factors = clipped / jnp.where(is_zero, 1, lengths)
    return jnp.where(is_zero[..., None], 0, slopes * factors[..., None]), is_clipped
