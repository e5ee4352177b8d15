"""The real tables that experiments read, from a folder that the user has."""

import pathlib

import numpy as np

from jaxdp.problems.datasets import NumericTable, read_table
from jaxdp.problems.mnist import read_mnist


def read(data: pathlib.Path, name: str) -> NumericTable:
    """A table of `uci/`, target in the last column, or "mnist": a digit's value from its pixels.

    Pixels that never vary are left out.

    Args:
        data: folder with `uci/<name>.txt` and `mnist/` (IDX files, plain or gzip).
        name: of the table.
    """
    if name != "mnist":
        return read_table(data / "uci" / f"{name}.txt")
    mnist = read_mnist(data / "mnist")
    # Grey levels as whole numbers.
    pixels = np.rint(255 * mnist.train_images)
    kept = np.flatnonzero(np.ptp(pixels, axis=0) > 0)
    labels = mnist.train_labels.astype(np.float32)
    return NumericTable(pixels[:, kept], labels, tuple(map(str, kept)), "digit")
