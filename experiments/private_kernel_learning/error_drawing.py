"""How PK's figures draw errors: against epsilon and against the projection dimension."""

import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, StrMethodFormatter

from experiments.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, tidy
from experiments.private_kernel_learning.data_free import DRAWN
from experiments.private_kernel_learning.error_averages import mean_and_error, oracle, shown

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
    band = {"color": style["color"], "alpha": 0.2, "linewidth": 0}
    # Two standard errors; below zero there is nothing to draw on a logarithmic axis.
    low = (mean - 2 * error).clip(min=mean / 10)
    axes.fill_between(places, low, mean + 2 * error, **band)


def _style(name: str) -> dict:
    kind, _, noise = name.partition(", ")
    hollow = {"linestyle": "--", "markerfacecolor": "white"} if noise == "published" else {}
    color = GREEN if noise.endswith("intercept") else _COLORS[kind]
    return {"color": color, "marker": "o", "label": f"{_NAMES[kind]}, {noise}", **hollow}


def _levels(axes: Axes, dataset: xarray.Dataset) -> None:
    """The mean label, and the best without privacy."""
    constant = float(dataset.constant.mean())
    noiseless = float(dataset.noiseless.min("num_projections").mean("repetition").min())
    line = {"linewidth": 1.0, "zorder": 0}
    axes.axhline(constant, color=GREY, linestyle=":", label="mean label, no privacy", **line)
    axes.axhline(noiseless, color=BLACK, linestyle="-.", label="no privacy, no intercept", **line)
