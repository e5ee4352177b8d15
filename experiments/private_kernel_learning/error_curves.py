"""Shared by PK's figures: errors averaged over repetitions, in tables, and drawn."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, StrMethodFormatter

from experiments.harness import over_runs, spread, table
from experiments.harness.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, band, tidy
from experiments.private_kernel_learning.ridge_grid import DRAWN

RP_PUBLISHED, RFF_PUBLISHED = PUBLISHED = ["RP, published", "RFF, published"]
RP_CERTIFIED, RFF_CERTIFIED = CERTIFIED = ["RP, certified", "RFF, certified"]
INTERCEPT = "RP, certified with intercept"
# The paper's colours. Published noise is dashed and hollow, certified noise is solid.
_COLORS = {"RP": ORANGE, "RFF": BLUE}
_NAMES = {"RP": "random projection", "RFF": "random Fourier features"}
_FEW, _PLAIN = 50, StrMethodFormatter("{x:g}")


class Estimate(NamedTuple):
    """A mean over repetitions, and its standard error."""

    mean: xarray.DataArray
    standard_error: xarray.DataArray

    @property
    def sigmas(self) -> xarray.DataArray:
        """How many standard errors the mean is above 0."""
        return self.mean / self.standard_error


def all_repetitions(
    once: Callable[[tuple[Any, int]], xarray.Dataset], axis: str, values: Sequence, repetitions: int
) -> xarray.Dataset:
    """Every repetition at every value of an axis, in processes if they are many."""
    cells = [(value, number) for value in values for number in range(repetitions)]
    found = spread(once, cells, f"{axis} {{0[0]:.3g}}, repetition {{0[1]}}".format)
    rows = [
        xarray.concat(found[start : start + repetitions], "repetition")
        for start in range(0, len(found), repetitions)
    ]
    return xarray.concat(rows, axis).astype(np.float32)


def shown(dataset: xarray.Dataset, variable: str = "error") -> xarray.DataArray:
    """Each method in its own form: published ones as printed, certified ones repaired."""
    errors = dataset[variable]
    names = dataset.learner.values
    forms = ["as printed" if name.endswith("published") else "repaired" for name in names]
    return errors.sel(form=xarray.DataArray(forms, dims="learner", coords={"learner": names}))


def oracle(dataset: xarray.Dataset) -> xarray.DataArray:
    """The least error over M and lambda, of each repetition."""
    return shown(dataset).min("num_projections").drop_vars("form")


def mean_and_error(runs: xarray.DataArray) -> Estimate:
    """Mean over the repetitions and its standard error."""
    found = over_runs(runs.transpose("repetition", ...).values)
    like = runs.isel(repetition=0, drop=True)
    return Estimate(*(like.copy(data=found[name]) for name in Estimate._fields))


def difference(dataset: xarray.Dataset, noise: str) -> Estimate:
    """RFF less RP under one kind of noise, paired: they share data and unit noise."""
    rff, rp = (oracle(dataset).sel(learner=f"{kind}, {noise}", drop=True) for kind in ("RFF", "RP"))
    return mean_and_error(rff - rp)


def over_the_mean_label(dataset: xarray.Dataset) -> xarray.DataArray:
    """Mean errors of the releases that choose nothing by the data, over the mean label's."""
    free = dataset.data_free.sel(procedure=DRAWN)
    return free.mean("repetition") / dataset.constant.mean("repetition")


def best_noiseless(dataset: xarray.Dataset) -> float:
    """The least error without privacy."""
    return float(dataset.noiseless.min("num_projections").mean("repetition").min())


def section(title: str, dataset: xarray.Dataset) -> str:
    """All errors at one setting, by epsilon, under a line of those that need no budget."""
    best = best_noiseless(dataset)
    line = f"mean label {float(dataset.constant.mean()):.4g}; at best, with no privacy, {best:.4g}."
    errors, free = oracle(dataset), dataset.data_free
    found = {name: errors.sel(learner=name) for name in dataset.learner.values}
    found |= {f"data-free: {name}": free.sel(procedure=name) for name in free.procedure.values}
    rows = []
    for name, runs in found.items():
        pairs = zip(*(values.values for values in mean_and_error(runs)), strict=True)
        rows.append([name, *(f"{mean:.3g} ± {float(f'{error:.2g}'):g}" for mean, error in pairs)])
    head = ["", *(f"ε = {epsilon:.3g}" for epsilon in dataset.epsilon.values)]
    return f"{title}: {line}\n\n{table(head, rows)}"


def against_epsilon(axes: Axes, dataset: xarray.Dataset, title: str) -> None:
    """The oracle's curves, the data-free release, and the errors that need no budget."""
    for name in dataset.learner.values:
        _curve(axes, oracle(dataset).sel(learner=name), "epsilon", **_style(name))
    style = {"color": PURPLE, "marker": "s", "label": "the same, chosen without data"}
    _curve(axes, dataset.data_free.sel(procedure=DRAWN), "epsilon", **style)
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
    style = {"frameon": False, "fontsize": "small"}
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, **style)


def _logarithmic(axes: Axes, title: str) -> None:
    """Both axes, with plain numbers; 2 and 5 are marked too if there are few powers of ten."""
    axes.set(xscale="log", yscale="log")
    tidy(axes, title)
    low, high = axes.get_ylim()
    if high < _FEW * low:
        axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
        axes.yaxis.set_minor_formatter(_PLAIN)
        axes.tick_params(axis="y", which="minor", labelsize="small")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(_PLAIN)


def _curve(axes: Axes, runs: xarray.DataArray, along: str, **style) -> None:
    mean, error = mean_and_error(runs)
    places = runs[along].values
    axes.plot(places, mean, markersize=3.5, linewidth=1.3, **style)
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
    line = {"linewidth": 1.0, "zorder": 0}
    axes.axhline(constant, color=GREY, linestyle=":", label="mean label, no privacy", **line)
    noiseless = best_noiseless(dataset)
    axes.axhline(noiseless, color=BLACK, linestyle="-.", label="no privacy", **line)
