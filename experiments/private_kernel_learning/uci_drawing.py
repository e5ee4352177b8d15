"""Errors on real tables against epsilon, a panel for each table."""

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments.harness import standard_error
from experiments.harness.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, tidy
from experiments.private_kernel_learning.public_tables import CLASSIFICATION

# Label, colour, line and marker; an oracle's line is that of its algorithm, dotted.
_STYLES = {
    "noisy mean": ("noisy mean label", GREY, "-", "."),
    "Algorithm 1": ("Algorithm 1, or 2 for classes", ORANGE, "--", "o"),
    "Algorithm 2": ("Algorithm 1, or 2 for classes", ORANGE, "--", "o"),
    "Algorithm 3": ("Algorithm 3, or 4 for classes", RED, "--", "s"),
    "Algorithm 4": ("Algorithm 3, or 4 for classes", RED, "--", "s"),
    "Algorithm 5": ("Algorithm 5", PURPLE, "--", "D"),
    "output perturbation": ("output perturbation", GREEN, "-", "v"),
    "certified": ("certified", SKY, "-", "o"),
    "certified, intercept": ("certified, intercept", BLUE, "-", "s"),
    "certified, selected": ("certified, intercept, selected ridge", BLACK, "-", "*"),
}
_LEVELS = {"constant": ("constant", "-"), "non-private": ("not private", "-.")}
_ORACLE = "the algorithm of that colour, tuned by an oracle"
_PANELS = 4
_TICKS = [0.1, 0.2, 0.5, 1, 2, 4]


def plot(dataset: xarray.Dataset) -> Figure:
    """Means over splits with standard errors; levels without privacy as horizontal lines."""
    count = dataset.sizes["table"]
    columns = min(_PANELS, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(max(1.9 * columns, 5.4), 1.9 * rows + 0.9), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    known = {}
    for axes, name in zip(panels, dataset.table.values, strict=False):
        _panel(axes, dataset.sel(table=name))
        tidy(axes, str(name).replace("-tertiary-structure", "").replace("-quality-red", ""))
        known |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    for axes in panels[count:]:
        axes.axis("off")
    known[_ORACLE] = Line2D([], [], color=GREY, linestyle=":", linewidth=1.0)
    labels = [label for label, *_ in (*_LEVELS.values(), *_STYLES.values()) if label in known]
    labels = [*dict.fromkeys(labels), _ORACLE]
    figure.legend(
        [known[label] for label in labels],
        labels,
        loc="outside lower center",
        ncols=3,
        frameon=False,
        fontsize="small",
    )
    return figure


def _panel(axes: Axes, at: xarray.Dataset) -> None:
    epsilons = at.epsilon.values
    for learner, (label, line) in _LEVELS.items():
        level = float(at.error.sel(learner=learner).mean())
        axes.axhline(level, color=BLACK, linestyle=line, linewidth=0.8, label=label)
    shifts = 1.05 ** np.linspace(-3, 3, len(_STYLES))
    for (learner, (label, color, line, marker)), shift in zip(_STYLES.items(), shifts, strict=True):
        errors = at.error.sel(learner=learner).dropna("split", how="all")
        if not errors.size:
            continue
        style = {"color": color, "marker": marker, "markersize": 3, "linewidth": 1.1}
        mean, error = errors.mean("split"), standard_error(errors, "split")
        axes.errorbar(epsilons * shift, mean, error, label=label, linestyle=line, **style)
        oracle = f"{learner}, oracle"
        if oracle in at.learner:
            best = at.error.sel(learner=oracle).mean("split")
            axes.plot(epsilons * shift, best, color=color, linestyle=":", linewidth=1.0)
    is_class = at.kind.item() == CLASSIFICATION
    axes.set_xscale("log")
    if is_class:
        axes.set_ylim(0.1, 0.55)
    else:
        axes.set_yscale("log")
        axes.set_ylim(0.05, 5)
        axes.set_yticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
    axes.minorticks_off()
    axes.set_ylabel("wrong class" if is_class else "MSE / variance", fontsize="small")
    axes.set_xlabel("$\\epsilon$")
