"""The dataset that the shards of a sweep make."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdp.sweeps.program import Shard

if TYPE_CHECKING:
    import xarray


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


def as_dataset(
    coordinates: Mapping[str, np.ndarray],
    looped: Collection[str],
    shards: Sequence[Shard],
    attrs: Mapping[str, str],
    *,
    is_whole: bool = True,
) -> "xarray.Dataset":
    """The result of a sweep, from shards that are alike; of several with a cell the last counts.

    `coordinates` has the values of each axis, and `looped` the names of those that were looped. If
    the sweep is not whole, numbers become floats, and the missing ones are NaN.
    """
    import xarray

    # Combinations come first in a shard's numbering, then cells.
    ordered = sorted(coordinates, key=lambda name: name not in looped)
    lengths = {name: len(coordinates[name]) for name in ordered}
    combinations = math.prod(lengths[name] for name in looped)
    cells = math.prod(lengths.values()) // combinations
    variables = {}
    for variable in shards[0].variables:
        first = shards[0].arrays[variable.name]
        kind = first.dtype if is_whole else float
        flat = np.empty((combinations, cells, *first.shape[1:]), kind)
        if not is_whole:
            flat.fill(np.nan)
        for shard in shards:
            flat[shard.combination, shard.start : shard.stop] = shard.arrays[variable.name]
        whole = flat.reshape(*lengths.values(), *first.shape[1:])
        made = xarray.Variable((*lengths, *variable.dims), whole, dict(variable.attrs))
        variables[variable.name] = made.transpose(*coordinates, *variable.dims)
    labelled = {
        name: xarray.Variable((name,), values, {"units": "1"} if values.dtype.kind in "iuf" else {})
        for name, values in coordinates.items()
    }
    # A Trajectory's clock is a coordinate of its records where all cells share it.
    if any(v.name == "time" and v.dims == ("record",) for v in shards[0].variables):
        first = variables["time"].isel(dict.fromkeys(coordinates, 0))
        if (variables["time"] == first).all():
            labelled["time"] = first
            del variables["time"]
    facts = {"units": "dimensionless unless a variable says otherwise", **attrs}
    # Machines may differ in these: each fact's values, with semicolons between.
    for fact in shards[0].provenance:
        facts[fact] = "; ".join(sorted({str(shard.provenance.get(fact)) for shard in shards}))
    return xarray.Dataset(variables, labelled, facts)
