"""How the excess risk is drawn."""

import matplotlib
import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from experiments.harness.drawing import BLACK, BLUE, GREEN, GREY, tidy
from experiments.privacy_for_free.excess_risk_checks import (
    CONSTANT,
    LINEAR_FLOOR,
    best_risk,
    error,
    excess_risk,
    num_cubics,
    power_law,
    privacy_limited,
    terms,
)

_COLORS = {"published": BLUE, "exact": GREEN}
_MARKERS = "osD^v"
_EPSILON = 4.0


def plot(dataset: xarray.Dataset) -> Figure:
    """Excess risk against the theorem's terms, and test errors on the way through the plateau."""
    figure = Figure(figsize=(9.6, 7.0), layout="constrained")
    panels = figure.subplots(2, 2).ravel()
    _against_privacy_term(panels[0], dataset)
    _against_samples(panels[1], dataset)
    epsilon = float(dataset.epsilon.sel(epsilon=_EPSILON, method="nearest"))
    private = best_risk(dataset).sel(calibration="exact", epsilon=epsilon)
    _errors(panels[2], dataset, dataset.interpolator)
    _errors(panels[3], dataset, private)
    for axes in panels[2:]:
        axes.set_ylim(0.3, 1)
    titles = (
        "excess risk against the term of privacy",
        f"against $n$, $d$ = {int(dataset.dim[-1])}, exact",
        "test error of $\\theta^*$",
        f"of DP-GD, exact, $\\epsilon$ = {epsilon:g}",
    )
    for letter, axes, title in zip("abcd", panels, titles, strict=True):
        tidy(axes, f"{letter}. {title}")
    return figure


def _against_privacy_term(axes: Axes, dataset: xarray.Dataset) -> None:
    mean = excess_risk(dataset).mean("seed")
    lines = np.geomspace(1e-3, 1, 50)
    for name, color in _COLORS.items():
        for marker, dim in zip(_MARKERS, dataset.dim.data, strict=False):
            inside = (dataset.num_train >= 4 * dim) & (dataset.num_train <= dim**2)
            here = mean.sel(dim=dim, calibration=name, num_train=inside)
            ratio = dim / (here.num_train * here.epsilon)
            ratio, here = xarray.broadcast(ratio, here)
            axes.plot(
                ratio.data.ravel(), here.data.ravel(), marker, color=color, markersize=4, mfc="none"
            )
        slope, _, factor = power_law(*privacy_limited(dataset, name))
        axes.plot(lines, factor * lines**slope, color=color, linewidth=1)
    axes.plot(lines, lines, color=GREY, linestyle="--", linewidth=1)
    axes.plot(lines, CONSTANT * lines, color=GREY, linestyle=":", linewidth=1.2)
    handles = [
        *(
            Line2D([], [], color=color, label=f"{name}: slope {slope:.2f} ± {spread:.2f}")
            for name, color in _COLORS.items()
            for slope, spread, _ in [power_law(*privacy_limited(dataset, name))]
        ),
        Line2D([], [], color=GREY, linestyle="--", label="$d/(n\\epsilon)$"),
        Line2D([], [], color=GREY, linestyle=":", label=f"${CONSTANT}\\,d/(n\\epsilon)$"),
        *(
            Line2D([], [], color=BLACK, marker=marker, mfc="none", linestyle="", label=f"$d$ = {d}")
            for marker, d in zip(_MARKERS, dataset.dim.data, strict=False)
        ),
    ]
    axes.legend(handles=handles, frameon=False, fontsize="small", ncols=2, loc="lower right")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(1.5e-3, 1)
    axes.set_ylim(1.5e-4, 1)
    axes.set_xlabel("$d/(n\\epsilon)$,  $4d\\leq n\\leq d^2$")
    axes.set_ylabel("excess risk $R_P$ where positive")


def _against_samples(axes: Axes, dataset: xarray.Dataset) -> None:
    dim = int(dataset.dim[-1])
    here = excess_risk(dataset).sel(dim=dim, calibration="exact")
    colors = matplotlib.colormaps["viridis"](np.linspace(0.05, 0.85, dataset.sizes["epsilon"]))
    for epsilon, color in zip(dataset.epsilon.data, colors, strict=True):
        values = here.sel(epsilon=epsilon)
        style = {"color": color, "markersize": 3.5, "linewidth": 1.2, "capsize": 2}
        axes.errorbar(
            dataset.num_train,
            values.mean("seed"),
            2 * error(values),
            fmt="o-",
            label=f"$\\epsilon$ = {epsilon:g}",
            **style,
        )
    epsilon = float(dataset.epsilon.sel(epsilon=_EPSILON, method="nearest"))
    names = (f"$d/(n\\epsilon)$, $\\epsilon$ = {epsilon:g}", "$\\sqrt{d/n}$", "$\\sqrt{n/d^{3/2}}$")
    samples = np.geomspace(dataset.num_train.data[0], dataset.num_train.data[-1], 50)
    of_theorem = terms(dim, samples, epsilon)
    for name, style, values in zip(names, ("--", ":", "-."), of_theorem, strict=True):
        axes.plot(samples, values, color=GREY, linestyle=style, linewidth=1.2, label=name)
    axes.axhline(0, color=BLACK, linewidth=0.6)
    _sample_axis(axes, dataset)
    axes.set_ylim(-0.2, 1.5)
    axes.set_xlabel("number of samples $n$")
    axes.set_ylabel("excess risk $R_P$")
    axes.legend(frameon=False, fontsize="small", ncols=2, loc="upper left")


def _errors(axes: Axes, dataset: xarray.Dataset, risk: xarray.DataArray) -> None:
    colors = matplotlib.colormaps["plasma"](np.linspace(0, 0.8, dataset.sizes["dim"]))
    samples = dataset.num_train.data
    for dim, color in zip(dataset.dim.data, colors, strict=True):
        values = risk.sel(dim=dim)
        style = {"color": color, "markersize": 3.5, "linewidth": 1.2, "capsize": 2}
        axes.errorbar(
            samples,
            values.mean("seed"),
            2 * error(values),
            fmt="o-",
            label=f"$d$ = {dim}",
            **style,
        )
        for marker, size in (("|", dim**1.5), ("x", num_cubics(int(dim)))):
            if samples[0] <= size <= samples[-1]:
                axes.plot(size, 0.315, marker, color=color, markersize=7, mew=1.6, clip_on=False)
    axes.axhline(LINEAR_FLOOR, color=GREY, linestyle=":", linewidth=1)
    _sample_axis(axes, dataset)
    axes.set_xlabel("number of samples $n$   (| $d^{3/2}$, × cubics)")
    axes.set_ylabel("test error")
    axes.legend(frameon=False, fontsize="small")


def _sample_axis(axes: Axes, dataset: xarray.Dataset) -> None:
    samples = dataset.num_train.data
    axes.set_xscale("log")
    axes.set_xticks(samples, [str(number) for number in samples])
    axes.xaxis.set_minor_locator(NullLocator())
