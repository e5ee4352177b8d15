"""Reads the finished cells of a store, also while its sweep runs, without the sweep's function."""

import math
import os
import pathlib
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdp.core.extras import require_extra
from jaxdp.core.files.sealed_arrays import DamagedError, read_sealed, unsealed
from jaxdp.sweeps import description
from jaxdp.sweeps.shards import Place, Shard, unpacked
from jaxdp.sweeps.store import COORDINATES, DESCRIPTION

if TYPE_CHECKING:
    import xarray

# Numbers of a dataset: 2 GiB in float64.
_MOST_NUMBERS = 2**28


def read_store(folder: str | os.PathLike) -> "xarray.Dataset":
    """The sweep that a folder keeps, as far as it is finished; nothing is computed or changed.

    What is not finished, or damaged, is NaN (numbers become floats for that). An axis has its
    values, or its indices where a version of jaxdp made the store that did not write them down.

    Args:
        folder: that was given to `jaxdp.sweep` as `store`.

    Returns:
        The results so far, as `jaxdp.sweep` would return them.

    Raises:
        ValueError: it is no store, nothing in it is finished, or it is too large for memory.
        ModuleNotFoundError: xarray is not installed.

    Example:
        >>> import tempfile
        >>> import jax, jaxdp, numpy as np
        >>> def square(x, key):
        ...     return {"square": x**2}
        >>> axes, key = {"x": np.array([1.0, 2.0, 3.0])}, jax.random.key(0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = jaxdp.sweep(square, axes, key=key, store=folder, version="1", quiet=True)
        ...     jaxdp.sweeps.read_store(folder).square.values.tolist()
        [1.0, 4.0, 9.0]
    """
    with require_extra("xarray", "sweeps", "jaxdp.sweeps.read_store"):
        import xarray
    folder = pathlib.Path(folder)
    if not (folder / DESCRIPTION).is_file():
        raise ValueError(f"expected the folder of a sweep, with {DESCRIPTION} in it, got {folder}")
    identity = description.read(folder / DESCRIPTION)
    lengths = {axis["name"]: axis["length"] for axis in identity["axes"]}
    looped = [axis["name"] for axis in identity["axes"] if axis["kind"] == "tuple"]
    mapped = [name for name in lengths if name not in looped]
    shards = _shards(folder, description.digest_of(identity))
    shape = [math.prod(lengths[name] for name in names) for names in (looped, mapped)]
    first = shards[0]
    total = sum(math.prod(shape) * first.arrays[v.name][0].size for v in first.variables)
    if total > _MOST_NUMBERS:
        raise ValueError(f"expected a sweep of at most {_MOST_NUMBERS} numbers, got {total}")
    variables = {}
    for variable in first.variables:
        whole = _joined(variable.name, shards, shape)
        whole = whole.reshape(*(lengths[name] for name in (*looped, *mapped)), *whole.shape[2:])
        made = xarray.Variable((*looped, *mapped, *variable.dims), whole, dict(variable.attrs))
        variables[variable.name] = made.transpose(*lengths, *variable.dims)
    return xarray.Dataset(variables, _coordinates(folder, lengths))


def _shards(folder: pathlib.Path, digest: str) -> list[Shard]:
    """The whole shards of a sweep, in order."""
    places = sorted(filter(None, (Place.of_file(entry.name) for entry in os.scandir(folder))))
    found = []
    for place in places:
        try:
            shard, own = unpacked(place, read_sealed(folder / place.file_name))
        except (DamagedError, FileNotFoundError):
            # The sweep itself says so and computes it again, as it goes on.
            continue
        if own == digest:
            found.append(shard)
    if not found:
        raise ValueError(f"expected a sweep with finished cells in {folder}, got none yet")
    forms = {name: values.shape[1:] for name, values in found[0].arrays.items()}
    return [
        shard
        for shard in found
        if {name: values.shape[1:] for name, values in shard.arrays.items()} == forms
    ]


def _joined(name: str, shards: list[Shard], shape: list[int]) -> np.ndarray:
    """A variable of all cells, (combinations, cells, ...)."""
    values = shards[0].arrays[name]
    whole = np.full((*shape, *values.shape[1:]), np.nan)
    for shard in shards:
        place = shard.place
        whole[place.combination, place.start : place.stop] = shard.arrays[name]
    return whole


def _coordinates(folder: pathlib.Path, lengths: dict[str, int]) -> dict[str, Any]:
    try:
        values = unsealed(read_sealed(folder / COORDINATES))
    except (DamagedError, FileNotFoundError):
        values = {}
    fits = {name: values.get(name) for name in lengths}
    return {
        name: (name, one if one is not None and one.shape == (length,) else np.arange(length))
        for (name, length), one in zip(lengths.items(), fits.values(), strict=True)
    }
