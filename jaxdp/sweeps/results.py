"""What a sweep's function returns, as named variables, and the dataset that shards make."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxdp.core.checks import require_kind
from jaxdp.core.trajectory import Trajectory, Variable, variables_of_trajectory
from jaxdp.sweeps.provenance import merged

if TYPE_CHECKING:
    import xarray


@dataclasses.dataclass(frozen=True, order=True)
class Place:
    """The cells of a shard: `start` to `stop` of a combination."""

    combination: int
    start: int
    stop: int


@dataclasses.dataclass(frozen=True)
class Shard:
    """The variables of some cells, along a leading axis, what they are, and their provenance."""

    place: Place
    arrays: Mapping[str, np.ndarray]
    variables: tuple[Variable, ...]
    provenance: Mapping[str, str]

    def forms(self) -> dict[str, Any]:
        """Type, shape and description of each variable."""
        held = ((v, self.arrays[v.name]) for v in self.variables)
        return {v.name: (f"{array.dtype} of shape {array.shape[1:]}", v) for v, array in held}


def variables_of(
    result: Any, axis_names: Sequence[str]
) -> tuple[tuple[Variable, ...], list[Array]]:
    """The variables that the function returned for one cell: descriptions and values."""
    if isinstance(result, Trajectory):
        found = variables_of_trajectory(result)
    elif isinstance(result, dict):
        found = list(map(_of_item, result.items()))
    else:
        raise TypeError(
            "expected the function to return a dict of arrays, such as {'risk': ...}, or a "
            f"Trajectory, got {type(result).__name__}"
        )
    if not found:
        raise ValueError("expected the function to return at least one array, got none")
    dims = {dim for variable, _ in found for dim in variable.dims}
    names = [*(variable.name for variable, _ in found), *dims, *axis_names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            "expected the function to return variables whose names differ, also from those of "
            f"axes and of dimensions, got {', '.join(twice)} twice"
        )
    return tuple(variable for variable, _ in found), [
        _as_array(variable.name, value) for variable, value in found
    ]


def require_alike(first: Shard, other: Shard, looped: Mapping[str, Any]) -> None:
    """Raise ValueError, which names the other's looped values, unless two shards are alike."""
    wanted, got = first.forms(), other.forms()
    for name in {**wanted, **got}:
        if wanted.get(name) != got.get(name):
            words = [forms[name][0] if name in forms else "absent" for forms in (wanted, got)]
            where = ", ".join(f"{axis} = {value!r}" for axis, value in looped.items())
            raise ValueError(
                "expected the same variables at every value of the looped axes: "
                f"{name} is {words[0]} first, but {words[1]} at {where}"
            )


def counts(axes: Mapping[str, Sequence[Any]]) -> tuple[int, int]:
    """Numbers of combinations, and of cells in each, of axes that begin with kind and length."""
    lengths = [[axis[1] for axis in axes.values() if axis[0] == k] for k in ("tuple", "array")]
    return math.prod(lengths[0]), math.prod(lengths[1])


def as_dataset(
    axes: Mapping[str, Sequence[Any]],
    coordinates: Mapping[str, np.ndarray],
    shards: Iterable[Shard],
    attrs: Mapping[str, str],
    *,
    is_whole: bool = True,
) -> "xarray.Dataset":
    """The result of a sweep, from shards that are alike; of several with a cell the last counts.

    `axes` has kind and length of each. Where not every cell lies in a shard, numbers become floats,
    and the missing ones are NaN.
    """
    import xarray

    shards = sorted(shards, key=lambda shard: shard.place)
    # Combinations come first in a shard's numbering, then cells.
    ordered = sorted(axes.items(), key=lambda item: item[1][0] == "array")
    lengths = {name: axis[1] for name, axis in ordered}
    variables = {}
    for variable in shards[0].variables:
        first = shards[0].arrays[variable.name]
        whole = np.empty((*counts(axes), *first.shape[1:]), first.dtype if is_whole else float)
        if not is_whole:
            whole.fill(np.nan)
        for shard in shards:
            place = shard.place
            whole[place.combination, place.start : place.stop] = shard.arrays[variable.name]
        whole = whole.reshape(*lengths.values(), *first.shape[1:])
        made = xarray.Variable((*lengths, *variable.dims), whole, dict(variable.attrs))
        variables[variable.name] = made.transpose(*axes, *variable.dims)
    labelled = {
        name: xarray.Variable((name,), values, {"units": "1"} if values.dtype.kind in "iuf" else {})
        for name, values in coordinates.items()
    }
    # A Trajectory's clock is a coordinate of its records where all cells share it.
    if any(v.name == "time" and v.dims == ("record",) for v in shards[0].variables):
        first = variables["time"].isel(dict.fromkeys(axes, 0))
        if (variables["time"] == first).all():
            labelled["time"] = first
            del variables["time"]
    facts = {
        "units": "dimensionless unless a variable says otherwise",
        **attrs,
        **merged(shard.provenance for shard in shards),
    }
    return xarray.Dataset(variables, labelled, facts)


def _of_item(item: tuple[Any, Any]) -> tuple[Variable, Array]:
    name, value = item
    require_kind("each name that the function returns", name, str, "a string")
    array = _as_array(name, value)
    return Variable(name, tuple(f"{name}_dim_{axis}" for axis in range(array.ndim))), array


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
