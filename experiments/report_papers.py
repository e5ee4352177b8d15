"""The report's table of a paper's figures: where each is made, how large, and what came out."""

import json
from collections.abc import Mapping, Sequence

import xarray

from experiments.harness import Check, table
from experiments.papers import Paper, PaperFigure


def figures_of_paper(
    paper: Paper, saved: Mapping[str, xarray.Dataset], checks: Mapping[str, Sequence[Check]]
) -> str:
    """Every figure of a paper as a table; "" where there is no paper.

    Args:
        paper: of `PAPERS`.
        saved: the results by name.
        checks: what each of them claims.
    """
    rows = [
        [
            f"{paper.key} Figure {one.number}",
            f"[{one.module}](#{one.module})" if one.module in saved else one.module,
            _size(one, saved[one.module]) if one.module in saved else "not run",
            one.paper_size,
            _verdict(one, checks.get(one.module, ())),
        ]
        for one in paper.figures
    ]
    head = ["figure of the paper", "here", "size here", "size in the paper", "verdict"]
    return table(head, rows) if rows else ""


def _size(figure: PaperFigure, saved: xarray.Dataset) -> str:
    """The size of the saved result: its configuration in the words of the table."""
    config = json.loads(saved.attrs["config"])
    return figure.size.format(**{name: _written(value) for name, value in config.items()})


def _written(value: object) -> object:
    """Lists that are written as a sentence has them, and read as lists."""
    return _Listed(value) if isinstance(value, list) else value


class _Listed(list):
    @property
    def last(self) -> object:
        return self[-1]

    def __str__(self) -> str:
        return ", ".join(map(str, self))


def _verdict(figure: PaperFigure, checks: Sequence[Check]) -> str:
    held = sum(bool(check.holds) for check in checks)
    return f"{figure.verdict}; {held} of {len(checks)} claims hold" if checks else figure.verdict
