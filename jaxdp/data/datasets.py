"""User tables: the label, the inputs, and checks of both, with errors that show no cell."""

import pathlib
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from jaxdp.core.terminals import printable
from jaxdp.data.standardisation import LARGEST_VALUE
from jaxdp.data.table_files import open_table, place_of

_MOST_NAMED = 5


class NumericTable(NamedTuple):
    """A table of numbers (float64) and its labels; text labels are objects without outer blanks."""

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
    drop: Sequence[str | int] = (),
    drop_constant: bool = False,
    header: bool | None = None,
    is_text_label: bool = False,
) -> NumericTable:
    """Read a table of numbers from text (commas, semicolons, white space) or from an NPZ file.

    Args:
        path: the file.
        target: name of the label's column, or its number from 0, negative from the end; None for
            the last column, or "labels".
        drop: names or numbers of columns to leave out.
        drop_constant: whether to leave out constant columns instead of refusing them.
        header: whether the first line of a text names the columns; None to infer it from the first
            lines (`open_table`).
        is_text_label: whether the labels are texts, taken as they are written.
    """
    options = {"drop": drop, "header": header, "is_text_label": is_text_label}
    table = read_whole_table(path, target, **options, may_be_bare=True)
    rows, names = len(table.labels), table.input_names
    varies = (table.inputs != table.inputs[0]).any(axis=0) | (rows == 1)
    if not (drop_constant or varies.all()):
        constant = [name for name, does in zip(names, varies, strict=True) if not does]
        raise ValueError(
            f"{path}: {_listed('column', constant)} never {'vary' if constant[1:] else 'varies'}; "
            "leave out columns with drop_constant=True"
        )
    if not varies.any():
        raise ValueError(f"{path}: no input column that varies besides {table.label_name!r}")
    needed = 2 * (varies.sum() + 2)
    if rows < needed:
        raise ValueError(
            f"{path}: too few rows: {rows} for {varies.sum()} columns, at least {needed} needed; "
            "add rows, or leave out columns with drop=[...]"
        )
    missing = np.flatnonzero(table.labels == "")
    if missing.size:
        raise ValueError(
            f"{path}: the target {table.label_name!r} with missing values ({missing.size}, from "
            f"data row {missing[0] + 1}); fill or remove those rows"
        )
    if np.all(table.labels == table.labels[0]):
        raise ValueError(f"{path}: the target {table.label_name!r} never varies; choose another")
    kept = tuple(name for name, does in zip(names, varies, strict=True) if does)
    return table._replace(inputs=table.inputs[:, varies], input_names=kept)


def read_whole_table(
    path: str | pathlib.Path,
    target: str | int | None = None,
    *,
    drop: Sequence[str | int] = (),
    header: bool | None = None,
    is_text_label: bool = False,
    may_be_bare: bool = False,
) -> NumericTable:
    """Read a table for a private learner: no choice depends on how its values vary.

    No record counts as a header, and constant columns stay; a first line with numbers needs
    `header`, unless it has a requested name. A table that `may_be_bare` may lack a line of names
    (`open_table`); one for a fit may not. Refusals of unusable tables are outside any guarantee.
    """
    path = pathlib.Path(path)
    named = [*drop, *([] if target is None else [target])]
    names, read = open_table(path, header=header, named=named, may_be_bare=may_be_bare)
    label, kept = _chosen_columns(path, names, target, drop)
    columns = read([label] if is_text_label else [])
    labels = columns[label]
    if len(labels) == 0:
        raise ValueError(f"{path}: a header and no rows")
    is_text = labels.dtype.kind != "f"
    if is_text and not is_text_label:
        raise ValueError(
            f"{path}: the target {names[label]!r} holds text; choose another or turn it into "
            "numbers"
        )
    found = _fault(names, columns, kept if is_text else [*kept, label])
    if found is not None:
        reason, remedy, places = found
        places = [place for place in places if place != label]
        if not places:
            raise ValueError(f"{path}: {reason}; {remedy}")
        drop = ", ".join(f'"{place}"' for place in places)
        raise ValueError(f"{path}: {reason}; {remedy}, or leave out columns with drop=[{drop}]")
    return NumericTable(
        inputs=np.stack([columns[i] for i in kept], axis=1),
        labels=np.array([each.strip() for each in labels], object) if is_text else labels,
        input_names=tuple(names[i] for i in kept),
        label_name=names[label],
    )


def read_inputs(
    path: str | pathlib.Path,
    wanted: Sequence[str],
    *,
    header: bool | None = None,
    texts: Collection[str] | None = None,
    dates: Collection[str] = (),
) -> np.ndarray:
    """Read the named columns of a table, in this order; it may have others.

    Args:
        wanted: names of the columns, or numbers from 0.
        header: whether the first line of a text names the columns; None for yes if `wanted` are
            names, else as in `read_table`. A table without names, or numbers in `wanted` that are
            not names, give the same number of columns by position.
        texts: columns that may hold texts, taken as written; rows are then objects, and cells may
            be missing. None requires finite numbers.
        dates: columns that may hold dates, as texts or numbers; only with `texts`.
    """
    path = pathlib.Path(path)
    is_nameless = list(wanted) == [str(i) for i in range(len(wanted))]
    if header is None and not is_nameless:
        header = True
    names, read = open_table(path, header=header, may_be_bare=True)
    missing = [name for name in wanted if name not in names]
    if len(names) == len(wanted) and (header is False or (is_nameless and missing)):
        names = list(wanted)
    elif missing:
        raise ValueError(
            f"{path}: no {_listed('column', missing)} among its {len(names)}; expected "
            f"{_listed('column', wanted)}, or as many by position with header=False"
        )
    twice = [name for name in wanted if names.count(name) > 1]
    if twice:
        raise ValueError(f"{path}: {_listed('column', twice)} more than once")
    used = [names.index(name) for name in wanted]
    written = [names.index(name) for name in texts or ()]
    columns = read(written)
    others = {*written, *(names.index(name) for name in dates)}
    # If cells may be missing, only texts are a fault.
    known = columns if texts is None else [_filled(column) for column in columns]
    found = _fault(names, known, [i for i in used if i not in others])
    if found is not None:
        numbers = "finite numbers" if texts is None else "numbers where a column has a range"
        raise ValueError(f"{path}: expected {numbers}; {found[0]}")
    return np.stack([columns[i] for i in used], axis=1, dtype=None if texts is None else object)


def _filled(column: np.ndarray) -> np.ndarray:
    return column if column.dtype == object else np.where(np.isnan(column), 0, column)


def _chosen_columns(
    path: pathlib.Path, names: list[str], target: str | int | None, drop: Sequence[str | int]
) -> tuple[int, list[int]]:
    """Places of the label, by default the last column, and of the inputs."""
    dropped = {_place(name, names, path) for name in drop}
    label = len(names) - 1 if target is None else _place(target, names, path)
    if label in dropped:
        raise ValueError(f"{path}: column {names[label]!r} is both target and dropped")
    kept = [i for i in range(len(names)) if i != label and i not in dropped]
    if not kept:
        raise ValueError(f"{path}: no input column besides the target {names[label]!r}")
    return label, kept


def _place(wanted: str | int, names: list[str], path: pathlib.Path) -> int:
    """The place of a column by name, or by number if no column has this name."""
    name = str(wanted).strip()
    if names.count(name) > 1:
        raise ValueError(f"{path}: the name {name!r} appears {names.count(name)} times; rename it")
    place = names.index(name) if name in names else place_of(name, len(names))
    if place is None:
        shown = ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")
        raise ValueError(
            f"{path}: no column {name!r}; there are {len(names)}: {printable(shown)} (or by number "
            f"from 0 to {len(names) - 1})"
        )
    return place


def _fault(
    names: Sequence[str], columns: Sequence[np.ndarray], used: Sequence[int]
) -> tuple[str, str, list[int]] | None:
    """The fault of used columns, its remedy, and their numbers; or None. Shows no cell."""
    text = [i for i in used if columns[i].dtype.kind != "f"]
    if text:
        verb = "holds" if len(text) == 1 else "hold"
        fault = f"{_listed('column', [names[i] for i in text])} {verb} text"
        return fault, "turn into numbers", text
    spoiled = [i for i in used if not np.all(np.abs(columns[i]) < LARGEST_VALUE)]
    if not spoiled:
        return None
    missing = np.flatnonzero(~(np.abs(columns[spoiled[0]]) < LARGEST_VALUE))
    fault = (
        f"{_listed('column', [names[i] for i in spoiled])} with missing or infinite values "
        f"({missing.size} in the first, from data row {missing[0] + 1})"
    )
    return fault, "fill or remove those rows", spoiled


def _listed(noun: str, names: Sequence[str]) -> str:
    """The names in words, only the first ones of many."""
    shown = ", ".join(repr(name) for name in names[:_MOST_NAMED])
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{noun}{'s' if len(names) > 1 else ''} {shown}{more}"
