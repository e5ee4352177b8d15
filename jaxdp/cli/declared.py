"""A table's columns, ranges and classes, as they are declared on the command line.

All of it is checked before a fit, so that no budget is spent on what ends in an error.
"""

import argparse
import csv
import io
import math
import pathlib
from typing import Any

import numpy as np

from jaxdp.cli.sizes import check_sizes
from jaxdp.data.datasets import NumericTable
from jaxdp.data.table_files import as_numbers, open_table


def check_fit(options: argparse.Namespace) -> None:
    """Raise ValueError where the options of `jaxdp fit` do not go together, or lack one."""
    from jaxdp.privacy.arguments import check_budget

    check_budget(options.epsilon, options.delta)
    seed = getattr(options, "public_seed", 0)
    if not 0 <= seed < 2**63:
        raise ValueError(f"expected 0 <= --public-seed < 2^63, got {seed}")
    paths, features = getattr(options, "num_projections", 1), getattr(options, "num_features", 1)
    check_sizes(the_sample_paths=(paths, features), the_covariance=(paths, paths))
    if options.classify:
        for name in ("label_bound", "intercept_share"):
            if name in options:
                raise ValueError(f"--{name.replace('_', '-')} does not go with --classify")
        if "classes" not in options:
            raise ValueError("expected --classes A,B with --classify: they are public, not read")
        two_classes(options.classes)
        _check_inputs(options)
        return
    if "classes" in options:
        raise ValueError("--classes needs --classify")
    if "label_bound" not in options:
        raise ValueError("expected --label-bound, a public bound of the target, or --classify")
    _check_inputs(options)


def _check_inputs(options: argparse.Namespace) -> None:
    # The learner would warn, after a budget was spent on columns of any size.
    if "input_range" not in options and "input_bound" not in options:
        raise ValueError(
            "expected --input-range, public ranges of the columns (LOW:HIGH or a file), or "
            "--input-bound inf where public numbers have scaled them already"
        )


def listed_names(text: str) -> list[str]:
    """Names with commas between; one with a comma in it stands in quotes, as in a CSV."""
    rows = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True, strict=True)
    try:
        return [name.strip() for row in rows for name in row if name.strip()]
    except csv.Error:
        raise ValueError(f"expected names with commas between, got {text!r}") from None


def ranges(text: str, names: tuple[str, ...]) -> tuple[Any, Any]:
    """LOW:HIGH for all columns, or a file with a line `column,low,high` for each.

    Raises:
        ValueError: it is neither, a column has no range, or a range is empty.
    """
    path = pathlib.Path(text)
    try:
        if path.is_file():
            known = _range_file(path)
        else:
            low, high = map(float, text.split(":"))
            known = dict.fromkeys(names, (low, high))
    except ValueError:
        raise ValueError(
            f"expected --input-range LOW:HIGH, or a file with lines column,low,high, got {text!r}"
        ) from None
    missing = [name for name in names if name not in known]
    if missing:
        raise ValueError(f"{path}: no range of the column {missing[0]!r}")
    for name in names:
        low, high = known[name]
        if not -math.inf < low < high < math.inf:
            raise ValueError(
                f"expected --input-range with finite low < high of column {name!r}, got {low:g} "
                f"and {high:g}"
            )
    low, high = np.array([known[name] for name in names]).T
    return low, high


def _range_file(path: pathlib.Path) -> dict[str, tuple[float, float]]:
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
    names = listed_names(text)
    if len(names) != 2:
        raise ValueError(f"expected two --classes with a comma between, got {text!r}")
    first, second = as_numbers(names)
    if names[0] == names[1] or first == second:
        raise ValueError(f"expected two classes that differ, got --classes {text}")
    low, high = sorted(names)
    return low, high


def class_names(table: NumericTable, classes: tuple[str, str]) -> np.ndarray:
    """The label of each row as one of the two names; numbers are compared as numbers."""
    is_class = table.labels[:, None] == np.array(classes, object)
    is_class |= as_numbers(table.labels)[:, None] == as_numbers(classes)
    foreign = np.flatnonzero(~is_class.any(axis=1))
    if foreign.size:
        raise ValueError(
            f"expected {classes[0]!r} or {classes[1]!r} in column {table.label_name!r}, got "
            f"{foreign.size} other labels, the first in data row {foreign[0] + 1}"
        )
    return np.array(classes)[is_class.argmax(axis=1)]
