"""Which columns of a table are the label and the inputs, and whether they are numbers."""

import pathlib
from collections.abc import Sequence

import numpy as np

from jaxdp.data.standardisation import LARGEST_VALUE
from jaxdp.data.table_files import is_number

_MOST_NAMED = 5


class UnusableColumnsError(ValueError):
    """Some columns of a table cannot be used, and leaving out columns may help.

    Attributes:
        reason: what is wrong, without the advice.
        columns: numbers of the columns to leave out; empty where any will do.
        is_constant: whether they are all constant.
        otherwise: what else would help, where something does.
    """

    def __init__(
        self,
        reason: str,
        columns: Sequence[int] = (),
        *,
        is_constant: bool = False,
        otherwise: str = "",
    ):
        self.reason, self.columns = reason, tuple(columns)
        self.is_constant, self.otherwise = is_constant, otherwise
        numbers = ", ".join(f'"{column}"' for column in columns)
        advice = "drop_constant=True" if is_constant else f"drop=[{numbers or '...'}]"
        super().__init__(self.advised(advice))

    def advised(self, argument: str) -> str:
        """The message that tells to leave out columns with this argument or option."""
        return f"{self.reason}; {self.otherwise}leave out columns with {argument}"


def chosen_columns(
    path: pathlib.Path,
    names: list[str],
    columns: list[np.ndarray],
    target: str | int | None,
    drop: Sequence[str],
) -> tuple[int, list[int]]:
    """Positions of the label and of the inputs.

    Args:
        path: of the file, for messages.
        names: of all columns.
        columns: their cells.
        target: name or number of the label; None is the last.
        drop: names or numbers of columns that are neither.

    Raises:
        ValueError: no such column, none is left for the inputs, or there are no rows.
    """
    dropped = {_column(name, names, path) for name in drop}
    label = _column(len(names) - 1 if target is None else target, names, path)
    if label in dropped:
        raise ValueError(f"{path}: column {names[label]!r} is both target and dropped")
    kept = [i for i in range(len(names)) if i != label and i not in dropped]
    if not kept:
        raise ValueError(f"{path}: no input column besides the target {names[label]!r}")
    if len(columns[label]) == 0:
        raise ValueError(f"{path}: a header and no rows")
    return label, kept


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


def require_numbers(
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
        raise UnusableColumnsError(
            f"{path}: {listed('column', [names[i] for i in text])} hold"
            f"{'s' if len(text) == 1 else ''} text, for example {_example(columns[text[0]])}",
            text,
            otherwise="turn into numbers, or ",
        )
    spoiled = [i for i in used if not np.all(np.abs(columns[i]) < LARGEST_VALUE)]
    if spoiled:
        missing = np.flatnonzero(~(np.abs(columns[spoiled[0]]) < LARGEST_VALUE))
        kept = [i for i in spoiled if i != label]
        reason = (
            f"{path}: {listed('column', [names[i] for i in spoiled])} with missing or infinite "
            f"values ({missing.size} in the first, from data row {missing[0] + 1})"
        )
        if not kept:
            raise ValueError(f"{reason}; fill or remove those rows")
        raise UnusableColumnsError(reason, kept, otherwise="fill or remove those rows, or ")


def _example(column: np.ndarray) -> str:
    """The first cell that is no number."""
    return repr(next((cell for cell in column if not is_number(str(cell))), column[0]))


def listed(noun: str, names: list[str]) -> str:
    """The names in words, the first of them where there are many."""
    shown = ", ".join(repr(name) for name in names[:_MOST_NAMED])
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{noun}{'s' if len(names) > 1 else ''} {shown}{more}"
