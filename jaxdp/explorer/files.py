"""Files that a page shows: features of public rows, and the results of a sweep.

Their paths are given when a page is opened, never by a browser. Nothing in them is unpickled.
"""

import os
import pathlib
from typing import TYPE_CHECKING

import numpy as np

import jaxdp
from jaxdp.core.files import read_arrays
from jaxdp.core.packages import require_extra
from jaxdp.losses import AbstractLoss, Logistic, Softmax
from jaxdp.sweeps import read_store

if TYPE_CHECKING:
    import xarray

NAMES = ("train_features", "train_labels", "test_features", "test_labels")
_MOST_CLASSES = 100


def open_features(path: str | os.PathLike) -> jaxdp.FixedFeatures:
    """Read a classification problem from a file of public features, for a forecast.

    Args:
        path: a NumPy .npz file with the arrays `train_features` (n, p), `train_labels` (n,),
            `test_features` (m, p) and `test_labels` (m,); labels are -1 and 1, or 0, ..., k - 1.

    Returns:
        The problem, with the logistic loss for labels -1 and 1, else with the softmax loss.

    Raises:
        ValueError: the file cannot be read, or an array is missing or wrong.

    Example:
        >>> import numpy as np, os, tempfile
        >>> from jaxdp.explorer import open_features
        >>> features, labels = np.eye(4), np.array([-1, 1, -1, 1])
        >>> train = {"train_features": features, "train_labels": labels}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "features.npz")
        ...     np.savez(path, **train, test_features=features, test_labels=labels)
        ...     open_features(path).num_train
        4
    """
    wanted = f"{path}: expected an .npz with the arrays {', '.join(NAMES)}"
    try:
        found = read_arrays(path)
    except (OSError, ValueError) as reason:
        raise ValueError(f"{wanted}, got none that can be read: {reason}") from None
    missing = [name for name in NAMES if name not in found]
    if missing:
        raise ValueError(f"{wanted}, got none of the name {missing[0]}")
    arrays = [found[name] for name in NAMES]
    try:
        return jaxdp.FixedFeatures.from_arrays(*arrays, loss=_loss_of(arrays[1]))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None


def _loss_of(labels: np.ndarray) -> AbstractLoss:
    classes = np.unique(labels)
    if np.array_equal(classes, [-1, 1]):
        return Logistic()
    if 2 <= len(classes) <= _MOST_CLASSES and np.array_equal(classes, np.arange(len(classes))):
        return Softmax(len(classes))
    raise ValueError(
        f"expected train_labels -1 and 1, or all of 0, ..., k - 1 with k from 2 to "
        f"{_MOST_CLASSES}, got {len(classes)} different ones from {classes[:1]} to {classes[-1:]}"
    )


def open_store(path: str | os.PathLike) -> "xarray.Dataset":
    """Load a sweep's dataset from its store or a .nc file; ValueError for anything else."""
    path = pathlib.Path(path)
    if path.is_dir():
        return read_store(path)
    if not path.is_file():
        raise ValueError(f"expected store to be a folder or a .nc file, got {path}: not there")
    with require_extra("xarray", "sweeps", "a sweep's file"):
        import xarray
    with require_extra("h5netcdf", "sweeps", "a sweep's file"):
        import h5netcdf  # noqa: F401

    try:
        return xarray.load_dataset(path, engine="h5netcdf")
    except (OSError, KeyError, TypeError) as error:
        raise ValueError(f"expected {path} to be a NetCDF file of a sweep: {error}") from None
