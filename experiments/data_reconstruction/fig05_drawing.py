"""DR Figure 5 and the network panels of Figure 7: a column for each kind of network."""

from typing import Any

import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.harness.drawing import BLACK, BLUE, GREY, ORANGE, RED, spread, tidy

_TITLES = {"two-layer": "two layers, ten classes", "residual": "residual, two classes"}
_STYLES: dict[str, dict[str, Any]] = {
    "last layer": {"marker": "o", "linestyle": "-"},
    "all layers": {"marker": "s", "linestyle": "--", "markerfacecolor": "w"},
}


def plot(dataset: xarray.Dataset) -> Figure:
    """Errors above; training loss, span residual and the loss at the true images below."""
    figure = Figure(figsize=(9.4, 5.8), layout="constrained")
    names = dataset.network.values
    panels = figure.subplots(2, len(names), sharex="col", sharey="row", squeeze=False)
    for name, (above, below) in zip(names, panels.T, strict=True):
        at = dataset.sel(network=name)
        _errors(above, at)
        _losses(below, at)
        size = rf"$n$ = {int(at.num_samples)}, $d$ = {int(at.dim)}"
        tidy(above, f"{_TITLES[name]}, {size}")
        tidy(below)
        below.set_xlabel(r"parameters in the last layer, $p^{(L)}/(dn)$")
        for axes in (above, below):
            axes.axvline(1, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
            axes.set_xscale("log")
            axes.set_xticks(at.width.values, [f"{value:g}" for value in at.width.values])
            axes.minorticks_off()
    above, below = panels[:, 0]
    above.set_ylabel(r"reconstruction error $\rho$")
    below.set_ylabel("loss or residual")
    for axes in panels[:, -1]:
        axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _errors(axes: Axes, dataset: xarray.Dataset) -> None:
    for training in dataset.training.values:
        _curve(axes, dataset.error.sel(training=training), RED, f"{training} trained", training)
    axes.axhline(dataset.chance.item(), color=GREY, linewidth=0.8)
    axes.annotate(
        "chance",
        (0.99, dataset.chance.item()),
        xycoords=("axes fraction", "data"),
        xytext=(0, 2),
        textcoords="offset points",
        fontsize="x-small",
        color=GREY,
        horizontalalignment="right",
    )
    axes.annotate(
        "$p^{(L)} = dn$",
        (1, 0.02),
        xycoords=("data", "axes fraction"),
        xytext=(3, 0),
        textcoords="offset points",
        fontsize="x-small",
        color=GREY,
    )
    axes.set_ylim(-0.04, 1.2 * dataset.chance.item())


def _losses(axes: Axes, dataset: xarray.Dataset) -> None:
    for training in dataset.training.values:
        at = dataset.sel(training=training)
        _curve(axes, at.residual, BLUE, f"span residual, {training}", training)
    full = dataset.sel(training="all layers")
    _curve(axes, full.train_loss, BLACK, "training loss, all layers", "all layers")
    _curve(axes, full.loss, ORANGE, "attack's loss, all layers", "all layers")
    style: dict[str, Any] = {"color": ORANGE, "linestyle": ":", "linewidth": 1.3}
    axes.plot(full.width, full.true_loss.mean("seed"), label="the same at the true images", **style)
    axes.set_yscale("log")


def _curve(axes: Axes, runs: xarray.DataArray, color: str, label: str, training: str) -> None:
    """Mean over seeds, and a shade from the least to the largest."""
    spread(axes, runs.width, runs, color)
    style = {"color": color, "markersize": 4, "linewidth": 1.3, **_STYLES[training]}
    axes.plot(runs.width, runs.mean("seed"), label=label, **style)
