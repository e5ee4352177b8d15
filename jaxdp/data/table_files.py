"""Columns of a user's file: text with commas, semicolons, tabs or blanks between, or NPZ.

pandas parses the cells; separator and header are found here. Errors name the file, a column or a
row, but show no cell, which may be private.
"""

import csv
import itertools
import pathlib
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from jaxdp.core.files import read_arrays
from jaxdp.core.packages import require_extra

# Missing numbers; columns of texts are taken as written.
_MISSING = ("", "-", "?", "NA", "N/A", "n/a", "nan", "NaN", "null", "NULL", "none", "None")
# pandas makes booleans of a column of these.
_BOOLEANS = {"true": "1", "True": "1", "TRUE": "1", "false": "0", "False": "0", "FALSE": "0"}
_BLANKS = r"\s+"
_OF_DATA = {"whole", "number", "missing", "blank"}
_HEAD = 100  # lines that decide a table's layout


def open_table(
    path: str | pathlib.Path,
    *,
    header: bool | None = None,
    named: Iterable[str | int] = (),
    may_be_bare: bool = False,
) -> tuple[list[str], Callable[[Collection[int]], list[np.ndarray]]]:
    """Open a file; return the names of its columns, and a function that reads them.

    An NPZ file, read without pickles, holds one array per column, or a two-dimensional "inputs" (or
    "x") and a one-dimensional "labels" (or "y").

    Args:
        header: whether the first line of a text names the columns. None for yes if its cells are
            words, one of them is in `named`, or it is a comment.
        named: requested columns; one that can be the number of a column does not count.
        may_be_bare: whether the lines below may decide too: numbers alone are data, words above
            numbers are names. A fit must not guess, as it publishes the names.

    Returns:
        The names, numbers from 0 if there are none. The function takes the places of columns that
        are wanted as written; the others are float64, or objects if a cell is no number.

    Raises:
        ValueError: the file cannot be read, or `header` is needed.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: {'not a file' if path.exists() else 'no such file'}")
    if path.suffix == ".npz":
        names, arrays = _read_npz(path)
        return names, lambda texts: arrays
    separator, start = _layout(path)
    frame = _parsed(path, separator, start, nrows=_HEAD, dtype=str)
    first, *below = [[cell.strip() for cell in row] for row in frame.to_numpy(object)]
    if first[0].startswith("#" if separator == _BLANKS else "# "):
        # A comment, as NumPy writes a header.
        name = first[0].lstrip("# ")
        header, first = True, [*filter(None, [name]), *first[1:]]
    if header is None:
        header = _is_header(first, below, named, may_be_bare)
    if header is None:
        raise ValueError(f"{path}: the first line may be names or data; say header or no header")
    if header:
        names = [name or f"column {i}" for i, name in enumerate(first)]
    else:
        names = [str(i) for i in range(len(first))]
    return names, lambda texts: _columns(path, separator, start + header, names, texts)


def as_numbers(cells: Iterable[Any]) -> np.ndarray:
    """The numbers that pandas reads in cells, float64, true and false 1 and 0; otherwise NaN."""
    with require_extra("pandas", "data", "reading a table"):
        import pandas

    given = pandas.Series([_BOOLEANS.get(cell, cell) for cell in cells], dtype=object)
    return np.asarray(pandas.to_numeric(given, errors="coerce"), np.float64)


def place_of(wanted: str | int, num_columns: int) -> int | None:
    """The column of a number, negative from the end; None for other names."""
    if not re.fullmatch("-?[0-9]+", str(wanted)):
        return None
    place = int(wanted)
    return place % num_columns if -num_columns <= place < num_columns else None


def _layout(path: pathlib.Path) -> tuple[str, int]:
    """The separator of cells, and the number of the line of the first row."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            numbered = ((i, line) for i, line in enumerate(file) if line.strip())
            start, line = next(numbered, (0, ""))
            # Excel writes a line such as sep=; before the table.
            said = re.fullmatch(r'"?sep=(.)"?\s*', line, re.IGNORECASE)
            if said:
                start, line = next(numbered, (0, ""))
            if line:
                lines = [line, *itertools.islice(file, _HEAD)]
                return said[1] if said else _separator(lines), start
        reason = "the file is empty"
    except UnicodeDecodeError:
        reason = "not a text file in UTF-8; give a CSV, a text table or an .npz"
    except csv.Error as error:
        reason = f"not a table ({error})"
    # Outside the handler: its error may show a cell and would be chained.
    raise ValueError(f"{path}: {reason}")


def _separator(lines: list[str]) -> str:
    """The mark that splits the first two rows equally, else one that splits the first."""
    found, two = _BLANKS, [line.split() for line in lines if line.strip()][:2]
    if len(two) == 2 and len(two[0]) > len(two[1]) == 1:
        # Blanks in the first row alone belong to the name of a single column.
        found = ","
    for mark in ("\t", ";", ","):
        rows = filter(any, csv.reader(lines, delimiter=mark, skipinitialspace=True))
        first, *second = [len(row) for row in itertools.islice(rows, 2)] or [0]
        if first > 1 and second in ([], [first]):
            return mark
        found = mark if first > 1 else found
    return found


def _is_header(
    first: Sequence[str],
    below: Sequence[Sequence[str]],
    named: Iterable[str | int],
    may_be_bare: bool,
) -> bool | None:
    """Whether the first line names the columns; None if unclear."""
    if any(str(each).strip() in first and place_of(each, len(first)) is None for each in named):
        return True
    kinds = _kinds(first)
    if "word" in kinds and {*kinds} <= {"word", "blank"}:
        return True
    if not (may_be_bare and below):
        return None
    below_kinds = _kinds(below[0])
    # Data frames without names write the numbers of their columns, after a blank for the index. A
    # row of data may have the same whole numbers, or a single one: then this is unclear.
    counted = [cell for cell in first if cell]
    if counted and counted == [str(i) for i in range(len(counted))]:
        return "" in first or ("number" in below_kinds and len(counted) > 1) or None
    if "word" not in kinds:
        # Whole numbers above measured ones may be years.
        is_clear = {*kinds} <= _OF_DATA and ("number" in kinds or "number" not in below_kinds)
        return False if is_clear else None
    # A category recurs in its column, the column's name does not.
    columns = zip(kinds, first, zip(*below, strict=True), strict=True)
    if any(kind == "word" and cell in column for kind, cell, column in columns):
        return False
    pairs = [*zip(kinds, below_kinds, strict=True)]
    are_names = all(under in ("whole", "number") for kind, under in pairs if kind == "word")
    are_years = {pair for pair in pairs if "word" not in pair} == {("whole", "number")}
    return are_names or are_years or None


def _kinds(cells: Sequence[str]) -> list[str]:
    """The kind of each cell; a word has a letter, a date or digits with blanks are "other"."""
    numbers = ~np.isnan(as_numbers(cells))
    return [_kind(cell, is_number) for cell, is_number in zip(cells, numbers, strict=True)]


def _kind(cell: str, is_number: bool) -> str:
    if cell in _MISSING:
        return "missing" if cell else "blank"
    if is_number:
        return "whole" if re.fullmatch("-?[0-9]+", cell) else "number"
    return "word" if any(map(str.isalpha, cell)) else "other"


def _parsed(path: pathlib.Path, separator: str, start: int, **options: Any) -> Any:
    """A data frame of the rows from a line on, as pandas reads them."""
    with require_extra("pandas", "data", "reading a table"):
        import pandas

    try:
        return pandas.read_csv(
            path,
            sep=separator,
            header=None,
            skiprows=start,
            skipinitialspace=True,
            keep_default_na=False,
            encoding="utf-8-sig",
            low_memory=False,
            # Otherwise .gz and .zip would be unpacked, to any size.
            compression=None,
            **options,
        )
    except pandas.errors.EmptyDataError:
        reason = "a header and no rows"
    except UnicodeDecodeError:
        reason = "not a text file in UTF-8"
    except pandas.errors.ParserError as error:
        reason = f"rows of unequal length ({str(error).strip().splitlines()[-1]})"
    raise ValueError(f"{path}: {reason}")


def _columns(
    path: pathlib.Path, separator: str, start: int, names: list[str], texts: Collection[int]
) -> list[np.ndarray]:
    missing = {i: _MISSING for i in range(len(names)) if i not in texts}
    frame = _parsed(path, separator, start, dtype=dict.fromkeys(texts, str), na_values=missing)
    if frame.shape[1] != len(names):
        raise ValueError(
            f"{path}: the header names {len(names)} columns, the first row has {frame.shape[1]}"
        )
    columns = (frame.iloc[:, i].to_numpy() for i in range(len(names)))
    return [each.astype(np.float64 if each.dtype.kind in "fiub" else object) for each in columns]


def _read_npz(path: pathlib.Path) -> tuple[list[str], list[np.ndarray]]:
    try:
        arrays = read_arrays(path)
    except ValueError as reason:
        raise ValueError(f"{path}: not a readable .npz of plain arrays: {reason}") from None
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub":
            raise ValueError(f"{path}: array {name!r} holds {array.dtype}, expected numbers")
    names, columns = [], []
    for name in sorted(arrays, key=lambda name: name in ("labels", "y")):
        array = arrays[name].astype(np.float64)
        if array.ndim == 1:
            names.append(name)
            columns.append(array)
        elif array.ndim == 2:
            names.extend(f"{name}[{i}]" for i in range(array.shape[1]))
            columns.extend(array.T)
        else:
            raise ValueError(
                f"{path}: array {name!r} has shape {array.shape}, expected one or two dimensions"
            )
    if not names:
        raise ValueError(f"{path}: the file holds no arrays")
    if len({len(column) for column in columns}) > 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(f"{path}: arrays of unequal length: {shapes}")
    return names, columns
