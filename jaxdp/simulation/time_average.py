"""Averages over the time so far, of paths that are known at their records."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def average_so_far(
    values: Float[Array, "runs counts"], times: Float[Array, " counts"]
) -> Float[Array, "runs counts"]:
    """The average of each run's values up to each time, by the trapezoid rule; 0 at time 0."""
    areas = jnp.diff(times)[None] * (values[:, 1:] + values[:, :-1]) / 2
    area = jnp.concatenate([jnp.zeros_like(values[:, :1]), jnp.cumsum(areas, axis=1)], axis=1)
    return area / jnp.where(times > 0, times, 1)[None]
