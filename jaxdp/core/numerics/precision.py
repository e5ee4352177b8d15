"""Precision: products and contexts at full precision, roots and sums that keep their digits."""

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.lax import Precision
from jaxtyping import Array, Float


def product(left: Array, right: Array) -> Array:
    """A matrix product at full precision: TF32 would lose the digits that noise leaves."""
    return jnp.matmul(left, right, precision=Precision.HIGHEST)


def x64(is_enabled: bool = True) -> contextlib.AbstractContextManager[Any]:
    """A context in which JAX computes in float64 or, if not enabled, in float32."""
    return jax.enable_x64(is_enabled)


def full_products() -> contextlib.AbstractContextManager[Any]:
    """A context for tracing a user's network, whose products an accelerator would round to TF32."""
    return jax.default_matmul_precision("highest")


@contextlib.contextmanager
def on_host() -> Iterator[None]:
    """A context in which JAX computes on the CPU of this process, in float64.

    Without a CPU backend (JAX_PLATFORMS=cuda) the default device computes.
    """
    try:
        place = jax.default_device(jax.local_devices(backend="cpu")[0])
    except RuntimeError:
        place = contextlib.nullcontext()
    with x64(), place:
        yield


def in_float64() -> contextlib.AbstractContextManager[Any]:
    """A context for float64 on JAX's default device, or on the host if that is a TPU.

    A TPU's float64 is two float32 numbers, has a smaller range and lacks some operations.
    """
    return on_host() if jax.default_backend() == "tpu" else x64()


def safe_sqrt(squares: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The square root; 0 with a derivative of 0 for numbers up to 0. NaN stays NaN."""
    is_zero = squares <= 0
    return jnp.where(is_zero, 0, jnp.sqrt(jnp.where(is_zero, 1, squares)))


def compensated_add(
    total: Float[Array, "*shape"], excess: Float[Array, "*shape"], change: Float[Array, "*shape"]
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """Kahan's sum: the new total, and the accumulated rounding error (zero at first)."""
    change = change - excess
    new = total + change
    return new, (new - total) - change
