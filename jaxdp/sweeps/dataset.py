"""Shards put together: an `xarray.Dataset` with the axes as coordinates."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdp.sweeps.axes.axes import Axes
from jaxdp.sweeps.provenance import merged
from jaxdp.sweeps.results import Variable
from jaxdp.sweeps.shards import Shard

if TYPE_CHECKING:
    import xarray


def as_dataset(axes: Axes, shards: Iterable[Shard], facts: Mapping[str, str]) -> "xarray.Dataset":
    """The result of a sweep whose every cell lies in at least one shard.

    Args:
        axes: of the sweep.
        shards: where several hold a cell, the last in order of their places counts.
        facts: attributes beside the shards' provenance.
    """
    import xarray

    shards = sorted(shards, key=lambda shard: shard.place)
    arrays = _joined(axes, shards)
    looped_then_mapped = (*axes.looped, *axes.mapped)
    shape = tuple(axes.length(name) for name in looped_then_mapped)
    variables = {}
    for variable in shards[0].variables:
        values = arrays[variable.name]
        values = values.reshape(*shape, *values.shape[2:])
        dims = (*looped_then_mapped, *variable.dims)
        whole = xarray.Variable(dims, values, dict(variable.attrs))
        variables[variable.name] = whole.transpose(*axes.names, *variable.dims)
    coordinates = {
        name: xarray.Variable((name,), values, {"units": "1"} if values.dtype.kind in "iuf" else {})
        for name, values in axes.coordinates().items()
    }
    time = _common_time(shards[0].variables, variables, axes.names)
    if time is not None:
        coordinates["time"] = time
        del variables["time"]
    attrs = {
        "units": "dimensionless unless a variable says otherwise",
        **facts,
        **merged(shard.provenance for shard in shards),
    }
    return xarray.Dataset(variables, coordinates, attrs)


def require_alike(first: Shard, other: Shard, axes: Axes) -> None:
    """Raise ValueError unless two shards hold variables of the same names, shapes and types."""

    def forms(shard: Shard) -> dict[str, Any]:
        return {
            v.name: (shard.arrays[v.name].shape[1:], shard.arrays[v.name].dtype)
            for v in shard.variables
        }

    wanted, got = forms(first), forms(other)
    if wanted != got:
        name = next(name for name in (*wanted, *got) if wanted.get(name) != got.get(name))
        where = ", ".join(
            f"{axis} = {value!r}"
            for axis, value in axes.looped_values(other.place.combination).items()
        )
        raise ValueError(
            f"expected the same variables at every value of the looped axes: {name} is "
            f"{_in_words(wanted.get(name))} first, but {_in_words(got.get(name))} at {where}"
        )


def _in_words(form: tuple[tuple[int, ...], np.dtype] | None) -> str:
    return "absent" if form is None else f"{form[1]} of shape {form[0]}"


def _joined(axes: Axes, shards: Sequence[Shard]) -> dict[str, np.ndarray]:
    """Each variable of all cells: (combinations, cells, ...)."""
    shape = (axes.num_combinations, axes.num_cells)
    whole = {
        name: np.empty((*shape, *values.shape[1:]), values.dtype)
        for name, values in shards[0].arrays.items()
    }
    for shard in shards:
        place = shard.place
        for name, values in shard.arrays.items():
            whole[name][place.combination, place.start : place.stop] = values
    return whole


def _common_time(described: Sequence[Variable], variables: Mapping[str, Any], names) -> Any:
    """A Trajectory's clock when all cells share it, as a coordinate of its records."""
    if not any(v.name == "time" and v.dims == ("record",) for v in described):
        return None
    time = variables["time"]
    first = time.isel(dict.fromkeys(names, 0))
    return first if (time == first).all() else None
