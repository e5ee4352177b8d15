"""Opens what a sweep has left: its store, or the NetCDF file of its dataset."""

import importlib
import os
import pathlib
from typing import TYPE_CHECKING

from jaxdp.core.extras import require_extra
from jaxdp.sweeps import read_store

if TYPE_CHECKING:
    import xarray


def open_store(path: str | os.PathLike) -> "xarray.Dataset":
    """The dataset of a sweep, in memory.

    Args:
        path: a folder that was `store` of a sweep, or a .nc file, such as the `sweep.nc` that
            `jaxdp sweep` writes. It is given when the page is opened, and never by a browser.

    Raises:
        ValueError: it is neither.
        ModuleNotFoundError: xarray, or what reads the file, is not installed.
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
