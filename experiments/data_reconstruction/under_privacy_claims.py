"""Claims of the figures of attacks on private training."""

from typing import Any

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from experiments.harness import Check, listed, over_runs, table
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
    errorbars,
    tidy,
)

_SIGMAS = 3
# Errors up to which the law is linear, and from which the attack is near chance.
_SMALL, _CHANCE = 0.12, 0.9
_TABLE = ("error_by_epsilon", "informed_by_epsilon", "train_error_by_epsilon", "long_train_error")
_COLORS = (BLUE, ORANGE, GREEN, PURPLE, RED, SKY)


def averages(runs: xarray.DataArray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over the runs and its standard error."""
    found = over_runs(runs.transpose("run", ...).values)
    return found["mean"], found["standard_error"]


def _pairs(runs: xarray.DataArray, form: str = "{:.2f} ± {:.2f}") -> str:
    return listed(zip(*map(np.atleast_1d, averages(runs)), strict=True), form)


def checks(dataset: xarray.Dataset) -> list[Check]:
    """The law, the bound, and the effect of each setting."""
    return [*_laws(dataset), *_bounds(dataset), *_steps(dataset), _width(dataset), _clip(dataset)]


def _laws(dataset: xarray.Dataset) -> list[Check]:
    ratio = dataset.near_by_epsilon / dataset.local_by_epsilon
    small = ratio.where(dataset.law <= _SMALL, drop=True)
    mean, error = averages(small)
    others = dataset.near_by_law.isel(law_error=0) / float(dataset.law_error[0])
    other_mean, other_error = averages(others)
    cases = dataset.case.values
    # d and n of "d = 10, n = 5": random rows are correlated by as much.
    shares = [int(case.split()[-1]) / int(case.split()[2].rstrip(",")) for case in cases]
    return [
        Check(
            f"if the law predicts at most {_SMALL}, the minimum near the truth has the error of "
            f"the linearised problem, within {_SIGMAS} standard errors and 5%",
            _pairs(small, "{:.3f} ± {:.3f}"),
            bool(len(mean) and np.all(np.abs(mean - 1) <= 0.05 + _SIGMAS * error)),
        ),
        Check(
            f"at a predicted error of {float(dataset.law_error[0]):g} the law without a free "
            f"constant is right to n/d, within {_SIGMAS} standard errors, for every d and n",
            "; ".join(
                f"{case}: {one:.3f} ± {two:.3f}"
                for case, one, two in zip(cases, other_mean, other_error, strict=True)
            ),
            bool(np.all(np.abs(other_mean - 1) <= np.array(shares) + _SIGMAS * other_error)),
        ),
    ]


def _bounds(dataset: xarray.Dataset) -> list[Check]:
    nearest = []
    for runs, bound in (("error", "bound"), ("informed", "informed_bound")):
        mean, error = averages(dataset[f"{runs}_by_epsilon"])
        nearest.append(np.min((mean - dataset[bound].values) / error))
    gap = dataset.error_by_epsilon - dataset.informed_by_epsilon
    gap = gap.where((dataset.law > 0.01) & (dataset.law < 1), drop=True)
    mean, error = averages(gap)
    total = mean.mean() / (np.sqrt((error**2).sum()) / len(error))
    protected = dataset.where(dataset.epsilon <= 10, drop=True)
    alone, informed = (
        averages(protected[f"{name}_by_epsilon"])[0] for name in ("error", "informed")
    )
    return [
        Check(
            "no attack is below the bound that holds for any attack, by 2 standard errors",
            f"the nearest is {min(nearest):+.1f} standard errors from it",
            bool(min(nearest) > -2),
        ),
        Check(
            "to know the other rows and their labels makes the error of one row smaller",
            f"by {_pairs(gap)}",
            bool(total > _SIGMAS),
        ),
        Check(
            f"at epsilon up to 10 the attack is near chance: its mean error is above {_CHANCE}",
            f"errors {listed(alone)}; informed {listed(informed)}",
            bool(len(alone) and alone.min() > _CHANCE),
        ),
    ]


def _steps(dataset: xarray.Dataset) -> list[Check]:
    clear, _ = averages(dataset.last_iterate.sel(step_epsilon=np.inf))
    noisy = dataset.last_iterate.sel(step_epsilon=np.isfinite(dataset.step_epsilon))
    longer = noisy.isel(num_steps=-1) - noisy.isel(num_steps=0)
    mean, error = averages(longer)
    gap = (dataset.last_iterate - dataset.all_iterates).isel(step_epsilon=-2, num_steps=-1)
    gain, gain_error = averages(gap)
    return [
        Check(
            "early stopping alone protects nothing: without noise every T, one step included, "
            "gives the rows away",
            listed(zip(dataset.num_steps.values, clear, strict=True), "T = {:.0f}: {:.1e}"),
            bool(np.all(clear < 0.01)),
        ),
        Check(
            "at one epsilon the last iterate of the longest training leaks less than one step's",
            f"larger by {_pairs(longer)}",
            bool(np.all(mean > _SIGMAS * error)),
        ),
        Check(
            "but the budget is for all iterates: a principal component of their increments leaks "
            "more than the last one",
            f"smaller by {_pairs(gap)} at the larger epsilon, after the longest training",
            bool(gain > _SIGMAS * gain_error),
        ),
    ]


def _width(dataset: xarray.Dataset) -> Check:
    mean, _ = averages(dataset.error_by_width)
    narrow = mean[:, dataset.width.values < 1]
    wide, error = averages(dataset.error_by_width.isel(width=-1, width_epsilon=0))
    law = float(dataset.law_by_width.isel(width=-1, width_epsilon=0))
    room = dataset.attrs["num_samples"] / dataset.attrs["dim"] + _SIGMAS * error / law
    return Check(
        "below p = d n nothing is found, with noise or without; far above, the error is the law's "
        "and no longer depends on the width (to n/d)",
        f"{narrow.min():.2f} or more below; {wide:.3f} ± {error:.3f} at the widest, law {law:.3f}",
        bool(narrow.min() > 0.7 and abs(wide / law - 1) <= room),
    )


def _clip(dataset: xarray.Dataset) -> Check:
    gap = dataset.error_by_clip.isel(clip_share=-1) - dataset.error_by_clip.isel(clip_share=0)
    mean, error = averages(gap)
    first, *_, last = dataset.clip_share.values
    return Check(
        "a clip norm above every gradient adds noise and no signal: it leaks less",
        f"larger by {_pairs(gap)} at {last:g} sqrt(p/2) than at {first:g}",
        bool(mean > _SIGMAS * error),
    )


def summary(dataset: xarray.Dataset) -> str:
    """The table that a reader who sets a budget looks for."""
    attrs = dataset.attrs
    head = ["ε", "μ", "attack", "law", "all other rows known", "law", "no attack below"]
    head, rows = [*head, "training error, 1 step", "and the longest"], []
    means = {name: averages(dataset[name])[0] for name in _TABLE}
    for row, epsilon in enumerate(dataset.epsilon.values):
        at = dataset.isel(epsilon=row)
        attacked, informed, short, long = (means[name][row] for name in _TABLE)
        errors = attacked, at.law, informed, at.informed_law, at.bound
        cells = [f"{epsilon:g}", f"{float(at.mu):.3g}", *(f"{float(one):.3f}" for one in errors)]
        rows.append([*cells, f"{short:.2f}", f"{long:.3g}"])
    return (
        f"d = {attrs['dim']}, n = {attrs['num_samples']}, p = {attrs['width']} d n, "
        f"{dataset.sizes['run']} runs; ε at δ = {attrs['delta']:g} for replacing one row, of all "
        f"iterates together. Choices free of the data: {attrs['choices']}. The law is for the "
        "minimum of the loss near the true rows; an attack without a start fails in whole rows "
        "from errors of about 0.2 on, and then no longer finds that minimum: other rows fit the "
        "noise better. The attack that sees all iterates has them at a dozen steps. Near "
        "chance an error is below √2 by what the assignment gains, and so is the bound, which "
        "gives the attack n guesses at a row. The bound is at μ/2 (a run in which the row counts "
        "for zero is its reference); it is far from the attacks if errors are small. Test "
        "errors stay at 1: so few rows teach nothing of so many inputs.\n\n" + table(head, rows)
    )


def plot(dataset: xarray.Dataset) -> Figure:
    """Errors against epsilon, with the model's own; against T, p and C; and those of the law."""
    figure = Figure(figsize=(11.5, 7.2), layout="constrained")
    panels = figure.subplots(2, 3)
    for axes, draw in zip(panels.ravel(), _PANELS, strict=True):
        draw(axes, dataset)
    return figure


def _against_epsilon(axes: Axes, dataset: xarray.Dataset) -> None:
    epsilon = dataset.epsilon.values
    _points(axes, epsilon, dataset.error_by_epsilon, BLUE, "attack, nothing known")
    axes.plot(epsilon, dataset.law, color=BLUE, linewidth=1, label="law, nothing known")
    runs, name = dataset.informed_by_epsilon, "attack, all else known"
    _points(axes, epsilon, runs, ORANGE, name, marker="s")
    axes.plot(epsilon, dataset.informed_law, color=ORANGE, linewidth=1, label="law, all else known")
    band(axes, epsilon, 1e-9, dataset.bound, GREY, 0.25)
    axes.plot(epsilon, dataset.bound, color=GREY, linewidth=1, label="no attack below")
    # Room for the legend below the curves, next to the grey region.
    labels = {"ylim": (1e-3, 2), "xlabel": r"$\varepsilon$"}
    _finish(axes, r"one step; above: $\mu$", "lower right", **labels)
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
        _points(axes, epsilon, dataset[name], color, label, linestyle="-")
    axes.axhline(1.0, color=GREY, linestyle=":", linewidth=1, label="no model")
    labels = {"xlabel": r"$\varepsilon$", "ylabel": "mean squared error"}
    _finish(axes, "what the budget buys", "lower left", **labels)


def _against_steps(axes: Axes, dataset: xarray.Dataset) -> None:
    steps = dataset.num_steps.values
    for color, epsilon in zip(_COLORS, dataset.step_epsilon.values, strict=False):
        at = dataset.sel(step_epsilon=epsilon)
        name = rf"$\varepsilon$ = {epsilon:g}" if np.isfinite(epsilon) else "no noise"
        _points(axes, steps, at.last_iterate, color, f"{name}, last iterate")
        if np.isfinite(epsilon):
            look = {"marker": "^", "markerfacecolor": "white"}
            words = f"{name}, all iterates"
            _points(axes, steps, at.all_iterates, color, words, **look)
            mean, _ = averages(at.last_iterate_predicted)
            axes.plot(steps, mean, color=color, linewidth=1, label=f"{name}, predicted")
    _finish(
        axes,
        r"the same $\varepsilon$ spent on more steps",
        "center right",
        ylim=(5e-7, 3),
        xlabel="steps $T$",
    )


def _against_width(axes: Axes, dataset: xarray.Dataset) -> None:
    width = dataset.width.values
    for color, epsilon in zip(_COLORS, dataset.width_epsilon.values, strict=False):
        at = dataset.sel(width_epsilon=epsilon)
        name = rf"$\varepsilon$ = {epsilon:g}" if np.isfinite(epsilon) else "no noise"
        _points(axes, width, at.error_by_width, color, name)
        if np.isfinite(epsilon):
            axes.plot(width, at.law_by_width, color=color, linewidth=1, label=f"{name}, law")
    axes.axvline(1.0, color=GREY, linestyle=":", linewidth=1)
    _finish(
        axes, "privacy and the law $p = dn$", "center right", ylim=(5e-7, 3), xlabel="width $p/dn$"
    )


def _against_clip(axes: Axes, dataset: xarray.Dataset) -> None:
    share = dataset.clip_share.values
    _points(axes, share, dataset.error_by_clip, BLUE, "attack")
    mean, _ = averages(dataset.predicted_by_clip)
    axes.plot(share, mean, color=BLUE, linewidth=1, label="predicted")
    axes.axvline(2.0, color=GREY, linestyle=":", linewidth=1)
    axes.annotate(
        "largest gradient", (2.0, 0.03), xycoords=("data", "axes fraction"), fontsize="x-small"
    )
    _finish(
        axes,
        rf"one step at $\varepsilon$ = {float(dataset.clip_epsilon):g}",
        "upper left",
        ylim=(0.03, 2),
        xlabel=r"clip norm $C/\sqrt{p/2}$",
    )


def _against_law(axes: Axes, dataset: xarray.Dataset) -> None:
    law = dataset.law_error.values
    axes.plot(law, law, color=BLACK, linewidth=1, label="law")
    for number, (color, case) in enumerate(zip(_COLORS, dataset.case.values, strict=False)):
        at = dataset.sel(case=case)
        # Next to each other, so that the bars do not overlap.
        shift = 1.04 ** (number - (dataset.sizes["case"] - 1) / 2)
        _points(axes, law * shift, at.near_by_law, color, str(case))
        _points(axes, law * shift, at.error_by_law, color, None, marker="x", markersize=4)
    look = {"color": GREY, "markersize": 4, "linestyle": "none"}
    axes.plot([], [], marker="x", label="attack", **look)
    axes.plot([], [], marker="o", label="minimum near the truth", **look)
    _finish(
        axes,
        "one law for every $d$ and $n$",
        "upper left",
        xlabel=r"predicted $\rho$",
        ylim=(0.02, 2),
    )


def _finish(axes: Axes, title: str, place: Any, **labels: Any) -> None:
    """Scales, labels, title, and the legend at its place."""
    labels = {"ylabel": r"reconstruction error $\rho$"} | labels
    axes.set(xscale="log", yscale="log", **labels)
    axes.legend(loc=place, fontsize="x-small", frameon=False, handlelength=1.5)
    tidy(axes, title)


def _points(axes: Axes, places, runs: xarray.DataArray, color, label, **style: Any) -> None:
    """Means with two standard errors."""
    mean, error = averages(runs)
    bars = [np.minimum(2 * error, 0.9 * mean), 2 * error]
    look: dict[str, Any] = {"markersize": 3.5, "linewidth": 1, "elinewidth": 1}
    errorbars(axes, places, mean, bars, color, **look | {"label": label} | style)


_PANELS = (_against_epsilon, _utility, _against_law, _against_steps, _against_width, _against_clip)
