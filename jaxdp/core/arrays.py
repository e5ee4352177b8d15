"""Conversions of users' values to arrays, and arrays on meshes with Explicit axes."""

import contextlib
import functools
import numbers
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from jaxtyping import Array, Float

from jaxdp.core.checks import described, given_array, is_boolean, leaves_of, refuse_collections

# Leaves of lists that are nested deeper than an array can be.
_NO_LEAF = (list, tuple)


def as_float(value: Any, name: str = "real numbers") -> Float[Array, "*shape"]:
    """The value as a floating-point array of a definite type; TypeError if it is not real.

    Python numbers and integers become the default float. float64 becomes float32 unless x64 is
    enabled. The result is never weakly typed: JAX compiles a program for each combination of weak
    and definite types, so 2.0 and `numpy.float32(2.0)` would compile everything twice. An array on
    a mesh of Explicit axes is gathered on one device; over Auto axes it stays spread.
    """
    refuse_collections(name, value)
    value = gathered(value)
    leaves = list(leaves_of(value))
    given = _known_numbers(value, leaves)
    if given is not None:
        # Unlike `jnp.asarray` this compiles no program for every shape.
        with jax.ensure_compile_time_eval():
            return jax.device_put(given)
    # Constants stay concrete under jit, so that they can be checked and grouped.
    is_traced = isinstance(value, Tracer)
    with contextlib.nullcontext() if is_traced else jax.ensure_compile_time_eval():
        try:
            is_deep = any(isinstance(leaf, _NO_LEAF) for leaf in leaves)
            array = None if is_deep else jnp.asarray(value)
        except (MemoryError, OSError):
            raise
        except Exception:
            # Other libraries raise errors of many kinds.
            array = None
        if array is None or not _is_real(array.dtype) or is_boolean(value):
            wanted = name if name == "real numbers" else f"{name} to be a real number"
            raise TypeError(f"expected {wanted}, got {described(value)}")
        return array.astype(array.dtype if jnp.issubdtype(array.dtype, jnp.floating) else float)


def _is_real(dtype: Any) -> bool:
    return any(jnp.issubdtype(dtype, kind) for kind in (jnp.floating, jnp.integer, jnp.bool_))


def _known_numbers(value: Any, leaves: list) -> np.ndarray | None:
    """Numbers that JAX does not hold, in the float that JAX would use, or None."""
    if any(isinstance(leaf, (jax.Array, *_NO_LEAF)) for leaf in leaves):
        return None
    try:
        # Python's numbers become floats at once: JAX's integers would wrap.
        are_pythons = all(type(leaf) in (int, float) for leaf in leaves)
        array = np.asarray(value, dtype=float if are_pythons else None)
        # JAX has no longer types, and booleans are not numbers.
        if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
            return None
        kind = float
        if array.dtype.kind == "f" and not are_pythons:
            is_one = len(leaves) == 1 and leaves[0] is value
            kind = array.dtype.newbyteorder("=") if is_one else jnp.result_type(*leaves)
    except (MemoryError, OSError):
        raise
    # No array, rows of different lengths, or an integer beyond the largest float.
    except Exception:
        return None
    with np.errstate(over="ignore"):
        return array.astype(jax.dtypes.canonicalize_dtype(kind))


def as_numbers(value: Any, name: str) -> Array | np.ndarray:
    """Rows of numbers as an array of a type that JAX has; JAX arrays and keys are unchanged.

    For functions of the user's, which get integers and booleans as they are: a token, a class, a
    count. ValueError for integers that would wrap in JAX's type (32 bits, unless jax_enable_x64).
    Missing cells of a table are NaN. The TypeError for anything else names the type and shows no
    value.
    """
    if isinstance(value, jax.Array):
        return value
    array = given_array(name, value)
    if array.dtype.kind == "O":
        array = _of_objects(array, name, is_table=hasattr(value, "to_numpy"))
    # The types of eight and sixteen bits that NumPy does not know have a letter of their own.
    is_number = array.dtype.kind in "biufc" or jnp.issubdtype(array.dtype, jnp.floating)
    if not is_number or array.dtype.char in "gG":
        kinds = {"U": "text", "T": "text", "S": "bytes", "V": "named fields"}
        raise _no_numbers(name, kinds.get(array.dtype.kind, str(array.dtype)))
    held = jax.dtypes.canonicalize_dtype(array.dtype)
    if array.dtype.kind in "iu" and held != array.dtype and array.size:
        limits = np.iinfo(held)
        if array.min() < limits.min or array.max() > limits.max:
            raise _too_large(name, held)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _of_objects(array: np.ndarray, name: str, *, is_table: bool) -> np.ndarray:
    """Numbers that NumPy holds as Python objects, in a numeric type."""

    def is_missing(item):
        return is_table and type(item).__name__ in ("NoneType", "NAType")

    cells = array.ravel().tolist()
    for item in cells:
        if not isinstance(item, (numbers.Real, np.bool_)) and not is_missing(item):
            raise _no_numbers(name, f"objects of type {type(item).__name__}")
    known = np.array([np.nan if is_missing(item) else item for item in cells]).reshape(array.shape)
    if known.dtype.kind == "O" and all(isinstance(item, numbers.Integral) for item in cells):
        raise _too_large(name, jnp.result_type(int))
    return known


def _too_large(name: str, held: Any) -> ValueError:
    return ValueError(
        f"expected {name} of whole numbers that {held} can hold, got larger ones: enable "
        "jax_enable_x64, or give floating-point numbers"
    )


def _no_numbers(name: str, came: str) -> TypeError:
    return TypeError(f"expected {name} to be an array of numbers, got {came}")


def as_wide_float(value: Any, name: str = "real numbers") -> Float[Array, "*shape"]:
    """A value as an array of at least float32: half precision would lose small noise."""
    array = as_float(value, name)
    with contextlib.nullcontext() if isinstance(array, Tracer) else jax.ensure_compile_time_eval():
        return array.astype(jnp.promote_types(array.dtype, jnp.float32))


def in_numpy(tree: Any) -> Any:
    """The pytree with NumPy's arrays, which compile nothing, for JAX's; unchanged if traced."""
    leaves = jax.tree.leaves(tree)
    if any(isinstance(leaf, Tracer) for leaf in leaves):
        return tree
    return jax.tree.map(lambda leaf: np.asarray(leaf) if eqx.is_array(leaf) else leaf, tree)


def in_jax(tree: Any) -> Any:
    """The pytree with concrete JAX arrays for NumPy's and Python's numbers; compiles nothing."""
    with jax.ensure_compile_time_eval():
        return jax.tree.map(
            lambda leaf: leaf if isinstance(leaf, jax.Array) else jax.device_put(leaf), tree
        )


def plain_number(value: Any) -> Any:
    """A scalar of NumPy or JAX as a Python number, so that it can be static; the rest unchanged."""
    if isinstance(value, Tracer) or not isinstance(value, (np.generic, np.ndarray, jax.Array)):
        return value
    return np.asarray(value).item() if value.ndim == 0 else value


def plain_float(value: Any) -> Any:
    """A number as a Python float; text and booleans are unchanged, for a later check to refuse."""
    plain = plain_number(value)
    return float(plain) if isinstance(plain, int) and not is_boolean(plain) else plain


def float_dtype(*trees: Any) -> jnp.dtype:
    """The type that all floating-point arrays in the trees promote to."""
    leaves = [leaf for leaf in jax.tree.leaves(trees) if hasattr(leaf, "dtype")]
    floats = [leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return jnp.result_type(*floats) if floats else jnp.result_type(float)


def in_types_of(values: Any, like: Any) -> Any:
    """A pytree of arrays in the types of another, for loops whose state must keep its types."""
    return jax.tree.map(lambda value, old: value.astype(old.dtype), values, like)


Result = TypeVar("Result")


def on_auto_axes(function: Callable[..., Result]) -> Callable[..., Result]:
    """A function of pytrees that computes on Auto axes what it is given on Explicit ones.

    Its results are equal on every device of the mesh. On Explicit axes (`jax.make_mesh`) an array's
    type says how it is sharded, and JAX refuses look-ups by index and products along a sharded
    axis, of which clipping and simulations are made. Over Auto axes the compiler finds a sharding.
    """

    @functools.wraps(function)
    def wrapped(*arguments: Any) -> Result:
        arrays, rest = eqx.partition(arguments, eqx.is_array)
        meshes = map(_explicit_mesh, jax.tree.leaves(arrays))
        mesh = next((mesh for mesh in meshes if mesh is not None), None)
        if mesh is None:
            return function(*arguments)
        others = []

        def of_arrays(arrays: Any) -> Any:
            found, other = eqx.partition(function(*eqx.combine(arrays, rest)), eqx.is_array)
            others.append(other)
            return found

        kinds = zip(mesh.axis_names, mesh.axis_types, strict=True)
        axes = tuple(name for name, kind in kinds if kind == AxisType.Explicit)
        replicated = NamedSharding(mesh, PartitionSpec())
        found = jax.sharding.auto_axes(of_arrays, axes=axes, out_sharding=replicated)(arrays)
        return eqx.combine(found, others[0])

    return wrapped


def gathered(value: Any) -> Any:
    """An array on a mesh of Explicit axes as a NumPy array; anything else unchanged."""
    if not isinstance(value, jax.Array) or isinstance(value, Tracer):
        return value
    is_key = jax.numpy.issubdtype(value.dtype, jax.dtypes.extended)
    return value if is_key or _explicit_mesh(value) is None else np.asarray(value)


def _explicit_mesh(array: Any) -> Any:
    source = jax.typeof(array) if isinstance(array, Tracer) else array
    mesh = getattr(getattr(source, "sharding", None), "mesh", None)
    # Older releases of JAX have no types of axes where there is no mesh.
    kinds = getattr(mesh, "axis_types", None) or ()
    return mesh if AxisType.Explicit in tuple(kinds) else None
