"""Arrays that lie on a mesh of Explicit axes, as `jax.make_mesh` makes it today.

There the type of an array says how it is sharded, and an operation that does not know how to shard
its result is refused: look-ups by index and products along a sharded axis, both of which clipping
and simulations are made of. Over Auto axes the compiler finds a sharding for everything.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import AxisType, NamedSharding, PartitionSpec

Result = TypeVar("Result")


def on_auto_axes(function: Callable[..., Result]) -> Callable[..., Result]:
    """A function of pytrees that computes on Auto axes what it is given on Explicit ones.

    The arrays that it returns are then the same on every device of the mesh.
    """

    @functools.wraps(function)
    def wrapped(*arguments: Any) -> Result:
        arrays, rest = eqx.partition(arguments, eqx.is_array)
        meshes = map(_explicit_mesh, jax.tree.leaves(arrays))
        mesh = next((mesh for mesh in meshes if mesh is not None), None)
        # Releases of JAX that make Auto axes by default need not have it.
        auto_axes = getattr(jax.sharding, "auto_axes", None)
        if mesh is None or auto_axes is None:
            return function(*arguments)
        others = []

        def of_arrays(arrays: Any) -> Any:
            found, other = eqx.partition(function(*eqx.combine(arrays, rest)), eqx.is_array)
            others.append(other)
            return found

        axes = tuple(
            name
            for name, kind in zip(mesh.axis_names, mesh.axis_types, strict=True)
            if kind == AxisType.Explicit
        )
        replicated = NamedSharding(mesh, PartitionSpec())
        found = auto_axes(of_arrays, axes=axes, out_sharding=replicated)(arrays)
        return eqx.combine(found, others[0])

    return wrapped


def gathered(value: Any) -> Any:
    """An array of numbers on a mesh of Explicit axes as one of NumPy; anything else as it is."""
    if not isinstance(value, jax.Array) or isinstance(value, Tracer):
        return value
    is_key = jax.numpy.issubdtype(value.dtype, jax.dtypes.extended)
    return value if is_key or _explicit_mesh(value) is None else np.asarray(value)


def _explicit_mesh(array: Any) -> Any:
    """The mesh of an array, if it has an Explicit axis."""
    source = jax.typeof(array) if isinstance(array, Tracer) else array
    mesh = getattr(getattr(source, "sharding", None), "mesh", None)
    # Older releases of JAX have no types of axes where there is no mesh.
    kinds = getattr(mesh, "axis_types", None) or ()
    return mesh if AxisType.Explicit in tuple(kinds) else None
