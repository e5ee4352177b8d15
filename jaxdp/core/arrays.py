"""Turning what a user types into floating-point arrays."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Float


def as_float(value: Any) -> Float[Array, "*shape"]:
    """The value as a floating-point array; whole numbers become the default float.

    A float64 array keeps its precision when x64 is enabled and becomes float32 otherwise, as
    everywhere in JAX.

    Raises:
        TypeError: the value is not made of real numbers.
    """
    if isinstance(value, Tracer):
        array = value
    else:
        try:
            # Constants stay concrete under jit, so that they can be checked and grouped.
            with jax.ensure_compile_time_eval():
                array = jnp.asarray(value)
        except (TypeError, ValueError):
            array = None
    if array is None or jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise TypeError(f"expected real numbers, got {type(value).__name__}: {value!r}")
    return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(float)


def as_wide_float(value: Any) -> Float[Array, "*shape"]:
    """The same with float32 at least: half precision would lose small noise and factorisations."""
    array = as_float(value)
    return array.astype(jnp.promote_types(array.dtype, jnp.float32))


def float_dtype(*trees: Any) -> jnp.dtype:
    """The floating-point type that all the floating-point arrays in the trees promote to."""
    leaves = [
        leaf
        for leaf in jax.tree.leaves(trees)
        if hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)
    ]
    return jnp.result_type(*leaves) if leaves else jnp.result_type(float)
