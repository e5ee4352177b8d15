"""Reading a user's table: which column is the label, which are inputs, and whether both are usable.

Each error is one line that says which column or row it is about and what to do.
"""

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxdp.data.standardisation import LARGEST_VALUE
from jaxdp.data.table_columns import (
    UnusableColumnsError,
    chosen_columns,
    listed,
    require_numbers,
)
from jaxdp.data.table_files import read_columns


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
    is_text_label: bool = False,
) -> NumericTable:
    """Read a table of numbers from text (comma or white space) or from an NPZ file.

    Args:
        path: the file, as `table_files.read_columns` takes it.
        target: name of the label's column, or its number from 0, negative from the end; None is
            the last column, or "labels".
        drop: names or numbers of columns to leave out.
        drop_constant: whether to leave out columns that never vary, instead of refusing them.
        is_text_label: whether the labels may be texts; they come without blanks around them.

    Raises:
        ValueError: the file cannot be read, or the table is not of varying finite numbers.
    """
    path = pathlib.Path(path)
    names, columns = read_columns(path)
    label, kept = chosen_columns(path, names, columns, target, drop)
    is_text = is_text_label and columns[label].dtype.kind != "f"
    require_numbers(path, names, columns, kept if is_text else [*kept, label], label)
    rows = len(columns[label])
    constant = [i for i in kept if rows > 1 and columns[i].max() == columns[i].min()]
    if constant and not drop_constant:
        raise UnusableColumnsError(
            f"{path}: {listed('column', [names[i] for i in constant])} never "
            f"{'varies' if len(constant) == 1 else 'vary'}",
            constant,
            is_constant=True,
        )
    kept = [i for i in kept if i not in constant]
    if not kept:
        raise ValueError(f"{path}: no input column that varies besides {names[label]!r}")
    needed = 2 * (len(kept) + 2)
    if rows < needed:
        raise UnusableColumnsError(
            f"{path}: too few rows: {rows} for {len(kept)} columns, at least {needed} needed",
            otherwise="add rows, or ",
        )
    if is_text:
        columns[label] = _texts(path, names[label], columns[label])
    if np.all(columns[label] == columns[label][0]):
        raise ValueError(f"{path}: the target {names[label]!r} never varies; choose another")
    return NumericTable(
        inputs=np.stack([columns[i] for i in kept], axis=1),
        labels=columns[label],
        input_names=tuple(names[i] for i in kept),
        label_name=names[label],
    )


def read_whole_table(
    path: str | pathlib.Path,
    target: str | int | None = None,
    *,
    drop: Sequence[str] = (),
    header: bool = True,
    is_text_label: bool = False,
) -> NumericTable:
    """A table for a private learner: nothing is decided by how its values vary.

    Whether there is a header is said, not guessed, and constant columns stay: which rows and
    columns are used does not depend on what the cells hold. What cannot be used is refused, and
    that refusal is outside any guarantee.

    Args:
        path, target, drop: as `read_table`.
        header: whether the first line of a text names the columns.
        is_text_label: whether the labels may be texts; they come as they are written.

    Raises:
        ValueError: the file cannot be read, or the inputs (or labels) are not finite numbers.
    """
    path = pathlib.Path(path)
    names, columns = read_columns(path, header=header)
    label, kept = chosen_columns(path, names, columns, target, drop)
    require_numbers(path, names, columns, kept if is_text_label else [*kept, label], label)
    return NumericTable(
        inputs=np.stack([columns[i] for i in kept], axis=1),
        labels=columns[label],
        input_names=tuple(names[i] for i in kept),
        label_name=names[label],
    )


def read_inputs(path: str | pathlib.Path, wanted: Sequence[str]) -> np.ndarray:
    """The named columns of a table, in the order asked for; it may have others.

    Where either the table or those asked for have numbers instead of names, as many columns as
    are asked for are taken by position.

    Args:
        path: the file.
        wanted: names of the columns.

    Raises:
        ValueError: the file cannot be read, a column is missing, or a cell is no finite number.
    """
    path = pathlib.Path(path)
    names, columns = read_columns(path)
    missing = [name for name in wanted if name not in names]
    is_nameless = _is_numbered(names) or _is_numbered(wanted)
    if missing and is_nameless and len(wanted) == len(names):
        names = list(wanted)
    elif missing:
        shown = f"{len(names)} without names" if _is_numbered(names) else listed("column", names)
        raise ValueError(
            f"{path}: no {listed('column', missing)}; expected "
            f"{listed('column', list(wanted))}, got {shown}"
        )
    chosen = [columns[names.index(name)] for name in wanted]
    for name, column in zip(wanted, chosen, strict=True):
        numbers = column if column.dtype.kind == "f" else np.array(list(map(_number, column)))
        spoiled = np.flatnonzero(~(np.abs(numbers) < LARGEST_VALUE))
        if spoiled.size:
            raise ValueError(
                f"{path}: expected a number in column {name!r}, data row {spoiled[0] + 1}, "
                f"got {column[spoiled[0]]!s}"
            )
    return np.stack(chosen, axis=1).astype(np.float64)


def _texts(path: pathlib.Path, name: str, cells: np.ndarray) -> np.ndarray:
    """The cells of a label as texts without blanks around them; all have to be there."""
    missing = np.flatnonzero([not isinstance(cell, str) or not cell.strip() for cell in cells])
    if missing.size:
        raise ValueError(
            f"{path}: the target {name!r} with missing values ({missing.size}, from data row "
            f"{missing[0] + 1}); fill or remove those rows"
        )
    return np.array([cell.strip() for cell in cells], object)


def _is_numbered(names: Sequence[str]) -> bool:
    return list(names) == [str(i) for i in range(len(names))]


def _number(cell: object) -> float:
    try:
        return float(cell)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        return np.nan
