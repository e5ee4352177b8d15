"""Reading a user's table: comma or white space, with or without header, or NPZ.

Each error is one line that says which column or row it is about and what to do.
"""

import csv
import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxdp.problems.standardisation import LARGEST_VALUE

_MOST_NAMED = 5
_MISSING = {"", "na", "n/a", "nan", "null", "none", "?", "-"}


class NumericTable(NamedTuple):
    """A table of numbers (float64) with one column set apart as the label."""

    inputs: np.ndarray
    labels: np.ndarray
    input_names: tuple[str, ...]
    label_name: str

    def scaled(self) -> "NumericTable":
        """Every column, and the label, centred and scaled to unit variance (non-privately)."""
        inputs = self.inputs - self.inputs.mean(axis=0)
        labels = self.labels - self.labels.mean()
        return self._replace(inputs=inputs / inputs.std(axis=0), labels=labels / labels.std())


def read_table(
    path: str | pathlib.Path,
    target: str | int | None = None,
    *,
    drop: Sequence[str] = (),
    drop_constant: bool = False,
) -> NumericTable:
    """Read a table of numbers from text (comma or white space) or from an NPZ file.

    Text may begin with a header line. An NPZ file, read without pickles, holds one array per
    column, or a two-dimensional "inputs" (or "x") and a one-dimensional "labels" (or "y").

    Args:
        path: the file.
        target: name of the label's column, or its number from 0, negative from the end; None is
            the last column, or "labels".
        drop: names or numbers of columns to leave out.
        drop_constant: whether to leave out columns that never vary, instead of refusing them.

    Raises:
        ValueError: the file cannot be read, or the table is not of varying finite numbers.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: {'not a file' if path.exists() else 'no such file'}")
    names, columns = _read_npz(path) if path.suffix == ".npz" else _read_text(path)
    dropped = {_column(name, names, path) for name in drop}
    label = _column(len(names) - 1 if target is None else target, names, path)
    if label in dropped:
        raise ValueError(f"{path}: column {names[label]!r} is both target and dropped")
    kept = [i for i in range(len(names)) if i != label and i not in dropped]
    if not kept:
        raise ValueError(f"{path}: no input column besides the target {names[label]!r}")
    if len(columns[label]) == 0:
        raise ValueError(f"{path}: a header and no rows")
    _require_numbers(path, names, columns, [*kept, label], label)
    rows = len(columns[label])
    constant = [i for i in kept if rows > 1 and columns[i].max() == columns[i].min()]
    if constant and not drop_constant:
        raise ValueError(
            f"{path}: {_listed('column', [names[i] for i in constant])} never "
            f"{'varies' if len(constant) == 1 else 'vary'}; leave out with --drop-constant"
        )
    kept = [i for i in kept if i not in constant]
    if not kept:
        raise ValueError(f"{path}: no input column that varies besides {names[label]!r}")
    needed = 2 * (len(kept) + 2)
    if rows < needed:
        raise ValueError(
            f"{path}: too few rows: {rows} for {len(kept)} columns, at least {needed} needed; add "
            "rows or leave out columns with --drop"
        )
    if columns[label].max() == columns[label].min():
        raise ValueError(f"{path}: the target {names[label]!r} never varies; choose another")
    return NumericTable(
        inputs=np.stack([columns[i] for i in kept], axis=1),
        labels=columns[label],
        input_names=tuple(names[i] for i in kept),
        label_name=names[label],
    )


def _read_text(path: pathlib.Path) -> tuple[list[str], list[np.ndarray]]:
    """Column names and columns, each of float64 or, where a cell is no number, of objects."""
    import pandas

    separator, header, skipped = _layout(path)
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


def _layout(path: pathlib.Path) -> tuple[str | None, list[str] | None, int]:
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
    first = _cells(text, separator)
    words = [i for i, cell in enumerate(first) if not _is_number(cell)]
    # A row of data may hold text as well; a header's words have numbers below them.
    below = _cells(lines[1][1], separator) if len(lines) > 1 else []
    # Data frames without names write the numbers of their columns, after a blank for the index.
    counted = [cell for cell in first if cell]
    is_counted = len(first) > 1 and counted == [str(i) for i in range(len(counted))]
    is_header = is_comment or len(words) == len(first) or (is_counted and len(lines) > 1)
    if words and len(below) == len(first):
        is_header |= all(_is_number(below[i]) for i in words)
    if not is_header:
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
    import zipfile
    import zlib

    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error):
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


def _column(wanted: str | int, names: list[str], path: pathlib.Path) -> int:
    """Position of a column given by name or by number."""
    if str(wanted) in names:
        return names.index(str(wanted))
    try:
        position = int(wanted)
    except ValueError:
        position = len(names)
    if not -len(names) <= position < len(names):
        shown = ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")
        raise ValueError(
            f"{path}: no column {str(wanted)!r}; there are {len(names)}: {shown} (or by number "
            f"from 0 to {len(names) - 1})"
        )
    return position % len(names)


def _require_numbers(
    path: pathlib.Path, names: list[str], columns: list[np.ndarray], used: list[int], label: int
) -> None:
    """Refuse text, then missing values, naming every column so that one more try is enough."""
    text = [i for i in used if columns[i].dtype.kind != "f"]
    if label in text:
        raise ValueError(
            f"{path}: the target {names[label]!r} holds {_example(columns[label])}; choose another "
            "or turn it into numbers"
        )
    if text:
        raise ValueError(
            f"{path}: {_listed('column', [names[i] for i in text])} hold"
            f"{'s' if len(text) == 1 else ''} text, for example {_example(columns[text[0]])}; "
            f"leave out with --drop {_numbered(text)} or turn into numbers"
        )
    spoiled = [i for i in used if not np.all(np.abs(columns[i]) < LARGEST_VALUE)]
    if spoiled:
        missing = np.flatnonzero(~(np.abs(columns[spoiled[0]]) < LARGEST_VALUE))
        kept = [i for i in spoiled if i != label]
        advice = f", or leave out with --drop {_numbered(kept)}" if kept else ""
        raise ValueError(
            f"{path}: {_listed('column', [names[i] for i in spoiled])} with missing or infinite "
            f"values ({missing.size} in the first, from data row {missing[0] + 1}); fill or remove "
            f"those rows{advice}"
        )


def _example(column: np.ndarray) -> str:
    """The first cell that is no number."""
    return repr(next((cell for cell in column if not _is_number(str(cell))), column[0]))


def _numbered(columns: list[int]) -> str:
    return ",".join(map(str, columns))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell.lower() in _MISSING
    return True


def _listed(noun: str, names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_MOST_NAMED])
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{noun}{'s' if len(names) > 1 else ''} {shown}{more}"
