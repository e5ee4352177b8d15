"""Marks on axes that many figures make: means with error bars, logarithmic ticks, legends."""

from collections.abc import Iterable
from typing import Any

import xarray
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from experiments.harness.datasets import standard_error


def means(
    axes: Axes, places: Any, runs: xarray.DataArray, over: str, *, sigmas: float = 2, **style: Any
) -> None:
    """Means along an axis of independent runs, with bars of so many standard errors."""
    style = {"markersize": 3.5, "linewidth": 1.2, "capsize": 2} | style
    axes.errorbar(places, runs.mean(over), sigmas * standard_error(runs, over), **style)


def log_ticks(axes: Axes, which: str, values: Iterable[float], form: str = "g") -> None:
    """A logarithmic axis with ticks at these values alone.

    Args:
        axes: the panel.
        which: "x" or "y".
        values: positions of the ticks.
        form: format of their labels, such as "g".
    """
    values = [float(value) for value in values]
    axes.set(**{f"{which}scale": "log"})
    getattr(axes, f"set_{which}ticks")(values, [f"{value:{form}}" for value in values])
    getattr(axes, f"{which}axis").set_minor_locator(NullLocator())


def legend(panel: Any, **options: Any) -> None:
    """A small legend without a frame, of a panel or a whole figure."""
    panel.legend(**{"frameon": False, "fontsize": "small"} | options)
