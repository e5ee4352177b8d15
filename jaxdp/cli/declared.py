"""A table's ranges and classes, as they are declared on the command line.

All of it is checked before a fit, so that no budget is spent on what ends in an error.
"""

import argparse
import csv
import math
import pathlib
from typing import Any

import numpy as np

from jaxdp.cli.sizes import check_sizes
from jaxdp.data.datasets import NumericTable


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
    except (ValueError, csv.Error):
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
    low, high = zip(*(known[name] for name in names), strict=True)
    return low, high


def _range_file(path: pathlib.Path) -> dict[str, tuple[float, float]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file) if row]
    rows = rows[1:] if rows and rows[0][1:] == ["low", "high"] else rows
    return {name: (float(low), float(high)) for name, low, high in rows}


def two_classes(text: str) -> tuple[str, str]:
    """Both names, in the order in which the estimator has its classes."""
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names):
        raise ValueError(f"expected two --classes with a comma between, got {text!r}")
    if names[0] == names[1]:
        raise ValueError(f"expected two classes that differ, got --classes {text}")
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
        if wanted[0] == wanted[1]:
            raise ValueError(f"expected two classes that differ, got --classes {','.join(classes)}")
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
