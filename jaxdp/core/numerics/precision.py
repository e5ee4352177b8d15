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
    """A context in which JAX computes in float64, or, when not enabled, in float32."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(is_enabled)
    from jax.experimental import enable_x64  # pyright: ignore[reportAttributeAccessIssue]

    return enable_x64(is_enabled)


def full_products() -> contextlib.AbstractContextManager[Any]:
    """A context around tracing in which matrix products keep the digits of their type.

    For a network that a user wrote: an accelerator's default rounds its factors to TF32 or
    bfloat16. Products of jaxdp itself say `Precision.HIGHEST` where they stand.
    """
    return jax.default_matmul_precision("highest")


@contextlib.contextmanager
def on_host() -> Iterator[None]:
    """A context in which JAX computes on the CPU of this process, in float64.

    An accelerator would be sent every small array there and back, and a TPU has no float64. Where
    JAX was started without a CPU backend (JAX_PLATFORMS=cuda) its default device computes.
    """
    try:
        place = jax.default_device(jax.local_devices(backend="cpu")[0])
    except RuntimeError:
        place = contextlib.nullcontext()
    with x64(), place:
        yield


def in_float64() -> contextlib.AbstractContextManager[Any]:
    """A context in which JAX computes in float64, for arrays that may be large.

    JAX computes on its default device, except where that is a TPU: what is called float64 there is
    two float32 numbers, of fewer digits and a smaller range, and lacks some operations. The host
    computes instead.
    """
    return on_host() if jax.default_backend() == "tpu" else x64()


def safe_sqrt(squares: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The root; 0, with a derivative of 0 instead of an infinite one, of what is not above 0.

    What is no number stays none.
    """
    is_zero = squares <= 0
    return jnp.where(is_zero, 0, jnp.sqrt(jnp.where(is_zero, 1, squares)))


def compensated_add(
    total: Float[Array, "*shape"], excess: Float[Array, "*shape"], change: Float[Array, "*shape"]
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """Kahan's sum: the new total, and what rounding has added to it so far (zero at first)."""
    change = change - excess
    new = total + change
    return new, (new - total) - change
