"""Tables of columns, in blocks if a terminal is too narrow, and predictions that coincide."""

import html
import itertools
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxdp.core.display import WIDTH
from jaxdp.core.trajectory import Trajectory

_BETWEEN = "  "
_NO_BREAK = "\N{NO-BREAK SPACE}"
# Relative difference below which predictions in float32 coincide.
_SAME = 1e-4


class Column(NamedTuple):
    """A column's heading and its cells."""

    head: str
    cells: list[str]


def as_text(first: Column, groups: Sequence[Sequence[Column]]) -> list[str]:
    """The table in lines of at most 80 characters, in blocks that begin with the first column."""
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
    # Short heads are aligned at the bottom.
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


def coinciding(predictions: Sequence[Trajectory]) -> list[tuple[Trajectory, list[Trajectory]]]:
    """Each prediction to show, with later ones that coincide; one with a spread is always shown."""
    found: list[tuple[Trajectory, list[Trajectory]]] = []
    for each in predictions:
        equal = (same for shown, same in found if _distance(shown, each) <= _SAME)
        same = next(equal, None) if each.std is None else None
        if same is None:
            found.append((each, []))
        else:
            same.append(each)
    return found


def coincidences(predictions: Sequence[Trajectory]) -> list[str]:
    """A sentence for each shown prediction with which others coincide."""
    return [
        f"{_listed(same)} agree{'s' * (len(same) == 1)} with {name_of(shown)} to "
        f"{max(_distance(shown, each) for each in same):.0e} of the risk: not shown"
        for shown, same in coinciding(predictions)
        if same
    ]


def _distance(first: Trajectory, second: Trajectory) -> float:
    """The largest relative difference of the risks, over all records and the release."""
    one, other = (
        np.append(np.asarray(each.risk, np.float64), np.asarray(each.final_risk, np.float64))
        for each in (first, second)
    )
    if one.shape != other.shape or not (np.isfinite(one).all() and np.isfinite(other).all()):
        return np.inf
    scale = np.maximum(np.abs(one), np.abs(other))
    return float((np.abs(one - other) / np.where(scale > 0, scale, 1)).max())


def name_of(prediction: Trajectory) -> str:
    """The name of a prediction in tables and legends."""
    return prediction.label or "predicted"


def _listed(predictions: Sequence[Trajectory]) -> str:
    *first, last = (name_of(each) for each in predictions)
    return f"{', '.join(first)} and {last}" if first else last
