"""`jaxdp fit` and `jaxdp predict`: a private function of a table's columns, saved in a file.

Columns, ranges and classes are given by options, not inferred from the data. All errors are found
before noise is drawn, so that they cost no budget.
"""

import argparse
import dataclasses
import functools
import math
import os
import pathlib
import sys
import tempfile
import uuid
import warnings
from typing import Any

import numpy as np

from jaxdp.cli import output
from jaxdp.cli.commands.columns import check_names, kinds_of, persons, read_cells, tabular_fit
from jaxdp.core.files import write_whole
from jaxdp.core.packages import require_extra
from jaxdp.data.datasets import NumericTable, read_inputs, read_whole_table
from jaxdp.data.table_files import as_numbers, open_table
from jaxdp.kernels import ColumnNames, Gaussian, ReleasedFunction, load
from jaxdp.kernels.release.released_function import chances
from jaxdp.privacy.budgets import budget_of

# Options that are keywords of the estimators.
_KEYWORDS = ("epsilon", "delta", "input_bound", "num_projections", "num_features", "ridge")
_OF_REGRESSION = ("label_bound", "intercept_share")


def _saved(release: ReleasedFunction, out: pathlib.Path) -> pathlib.Path:
    """Save the release to `out`, or to a new file next to it if `out` exists by now."""
    try:
        release.save(out)
    except FileExistsError:
        beside = out.with_name(f"{out.stem}-{uuid.uuid4().hex[:8]}{out.suffix}")
        release.save(beside)
        warnings.warn(
            f"{out} was written by another fit meanwhile; this release is in {beside}",
            UserWarning,
            stacklevel=2,
        )
        return beside
    return out


def fit(options: argparse.Namespace) -> None:
    """Learn a function from a table, with its privacy proved, and save it."""
    table = vars(options).pop("table")
    options.data = options.data or table
    described = getattr(options, "columns", None)
    if described is not None:
        fitted = tabular_fit(options)
    else:
        _check_fit(options)
        fitted = functools.partial(_fitted, options)
    ranged = getattr(options, "input_range", "")
    output.check_out(options.out, [options.data, pathlib.Path(described or ranged)])
    if os.path.lexists(options.out):
        raise ValueError(
            f"{options.out} exists; a release that was paid for is not overwritten: remove it or "
            "choose another --out"
        )
    # Fails before noise is drawn if the folder cannot be written.
    tempfile.TemporaryFile(dir=options.out.parent).close()
    table, release = fitted()
    # With --groups the number of all rows is not public.
    num_rows = release.record.num_samples if release.record else len(table.labels)
    options.out = _saved(release, options.out)
    if options.json:
        summary = {
            "rows": num_rows,
            "inputs": list(table.input_names),
            "target": table.label_name,
            "options": output.described_options(options),
            "cost": vars(release.cost),
            "files": [str(options.out)],
        }
        print(output.as_json(summary | ({"card": release.card} if described else {})))
        return
    inputs = output.listed(table.input_names)
    lines = f"{table.label_name} from {inputs}; {num_rows} rows", release.cost
    print(*([release.card] if described else lines), f"model: {options.out}", sep="\n")


def _check_fit(options: argparse.Namespace) -> None:
    """Raise ValueError if options are missing or contradict each other."""
    for name in ("linear", "logistic", "additive"):
        if getattr(options, name):
            raise ValueError(f"--{name} needs --columns, a file that describes the columns")
    if options.classify == ("classes" not in options):
        raise ValueError("expected --classify and --classes A,B together: they are public")
    # Without a range or bound of the inputs the learner would only warn, after the noise was drawn.
    needed = {
        "--delta": ("delta",) if isinstance(options.epsilon, float) else ("epsilon",),
        "--label-bound or --classify": ("label_bound", "classes"),
        "--input-range, or --input-bound (inf if scaled)": ("input_range", "input_bound"),
    }
    if missing := [one for one, names in needed.items() if not {*names} & {*vars(options)}]:
        raise ValueError(
            f"expected {'; and '.join(missing)}. Or --columns FILE and --target NAME instead of "
            "the options of a kernel (see `jaxdp columns`), also for text and missing values"
        )
    budget_of(options.epsilon, getattr(options, "delta", None))
    paths, features = getattr(options, "num_projections", 1), getattr(options, "num_features", 1)
    output.check_sizes(the_sample_paths=(paths, features), the_covariance=(paths, paths))
    if options.classify:
        _two_classes(options.classes)
        output.settle(options, {}, {"intercept_share": "does not go with --classify"})


def _fitted(options: argparse.Namespace) -> tuple[NumericTable, ReleasedFunction]:
    from jaxdp.estimators import DPKernelClassifier, DPKernelRidge

    table = read_whole_table(
        options.data,
        options.target,
        drop=[*output.listed_names(options.drop), *filter(None, [options.groups])],
        header=options.header,
        is_text_label=options.classify,
    )
    check_names(options.data, [*table.input_names, table.label_name])
    settings = {name: getattr(options, name) for name in _KEYWORDS if name in options}
    settings["rows_per_person"] = options.rows_per_person
    if "public_seed" in options:
        settings["random_state"] = options.public_seed
    if "scale" in options:
        settings["kernel"] = Gaussian(options.scale)
    if "input_range" in options:
        settings["input_range"] = _ranges(options.input_range, table.input_names)
    if options.classify:
        classes = _two_classes(options.classes)
        if options.header is None and table.label_name in classes:
            # Then the model's file could publish a record as names.
            raise ValueError(
                f"{options.data}: the target is called {table.label_name!r}, as one of the classes "
                "is: the first line may be names or data; say header or no header"
            )
        learner, labels = DPKernelClassifier(classes=classes, **settings), _named(table, classes)
    else:
        settings |= {name: getattr(options, name) for name in _OF_REGRESSION if name in options}
        classes, learner, labels = None, DPKernelRidge(**settings), table.labels
    release = learner.fit(table.inputs, labels, persons(options)).release_
    columns = ColumnNames(table.input_names, table.label_name, classes)
    return table, dataclasses.replace(release, columns=columns)


def _ranges(text: str, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Read lower and upper ends: LOW:HIGH for all columns, or a file with `column,low,high`."""
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
    names, read = open_table(path, header=False)
    columns, *ends = read(range(len(names)))
    first = int([end[0] for end in ends] == ["low", "high"])
    low, high = (as_numbers(end[first:]) for end in ends)
    columns = [column.strip() for column in columns[first:]]
    if len(set(columns)) < len(columns):
        raise ValueError("a column appears twice")
    return dict(zip(columns, zip(low, high, strict=True), strict=True))


def _two_classes(text: str) -> tuple[str, str]:
    """Read both names, in the order of the estimator's classes."""
    names = output.listed_names(text)
    if len(names) != 2:
        raise ValueError(f"expected two --classes with a comma between, got {text!r}")
    first, second = as_numbers(names)
    if names[0] == names[1] or first == second:
        raise ValueError(f"expected two classes that differ, got --classes {text}")
    low, high = sorted(names)
    return low, high


def _named(table: NumericTable, classes: tuple[str, str]) -> np.ndarray:
    """Return each label as one of the two names; numbers are compared as numbers."""
    is_class = table.labels[:, None] == np.array(classes, object)
    is_class |= as_numbers(table.labels)[:, None] == as_numbers(classes)
    foreign = np.flatnonzero(~is_class.any(axis=1))
    if foreign.size:
        raise ValueError(
            f"expected {classes[0]!r} or {classes[1]!r} in column {table.label_name!r}, got "
            f"{foreign.size} other labels, the first in data row {foreign[0] + 1}"
        )
    return np.array(classes)[is_class.argmax(axis=1)]


def predict(options: argparse.Namespace) -> None:
    """Evaluate a saved function at the rows of a table."""
    with require_extra("pandas", "data", "jaxdp predict"):
        import pandas as pd
    if options.out is not None:
        output.check_out(options.out, [options.model, options.data])
        tempfile.TemporaryFile(dir=options.out.parent).close()
    output.check_file(options.model)
    release = load(options.model)
    known = release.columns
    names = known.inputs if known else tuple(map(str, range(release.features.dim)))
    reader = release.features.reader
    kinds = {} if reader is None else kinds_of(reader)
    inputs: Any = read_inputs(options.data, names, header=options.header, **kinds)
    if reader is not None:
        inputs = read_cells(options.data, reader, inputs)
    values = np.asarray(release(inputs))
    classes = known.classes if known else None
    probabilities = ()
    if release.record is not None and release.record.has_logits:
        probabilities = chances(values.astype(np.float64)).T
        classes = classes or tuple(map(str, range(len(probabilities))))
    cells = _cells(values, classes)
    names = (classes or ()) if len(probabilities) else ()
    for name, column in zip(names, probabilities, strict=True):
        cells[f"probability {name}"] = [f"{chance:.6f}" for chance in column]
    text = pd.DataFrame(cells).to_csv(index=False, lineterminator="\n")
    if options.out is not None:
        write_whole(options.out, text.encode())
    if options.json:
        summary: dict[str, Any] = {"rows": len(values), "target": known.label if known else None}
        for name, column in cells.items():
            summary[name] = column if name == "class" else [float(cell) for cell in column]
        files = [str(options.out)] if options.out is not None else []
        print(output.as_json(summary | {"cost": vars(release.cost), "files": files}))
    elif options.out is None:
        sys.stdout.write(text)
    else:
        print(f"{len(values)} predictions: {options.out}")


def _cells(values: np.ndarray, classes: tuple[str, ...] | None) -> dict[str, list[str]]:
    """Return the predictions as columns of texts, with classes and scores for a classifier."""
    # The shortest text that NumPy reads back as the same number.
    texts = values.astype(str).T.tolist()
    if values.ndim == 1:
        if classes is None:
            return {"prediction": texts}
        return {"class": [classes[int(value > 0)] for value in values], "score": texts}
    names = classes or tuple(map(str, range(values.shape[1])))
    scores = {f"score {name}": column for name, column in zip(names, texts, strict=True)}
    return {"class": [names[place] for place in values.argmax(axis=1)], **scores}
