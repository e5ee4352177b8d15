"""DR Figure 3 and the first panel of Figure 7 as one picture."""

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.harness.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, RED, band, tidy


def plot(dataset: xarray.Dataset) -> Figure:
    """A column for each size: errors, the span residual, and the share that converges."""
    count = dataset.sizes["size"]
    figure = Figure(figsize=(2.9 * count + 0.6, 6.4), layout="constrained")
    rows = figure.subplots(3, count, sharey="row", squeeze=False, height_ratios=(1.4, 1, 0.8))
    for column in range(count):
        at = dataset.isel(size=column)
        _errors(rows[0, column], at)
        _residuals(rows[1, column], at)
        _converged(rows[2, column], at)
        for axes in rows[:, column]:
            _mark(axes, at)
            axes.sharex(rows[0, column])
        rows[2, column].set_xlabel("number of features $p$")
    for axes, label in zip(rows[:, 0], ("error", "residual, error", "converged"), strict=True):
        axes.set_ylabel(label)
    handles, labels = rows[0, 0].get_legend_handles_labels()
    residual = rows[1, 0].get_lines()[1]
    figure.legend(
        [*handles, residual],
        [*labels, residual.get_label()],
        loc="outside upper center",
        ncols=len(handles) + 1,
        frameon=False,
    )
    return figure


def _errors(axes: Axes, at: xarray.Dataset) -> None:
    _curve(axes, at, at.train_loss, "training error", BLACK, "s")
    # With p <= n nothing was run: any rows span everything, and a guess is what remains.
    degenerate = (at.num_features <= at.num_samples) & (at.optimiser == "default")
    errors = at.error.where(~degenerate, at.chance)
    _curve(axes, at, errors.sel(optimiser="default"), r"reconstruction error $\rho$", RED, "o")
    _curve(axes, at, at.error.sel(optimiser="published"), "published optimiser", ORANGE, "^", 0.08)
    below = at.error.sel(optimiser="Levenberg-Marquardt").where(
        at.converged.sel(optimiser="Levenberg-Marquardt") == 1
    )
    width = at.num_features.broadcast_like(below)
    style = {"linestyle": "", "marker": "x", "markersize": 5, "color": GREEN, "zorder": 3}
    label = "zero loss, Levenberg-Marquardt"
    axes.plot(width.values.ravel(), below.values.ravel(), label=label, **style)
    axes.axhline(at.chance.item(), color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
    tidy(axes, f"$d$ = {at.dim.item()}, $n$ = {at.num_samples.item()}")


def _residuals(axes: Axes, at: xarray.Dataset) -> None:
    default = at.sel(optimiser="default")
    _curve(axes, at, default.error, r"reconstruction error $\rho$", RED, "o")
    _curve(axes, at, default.residual, r"span residual $r(\hat\Phi)$", BLUE, "v")
    axes.set_yscale("log")
    tidy(axes)


def _converged(axes: Axes, at: xarray.Dataset) -> None:
    for method, color, marker in zip(at.optimiser.values, (RED, ORANGE, GREEN), "o^x", strict=True):
        share = at.converged.sel(optimiser=method).mean("seed", skipna=False)
        style = {"color": color, "marker": marker, "markersize": 4, "linewidth": 1.2}
        axes.plot(at.num_features, share, **style)
    axes.set_ylim(-0.06, 1.06)
    tidy(axes)


def _curve(axes: Axes, at, runs: xarray.DataArray, label: str, color, marker, shade=0.15) -> None:
    """Mean over seeds, and a band of one standard deviation."""
    mean, std = runs.mean("seed", skipna=False), runs.std("seed", ddof=1, skipna=False)
    low = np.maximum(mean - std, runs.min("seed"))
    band(axes, at.num_features, low, mean + std, color, shade)
    style = {"color": color, "marker": marker, "markersize": 3.5, "linewidth": 1.3}
    axes.plot(at.num_features, mean, label=label, **style)


def _mark(axes: Axes, at: xarray.Dataset) -> None:
    """Both thresholds."""
    axes.set_xscale("log")
    count, dim = at.num_samples.item(), at.dim.item()
    for place, name in ((count, "$n$"), (dim * count, "$dn$")):
        axes.axvline(place, color=GREY, linewidth=0.9, linestyle="--", zorder=0)
        style = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        axes.annotate(name, (place, 1), xytext=(2, -8), fontsize="small", color=GREY, **style)
