"""Gram matrices in float64 on the host, for factorisations that float32 would spoil."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdp.core.precision import x64
from jaxdp.kernels.base import AbstractKernel
from jaxdp.kernels.table_inputs import real_array


def host_gram(
    kernel: AbstractKernel, first: Float[np.ndarray, "n dim"], second: Float[np.ndarray, "m dim"]
) -> Float[np.ndarray, "n m"]:
    """The kernel in float64, whatever precision JAX is set to.

    The kernel's own numbers (its scale) stay as they were given, in float32 by default.

    Raises:
        ValueError: a value is not finite.
    """
    with x64():
        gram = np.asarray(kernel(_wide(first), _wide(second)), np.float64)
    return _finite(gram)


def host_diagonal(
    kernel: AbstractKernel, inputs: Float[np.ndarray, "n dim"]
) -> Float[np.ndarray, " n"]:
    """k(x, x) of every row; as `host_gram`."""
    with x64():
        diagonal = np.asarray(_diagonal(kernel, _wide(inputs)), np.float64)
    return _finite(diagonal)


def host_rows(name: str, value: Any) -> Float[np.ndarray, "n dim"]:
    """Known finite rows in float64.

    Raises:
        ValueError: not a matrix with at least one row, or an entry is not finite.
        TypeError: traced, or not made of real numbers.
    """
    try:
        rows = real_array(name, value).astype(np.float64)
    except jax.errors.TracerArrayConversionError:
        raise TypeError(f"expected {name} with known values, got a traced array") from None
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"expected {name} of shape (rows, dim), got {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError(f"expected finite {name}, got NaN or infinite entries")
    return rows


@eqx.filter_jit
def _diagonal(kernel, rows):
    return kernel.diagonal(rows)


def _wide(rows: np.ndarray) -> Array:
    return jnp.asarray(rows, jnp.float64)


def _finite(values):
    if not np.isfinite(values).all():
        raise ValueError("expected a kernel with finite values, got NaN or infinite ones")
    return values
