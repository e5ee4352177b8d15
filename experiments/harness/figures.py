"""Parts of a figure's module: other sizes of its Config, claims with verdicts, and tables."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import xarray


def size(**fields: Any) -> Any:
    """`smoke = size(...)` in the body of a Config makes `Config.smoke()` the Config of that size.

    The usual size has the defaults.

    Args:
        fields: fields that differ from the defaults.
    """
    return classmethod(lambda config: config(**fields))


class Check(NamedTuple):
    """One claim of a figure, the numbers obtained, and whether they confirm it."""

    claim: str
    obtained: str
    holds: bool


def claims_of(
    checks: Callable[[xarray.Dataset], list[Check]],
) -> Callable[[xarray.Dataset], dict[str, bool]]:
    """A figure's `claims`, made of its `checks`.

    Raises:
        ValueError: when called, if two checks have the same words.
    """

    def claims(dataset: xarray.Dataset) -> dict[str, bool]:
        """Each claim, and whether the dataset confirms it."""
        found = checks(dataset)
        holds = {check.claim: bool(check.holds) for check in found}
        if len(holds) < len(found):
            raise ValueError(f"expected claims in different words, got {[c.claim for c in found]}")
        return holds

    return claims


def span(values: Any, form: str = ".2f") -> str:
    """The least and the largest of some numbers, as "0.10 to 0.20".

    Args:
        values: an array, or anything with `min` and `max`.
        form: format of both numbers.
    """
    return f"{float(values.min()):{form}} to {float(values.max()):{form}}"


def listed(values: Iterable[Any], form: str = "{:.2f}") -> str:
    """Numbers, or tuples of numbers, in a sentence: each in this form, with commas between them."""
    rows = (value if isinstance(value, tuple) else (value,) for value in values)
    return ", ".join(form.format(*map(float, row)) for row in rows)


def table(head: Sequence[object], rows: Iterable[Iterable[object]]) -> str:
    """A table with a line for each row, its cells as `str` writes them.

    Args:
        head: titles of the columns.
        rows: cells.

    Raises:
        ValueError: a row has more or fewer cells than there are titles.
    """
    lines = [_line(head), "|---" * len(head) + "|"]
    for row in rows:
        cells = list(row)
        if len(cells) != len(head):
            raise ValueError(f"expected {len(head)} cells, got {cells}")
        lines.append(_line(cells))
    return "\n".join(lines)


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
