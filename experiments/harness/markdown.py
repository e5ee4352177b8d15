"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


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
