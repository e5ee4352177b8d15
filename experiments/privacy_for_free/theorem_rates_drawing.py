"""How the orders in the proof of PF Theorem 1 are drawn."""

import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.harness import standard_error
from experiments.harness.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, tidy
from experiments.privacy_for_free.excess_risk_checks import best_risk
from experiments.privacy_for_free.theorem_rates_checks import (
    noise_term,
    scaled_shift,
    stopping_terms,
)


def plot(dataset: xarray.Dataset) -> Figure:
    """What is bounded beside its bound, and test errors."""
    figure = Figure(figsize=(9.6, 6.6), layout="constrained")
    axes = figure.subplots(2, 2).ravel()
    _line(axes[0], dataset, scaled_shift(dataset), "o-", BLUE, "largest shift")
    tidy(axes[0], "a. leaving one row out, times $\\sqrt{p}/\\log n$")
    axes[0].set_ylim(bottom=0)
    _line(axes[1], dataset, dataset.distance, "o-", BLUE, "distance to $\\theta^*$ (6.11)")
    bound = stopping_terms(dataset)
    axes[1].plot(dataset.dim, bound, "--", color=GREY, label="$d/n + n/d^{3/2}$")
    axes[1].set_yscale("log")
    tidy(axes[1], "b. stopping at $\\tau$ of (4.3)")
    _line(axes[2], dataset, dataset.noise, "o-", BLUE, "noise (6.10)")
    _line(axes[2], dataset, dataset.free_noise, "s-", GREEN, "of Brownian motion")
    axes[2].plot(dataset.dim, noise_term(dataset), "--", color=GREY, label="bound, constant one")
    axes[2].set_yscale("log")
    tidy(axes[2], f"c. noise of (4.3), $\\epsilon$ = {dataset.attrs['epsilon']:g}")
    _line(axes[3], dataset, dataset.theorem_risk, "D-", BLACK, "DP-GD with (4.3)")
    tuned = best_risk(dataset)
    for name, color in (("published", BLUE), ("exact", GREEN)):
        _line(axes[3], dataset, tuned.sel(calibration=name), "o-", color, f"tuned, {name}")
    _line(axes[3], dataset, dataset.interpolator, "^-", ORANGE, "$\\theta^*$")
    axes[3].axhline(1, color=GREY, linewidth=0.8, linestyle=":")
    axes[3].set_yscale("log")
    tidy(axes[3], "d. test error")
    for one in axes:
        one.set_xscale("log")
        one.set_xticks(dataset.dim.data, [str(dim) for dim in dataset.dim.data])
        one.minorticks_off()
        one.set_xlabel(f"dimension $d$,  $n = d^{{{dataset.attrs['exponent']:g}}}$")
        one.legend(frameon=False, fontsize="small")
    return figure


def _line(axes: Axes, dataset: xarray.Dataset, values, style: str, color: str, label: str):
    error = standard_error(values, "seed")
    shown = {"color": color, "markersize": 3.5, "linewidth": 1.2, "capsize": 2, "label": label}
    axes.errorbar(dataset.dim, values.mean("seed"), 2 * error, fmt=style, **shown)
