"""How PF Figure 3 is drawn."""

import math

import matplotlib
import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from experiments.harness.drawing import BLACK, BLUE, GREEN, GREY, tidy
from experiments.privacy_for_free.fig03_measures import (
    best_risk,
    error,
    transferred,
    tuned_there,
)

_COLORS = {"published": BLUE, "exact": GREEN}
# The paper's learning rate, for the axis in T.
_PAPER_RATE = 3e-5
_LOWEST = 0.35


def plot(dataset: xarray.Dataset) -> Figure:
    """The paper's four panels, then transfer and the number of steps."""
    figure = Figure(figsize=(11.5, 6.4), layout="constrained")
    panels = figure.subplots(2, 3).ravel()
    _widths(panels[0], dataset)
    _curves(panels[1], dataset, _num_steps, "number of steps $T$ at $\\eta = 3\\cdot10^{-5}$")
    _curves(panels[2], dataset, lambda time, _: time, "$\\eta T p/d$")
    _heat_map(figure, panels[3], dataset)
    _transfer(panels[4], dataset)
    _steps(panels[5], dataset)
    titles = (
        "test error against width",
        "against the number of steps, published",
        "the same in time",
        f"$p$ = {int(dataset.heat_width)}, published",
        "hyper-parameters carried over",
        "steps hardly matter",
    )
    for letter, axes, title in zip("abcdef", panels, titles, strict=True):
        tidy(axes, f"{letter}. {title}")
    return figure


def _widths(axes: Axes, dataset: xarray.Dataset) -> None:
    finite = dataset.width.data[:-1]
    risks = best_risk(dataset)
    median = dataset.interpolator.median("seed")
    axes.plot(finite, median[:-1], color=GREY, linewidth=1.2, label="$\\theta^*$ (median)")
    axes.axhline(float(median[-1]), color=GREY, linestyle=":", linewidth=1)
    for name, color in _COLORS.items():
        here = risks.sel(calibration=name)
        mean, deviation = here.mean("seed"), 2 * error(here)
        style = {"color": color, "markersize": 3, "linewidth": 1.2, "capsize": 1.5}
        axes.errorbar(finite, mean[:-1], deviation[:-1], fmt="o-", label=f"DP-GD, {name}", **style)
        axes.axhline(float(mean[-1]), color=color, linestyle=":", linewidth=1)
    axes.axvline(float(dataset.num_train), color="0.85", linewidth=1, zorder=0)
    place = {"xytext": (-3, 3), "textcoords": "offset points", "ha": "right"}
    axes.annotate("$p = n$", (float(dataset.num_train), _LOWEST), fontsize="small", **place)
    axes.set_xscale("log")
    axes.set_ylim(_LOWEST, 1)
    axes.set_xlabel("number of features $p$   (dotted: infinite)")
    axes.set_ylabel("test error")
    axes.legend(frameon=False, fontsize="small", loc="upper right")


def _num_steps(time, width):
    return time / width / _PAPER_RATE


def _curves(axes: Axes, dataset: xarray.Dataset, at, label: str) -> None:
    means = dataset.risk.sel(calibration="published").mean("seed")
    finite = dataset.width.data[:-1]
    wide = finite[finite >= dataset.num_train.item() / 10]
    shown = wide[np.unique(np.linspace(0, len(wide) - 1, 7).astype(int))]
    colors = matplotlib.colormaps["viridis"](np.linspace(0.05, 0.9, len(shown)))
    for width, color in zip(shown, colors, strict=True):
        steps = at(dataset.time.data, width / float(dataset.dim))
        axes.plot(steps, means.sel(width=width), color=color, linewidth=1.2, label=f"{width:.0f}")
    if at is not _num_steps:
        limit = means.isel(width=-1)
        axes.plot(dataset.time, limit, color=BLACK, linestyle=":", linewidth=1.2, label="infinite")
        axes.legend(
            title="$p$",
            frameon=False,
            fontsize="x-small",
            title_fontsize="small",
            ncols=2,
            loc="upper right",
        )
    axes.set_xscale("log")
    axes.set_xlabel(label)
    axes.set_ylabel("test error")


def _heat_map(figure: Figure, axes: Axes, dataset: xarray.Dataset) -> None:
    mean = dataset.heat_risk.mean("seed")
    image = axes.pcolormesh(
        dataset.heat_clip,
        dataset.heat_time,
        np.minimum(mean, 10),
        norm=LogNorm(0.4, 10),
        cmap="viridis_r",
        shading="nearest",
        rasterized=True,
    )
    clips = dataset.heat_clip.data
    valley = 3 / clips
    axes.plot(clips, valley, color="white", linestyle="--", linewidth=1)
    axes.set_ylim(dataset.heat_time.data[0] / 1.27, dataset.heat_time.data[-1] * 1.27)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("$C/\\sqrt{p}$   (dashed: $C\\,\\eta T p/d = 3\\sqrt{p}$)")
    axes.set_ylabel("$\\eta T p/d$")
    bar = figure.colorbar(image, ax=axes, extend="max", ticks=[0.4, 0.6, 1, 3, 10])
    bar.ax.set_yticklabels(["0.4", "0.6", "1", "3", "10"])
    bar.ax.minorticks_off()
    bar.ax.tick_params(labelsize="small")


def _transfer(axes: Axes, dataset: xarray.Dataset) -> None:
    widths = dataset.tuned_width.data
    places = np.arange(len(widths))
    own = tuned_there(dataset)
    markers = "osD^v"
    for name, color in _COLORS.items():
        here = own.sel(calibration=name)
        axes.errorbar(
            places,
            here.mean("seed"),
            2 * error(here),
            color=color,
            fmt="-",
            linewidth=1.2,
            capsize=2,
            label=f"tuned there, {name}",
        )
        for marker, source in zip(markers, widths[:2], strict=False):
            risks = transferred(dataset, source).sel(calibration=name).mean("seed")
            label = f"tuned at $p$ = {source:.0f}" if name == "published" else None
            axes.plot(places, risks, marker, color=color, markersize=5, mfc="none", label=label)
    axes.set_xticks(places, ["∞" if math.isinf(width) else f"{width:.0f}" for width in widths])
    axes.set_xlabel("number of features $p$ trained")
    axes.set_ylabel("test error")
    axes.legend(frameon=False, fontsize="small")


def _steps(axes: Axes, dataset: xarray.Dataset) -> None:
    last = dataset.step_count[-1]
    gaps = dataset.step_risk - dataset.step_risk.sel(step_count=last)
    axes.axhspan(-0.005, 0.005, color="0.93", linewidth=0, zorder=0)
    style = {"color": BLUE, "fmt": "o-", "markersize": 3, "linewidth": 1.2, "capsize": 2}
    axes.errorbar(dataset.step_count, gaps.mean("seed"), 2 * error(gaps), **style)
    axes.set_ylim(-0.02, 0.02)
    axes.set_xscale("log", base=2)
    axes.set_xticks(dataset.step_count.data, [str(count) for count in dataset.step_count.data])
    axes.set_xlabel("number of steps $T$, infinite width")
    axes.set_ylabel(f"test error over that at $T$ = {int(last)}")
