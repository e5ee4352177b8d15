"""What is said about a table on the command line: the ranges of its columns, and its classes."""

import csv
import pathlib
from typing import Any

import numpy as np

from jaxdp.problems.datasets import NumericTable


def ranges(text: str, names: tuple[str, ...]) -> tuple[Any, Any]:
    """LOW:HIGH for all columns, or a file with a line `column,low,high` for each."""
    path = pathlib.Path(text)
    try:
        if not path.is_file():
            low, high = map(float, text.split(":"))
            return low, high
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [[cell.strip() for cell in row] for row in csv.reader(file) if row]
        rows = rows[1:] if rows and rows[0][1:] == ["low", "high"] else rows
        known = {name: (float(low), float(high)) for name, low, high in rows}
    except ValueError:
        raise ValueError(
            f"expected --input-range LOW:HIGH, or a file with lines column,low,high, got {text!r}"
        ) from None
    missing = [name for name in names if name not in known]
    if missing:
        raise ValueError(f"{path}: no range of the column {missing[0]!r}")
    low, high = zip(*(known[name] for name in names), strict=True)
    return low, high


def two_classes(text: str) -> tuple[str, str]:
    """Both names, in the order in which the estimator has its classes."""
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or names[0] == names[1] or not all(names):
        raise ValueError(f"expected two --classes with a comma between, got {text!r}")
    low, high = sorted(names)
    return low, high


def class_names(table: NumericTable, classes: tuple[str, str]) -> np.ndarray:
    """The label of each row as one of the two names; numbers are compared as numbers."""
    labels, wanted = table.labels, np.array(classes, object)
    if labels.dtype.kind == "f":
        try:
            wanted = np.array([float(name) for name in classes])
        except ValueError:
            raise ValueError(
                f"expected --classes that the target holds, got {','.join(classes)} for the "
                f"numbers of {table.label_name!r}"
            ) from None
    else:
        labels = np.array([str(label).strip() for label in labels], object)
    is_class = labels[:, None] == wanted
    foreign = np.flatnonzero(~is_class.any(axis=1))
    if foreign.size:
        raise ValueError(
            f"expected {classes[0]!r} or {classes[1]!r} in column {table.label_name!r}, data row "
            f"{foreign[0] + 1}, got {labels[foreign[0]]!s}"
        )
    return np.array(classes)[is_class.argmax(axis=1)]
