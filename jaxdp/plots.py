"""Pictures: trajectories in, a matplotlib Figure out. No global style is touched."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from jaxdp.core.trajectory import Status, Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers tell apart.
_BLUE, _ORANGE, _GREEN, _PURPLE, _BLACK = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#000000"
# Released iterates are drawn beyond time 1, where the last step's noise has come.
_RELEASED_AT = 1.06


def plot_comparison(
    simulated: Trajectory,
    *predictions: Trajectory,
    beside: Sequence[Trajectory] = (),
    title: str = "",
) -> "Figure":
    """Simulated runs, predictions and the means of further runs on one axis.

    Args:
        simulated: runs along the leading axis; drawn as mean and band of one standard deviation.
        predictions: single trajectories; the first is drawn solid, the others (bounds) dashed.
        beside: further runs (paths of the SDE, runs on a surrogate), each drawn as its mean.
        title: above the axis.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    _draw_runs(axes, simulated, _BLUE, _plural(simulated, simulated.label or "simulated"))
    for runs, color in zip(beside, itertools.cycle([_GREEN, _PURPLE])):
        mean, _, final, _ = _spread(runs)
        label = _plural(runs, runs.label or "simulated") + ", mean"
        axes.plot(runs.time, mean, color=color, linestyle=(0, (1, 1)), linewidth=2, label=label)
        axes.plot([_RELEASED_AT + 0.02], [final], "s", color=color, markersize=4)
    for index, prediction in enumerate(predictions):
        first = index == 0
        style = "-" if first else ["--", "-."][index % 2]
        color, width = (_BLACK, 1.1) if first else (_ORANGE, 1.2)
        label = prediction.label or "predicted"
        axes.plot(
            prediction.time,
            prediction.risk,
            color=color,
            linestyle=style,
            linewidth=width,
            label=label,
        )
        axes.plot(
            [_RELEASED_AT - 0.04, _RELEASED_AT + 0.04],
            [prediction.final_risk] * 2,
            color=color,
            linestyle=style,
            linewidth=width,
        )
    axes.axvline(1.0, color="0.8", linewidth=0.8, zorder=0)
    axes.set_xlim(0, _RELEASED_AT + 0.06)
    axes.set_ylim(bottom=0 if np.nanmin(_spread(simulated)[0]) >= 0 else None)
    axes.set_xticks(
        [0, 0.25, 0.5, 0.75, 1.0, _RELEASED_AT], ["0", "¼", "½", "¾", "1", "\nreleased"]
    )
    axes.set_xlabel("time $k/n$")
    axes.set_ylabel("excess risk $R$")
    axes.set_title(title, fontsize="medium")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return figure


def _draw_runs(axes: "Axes", runs: Trajectory, color: str, label: str) -> None:
    mean, std, final, final_std = _spread(runs)
    band = (mean - std, mean + std)
    axes.fill_between(runs.time, *band, color=color, alpha=0.25, linewidth=0)
    axes.plot(runs.time, mean, color=color, linewidth=3, label=label)
    axes.errorbar([_RELEASED_AT - 0.02], [final], [final_std], fmt="o", color=color, markersize=4)


def _spread(runs: Trajectory):
    """Mean and standard deviation over the runs that ended well, of the path and its end."""
    well = np.asarray(runs.status) == Status.OK
    if not well.any():
        raise ValueError(f"expected a run that ended well, got none in {runs.label!r}")
    risk = np.asarray(runs.risk, np.float64)[well]
    final = np.asarray(runs.final_risk, np.float64)[well]
    return risk.mean(0), risk.std(0), final.mean(), final.std()


def _plural(runs: Trajectory, name: str) -> str:
    count = int((np.asarray(runs.status) == Status.OK).sum())
    return f"{name}, {count} run{'s' if count != 1 else ''}"
