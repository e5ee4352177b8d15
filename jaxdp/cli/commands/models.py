"""`jaxdp fit` and `jaxdp predict`: a private function of a table's columns, kept in a file.

What a fit reads besides the numbers themselves (which line is the header, which columns are used,
their ranges, the classes) is said on the command line, not found in the data.
"""

import argparse
import csv
import dataclasses
import io
import os
import pathlib
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdp.cli.declared import check_fit, class_names, listed_names, ranges, two_classes
from jaxdp.cli.files import check_files, check_writable
from jaxdp.cli.output import as_json, described_options
from jaxdp.core.files.whole_files import claimed, write_whole
from jaxdp.data.datasets import NumericTable, read_inputs, read_whole_table

if TYPE_CHECKING:
    from jaxdp.kernels import ReleasedFunction

_MOST_NAMED = 12
_SHARED = (
    "epsilon",
    "delta",
    "input_bound",
    "num_projections",
    "num_features",
    "ridge",
)


def fit(options: argparse.Namespace) -> None:
    """Learn a function from a table, with its privacy proved, and save it."""
    check_fit(options)
    # Besides the table a file of ranges is read, where one is given.
    more = pathlib.Path(getattr(options, "input_range", ""))
    check_files([options.data, *([more] if more.is_file() else [])], options.out)
    if os.path.lexists(options.out):
        raise ValueError(
            f"{options.out} exists; a release that was paid for is not overwritten: remove it or "
            "choose another --out"
        )
    # Before the data are looked at: of two fits at once one would be paid for and lost.
    with claimed(options.out):
        table, release = _fitted(options)
        release.save(options.out)
    summary = {
        "rows": len(table.labels),
        "inputs": list(table.input_names),
        "target": table.label_name,
        "options": described_options(options),
        "cost": _plain_cost(release),
        "files": [str(options.out)],
    }
    if options.json:
        print(as_json(summary))
        return
    shown = ", ".join(table.input_names[:_MOST_NAMED])
    more = len(table.input_names) - _MOST_NAMED
    print(
        f"{table.label_name} from {shown}{f' and {more} more' if more > 0 else ''}; "
        f"{len(table.labels)} rows",
        release.cost,
        f"model: {options.out}",
        sep="\n",
    )


def _fitted(options: argparse.Namespace) -> tuple[NumericTable, "ReleasedFunction"]:
    table = read_whole_table(
        options.data,
        options.target,
        drop=listed_names(options.drop),
        header=options.header,
        is_text_label=options.classify,
    )
    _check_table(options.data, table)
    return table, (_classified if options.classify else _regressed)(options, table)


def predict(options: argparse.Namespace) -> None:
    """A saved function at the rows of a table."""
    from jaxdp.kernels import load

    check_files([options.model, options.data], options.out)
    if options.out is not None:
        check_writable(options.out.parent)
    release = load(options.model)
    known = release.columns
    names = known.inputs if known else tuple(map(str, range(release.features.dim)))
    values = np.asarray(release(read_inputs(options.data, names, header=options.header)))
    cells = _cells(values, known.classes if known else None)
    if options.out is not None:
        text = io.StringIO(newline="")
        _write(text, cells)
        write_whole(options.out, text.getvalue().encode())
    if options.json:
        found: dict[str, Any] = {
            name: column if name == "class" else [float(cell) for cell in column]
            for name, column in cells.items()
        }
        files = [str(options.out)] if options.out is not None else []
        summary = {"rows": len(values), "target": known.label if known else None, **found}
        print(as_json(summary | {"cost": _plain_cost(release), "files": files}))
    elif options.out is None:
        _write(sys.stdout, cells)
    else:
        print(f"{len(values)} predictions: {options.out}")


def _cells(values: np.ndarray, classes: tuple[str, ...] | None) -> dict[str, list[str]]:
    """Columns of texts; of a classifier also the class that each row's score or scores name."""
    # As few digits as tell the number from its neighbours.
    texts = values.astype(str).T.tolist()
    if values.ndim == 1:
        if classes is None:
            return {"prediction": texts}
        return {"class": [classes[int(value > 0)] for value in values], "score": texts}
    names = classes or tuple(map(str, range(values.shape[1])))
    scores = {f"score {name}": column for name, column in zip(names, texts, strict=True)}
    return {"class": [names[place] for place in values.argmax(axis=1)], **scores}


def _regressed(options: argparse.Namespace, table: NumericTable) -> "ReleasedFunction":
    from jaxdp.estimators import DPKernelRidge
    from jaxdp.kernels import Columns

    columns = Columns(table.input_names, table.label_name)
    learner = DPKernelRidge(**_given(options, table, "label_bound", "intercept_share"))
    release = learner.fit(table.inputs, table.labels).release_
    return dataclasses.replace(release, columns=columns)


def _classified(options: argparse.Namespace, table: NumericTable) -> "ReleasedFunction":
    from jaxdp.estimators import DPKernelClassifier
    from jaxdp.kernels import Columns

    classes = two_classes(options.classes)
    if options.header is None and table.label_name in classes:
        # The label of a record without numbers, which a model's file would publish.
        raise ValueError(
            f"{options.data}: the target is called {table.label_name!r}, as one of the classes is: "
            "the first line may be names or data; say header or no header"
        )
    columns = Columns(table.input_names, table.label_name, classes)
    labels = class_names(table, classes)
    learner = DPKernelClassifier(classes=classes, **_given(options, table))
    release = learner.fit(table.inputs, labels).release_
    return dataclasses.replace(release, columns=columns)


def _given(options: argparse.Namespace, table: NumericTable, *more: str) -> dict[str, Any]:
    """The estimator's keywords that were given; the others have its defaults."""
    from jaxdp.kernels import Gaussian

    found = {name: getattr(options, name) for name in (*_SHARED, *more) if name in options}
    if "public_seed" in options:
        found["random_state"] = options.public_seed
    if "scale" in options:
        found["kernel"] = Gaussian(options.scale)
    if "input_range" in options:
        found["input_range"] = ranges(options.input_range, table.input_names)
    return found


def _plain_cost(release: "ReleasedFunction") -> dict[str, Any]:
    cost = release.cost
    return {field.name: getattr(cost, field.name) for field in dataclasses.fields(cost)}


def _check_table(path: pathlib.Path, table: NumericTable) -> None:
    """What the learner and the model's file would refuse too, without naming the table."""
    names = (*table.input_names, table.label_name)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{path}: expected names of columns that differ, got {twice!r} twice")
    if len(table.labels) < 2:
        raise ValueError(f"{path}: expected at least 2 rows, got {len(table.labels)}")


def _write(file: Any, cells: dict[str, list[str]]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(cells)
    writer.writerows(zip(*cells.values(), strict=True))
