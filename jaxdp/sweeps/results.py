"""What a sweep's function returns: a dict of arrays or a Trajectory, as named variables."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxdp.core.checks import require_kind
from jaxdp.core.trajectory import Trajectory, Variable, variables_of_trajectory


def variables_of(
    result: Any, axis_names: Sequence[str]
) -> tuple[tuple[Variable, ...], list[Array]]:
    """What the function returned for one cell: descriptions and values.

    Raises:
        TypeError: it is neither a dict of arrays nor a Trajectory.
        ValueError: it is empty, or a name is an axis's, a dimension's or another variable's too.
    """
    found = _of_trajectory(result) if isinstance(result, Trajectory) else _of_dict(result)
    if not found:
        raise ValueError("expected the function to return at least one array, got none")
    used = {name for variable, _ in found for name in (variable.name, *variable.dims)}
    _require_distinct_names([variable for variable, _ in found])
    taken = used & set(axis_names)
    if taken:
        raise ValueError(
            f"expected other names than the axes', got {', '.join(sorted(taken))} from the function"
        )
    return tuple(variable for variable, _ in found), [value for _, value in found]


def _require_distinct_names(variables: Sequence[Variable]) -> None:
    """Raise ValueError where a dataset could not hold variables of these names."""
    names = [variable.name for variable in variables]
    dims = {dim for variable in variables for dim in variable.dims}
    twice = sorted({name for name in names if names.count(name) > 1} | (dims & set(names)))
    if twice:
        raise ValueError(
            f"expected the function to return variables of names that differ, also from the names "
            f"of dimensions, {', '.join(sorted(dims))}; got {', '.join(twice)} twice"
        )


def _of_dict(result: Any) -> list[tuple[Variable, Array]]:
    if isinstance(result, dict):
        for name in result:
            require_kind("each name that the function returns", name, str, "a string")
    else:
        is_number = hasattr(result, "dtype") or isinstance(result, (int, float))
        got = "an array" if is_number else type(result).__name__
        raise TypeError(
            "expected the function to return a dict of arrays, such as {'risk': ...}, or a "
            f"Trajectory, got {got}"
        )
    found = []
    for name, value in result.items():
        array = _as_array(name, value)
        dims = tuple(f"{name}_dim_{axis}" for axis in range(array.ndim))
        found.append((Variable(name, dims), array))
    return found


def _as_array(name: str, value: Any) -> Array:
    is_no_array = isinstance(value, (Trajectory, dict, list, tuple, str, bytes))
    try:
        array = None if is_no_array else jnp.asarray(value)
    except (TypeError, ValueError):
        array = None
    if array is None or jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        raise TypeError(
            f"expected {name} to be an array of numbers, got {type(value).__name__}; return the "
            "arrays that it holds under names of their own"
        )
    is_narrow = jnp.issubdtype(array.dtype, jnp.floating) and array.dtype.itemsize < 4
    return array.astype(jnp.float32) if is_narrow else array


def _of_trajectory(trajectory: Trajectory) -> list[tuple[Variable, Array]]:
    return [
        (variable, _as_array(variable.name, value))
        for variable, value in variables_of_trajectory(trajectory)
    ]
