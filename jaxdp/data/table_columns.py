"""Choice of the label and input columns of a table, and a check that they hold numbers."""

import pathlib
from collections.abc import Sequence

import numpy as np

from jaxdp.data.standardisation import LARGEST_VALUE
from jaxdp.data.table_files import place_of

_MOST_NAMED = 5


class UnusableColumnsError(ValueError):
    """Some columns of a table cannot be used, and leaving out columns may help.

    `columns` are the numbers of those to leave out, empty where any will do.
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
    """The place of a column given by name or, where none has it for a name, by number."""
    name = str(wanted).strip()
    if names.count(name) > 1:
        raise ValueError(f"{path}: the name {name!r} stands {names.count(name)} times; rename it")
    place = names.index(name) if name in names else place_of(name, len(names))
    if place is None:
        shown = ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")
        raise ValueError(
            f"{path}: no column {name!r}; there are {len(names)}: {shown} (or by number "
            f"from 0 to {len(names) - 1})"
        )
    return place


def fault(
    names: Sequence[str], columns: Sequence[np.ndarray], used: Sequence[int]
) -> tuple[str, str, list[int]] | None:
    """The fault of all used columns that have one, its remedy, and their numbers; or None.

    No cell is shown: it may be private.
    """
    text = [i for i in used if columns[i].dtype.kind != "f"]
    if text:
        verb = "holds" if len(text) == 1 else "hold"
        return (
            f"{listed('column', [names[i] for i in text])} {verb} text",
            "turn into numbers",
            text,
        )
    spoiled = [i for i in used if not np.all(np.abs(columns[i]) < LARGEST_VALUE)]
    if not spoiled:
        return None
    missing = np.flatnonzero(~(np.abs(columns[spoiled[0]]) < LARGEST_VALUE))
    return (
        f"{listed('column', [names[i] for i in spoiled])} with missing or infinite values "
        f"({missing.size} in the first, from data row {missing[0] + 1})",
        "fill or remove those rows",
        spoiled,
    )


def listed(noun: str, names: Sequence[str]) -> str:
    """The names in words, the first of them where there are many."""
    shown = ", ".join(repr(name) for name in names[:_MOST_NAMED])
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{noun}{'s' if len(names) > 1 else ''} {shown}{more}"
