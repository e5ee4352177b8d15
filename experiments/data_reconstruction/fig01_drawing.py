"""DR Figures 1 and 2 as one picture: curves against p at the left, images at the right."""

from typing import Any

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from experiments.harness.drawing import BLACK, BLUE, GREY, RED, spread, tidy
from jaxdp.plots import plot_images

_COLUMNS = 5


def plot(dataset: xarray.Dataset) -> Figure:
    """Training and reconstruction error, error and span residual, and the images beside them."""
    figure = Figure(figsize=(10.6, 6.4), layout="constrained")
    parts: Any = figure.subfigures(1, 2, width_ratios=(1.35, 1))
    left, right = parts
    above, below = left.subplots(2, 1, sharex=True)
    _thresholds(above, dataset)
    _span(below, dataset)
    below.set_xlabel("number of parameters $p$")
    _images(right, dataset)
    return figure


def _thresholds(axes: Axes, dataset: xarray.Dataset) -> None:
    _curve(axes, dataset.train_loss, "training error", BLACK, "s")
    _curve(axes, dataset.error, r"reconstruction error $\rho$", RED, "o")
    chance = dataset.chance.mean().item()
    axes.axhline(chance, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
    place = dataset.attrs["control_num_features"]
    style = {"linestyle": "", "color": RED, "markerfacecolor": "w", "markersize": 6}
    label = "the same, parameters permuted"
    axes.plot([place], [dataset.control.mean().item()], marker="D", label=label, **style)
    _mark(axes, dataset)
    axes.annotate(
        "chance",
        (0.005, chance),
        xycoords=("axes fraction", "data"),
        xytext=(0, 2),
        textcoords="offset points",
        fontsize="x-small",
        color=GREY,
    )
    axes.set_ylim(-0.04, 1.3 * chance)
    axes.set_ylabel("error")
    tidy(axes, f"{dataset.num_samples} images, $d$ = {dataset.dim}")
    axes.legend(frameon=False, fontsize="x-small", loc="center left", bbox_to_anchor=(0.17, 0.45))


def _span(axes: Axes, dataset: xarray.Dataset) -> None:
    _curve(axes, dataset.error, r"reconstruction error $\rho$", RED, "o")
    # With p <= n it is zero for any rows.
    beyond = dataset.where(dataset.num_features > dataset.num_samples, drop=True)
    _curve(axes, beyond.residual, r"span residual $r(\hat\Phi)$", BLUE, "^")
    _mark(axes, dataset)
    axes.set_yscale("log")
    axes.set_ylabel("error, residual")
    tidy(axes, "are the true features spanned by those found?")
    axes.legend(frameon=False, fontsize="x-small", loc="center left", bbox_to_anchor=(0.17, 0.45))


def _curve(axes: Axes, runs: xarray.DataArray, label: str, color: str, marker: str) -> None:
    spread(axes, runs.num_features, runs, color)
    style = {"color": color, "marker": marker, "markersize": 3.5, "linewidth": 1.3}
    axes.plot(runs.num_features, runs.mean("seed"), label=label, **style)


def _mark(axes: Axes, dataset: xarray.Dataset) -> None:
    """The two thresholds."""
    num_samples, dim = dataset.num_samples, dataset.dim
    axes.set_xscale("log")
    for place, name in ((num_samples, "$p = n$"), (dim * num_samples, "$p = dn$")):
        axes.axvline(place, color=GREY, linewidth=0.9, linestyle="--", zorder=0)
        style = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        axes.annotate(name, (place, 1), xytext=(3, -6), fontsize="small", color=GREY, **style)


def _images(figure: SubFigure, dataset: xarray.Dataset) -> None:
    attrs = dataset.attrs
    count = dataset.sizes["image"]
    # In an order that shows both classes; more would be too small to see.
    shown = np.linspace(0, count - 1, min(count, 4 * _COLUMNS)).astype(int)
    part = dataset.isel(image=shown)
    errors = [f"{error:.1g}" for error in part.gallery_errors.values]
    ratio = attrs["gallery_num_features"] / (attrs["gallery_dim"] * count)
    plot_images(
        *part.gallery.values,
        labels=["truth", "found"],
        captions=[[], errors],
        columns=_COLUMNS,
        title=f"{len(shown)} of {count} images, $d$ = {attrs['gallery_dim']}, "
        f"$p = {ratio:.3g}\\,dn$; their errors",
        figure=figure,
    )
