"""The real tables that experiments read, from a folder that the user has."""

import pathlib

import numpy as np

from experiments.harness.mnist import Mnist, read_idx, read_mnist
from jaxdp.data.datasets import NumericTable, read_table


def read(data: pathlib.Path, name: str) -> NumericTable:
    """A table of `uci/`, target in the last column, or "mnist": a digit's value from its pixels.

    Pixels that never vary are left out.

    Args:
        data: folder with `uci/<name>.txt` and `mnist/` (IDX, gzip).
        name: name of the table.
    """
    if name != "mnist":
        return read_table(data / "uci" / f"{name}.txt")
    images = read_idx(data / "mnist" / "train-images-idx3-ubyte.gz", 3).astype(np.float32)
    labels = read_idx(data / "mnist" / "train-labels-idx1-ubyte.gz", 1).astype(np.float32)
    pixels = images.reshape(len(images), -1)
    kept = np.flatnonzero(np.ptp(pixels, axis=0) > 0)
    return NumericTable(pixels[:, kept], labels, tuple(map(str, kept)), "digit")


def read_digits(data: pathlib.Path | None) -> Mnist:
    """MNIST from `mnist/` in a folder; None has scikit-learn fetch it."""
    return read_mnist(None if data is None else data / "mnist")
