"""The real tables that experiments read, from a folder that the user has."""

import gzip
import pathlib

import numpy as np

from jaxdp.problems.datasets import NumericTable, read_table

_DIGITS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"


def read(data: pathlib.Path, name: str) -> NumericTable:
    """A table of `uci/`, target in the last column, or "mnist": a digit's value from its pixels.

    Pixels that never vary are left out.

    Args:
        data: folder with `uci/<name>.txt` and `mnist/` (IDX, gzip).
        name: of the table.
    """
    if name != "mnist":
        return read_table(data / "uci" / f"{name}.txt")
    images, labels = (_read_idx(data / "mnist" / file).astype(np.float32) for file in _DIGITS)
    pixels = images.reshape(len(images), -1)
    kept = np.flatnonzero(np.ptp(pixels, axis=0) > 0)
    return NumericTable(pixels[:, kept], labels, tuple(map(str, kept)), "digit")


def _read_idx(path: pathlib.Path) -> np.ndarray:
    """An array of bytes in MNIST's format: 0, 0, 8, number of axes, their lengths, the values."""
    content = gzip.decompress(path.read_bytes())
    num_axes = content[3]
    shape = np.frombuffer(content, ">i4", num_axes, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * num_axes).reshape(shape)
