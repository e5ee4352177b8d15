"""Turning what a user types into floating-point arrays."""

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from jaxdp.core.checks import described, is_boolean


def as_float(value: Any, name: str = "real numbers") -> Float[Array, "*shape"]:
    """The value as a floating-point array of a definite type.

    Python numbers and whole numbers become the default float. A float64 array keeps its precision
    when x64 is enabled and becomes float32 otherwise, as everywhere in JAX. No result is weakly
    typed, as `jnp.asarray(2.0)` is: JAX compiles a program once for each combination of weak and
    definite types, so that 2.0 and `numpy.float32(2.0)` would compile everything twice.

    Args:
        value: what was given.
        name: of the argument, for the error.

    Raises:
        TypeError: the value is not made of real numbers, or one True or False.
    """
    given = _known_numbers(value)
    if given is not None:
        # Put where JAX computes as they are: `jnp.asarray` compiles a program for every shape.
        with jax.ensure_compile_time_eval():
            return jax.device_put(given)
    # Constants stay concrete under jit, so that they can be checked and grouped.
    is_traced = isinstance(value, Tracer)
    with contextlib.nullcontext() if is_traced else jax.ensure_compile_time_eval():
        try:
            array = jnp.asarray(value)
        except (TypeError, ValueError, OverflowError):
            array = None
        is_complex = array is not None and jnp.issubdtype(array.dtype, jnp.complexfloating)
        if array is None or is_complex or is_boolean(value):
            wanted = name if name == "real numbers" else f"{name} to be a real number"
            raise TypeError(f"expected {wanted}, got {described(value)}")
        return array.astype(array.dtype if jnp.issubdtype(array.dtype, jnp.floating) else float)


def _known_numbers(value: Any) -> np.ndarray | None:
    """Numbers of Python or NumPy in the float that JAX would make of them; None of all else."""
    is_numpy = isinstance(value, (np.ndarray, np.generic))
    # Where all of several numbers are Python's, NumPy and JAX agree on their type.
    leaves = [] if is_numpy else jax.tree.leaves(value, is_leaf=lambda node: node is None)
    if any(type(leaf) not in (int, float) for leaf in leaves):
        return None
    try:
        array = np.asarray(value, dtype=None if is_numpy else float)
    # A dict, rows of different lengths, or an integer beyond the largest float.
    except (TypeError, ValueError, OverflowError):
        return None
    # JAX has no type for longer ones, and truth values are not numbers.
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        return None
    kind = array.dtype.newbyteorder("=") if array.dtype.kind == "f" else float
    with np.errstate(over="ignore"):
        return array.astype(jax.dtypes.canonicalize_dtype(kind))


def as_wide_float(value: Any, name: str = "real numbers") -> Float[Array, "*shape"]:
    """The same with float32 at least: half precision would lose small noise and factorisations."""
    array = as_float(value, name)
    with contextlib.nullcontext() if isinstance(array, Tracer) else jax.ensure_compile_time_eval():
        return array.astype(jnp.promote_types(array.dtype, jnp.float32))


def plain_number(value: Any) -> Any:
    """A scalar of NumPy or JAX as Python's own, so that it can be static; the rest as it is.

    What is no number, or traced, is left for the check to come to refuse.
    """
    is_array = isinstance(value, (np.generic, np.ndarray, jax.Array)) and not isinstance(
        value, Tracer
    )
    return np.asarray(value).item() if is_array and value.ndim == 0 else value


def plain_float(value: Any) -> Any:
    """A number as a Python float; anything else as it is, to be refused by the check to come.

    `float(value)` would read the text "1" and True as 1.
    """
    plain = plain_number(value)
    return float(plain) if isinstance(plain, int) and not is_boolean(plain) else plain


def float_dtype(*trees: Any) -> jnp.dtype:
    """The floating-point type that all the floating-point arrays in the trees promote to."""
    leaves = [
        leaf
        for leaf in jax.tree.leaves(trees)
        if hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)
    ]
    return jnp.result_type(*leaves) if leaves else jnp.result_type(float)


def in_types_of(values: Any, like: Any) -> Any:
    """A pytree of arrays in the types of another, for loops whose state must keep its types."""
    return jax.tree.map(lambda value, old: value.astype(old.dtype), values, like)
