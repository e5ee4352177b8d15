"""The square root of what may be zero, or negative by rounding: of variances and of squares."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def safe_sqrt(squares: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The root; 0, with a derivative of 0 instead of an infinite one, of what is not above 0.

    What is no number stays none.
    """
    is_zero = squares <= 0
    return jnp.where(is_zero, 0, jnp.sqrt(jnp.where(is_zero, 1, squares)))
