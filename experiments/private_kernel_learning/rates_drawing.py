"""The nine panels of the rates."""

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullFormatter

from experiments.harness import standard_error
from experiments.harness.drawing import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    errorbars,
    tidy,
)
from experiments.private_kernel_learning.rates_claims import exponent

_LEVEL = r"$n\mu$"
_COLORS = {
    "random projection": BLUE,
    "Theorem 11": SKY,
    "Fourier features": ORANGE,
    "no projection": GREEN,
    "functional": RED,
    "canonical": GREY,
}
_MARKERS = {"random projection": "o", "Theorem 11": "v", "Fourier features": "s",
            "no projection": "D", "functional": "^"}  # fmt: skip
# If the largest value is less than this many times the least, powers of ten are few.
_FEW = 50
_SHADES = BLUE, GREEN, ORANGE, RED, PURPLE


def plot(dataset: xarray.Dataset) -> Figure:
    """Learners, kernels and dimensions at one large n, runs over their lines, and risks over n."""
    figure = Figure(figsize=(11, 10), layout="constrained")
    panels = figure.subplots(3, 3)
    for axes, place in zip(panels[0][:2], (0, -1), strict=True):
        _squared(axes, dataset.isel(source=place))
    _logistic(panels[0][2], dataset.isel(source=-1))
    _counts(panels[1][0], dataset)
    _powers(panels[1][1], dataset)
    _dims(panels[1][2], dataset)
    _ratios(panels[2][0], dataset)
    _samples(panels[2][1], dataset, "by_samples", "samples")
    _samples(panels[2][2], dataset, "by_budget", "budget_samples")
    tidy(panels[2][1], "Without privacy, $M$ of Theorem 11")
    tidy(panels[2][2], rf"Tuned, $\mu = {dataset.budget_mu:g}$")
    power = np.log10(dataset.num_samples)
    figure.suptitle(
        f"$n = 10^{{{power:.0f}}}$ except in the last two panels; lines: predicted at tuned ridges",
        fontsize="medium",
    )
    for axes in panels.flat:
        axes.set(xscale="log", yscale="log")
        _marks(axes)
        axes.legend(frameon=False, fontsize="x-small", loc="best")
    for axes in (panels[0, 0], panels[1, 0], panels[2, 1]):
        axes.set_ylabel("excess risk")
    panels[2, 0].set(yscale="linear", ylabel="runs over the drawn line", ylim=(0, 1.4))
    # Below all points.
    panels[2, 0].legend(frameon=False, fontsize="x-small", loc="lower left")
    return figure


def _marks(axes: Axes) -> None:
    """Errors by powers of ten; if there are few of those, 2 and 5 are marked in the same way."""
    low, high = axes.get_ylim()
    few = high < _FEW * low
    words = LogFormatterSciNotation(labelOnlyBase=False, minor_thresholds=(np.inf, np.inf))
    axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5) if few else range(2, 10)))
    axes.yaxis.set_minor_formatter(words if few else NullFormatter())
    axes.tick_params(axis="y", which="minor", labelsize="small")


def _squared(axes: Axes, at: xarray.Dataset) -> None:
    for name in at.learner.values:
        _points(axes, at.squared.sel(learner=name), "level", str(name))
    for name, style in (("random projection", "-"), ("canonical", "--")):
        label = f"{name}, predicted" if name == "canonical" else "predicted"
        axes.plot(at.level, at.squared_predicted.sel(formula=name), style, color=_COLORS[name],
                  linewidth=1, label=label)  # fmt: skip
    axes.set_xlabel(_LEVEL)
    tidy(axes, f"Squared loss, $r = {float(at.source):g}$")


def _logistic(axes: Axes, at: xarray.Dataset) -> None:
    for name in at.objective.values:
        _points(axes, at.logistic.sel(objective=name), "logistic_level", str(name))
    for name in at.quadratic.values:
        curve = at.logistic_predicted.sel(quadratic=name)
        axes.plot(at.logistic_level, curve, color=_COLORS[str(name)], linewidth=1,
                  label=f"{name}, predicted")  # fmt: skip
    axes.set_xlabel(_LEVEL)
    tidy(axes, f"Logistic loss, $r = {float(at.source):g}$")


def _counts(axes: Axes, dataset: xarray.Dataset) -> None:
    for loss, color, marker in (("squared", BLUE, "o"), ("logistic", GREEN, "D")):
        _errors(axes, dataset.by_count.sel(loss=loss), "count", color, marker, f"{loss} loss")
    axes.plot(dataset["count"], dataset.count_predicted, color=BLUE, linewidth=1, label="predicted")
    # The bound's constants are arbitrary: only its shape is compared.
    scaled = dataset.count_bound * float(dataset.count_predicted.min() / dataset.count_bound.min())
    axes.plot(dataset["count"], scaled, color=BLACK, linestyle=":", linewidth=1.2,
              label="Lemmas 13, 14 (shifted)")  # fmt: skip
    axes.set_xlabel("$M$")
    tidy(axes, f"Features, $n\\mu = {dataset.feature_level:g}$")


def _powers(axes: Axes, dataset: xarray.Dataset) -> None:
    for power, color in zip(dataset.power.values, _SHADES, strict=False):
        curve = dataset.power_predicted.sel(power=power, noisy="C and u")
        axes.plot(dataset.power_level, curve, color=color, linewidth=1, label=f"$b = {power:g}$")
        _errors(axes, dataset.by_power.sel(power=power), "power_level", color, "o", None)
    axes.plot(dataset.power_level, dataset.power_canonical, "--", color=GREY, linewidth=1,
              label="canonical")  # fmt: skip
    axes.plot(dataset.power_level, dataset.known_basis[-1], "-.", color=BLACK, linewidth=1,
              label="known basis, certified")  # fmt: skip
    axes.set_xlabel(_LEVEL)
    tidy(axes, rf"$\beta = \gamma = {dataset.rough_capacity:g}$: kernel $\mu_l^b$")


def _dims(axes: Axes, dataset: xarray.Dataset) -> None:
    for name, color, marker in (("projected", BLUE, "o"), ("unprojected", RED, "^")):
        curve = dataset.dim_predicted.sel(linear=name)
        axes.plot(dataset.dim, curve, color=color, linewidth=1, label=f"{name}, predicted")
        _errors(axes, dataset.by_dim.sel(linear=name), "dim", color, marker, name)
    axes.set_xlabel("$d$")
    tidy(axes, f"Linear kernel, $n\\mu = {dataset.feature_level:g}$")


def _ratios(axes: Axes, dataset: xarray.Dataset) -> None:
    """How far from the drawn line, and from the prediction at twice the ridge, the runs are."""
    line = dataset.squared_predicted.sel(formula="random projection")
    tuned = dataset.squared.sel(learner="random projection") / line
    outside = dataset.outside / dataset.outside_predicted
    for place, color in zip((0, -1), (BLUE, ORANGE), strict=True):
        source = float(dataset.source[place])
        _errors(axes, tuned.isel(source=place), "level", color, "o", f"$r = {source:g}$, tuned")
        _errors(axes, outside.isel(source=place), "level", color, "x", "at twice the ridge")
    axes.axhline(1, color=GREY, linewidth=0.8)
    axes.set_xlabel(_LEVEL)
    tidy(axes, "Squared loss: runs over the prediction")


def _samples(axes: Axes, dataset: xarray.Dataset, name: str, axis: str) -> None:
    for source, color in zip(dataset.source.values, (BLUE, ORANGE), strict=True):
        at = dataset.sel(source=source)
        runs = at[name].rename(sample_run="run")
        found, error = exponent(runs, axis)
        label = f"$r = {source:g}$: $n^{{-{found:.2f} \\pm {error:.2f}}}$"
        _errors(axes, runs, axis, color, "o", label)
        axes.plot(dataset[axis], at[f"{name}_predicted"], color=color, linewidth=1)
    axes.set_xlabel("$n$")


def _points(axes: Axes, runs: xarray.DataArray, level: str, name: str) -> None:
    _errors(axes, runs, level, _COLORS[name], _MARKERS[name], name)


def _errors(
    axes: Axes, runs: xarray.DataArray, at: str, color: str, marker: str, label: str | None
) -> None:
    """Means with two standard errors, if there are runs."""
    seen = runs.dropna(at)
    if not seen.size:
        return
    places, error = np.asarray(seen[at]), 2 * standard_error(seen, "run")
    errorbars(axes, places, seen.mean("run"), error, color, marker=marker, label=label)
