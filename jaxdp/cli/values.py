"""Values of options as they are typed: lists of names, ranges of columns, two classes.

This module imports no JAX, so that values are checked without it.
"""

import csv
import io
import math
import pathlib

import numpy as np

RANGES = "expected --input-range LOW:HIGH, or a file with lines column,low,high"


def flag(name: str) -> str:
    """The option of a name in Python: "--num-steps" of "num_steps"."""
    return f"--{name.replace('_', '-')}"


def listed_names(text: str) -> list[str]:
    """Names with commas between; one with a comma in it stands in quotes, as in a CSV."""
    rows = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True, strict=True)
    try:
        return [name.strip() for row in rows for name in row if name.strip()]
    except csv.Error:
        raise ValueError(f"expected names with commas between, got {text!r}") from None


def low_high(text: str) -> tuple[float, float]:
    """Both ends of LOW:HIGH; ValueError if the text is something else."""
    low, high = map(float, text.split(":"))
    return low, high


def ranges(text: str, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends: LOW:HIGH for all columns, or a file of lines `column,low,high`.

    Raises:
        ValueError: the text is neither, a column has no range, or a range is empty.
    """
    path = pathlib.Path(text)
    try:
        known = _range_file(path) if path.is_file() else dict.fromkeys(names, low_high(text))
    except ValueError:
        raise ValueError(f"{RANGES}, got {text!r}") from None
    for name in names:
        if name not in known:
            raise ValueError(f"{path}: no range of the column {name!r}")
        low, high = known[name]
        if not -math.inf < low < high < math.inf:
            raise ValueError(
                f"expected --input-range with finite low < high of column {name!r}, got {low:g} "
                f"and {high:g}"
            )
    low, high = np.array([known[name] for name in names]).T
    return low, high


def _range_file(path: pathlib.Path) -> dict[str, tuple[float, float]]:
    from jaxdp.data.table_files import as_numbers, open_table

    names, read = open_table(path, header=False)
    columns, *ends = read(range(len(names)))
    first = int([end[0] for end in ends] == ["low", "high"])
    low, high = (as_numbers(end[first:]) for end in ends)
    columns = [column.strip() for column in columns[first:]]
    if len(set(columns)) < len(columns):
        raise ValueError("a column stands twice")
    return dict(zip(columns, zip(low, high, strict=True), strict=True))


def two_classes(text: str) -> tuple[str, str]:
    """Both names, in the order in which the estimator has its classes."""
    from jaxdp.data.table_files import as_numbers

    names = listed_names(text)
    if len(names) != 2:
        raise ValueError(f"expected two --classes with a comma between, got {text!r}")
    first, second = as_numbers(names)
    if names[0] == names[1] or first == second:
        raise ValueError(f"expected two classes that differ, got --classes {text}")
    low, high = sorted(names)
    return low, high


def check_sizes(**sizes: tuple[int, ...]) -> None:
    """Raise ValueError where an array would have 2^31 numbers, which can only be a slip.

    Args:
        sizes: shape of each array that will be made; the keyword's words tell what it holds.
    """
    for name, shape in sizes.items():
        if math.prod(shape) >= 2**31:
            raise ValueError(
                f"expected fewer than 2^31 numbers in {name.replace('_', ' ')}, got "
                f"{' * '.join(map(str, shape))}"
            )
