"""Slices of a sweep's grid: two axes, at chosen values of the others."""

import importlib
import os
import pathlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from jaxdp.core.extras import require_extra
from jaxdp.plots.grids import is_geometric
from jaxdp.sweeps import read_store

if TYPE_CHECKING:
    import xarray

# More lines cannot be told apart, and more cells are not sent to a browser.
MOST_LINES, MOST_CELLS = 8, 250_000


class Axis(NamedTuple):
    """An axis of a grid."""

    name: str  # of the dimension
    # Where its values are drawn: themselves, or 0, 1, 2, ... of what is no number.
    places: Float[np.ndarray, " values"]
    texts: tuple[str, ...]  # its values in words
    is_log: bool  # whether neighbours differ by factors rather than by steps


class Slice(NamedTuple):
    """A quantity over one or two axes."""

    values: Float[np.ndarray, "rows columns"]  # (lines or rows, columns)
    across: Axis  # the axis along the columns
    along: Axis | None  # the axis along the rows; None for a single line
    best: tuple[int, int] | None  # row and column of the least finite value, or None


def open_store(path: str | os.PathLike) -> "xarray.Dataset":
    """The dataset of a sweep, in memory, from a folder that was its `store` or from a .nc file.

    The path is given when the page is opened, and never by a browser. ValueError where it is
    neither.
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
    """The variables that can be drawn, and the dimensions of each that have several values."""
    found = {}
    for name, variable in dataset.data_vars.items():
        dims = tuple(str(dim) for dim in variable.dims if variable.sizes[dim] > 1)
        if variable.dtype.kind in "biuf" and dims:
            found[str(name)] = dims
    if not found:
        raise ValueError("expected a sweep with a number over an axis of several values, got none")
    return found


def axis_of(dataset: "xarray.Dataset", name: str) -> Axis:
    size = dataset.sizes[name]
    values = np.asarray(dataset[name].data) if name in dataset.coords else np.arange(size)
    is_number = values.dtype.kind in "iuf" and np.isfinite(values).all()
    if not is_number:
        texts = tuple(str(value) for value in values)
        return Axis(name, np.arange(size, dtype=float), texts, False)
    places = values.astype(np.float64)
    texts = tuple(f"{value:.4g}" for value in places)
    return Axis(name, places, texts, is_geometric(places))


def slice_of(
    dataset: "xarray.Dataset", quantity: str, across: str, along: str | None, at: dict[str, int]
) -> Slice:
    """A quantity over one or two of its axes, at an index of each other dimension, by default 0.

    ValueError where a name or an index is not one of the dataset's, or there are too many cells.
    """
    dims = quantities(dataset).get(quantity)
    if dims is None:
        raise ValueError(f"expected one of {', '.join(quantities(dataset))}, got {quantity!r:.40}")
    wanted = [name for name in (along, across) if name is not None]
    if len(set(wanted)) < len(wanted) or not set(wanted) <= set(dims):
        raise ValueError(f"expected axes that differ among {', '.join(dims)}, got {wanted!r:.80}")
    variable = dataset[quantity].variable
    places: dict[Any, int] = {}
    for name in variable.dims:
        place, last = at.get(str(name), 0), variable.sizes[name] - 1
        if not isinstance(place, int) or not 0 <= place <= last:
            raise ValueError(f"expected an index of {name} from 0 to {last}, got {place!r:.40}")
        places[name] = place
    others = {name: place for name, place in places.items() if name not in wanted}
    part = variable.isel(others).transpose(*wanted)
    if part.size > MOST_CELLS:
        raise ValueError(f"expected at most {MOST_CELLS} cells in a picture, got {part.size}")
    values = np.asarray(part.data, np.float64).reshape(-1, part.shape[-1])
    finite = np.where(np.isfinite(values), values, np.inf)
    row, column = np.unravel_index(int(np.argmin(finite)), values.shape)
    return Slice(
        values,
        axis_of(dataset, across),
        None if along is None else axis_of(dataset, along),
        (int(row), int(column)) if np.isfinite(finite).any() else None,
    )


def lines_of(part: Slice) -> tuple[int, ...]:
    """The rows that are drawn as lines: all, or as many as can be told apart."""
    count = len(part.values)
    if count <= MOST_LINES:
        return tuple(range(count))
    return tuple(np.unique(np.linspace(0, count - 1, MOST_LINES).round().astype(int)).tolist())


def spans_decades(values: np.ndarray) -> bool:
    """Whether positive values alone are there, the largest at least ten times the least."""
    known = np.asarray(values, np.float64)
    known = known[np.isfinite(known)]
    return bool(known.size and known.min() > 0 and known.max() >= 10 * known.min())
