"""How PK's figures draw errors: against epsilon and against the projection dimension."""

from collections.abc import Mapping
from typing import Any

import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, StrMethodFormatter

from experiments.harness.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, band, tidy
from experiments.private_kernel_learning.data_free import DRAWN
from experiments.private_kernel_learning.error_averages import (
    best_noiseless,
    mean_and_error,
    oracle,
    shown,
)

# The paper's colours. Published noise is dashed and hollow, certified noise is solid.
_COLORS = {"RP": ORANGE, "RFF": BLUE}
_NAMES = {"RP": "random projection", "RFF": "random Fourier features"}


def against_epsilon(axes: Axes, dataset: xarray.Dataset, title: str) -> None:
    """The oracle's curves, the data-free release, and what needs no budget."""
    for name in dataset.learner.values:
        _curve(axes, oracle(dataset).sel(learner=name), "epsilon", **_style(name))
    free = dataset.data_free.sel(procedure=DRAWN)
    style = {"color": PURPLE, "marker": "s", "label": "the same, chosen without data"}
    _curve(axes, free, "epsilon", **style)
    _levels(axes, dataset)
    axes.set_xlabel(r"$\varepsilon$")
    _logarithmic(axes, title)


def against_projections(axes: Axes, dataset: xarray.Dataset, title: str) -> None:
    """Errors at one epsilon, the least over lambda for each M."""
    for name in dataset.learner.values:
        _curve(axes, shown(dataset).sel(learner=name), "num_projections", **_style(name))
    _levels(axes, dataset)
    _logarithmic(axes, title)


def grid_of_projections(
    dataset: xarray.Dataset,
    axis: str,
    titles: Mapping[Any, str],
    *,
    height: float,
    sharey: Any,
    width: float = 2.3,
) -> Figure:
    """Errors against M: a row for each value of an axis, a column for each epsilon.

    Args:
        dataset: errors by `axis` and epsilon.
        axis: its name.
        titles: what each value is called.
        height: of a row, in inches.
        sharey: which panels share the scale of errors: "row", "col" or none (False).
        width: of a column, in inches.
    """
    columns = dataset.sizes["epsilon"]
    size = width * columns + 0.8, height * len(titles) + 1.0
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(titles), columns, sharex=True, sharey=sharey, squeeze=False)
    for row, (value, title) in zip(panels, titles.items(), strict=True):
        for axes, epsilon in zip(row, dataset.epsilon.values, strict=True):
            at = dataset.sel({axis: value, "epsilon": epsilon})
            against_projections(axes, at, rf"{title}, $\varepsilon$ = {epsilon:.3g}")
        row[0].set_ylabel("test error")
    for axes in panels[-1]:
        axes.set_xlabel("$M$")
    legend(figure, panels[0, 0])
    return figure


def legend(figure: Figure, axes: Axes) -> None:
    """One legend for all panels, below them."""
    handles, labels = axes.get_legend_handles_labels()
    style = {"frameon": False, "fontsize": "small"}
    figure.legend(handles, labels, loc="outside lower center", ncols=3, **style)


def _logarithmic(axes: Axes, title: str) -> None:
    """Both axes, with plain numbers; 2 and 5 are marked too where there are few powers of ten."""
    axes.set(xscale="log", yscale="log")
    tidy(axes, title)
    low, high = axes.get_ylim()
    if high < _FEW * low:
        axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
        axes.yaxis.set_minor_formatter(_PLAIN)
        axes.tick_params(axis="y", which="minor", labelsize="small")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(_PLAIN)


_FEW, _PLAIN = 50, StrMethodFormatter("{x:g}")


def _curve(axes: Axes, runs: xarray.DataArray, along: str, **style) -> None:
    mean, error = mean_and_error(runs)
    places = runs[along].values
    line = {"markersize": 3.5, "linewidth": 1.3}
    axes.plot(places, mean, **line, **style)
    # Two standard errors; below zero there is nothing to draw on a logarithmic axis.
    low = (mean - 2 * error).clip(min=mean / 10)
    band(axes, places, low, mean + 2 * error, style["color"], 0.2)


def _style(name: str) -> dict:
    kind, _, noise = name.partition(", ")
    hollow = {"linestyle": "--", "markerfacecolor": "white"} if noise == "published" else {}
    color = GREEN if noise.endswith("intercept") else _COLORS[kind]
    return {"color": color, "marker": "o", "label": f"{_NAMES[kind]}, {noise}", **hollow}


def _levels(axes: Axes, dataset: xarray.Dataset) -> None:
    """The mean label, and the best without privacy."""
    constant = float(dataset.constant.mean())
    words, noiseless = best_noiseless(dataset)
    line = {"linewidth": 1.0, "zorder": 0}
    axes.axhline(constant, color=GREY, linestyle=":", label="mean label, no privacy", **line)
    axes.axhline(noiseless, color=BLACK, linestyle="-.", label=words, **line)
