"""`jaxdp fit` and `jaxdp predict`: a private function of a table's columns, kept in a file.

What a fit reads besides the numbers themselves (which line is the header, which columns are used,
their ranges, the classes) is said on the command line, not found in the data, and checked before
the table is looked at, so that no budget is spent on what ends in an error.
"""

import argparse
import csv
import dataclasses
import functools
import io
import os
import pathlib
import sys
from typing import Any

import numpy as np

from jaxdp.cli import output
from jaxdp.cli.commands.columns import check_cells, kinds_of, tabular_fit
from jaxdp.cli.values import check_sizes, listed_names, ranges, two_classes
from jaxdp.core.files import write_whole
from jaxdp.data.datasets import NumericTable, read_inputs, read_whole_table
from jaxdp.data.table_files import as_numbers
from jaxdp.kernels import Columns, Gaussian, ReleasedFunction, load
from jaxdp.kernels.release.released_function import chances
from jaxdp.privacy.arguments import check_budget

# Options that are the estimators' keywords.
_KEYWORDS = ("epsilon", "delta", "input_bound", "num_projections", "num_features", "ridge")
_OF_REGRESSION = ("label_bound", "intercept_share")


def fit(options: argparse.Namespace) -> None:
    """Learn a function from a table, with its privacy proved, and save it."""
    tables = [one for one in (options.table, getattr(options, "data", None)) if one is not None]
    if len(tables) != 1:
        raise ValueError(f"expected one TABLE, or --data TABLE, got {len(tables)}")
    options.data = tables[0]
    del vars(options)["table"]
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
    table, release = fitted()
    release.save(options.out)
    if options.json:
        summary = {
            "rows": len(table.labels),
            "inputs": list(table.input_names),
            "target": table.label_name,
            "options": output.described_options(options),
            "cost": vars(release.cost),
            "files": [str(options.out)],
        }
        print(output.as_json(summary | ({"card": release.card} if described else {})))
        return
    if described:
        print(release.card, f"model: {options.out}", sep="\n")
        return
    print(
        f"{table.label_name} from {output.listed(table.input_names)}; {len(table.labels)} rows",
        release.cost,
        f"model: {options.out}",
        sep="\n",
    )


def _check_fit(options: argparse.Namespace) -> None:
    """Raise ValueError where the options do not go together, or lack one."""
    for name in ("linear", "logistic", "additive"):
        if getattr(options, name):
            raise ValueError(f"--{name} needs --columns, a file of what is known of the columns")
    if options.classify:
        output.settle(options, {}, dict.fromkeys(_OF_REGRESSION, "does not go with --classify"))
    else:
        output.settle(options, {}, {"classes": "needs --classify"})
    # All that is missing at once.
    missing = []
    if "delta" in options:
        check_budget(options.epsilon, options.delta)
    else:
        missing.append("--delta, of the budget, in (0, 1)")
    if options.classify and "classes" not in options:
        missing.append("--classes A,B with --classify: they are public, not read")
    if not options.classify and "label_bound" not in options:
        missing.append("--label-bound, a public bound of the target, or --classify")
    # The learner would warn, after a budget was spent on columns of any size.
    if "input_range" not in options and "input_bound" not in options:
        missing.append(
            "--input-range, public ranges of the columns (LOW:HIGH or a file), or --input-bound "
            "inf where public numbers have scaled them already"
        )
    if missing:
        raise ValueError(
            f"expected {'; and '.join(missing)}. Or --columns FILE and --target NAME in place of "
            "all options of a kernel (see `jaxdp columns`): text and missing values are read then"
        )
    paths, features = getattr(options, "num_projections", 1), getattr(options, "num_features", 1)
    check_sizes(the_sample_paths=(paths, features), the_covariance=(paths, paths))
    if options.classify:
        two_classes(options.classes)


def _fitted(options: argparse.Namespace) -> tuple[NumericTable, ReleasedFunction]:
    from jaxdp.estimators import DPKernelClassifier, DPKernelRidge

    table = read_whole_table(
        options.data,
        options.target,
        drop=listed_names(options.drop),
        header=options.header,
        is_text_label=options.classify,
    )
    names = (*table.input_names, table.label_name)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(
            f"{options.data}: expected names of columns that differ, got {twice!r} twice"
        )
    if len(table.labels) < 2:
        raise ValueError(f"{options.data}: expected at least 2 rows, got {len(table.labels)}")
    settings = {name: getattr(options, name) for name in _KEYWORDS if name in options}
    if "public_seed" in options:
        settings["random_state"] = options.public_seed
    if "scale" in options:
        settings["kernel"] = Gaussian(options.scale)
    if "input_range" in options:
        settings["input_range"] = ranges(options.input_range, table.input_names)
    if options.classify:
        classes = two_classes(options.classes)
        if options.header is None and table.label_name in classes:
            # The label of a record without numbers, which a model's file would publish.
            raise ValueError(
                f"{options.data}: the target is called {table.label_name!r}, as one of the classes "
                "is: the first line may be names or data; say header or no header"
            )
        learner, labels = DPKernelClassifier(classes=classes, **settings), _named(table, classes)
    else:
        settings |= {name: getattr(options, name) for name in _OF_REGRESSION if name in options}
        classes, learner, labels = None, DPKernelRidge(**settings), table.labels
    release = learner.fit(table.inputs, labels).release_
    columns = Columns(table.input_names, table.label_name, classes)
    return table, dataclasses.replace(release, columns=columns)


def _named(table: NumericTable, classes: tuple[str, str]) -> np.ndarray:
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


def predict(options: argparse.Namespace) -> None:
    """A saved function at the rows of a table."""
    if options.out is not None:
        output.check_out(options.out, [options.model, options.data])
        output.check_writable(options.out.parent)
    output.check_file(options.model)
    release = load(options.model)
    known = release.columns
    names = known.inputs if known else tuple(map(str, range(release.features.dim)))
    reader = release.features.reader
    kinds = {} if reader is None else kinds_of(reader)
    inputs = read_inputs(options.data, names, header=options.header, **kinds)
    if reader is not None:
        check_cells(options.data, reader, inputs)
    values = np.asarray(release(inputs))
    classes = known.classes if known else None
    if release.record is not None and release.record.has_logits:
        probabilities = chances(values.astype(np.float64)).T
        classes = classes or tuple(map(str, range(len(probabilities))))
        cells = _cells(values, classes)
        for name, column in zip(classes, probabilities, strict=True):
            cells[f"probability {name}"] = [f"{chance:.6f}" for chance in column]
    else:
        cells = _cells(values, classes)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(cells)
    writer.writerows(zip(*cells.values(), strict=True))
    if options.out is not None:
        write_whole(options.out, text.getvalue().encode())
    if options.json:
        summary: dict[str, Any] = {"rows": len(values), "target": known.label if known else None}
        for name, column in cells.items():
            summary[name] = column if name == "class" else [float(cell) for cell in column]
        files = [str(options.out)] if options.out is not None else []
        print(output.as_json(summary | {"cost": vars(release.cost), "files": files}))
    elif options.out is None:
        sys.stdout.write(text.getvalue())
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
