"""Which sweep a store belongs to: all that decides its numbers, in digests.

That is: the function with what it reaches (`parts`), or the version that stands for it; the axes
and the key; the sources of jaxdp; the versions of the libraries that compute; the settings of JAX
that numbers depend on. Not seen is what a function reads while it runs, such as files, the
environment and the clock, and what it finds by reflection (`sys.modules`, `__globals__`,
`__subclasses__`) or behind weak references.
"""

import functools
import inspect
from typing import Any

import jax

from jaxdp.sweeps.axes.axes import Axes, is_x64
from jaxdp.sweeps.source.digests import digest
from jaxdp.sweeps.source.outside import UnreadableError
from jaxdp.sweeps.source.owners import python_version, source_digest, versions


def identity_of(function: Any, axes: Axes, key: Any, version: str | None) -> dict[str, Any]:
    """What must agree for a store to be resumed, as JSON: a digest and a description each.

    Raises:
        ValueError: something that the function reaches cannot be read, and no version is given;
            or values of an axis cannot be.
    """
    if version is not None:
        described = {"version": version, "digest": digest(version)}
    else:
        described = {
            "name": name_of(function),
            "python": python_version(),
            "digest": _of_function(function),
        }
    return {
        "libraries": versions(),
        "jaxdp": {"digest": source_digest()},
        "function": described,
        # A list: their order decides the cells' keys.
        "axes": [
            {
                "name": name,
                "length": axes.length(name),
                "kind": "tuple" if name in axes.looped else "array",
                "digest": _of_axis(axes, name),
            }
            for name in axes.names
        ],
        "key": {"digest": digest(key)},
        "jax_enable_x64": is_x64(),
        "jax_threefry_partitionable": jax.config.values.get("jax_threefry_partitionable"),
        "jax_default_matmul_precision": str(
            jax.config.jax_default_matmul_precision  # pyright: ignore[reportAttributeAccessIssue]
        ),
    }


def name_of(function: Any) -> str:
    """The name of a function or callable, with its module."""
    function = inspect.unwrap(function)
    if isinstance(function, functools.partial):
        return f"partial of {name_of(function.func)}"
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _of_function(function: Any) -> str:
    name = name_of(function)
    try:
        return digest(function, name.rpartition(".")[2])
    except UnreadableError as error:
        raise ValueError(
            f"expected a function of which all that it reaches can be read, but {name} reaches "
            f"{error}; give version=, a name that changes whenever the function does"
        ) from error


def _of_axis(axes: Axes, name: str) -> str:
    try:
        return digest(axes.looped[name] if name in axes.looped else axes.mapped[name], name)
    except UnreadableError as error:
        raise ValueError(
            f"expected values of axis {name} that a store can tell from others, but it cannot read "
            f"{error}; loop over names, and let the function look the objects up"
        ) from error
