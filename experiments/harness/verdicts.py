"""Words and tables that figures are judged and summed up with."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray

from experiments.harness.figures import Check, table


def span(values: Any, form: str = ".3f") -> str:
    """The least and the largest of some numbers, leaving out those that are not known."""
    return f"{float(np.nanmin(values)):{form}} to {float(np.nanmax(values)):{form}}"


def listed(values: Any, form: str = ".3f") -> str:
    """Numbers of an array one after the other."""
    return ", ".join(f"{float(value):{form}}" for value in np.ravel(values))


def within(claim: str, gap: Any, allowed: Any, found: str = "") -> Check:
    """A claim that gaps are smaller than what is allowed, at all places where both are known.

    Args:
        claim: the claim in words.
        gap, allowed: arrays that broadcast; the sign of a gap does not count.
        found: text to put before the result.
    """
    share = float(np.nanmax(abs(gap) / allowed))
    return Check(claim, f"{found}{share:.0%} of what is allowed", share < 1)


def listing(
    dataset: xarray.Dataset,
    axes: tuple[str, ...],
    columns: Mapping[str, Callable[[xarray.Dataset], object]],
) -> str:
    """A table with a row for each place along some axes.

    Args:
        dataset: the numbers to show.
        axes: names of axes; the last one varies fastest from row to row.
        columns: for each title, a function from the dataset at one place to the cell.
    """
    places = np.ndindex(*(dataset.sizes[axis] for axis in axes))
    rows = [dataset.isel(dict(zip(axes, place, strict=True))) for place in places]
    return table(list(columns), [[cell(at) for cell in columns.values()] for at in rows])
