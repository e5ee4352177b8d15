"""The picture of attacks on private training."""

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from experiments.data_reconstruction.under_privacy_checks import averages
from experiments.harness.drawing import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    band,
    tidy,
)

_COLORS = (BLUE, ORANGE, GREEN, PURPLE, RED, SKY)
_SMALL = {"fontsize": "x-small", "frameon": False}


def plot(dataset: xarray.Dataset) -> Figure:
    """Against epsilon, with what the model is good for; against T, p and C; and the law's own."""
    figure = Figure(figsize=(11.5, 7.2), layout="constrained")
    panels = figure.subplots(2, 3)
    for axes, draw in zip(panels.ravel(), _PANELS, strict=True):
        draw(axes, dataset)
    return figure


def _against_epsilon(axes: Axes, dataset: xarray.Dataset) -> None:
    epsilon = dataset.epsilon.values
    _points(axes, epsilon, dataset.error_by_epsilon, BLUE, "attack, nothing known")
    axes.plot(epsilon, dataset.law, color=BLUE, linewidth=1, label="law, nothing known")
    runs, name = dataset.informed_by_epsilon, "attack, all other rows known"
    _points(axes, epsilon, runs, ORANGE, name, marker="s")
    axes.plot(
        epsilon, dataset.informed_law, color=ORANGE, linewidth=1, label="law, all other rows known"
    )
    band(axes, epsilon, 1e-9, dataset.bound, GREY, 0.25)
    axes.plot(epsilon, dataset.bound, color=GREY, linewidth=1, label="no attack below")
    axes.set(xscale="log", yscale="log", ylim=(0.01, 2), xlabel=r"$\varepsilon$")
    axes.set_ylabel(r"reconstruction error $\rho$")
    axes.legend(loc="lower left", **_SMALL)
    tidy(axes, r"one step; above: $\mu$")
    _mu_axis(axes, dataset)


def _mu_axis(axes: Axes, dataset: xarray.Dataset) -> None:
    """mu on top, at every other epsilon."""
    top = axes.secondary_xaxis("top")
    places = dataset.isel(epsilon=slice(None, None, 2))
    top.set_xticks(places.epsilon.values, [f"{mu:.3g}" for mu in places.mu.values])
    top.xaxis.set_minor_formatter(NullFormatter())
    top.tick_params(labelsize="x-small", length=2)
    top.minorticks_off()


def _utility(axes: Axes, dataset: xarray.Dataset) -> None:
    epsilon, longest = dataset.epsilon.values, int(dataset.num_steps[-1])
    kinds = [("train_error_by_epsilon", BLUE, "training, 1 step")]
    kinds += [("test_error_by_epsilon", SKY, "test, 1 step")]
    kinds += [("long_train_error", RED, f"training, {longest} steps")]
    kinds += [("long_test_error", ORANGE, f"test, {longest} steps")]
    for name, color, label in kinds:
        _points(axes, epsilon, dataset[name], color, label, line=True)
    axes.axhline(1.0, color=GREY, linestyle=":", linewidth=1, label="no model")
    axes.set(xscale="log", yscale="log", xlabel=r"$\varepsilon$", ylabel="mean squared error")
    axes.legend(loc="lower left", **_SMALL)
    tidy(axes, "what the budget buys")


def _against_steps(axes: Axes, dataset: xarray.Dataset) -> None:
    steps = dataset.num_steps.values
    for color, epsilon in zip(_COLORS, dataset.step_epsilon.values, strict=False):
        at = dataset.sel(step_epsilon=epsilon)
        name = rf"$\varepsilon$ = {epsilon:g}" if np.isfinite(epsilon) else "no noise"
        _points(axes, steps, at.last_iterate, color, f"{name}, last iterate")
        if np.isfinite(epsilon):
            look = {"marker": "^", "markerfacecolor": "white"}
            words = f"{name}, all iterates"
            _points(axes, steps, at.all_iterates, color, words, line=False, **look)
            mean, _ = averages(at.last_iterate_predicted)
            axes.plot(steps, mean, color=color, linewidth=1, label=f"{name}, predicted")
    axes.set(xscale="log", yscale="log", ylim=(5e-7, 3), xlabel="steps $T$")
    axes.set_ylabel(r"reconstruction error $\rho$")
    axes.legend(loc="center right", **_SMALL)
    tidy(axes, r"the same $\varepsilon$ spent on more steps")


def _against_width(axes: Axes, dataset: xarray.Dataset) -> None:
    width = dataset.width.values
    for color, epsilon in zip(_COLORS, dataset.width_epsilon.values, strict=False):
        at = dataset.sel(width_epsilon=epsilon)
        name = rf"$\varepsilon$ = {epsilon:g}" if np.isfinite(epsilon) else "no noise"
        _points(axes, width, at.error_by_width, color, name)
        if np.isfinite(epsilon):
            axes.plot(width, at.law_by_width, color=color, linewidth=1, label=f"{name}, law")
    axes.axvline(1.0, color=GREY, linestyle=":", linewidth=1)
    axes.set(xscale="log", yscale="log", ylim=(5e-7, 3), xlabel="width $p/dn$")
    axes.set_ylabel(r"reconstruction error $\rho$")
    axes.legend(loc="center right", **_SMALL)
    tidy(axes, "privacy and the law $p = dn$")


def _against_clip(axes: Axes, dataset: xarray.Dataset) -> None:
    share = dataset.clip_share.values
    _points(axes, share, dataset.error_by_clip, BLUE, "attack")
    mean, _ = averages(dataset.predicted_by_clip)
    axes.plot(share, mean, color=BLUE, linewidth=1, label="predicted")
    axes.axvline(2.0, color=GREY, linestyle=":", linewidth=1)
    axes.annotate(
        "largest gradient", (2.0, 0.03), xycoords=("data", "axes fraction"), fontsize="x-small"
    )
    axes.set(xscale="log", yscale="log", ylim=(0.03, 2), xlabel=r"clip norm $C/\sqrt{p/2}$")
    axes.set_ylabel(r"reconstruction error $\rho$")
    axes.legend(loc="upper left", **_SMALL)
    tidy(axes, rf"one step at $\varepsilon$ = {float(dataset.clip_epsilon):g}")


def _against_law(axes: Axes, dataset: xarray.Dataset) -> None:
    law = dataset.law_error.values
    axes.plot(law, law, color=BLACK, linewidth=1, label="law")
    for number, (color, case) in enumerate(zip(_COLORS, dataset.case.values, strict=False)):
        at = dataset.sel(case=case)
        # Side by side, so that the bars can be told apart.
        shift = 1.04 ** (number - (dataset.sizes["case"] - 1) / 2)
        _points(axes, law * shift, at.near_by_law, color, str(case))
        _points(axes, law * shift, at.error_by_law, color, None, marker="x", markersize=4)
    look = {"color": GREY, "markersize": 4, "linestyle": "none"}
    axes.plot([], [], marker="x", label="attack", **look)
    axes.plot([], [], marker="o", label="minimum near the truth", **look)
    axes.set(xscale="log", yscale="log", xlabel=r"predicted $\rho$", ylim=(0.02, 2))
    axes.set_ylabel(r"reconstruction error $\rho$")
    axes.legend(loc="upper left", **_SMALL)
    tidy(axes, "one law for every $d$ and $n$")


def _points(
    axes: Axes, places, runs: xarray.DataArray, color, label, *, line: bool = False, **style
):
    """Means with two standard errors."""
    mean, error = averages(runs)
    low = np.minimum(2 * error, 0.9 * mean)
    look = {"marker": "o", "markersize": 3.5, "linewidth": 1, "elinewidth": 1, **style}
    axes.errorbar(
        places,
        mean,
        [low, 2 * error],
        color=color,
        label=label,
        linestyle="-" if line else "none",
        **look,
    )


_PANELS = (
    _against_epsilon,
    _utility,
    _against_law,
    _against_steps,
    _against_width,
    _against_clip,
)
