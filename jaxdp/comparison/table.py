"""Tables of columns, in blocks if a terminal is too narrow."""

import html
import itertools
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from jaxdp.core.display import WIDTH

_BETWEEN = "  "
_NO_BREAK = "\N{NO-BREAK SPACE}"


class Column(NamedTuple):
    """A column's heading and its cells."""

    head: str
    cells: list[str]


def as_text(first: Column, groups: Sequence[Sequence[Column]]) -> list[str]:
    """The table as lines of at most 80 characters.

    A table that is too wide gets headings broken at spaces, and further blocks, each with the first
    column. Columns of a group stay together.
    """
    columns = [first, *itertools.chain.from_iterable(groups)]
    if _width(columns, is_broken=False) <= WIDTH:
        return _block(columns, is_broken=False)
    blocks, current = [], [first]
    for group in groups:
        if len(current) > 1 and _width([*current, *group], is_broken=True) > WIDTH:
            blocks.append(current)
            current = [first]
        current += group
    blocks = [_block(columns, is_broken=True) for columns in [*blocks, current]]
    return [line for block in blocks for line in ["", *block]][1:]


def as_html(first: Column, groups: Sequence[Sequence[Column]]) -> str:
    """The table for a notebook."""
    columns = [first, *itertools.chain.from_iterable(groups)]
    heads = "".join(f"<th>{html.escape(column.head)}</th>" for column in columns)
    rows = (
        "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        for cells in zip(*(column.cells for column in columns), strict=True)
    )
    lines = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"


def wrapped(sentence: str) -> list[str]:
    """A sentence below the table, on lines of at most 80 characters."""
    lines = textwrap.wrap(sentence, WIDTH, subsequent_indent="  ", break_long_words=False)
    return [line.replace(_NO_BREAK, " ") for line in lines]


def unbroken(clause: str) -> str:
    """A clause that `wrapped` keeps on one line."""
    return clause.replace(" ", _NO_BREAK)


def _head(column: Column, is_broken: bool) -> list[str]:
    return column.head.split(" ") if is_broken else [column.head]


def _widths(columns: list[Column], is_broken: bool) -> list[int]:
    texts = ([*_head(column, is_broken), *column.cells] for column in columns)
    return [max(map(len, each)) for each in texts]


def _width(columns: list[Column], is_broken: bool) -> int:
    return sum(_widths(columns, is_broken)) + len(_BETWEEN) * (len(columns) - 1)


def _block(columns: list[Column], is_broken: bool) -> list[str]:
    widths, heads = _widths(columns, is_broken), [_head(column, is_broken) for column in columns]
    height = max(map(len, heads))
    # A short head stands on the ruler.
    heads = [[""] * (height - len(head)) + head for head in heads]
    rows = [
        *zip(*heads, strict=True),
        ["-" * width for width in widths],
        *zip(*(column.cells for column in columns), strict=True),
    ]
    return [
        _BETWEEN.join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
