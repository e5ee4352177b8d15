"""Slices of a sweep's grid: two axes, at chosen values of the others."""

import importlib
import os
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdp.core.extras import require_extra
from jaxdp.sweeps import read_store

if TYPE_CHECKING:
    import xarray


def open_store(path: str | os.PathLike) -> "xarray.Dataset":
    """The dataset of a sweep, in memory, from a folder that was its `store` or from a .nc file.

    The path is given when the page is opened, and never by a browser. ValueError if it is neither.
    """
    path = pathlib.Path(path)
    if path.is_dir():
        return read_store(path)
    if not path.is_file():
        raise ValueError(f"expected store to be a folder or a .nc file, got {path}: not there")
    for module in ("xarray", "h5netcdf"):
        with require_extra(module, "sweeps", "a sweep's file"):
            importlib.import_module(module)
    import xarray

    try:
        return xarray.load_dataset(path, engine="h5netcdf")
    except (OSError, KeyError, TypeError) as error:
        raise ValueError(f"expected {path} to be a NetCDF file of a sweep: {error}") from None


def quantities(dataset: "xarray.Dataset") -> dict[str, tuple[str, ...]]:
    """The variables that can be drawn, and the axes of several values of each, longest first."""
    found = {}
    for name, variable in dataset.data_vars.items():
        dims = [str(dim) for dim in variable.dims if variable.sizes[dim] > 1]
        if variable.dtype.kind in "biuf" and dims:
            found[str(name)] = tuple(sorted(dims, key=lambda dim: -variable.sizes[dim]))
    if not found:
        raise ValueError("expected a sweep with a number over an axis of several values, got none")
    return found


def texts_of(dataset: "xarray.Dataset", name: str) -> tuple[str, ...]:
    """The values of an axis in words."""
    values = dataset[name].data if name in dataset.coords else np.arange(dataset.sizes[name])
    is_number = values.dtype.kind in "iuf"
    return tuple(f"{value:.4g}" if is_number else str(value) for value in values)


def slice_of(
    dataset: "xarray.Dataset", quantity: str, across: str, along: str | None, at: Mapping[str, int]
) -> "xarray.DataArray":
    """A quantity over one or two of its axes, at an index of each other axis, by default 0.

    Returns:
        The values, (along, across) or (across,). An axis of words has their numbers as coordinate.

    Raises:
        ValueError: a name or an index is not one of the dataset's.
    """
    dims = quantities(dataset).get(quantity)
    if dims is None:
        raise ValueError(f"expected one of {', '.join(quantities(dataset))}, got {quantity!r:.40}")
    wanted = [name for name in (along, across) if name is not None]
    if len(set(wanted)) < len(wanted) or not set(wanted) <= set(dims):
        raise ValueError(f"expected axes that differ among {', '.join(dims)}, got {wanted!r:.80}")
    values = dataset[quantity].astype(float)
    places: dict[Any, int] = {}
    for name in values.dims:
        place, last = at.get(str(name), 0), values.sizes[name] - 1
        if not isinstance(place, int) or not 0 <= place <= last:
            raise ValueError(f"expected an index of {name} from 0 to {last}, got {place!r:.40}")
        if name not in wanted:
            places[name] = place
    part = values.isel(places, drop=True).transpose(*wanted)
    numbers = {
        name: np.arange(part.sizes[name]) for name in wanted if part[name].dtype.kind not in "iuf"
    }
    return part.assign_coords(numbers)
