"""A table of names, values and what they are: as text of 80 columns, and as HTML for notebooks."""

import abc
import html
import itertools
import textwrap
from typing import NamedTuple

from jaxdp.core.display.terminals import on_a_line

WIDTH = 80
# No column of values or of meanings is narrower.
_LEAST = 20


class Row(NamedTuple):
    """One line of an explanation: a name as in Python, a value in words, its meaning and unit."""

    name: str
    value: str
    meaning: str = ""


class Explanation(NamedTuple):
    """The content of an object's table: a title, a row for each quantity, and notes."""

    title: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def on_lines(self) -> "Explanation":
        """The same without line breaks and escape sequences, which names of a file may hold."""
        rows = tuple(Row(*map(on_a_line, row)) for row in self.rows)
        return Explanation(on_a_line(self.title), rows, tuple(map(on_a_line, self.notes)))


class AbstractExplained(abc.ABC):
    """An object that `print` and notebooks show as a table of its quantities."""

    @abc.abstractmethod
    def _explanation(self) -> Explanation:
        """The content of this object's table."""

    def __str__(self) -> str:
        return as_text(self._explanation())

    def _repr_html_(self) -> str:
        return as_html(self._explanation())


def as_text(explanation: Explanation) -> str:
    """The table in at most 80 columns, where names are short enough."""
    explanation = explanation.on_lines()
    rows = explanation.rows
    first = max((len(row.name) for row in rows), default=0)
    room = max(WIDTH - 2 - first - 2, 2 * _LEAST)
    # A value much longer than the others does not push their meanings aside.
    second = max((len(row.value) for row in rows if len(row.value) <= room // 2), default=0)
    lines = textwrap.wrap(explanation.title, WIDTH) or [""]
    for row in rows:
        lines += _lines(row, first, min(second, room - _LEAST - 2), room)
    for note in explanation.notes:
        lines += textwrap.wrap(note, WIDTH, initial_indent="  - ", subsequent_indent="    ")
    return "\n".join(lines)


def _lines(row: Row, first: int, second: int, room: int) -> list[str]:
    """A row: the name, the value, and the meaning beside it or, of a long value, below it."""
    meanings = textwrap.wrap(row.meaning, room - second - 2)
    if len(row.value) <= second:
        values = [row.value]
    else:
        values = textwrap.wrap(row.value, room)
        meanings = [""] * len(values) * bool(meanings) + meanings
    pairs = itertools.zip_longest([row.name], values, meanings, fillvalue="")
    return [
        f"  {name.ljust(first)}  {value.ljust(second)}  {meaning}".rstrip()
        for name, value, meaning in pairs
    ]


def as_html(explanation: Explanation) -> str:
    """The table for a notebook; whatever is in it is text and no markup."""
    explanation = explanation.on_lines()
    has_meanings = any(row.meaning for row in explanation.rows)
    rows = "".join(
        f'<tr><th style="text-align:left">{html.escape(row.name)}</th>'
        f'<td style="text-align:left">{html.escape(row.value)}</td>'
        + (f'<td style="text-align:left">{html.escape(row.meaning)}</td>' * has_meanings)
        + "</tr>"
        for row in explanation.rows
    )
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in explanation.notes)
    table = f"<table>{rows}</table>" if rows else ""
    return (
        f"<div><strong>{html.escape(explanation.title)}</strong>{table}"
        f"{f'<ul>{notes}</ul>' if notes else ''}</div>"
    )
