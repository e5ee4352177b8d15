"""`jaxdp columns`, and fits that use its file of the columns' public ranges and categories.

The file is a JSON object with an entry for each column and the target: {"age": {"range": [17, 90]},
"seen": {"range": ["2020-01-01", "2024-12-31"]}, "income": {"categories": ["<=50K", ">50K"]}}. The
command writes names and likely kinds; the user fills in ranges and categories.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxdp.cli import output
from jaxdp.core.files import DamagedError, plain_json, write_whole
from jaxdp.data.datasets import NumericTable, read_inputs
from jaxdp.data.table_files import open_table
from jaxdp.kernels import ColumnNames, ReleasedFunction
from jaxdp.privacy.budgets import budget_of
from jaxdp.regression import Columns
from jaxdp.regression.columns import CodedTable

_RANGE, _CATEGORIES = "range", "categories"
_ENTRY = '{"range": [LOW, HIGH]} or {"categories": ["A", "B"]}'
# Ends of a range of dates that is not filled in.
_A_DATE = "YYYY-MM-DD"
_DELTA = 1e-6
_OF_KERNELS = (
    *("label_bound", "input_range", "input_bound", "scale", "num_projections", "num_features"),
    *("ridge", "intercept_share", "public_seed", "classes"),
)
_SAYS = """\
Fill in, from knowledge that does not come from the table: the range of each number or date and the
categories of each text, also for the target. A number that is a code or a class gets categories.
The kinds of columns were read from the table, so do not publish this template.
Remove the columns that are not to be used, then:
jaxdp fit --data {data} --columns {out} --target NAME --epsilon 1"""


def columns(options: argparse.Namespace) -> None:
    """Write a template with the names and kinds of a table's columns, and no values."""
    output.check_out(options.out, [options.data])
    if os.path.lexists(options.out):
        raise ValueError(f"{options.out} exists and is not overwritten; choose another --out")
    names, read = open_table(options.data, header=options.header)
    check_names(options.data, names)
    entries = {name: _unfilled(column) for name, column in zip(names, read([]), strict=True)}
    lines = [json.dumps({name: entry}, ensure_ascii=False)[1:-1] for name, entry in entries.items()]
    text = ",\n".join(f"  {line}" for line in lines)
    write_whole(options.out, f"{{\n{text}\n}}\n".encode(), replace=False)
    if options.json:
        print(output.as_json({"columns": entries, "files": [str(options.out)]}))
        return
    print(f"columns: {output.listed(names)}", f"template: {options.out}", sep="\n")
    print(_SAYS.format(data=options.data, out=options.out))


def _unfilled(column: np.ndarray) -> dict[str, Any]:
    """The entry of a column, which shows only if all cells are dates, or numbers."""
    with contextlib.suppress(TypeError):
        if (Columns({"": ("0001-01-01", "9999-12-31")}).codes(column[:, None]) >= 0).any():
            return {_RANGE: [_A_DATE, _A_DATE]}
    return {_RANGE: [None, None]} if column.dtype.kind == "f" else {_CATEGORIES: []}


def kinds_of(columns: Columns) -> dict[str, list[str]]:
    """Return the names of columns with texts and with dates, as keywords of `read_inputs`."""
    kinds = [*zip(columns.names, columns.is_number, columns.is_date, strict=True)]
    texts = [name for name, is_number, _ in kinds if not is_number]
    return {"texts": texts, "dates": [name for name, _, is_date in kinds if is_date]}


def check_names(path: pathlib.Path, names: list[str]) -> None:
    """Raise ValueError unless the names of a table's columns differ."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{path}: expected names of columns that differ, got {twice!r} twice")


def read_cells(path: pathlib.Path, columns: Columns, rows: np.ndarray) -> CodedTable:
    """Return the codes of a table; ValueError unless each cell is of its column's kind."""
    try:
        return columns.read(rows)
    except TypeError as error:
        raise ValueError(f"{path}: {error}") from None


def tabular_fit(
    options: argparse.Namespace,
) -> Callable[[], tuple[NumericTable, ReleasedFunction]]:
    """Return a fit with the columns of a file; ValueError for wrong options or a wrong file."""
    default = _DELTA if isinstance(options.epsilon, float) else None
    output.settle(
        options, {"delta": default}, dict.fromkeys(_OF_KERNELS, "does not go with --columns")
    )
    path, target = options.columns, options.target
    if options.classify or options.drop:
        given = "--classify" if options.classify else "--drop"
        raise ValueError(f"{given} does not go with --columns: the file lists the used columns")
    budget_of(options.epsilon, options.delta)
    if target is None:
        raise ValueError("expected --target NAME with --columns, one of the columns of its file")
    known = _described(path)
    if target not in known:
        raise ValueError(f"{path}: no target {target!r} among {output.listed(list(known))}")
    if len(known) < 2:
        raise ValueError(f"{path}: no column besides the target {target!r}")
    is_class = isinstance(known[target], list)
    if is_class and (options.linear or len(known[target]) < 2):
        came = "--linear, which is for a range" if options.linear else "one category"
        raise ValueError(f"{path}: expected two classes or more of {target!r}, got {came}")
    if options.logistic and not is_class:
        raise ValueError(f"{path}: expected categories of {target!r} with --logistic, got a range")
    try:
        own = Columns({target: known[target]})
        inputs = Columns({name: spec for name, spec in known.items() if name != target})
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None
    if own.is_date[0]:
        raise ValueError(
            f"{path}: expected a target of numbers or categories, got the range of dates of "
            f"{target!r}"
        )
    return lambda: _fitted(options, known, inputs, own)


def _fitted(
    options: argparse.Namespace, known: dict[str, Any], inputs: Columns, own: Columns
) -> tuple[NumericTable, ReleasedFunction]:
    from jaxdp.estimators import DPLinearRegression, DPLogisticRegression

    kinds = kinds_of(inputs)
    kinds["texts"] += [options.target] * (not own.is_number[0])
    rows = read_inputs(options.data, list(known), header=options.header, **kinds)
    target, place = options.target, list(known).index(options.target)
    table, labels = np.delete(rows, place, axis=1), rows[:, place]
    read_cells(options.data, inputs, table)
    features = "additive" if options.additive else "linear"
    common = {"columns": inputs, "features": features}
    # Codes of categories; for numbers only missing ones matter.
    codes = own.codes(labels[:, None])[:, 0]
    is_wrong, classes = codes < 0, None
    if own.is_number[0]:
        label_range: Any = own.specs[0]
        estimator = DPLinearRegression(
            options.epsilon, options.delta, label_range=label_range, **common
        )
        labels = labels.astype(np.float64)
    else:
        named = known[target]
        classes, is_wrong = tuple(sorted(named)), codes >= len(named)
        estimator = DPLogisticRegression(options.epsilon, options.delta, classes=classes, **common)
        labels = np.array([*named, "", ""])[codes.astype(int)]
    if is_wrong.any():
        raise ValueError(
            f"{options.data}: {is_wrong.sum()} labels of {target!r} are missing or no category of "
            f"it, the first in data row {is_wrong.argmax() + 1}; mend or remove those rows"
        )
    estimator.set_params(rows_per_person=options.rows_per_person)
    release = estimator.fit(table, labels, persons(options)).release_
    release = dataclasses.replace(release, columns=ColumnNames(inputs.names, target, classes))
    return NumericTable(table, labels, inputs.names, target), release


def persons(options: argparse.Namespace) -> np.ndarray | None:
    """Return the cells of the column of --groups; ValueError if there is none, or one is empty."""
    if options.groups is None:
        return None
    names, read = open_table(options.data, header=options.header, named=[options.groups])
    if options.groups not in names:
        raise ValueError(f"{options.data}: no column {options.groups!r} for --groups")
    cells = read([place := names.index(options.groups)])[place]
    cells = [cell.strip() or None if isinstance(cell, str) else cell for cell in cells]
    return np.array(cells, object)


def _described(path: pathlib.Path) -> dict[str, Any]:
    """Read each column's tuple (low, high) or list of categories; ValueError if one is missing."""
    output.check_file(path)
    try:
        entries = plain_json(path.read_bytes())
        fault = "" if isinstance(entries, dict) and entries else "it is not an object with entries"
    except DamagedError as error:
        entries, fault = {}, str(error)
    if fault:
        raise ValueError(
            f"{path}: {fault}; expected a JSON object with an entry for each column, once, such as "
            f'{{"age": {_ENTRY}}}'
        )
    found, unfilled = {}, []
    for name, entry in entries.items():
        kinds = list(entry) if isinstance(entry, dict) else []
        if kinds not in ([_RANGE], [_CATEGORIES]) or not isinstance(entry[kinds[0]], list):
            raise ValueError(f"{path}: expected column {name!r} to be {_ENTRY}")
        known = entry[kinds[0]]
        if not known or None in known or _A_DATE in known:
            unfilled.append(name)
        if any(isinstance(each, (list, dict)) for each in known):
            raise ValueError(f"{path}: expected column {name!r} to be {_ENTRY}, got lists in it")
        # A number and its text are one category.
        texts = [each if isinstance(each, str) else json.dumps(each) for each in known]
        found[name] = tuple(known) if kinds == [_RANGE] else texts
    if unfilled:
        raise ValueError(
            f"{path}: fill in the ranges and categories of {', '.join(map(repr, unfilled))}"
        )
    return found
