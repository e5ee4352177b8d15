"""Columns of a user's file: comma or white space, with or without header, or NPZ.

Each error is one line that says which column or row it is about and what to do.
"""

import csv
import pathlib
import re

import numpy as np

from jaxdp.core.extras import require_extra

_MISSING = {"", "na", "n/a", "nan", "null", "none", "?", "-"}


def read_columns(
    path: str | pathlib.Path, *, header: bool | None = None
) -> tuple[list[str], list[np.ndarray]]:
    """Names and columns of a file, each of float64 or, where a cell is no number, of objects.

    Text may begin with a header line. An NPZ file, read without pickles, holds one array per
    column, or a two-dimensional "inputs" (or "x") and a one-dimensional "labels" (or "y").

    Args:
        path: the file.
        header: whether the first line of a text names the columns; None tells from the first two
            lines whether it does. Columns without names are called by their numbers from 0.

    Raises:
        ValueError: the file cannot be read.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: {'not a file' if path.exists() else 'no such file'}")
    return _read_npz(path) if path.suffix == ".npz" else _read_text(path, header)


def _read_text(path: pathlib.Path, has_header: bool | None) -> tuple[list[str], list[np.ndarray]]:
    with require_extra("pandas", "data", "reading a table"):
        import pandas

    separator, header, skipped = _layout(path, has_header)
    try:
        frame = pandas.read_csv(
            path,
            sep=separator or r"\s+",
            header=None,
            skiprows=skipped,
            skipinitialspace=True,
            na_values=sorted(_MISSING),
            encoding="utf-8-sig",
            low_memory=False,
        )
    except pandas.errors.EmptyDataError:
        raise ValueError(f"{path}: a header and no rows") from None
    except (pandas.errors.ParserError, UnicodeDecodeError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise ValueError(f"{path}: rows of unequal length or not text ({reason})") from None
    names = header or [str(i) for i in range(frame.shape[1])]
    if len(names) != frame.shape[1]:
        raise ValueError(
            f"{path}: the header names {len(names)} columns, the first row has {frame.shape[1]}"
        )
    columns = [frame.iloc[:, i].to_numpy() for i in range(len(names))]
    return names, [
        column.astype(np.float64) if column.dtype.kind in "fiub" else column.astype(object)
        for column in columns
    ]


def _layout(
    path: pathlib.Path, has_header: bool | None
) -> tuple[str | None, list[str] | None, int]:
    """The separator (None is white space), the header's names or None, lines to skip.

    A header may be a comment, as NumPy writes it.
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            numbered = ((i, line.strip()) for i, line in enumerate(file) if line.strip())
            lines = [line for line, _ in zip(numbered, "12", strict=False)]
    except UnicodeDecodeError:
        raise ValueError(
            f"{path}: not a text file in UTF-8; give a CSV, a text table or an .npz"
        ) from None
    if not lines:
        raise ValueError(f"{path}: the file is empty")
    number, text = lines[0]
    is_comment = text.startswith("#")
    text = text.lstrip("# ")
    separator = _separator(text)
    try:
        first = _cells(text, separator)
        below = _cells(lines[1][1], separator) if len(lines) > 1 else []
    except csv.Error as error:
        raise ValueError(f"{path}: not a table ({error})") from None
    if has_header is False:
        return separator, None, 0
    if has_header and all(_is_written_number(cell) for cell in first):
        raise ValueError(f"{path}: expected a line of column names, got numbers: {text[:40]!r}")
    words = [i for i, cell in enumerate(first) if not is_number(cell)]
    # A row of data may hold text as well; a header's words have numbers below them.
    # Data frames without names write the numbers of their columns, after a blank for the index.
    counted = [cell for cell in first if cell]
    is_counted = len(first) > 1 and counted == [str(i) for i in range(len(counted))]
    is_header = is_comment or len(words) == len(first) or (is_counted and len(lines) > 1)
    if words and len(below) == len(first):
        is_header |= all(is_number(below[i]) for i in words)
    if not (has_header or is_header):
        return separator, None, 0
    names = [name or f"column {i}" for i, name in enumerate(first)]
    return separator, names, number + 1


def _separator(line: str) -> str | None:
    """A comma, semicolon or tab outside quotes; None is any white space."""
    bare = re.sub(r'"[^"]*"', "", line)
    found = next((mark for mark in (",", ";") if mark in bare), None)
    has_spaces_within = any(" " in cell.strip() for cell in bare.split("\t"))
    return "\t" if found is None and "\t" in bare and has_spaces_within else found


def _cells(line: str, separator: str | None) -> list[str]:
    row = next(csv.reader([line], delimiter=separator)) if separator else line.split()
    return [cell.strip().strip('"') for cell in row]


def _read_npz(path: pathlib.Path) -> tuple[list[str], list[np.ndarray]]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: np.asarray(archive[name]) for name in archive.files}
    except MemoryError:
        raise
    except Exception:
        # What reading an archive may raise has no common name.
        raise ValueError(
            f"{path}: not a readable .npz of plain arrays: it is damaged or holds pickled objects"
        ) from None
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


def is_number(cell: str) -> bool:
    """Whether a cell is a number, or one of the marks of a missing one."""
    try:
        float(cell)
    except ValueError:
        return cell.lower() in _MISSING
    return True


def _is_written_number(cell: str) -> bool:
    return is_number(cell) and cell.lower() not in _MISSING
