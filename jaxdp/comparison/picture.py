"""The picture of simulated and predicted trajectories."""

import itertools
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxdp.comparison.table import coinciding, name_of
from jaxdp.core.arrays import in_numpy
from jaxdp.core.checks import require_kind
from jaxdp.core.pictures import BLACK, BLUE, ORANGE, VERMILLION, panels_in
from jaxdp.core.trajectory import Status, Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# Colours and dashes of further runs.
_BESIDE = [("#009E73", (0, (1.5, 1))), ("#CC79A7", (0, (4, 1, 1, 1)))]
# Time at which releases are drawn: after the last step's noise.
_RELEASED_AT = 1.06
_TICKS = ["0", "¼", "½", "¾", "1", "\nreleased"]
# A legend with more entries would cover the curves.
_MOST_INSIDE = 6
# Sizes in inches: the figure, and a line of a legend below it.
_WIDTH, _HEIGHT, _LINE = 6.4, 5.2, 0.2
# Characters on a line of the legend, and of the lower axis's label.
_LEGEND_WIDTH, _LABEL_WIDTH = 30, 16
# Styles of predictions, the first above all others; dashes serve readers without colours.
_STYLES = [
    {"color": BLACK, "linewidth": 1.1, "linestyle": "-", "zorder": 3},
    {"color": ORANGE, "linewidth": 1.5, "linestyle": "-."},
    {"color": VERMILLION, "linewidth": 1.5, "linestyle": "--"},
    {"color": "#56B4E9", "linewidth": 1.5, "linestyle": (0, (3, 1, 1, 1, 1, 1))},
    {"color": "#8C510A", "linewidth": 1.5, "linestyle": (0, (6, 2))},
    {"color": "#777777", "linewidth": 1.5, "linestyle": (0, (1, 1))},
    {"color": "#AA4499", "linewidth": 1.5, "linestyle": (0, (5, 1, 1, 1, 1, 1, 1, 1))},
    {"color": "#117733", "linewidth": 1.5, "linestyle": (0, (8, 2, 2, 2))},
]


def plot_comparison(
    simulated: Trajectory,
    *predictions: Trajectory,
    beside: Sequence[Trajectory] = (),
    title: str = "",
    time_label: str = "time $k/n$",
    risk_label: str = "excess risk $R$",
    ax: Any = None,
) -> "Figure | SubFigure":
    """Plot simulated runs, predictions and the means of further runs over time.

    A shaded band shows one standard deviation of single runs, and dashed lines the `std` of a
    prediction. The lower panel shows differences from the first prediction, with bands of two
    standard errors of the mean. Predictions that agree with an earlier one to 1e-4 share a curve
    and its entry in the legend.

    Args:
        simulated: runs along the leading axis; drawn as mean and band of one standard deviation.
        predictions: single trajectories; the first is drawn solid, above the others.
        beside: further runs (paths of the SDE, runs on a surrogate), each drawn as its mean.
        title: title of the upper panel, none by default.
        time_label, risk_label: labels of the axes.
        ax: two matplotlib Axes, the upper one first; a new figure by default.

    Returns:
        The figure, to save or to show.

    Raises:
        ValueError: a prediction has several runs or other times than the simulation, there are no
            simulated runs or all failed, or `ax` is not two Axes.

    Example:
        >>> import jaxdp, numpy as np
        >>> from jaxdp.plots import plot_comparison
        >>> times, risks = np.array([0.0, 0.5, 1.0]), np.array([[0.5, 0.2, 0.12], [0.5, 0.3, 0.08]])
        >>> runs = jaxdp.Trajectory(times, risks, risks[:, -1], np.zeros(2, int), {})
        >>> mean = jaxdp.Trajectory(times, risks.mean(0), np.array(0.15), np.array(0), {})
        >>> type(plot_comparison(runs, mean)).__name__
        'Figure'
    """
    _check(simulated, predictions, beside)
    simulated, predictions, beside = in_numpy((simulated, predictions, tuple(beside)))
    ends = float(simulated.time[-1])
    everything = (simulated, *predictions, *beside)

    size, layout = (_WIDTH, _HEIGHT), {"sharex": True, "height_ratios": (3, 1.6)}
    figure, panels = panels_in(ax, "the risk, and below it the gap", size, 2, 1, **layout)
    above, below = panels
    reference = predictions[0] if predictions else None
    _draw_runs(above, below, simulated, reference, BLUE)
    for runs, (color, dashes) in zip(beside, itertools.cycle(_BESIDE), strict=False):
        _draw_runs(above, below, runs, reference, color, dashes)
    limits = below.get_ylim()
    shown = coinciding(predictions)
    for (prediction, same), style in zip(shown, itertools.cycle(_STYLES), strict=False):
        label = _named([prediction, *same])
        _draw_prediction(above, below, prediction, reference, label, style)
    has_jump = any(map(_has_jump, everything))
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlim(0, ends)
        if has_jump:
            axes.axvline(ends, color="0.8", linewidth=0.8, zorder=0)
            axes.set_xlim(0, (_RELEASED_AT + 0.06) * ends)
    # Distant bounds must not flatten the curves.
    below.set_ylim(limits)
    above.set_ylim(bottom=0 if np.nanmin(spread_of(simulated).mean) >= 0 else None)
    above.set_ylabel(risk_label)
    above.set_title(title, fontsize="medium")
    handles, labels = above.get_legend_handles_labels()
    if len(labels) > _MOST_INSIDE and ax is None:
        style = {"frameon": False, "fontsize": "small"}
        figure.legend(handles, labels, loc="outside lower center", ncols=2, **style)
        lines = sum(1 + label.count("\n") for label in labels)
        figure.get_figure(root=True).set_size_inches(_WIDTH, _HEIGHT + _LINE * lines / 2)
    else:
        above.legend(frameon=False)
    if reference:
        below.set_ylabel(
            textwrap.fill(f"simulated − {reference.label or 'predicted'}", _LABEL_WIDTH)
        )
    if has_jump:
        ticks = ends * np.asarray([0, 0.25, 0.5, 0.75, 1.0, _RELEASED_AT])
        named = ends == 1.0
        below.set_xticks(
            ticks, _TICKS if named else [*(f"{t:.2g}" for t in ticks[:-1]), _TICKS[-1]]
        )
    below.set_xlabel(time_label)
    return figure


def _check(simulated: Any, predictions: Sequence[Any], beside: Any) -> None:
    """Raise unless these are runs, single predictions, and further runs, at the same times."""
    if isinstance(beside, Trajectory):
        raise TypeError("expected beside to be a list of trajectories, got one: give [it]")
    for name, each in (
        ("simulated", simulated),
        *(("predictions", each) for each in predictions),
        *(("beside", each) for each in beside),
    ):
        require_kind(name, each, Trajectory, "trajectories of jaxdp.simulate or jaxdp.predict")
        expected, shape = int(name != "predictions"), each.risk.shape[:-1]
        if len(shape) != expected:
            wanted = "runs along one leading axis" if expected else "single trajectories"
            raise ValueError(
                f"expected {name} to be {wanted}, got {each.label or 'a trajectory'} with batch "
                f"shape {shape}: simulated runs come first, then predictions"
            )
        if each.time.shape != simulated.time.shape or not np.allclose(each.time, simulated.time):
            raise ValueError(
                f"expected {name} at the times of the simulation, {len(simulated.time)} up to "
                f"{float(simulated.time[-1]):g}, got {len(each.time)} up to "
                f"{float(each.time[-1]):g} of {each.label or 'a trajectory'}"
            )


def _has_jump(trajectory: Trajectory) -> bool:
    """Whether the released risk differs from the last record's."""
    return not np.array_equal(
        np.asarray(trajectory.final_risk), np.asarray(trajectory.risk)[..., -1], equal_nan=True
    )


class Spread(NamedTuple):
    """Mean, standard deviation and standard error over the runs that ended well."""

    mean: np.ndarray
    std: np.ndarray
    error: np.ndarray
    final: float
    final_std: float
    final_error: float
    count: int


def _draw_runs(above, below, runs: Trajectory, reference, color: str, dashes: Any = None) -> None:
    """Mean and band of runs (dashes: no band); below, the gap with two standard errors."""
    band = dashes is None
    shade = {"color": color, "alpha": 0.2, "linewidth": 0}
    spread = spread_of(runs)
    plural = "s" if spread.count != 1 else ""
    label = f"{runs.label or 'simulated'}, mean of {spread.count} run{plural}"
    style = {"color": color, "linewidth": 1.8, "linestyle": dashes or "-"}
    above.plot(runs.time, spread.mean, label=label, **style)
    if band:
        low, high = spread.mean - spread.std, spread.mean + spread.std
        above.fill_between(runs.time, low, high, label="one standard deviation", **shade)
    place = float(runs.time[-1]) * (_RELEASED_AT + (-0.02 if band else 0.02))
    marker = {"color": color, "fmt": "o" if band else "s", "markersize": 4}
    if _has_jump(runs):
        above.errorbar([place], [spread.final], [spread.final_std], **marker)
    if reference is None:
        return
    gap = spread.mean - np.asarray(reference.risk, np.float64)
    below.plot(runs.time, gap, **style)
    low, high = gap - 2 * spread.error, gap + 2 * spread.error
    below.fill_between(runs.time, low, high, **shade)
    final_gap = spread.final - float(reference.final_risk)
    if _has_jump(runs):
        below.errorbar([place], [final_gap], [2 * spread.final_error], **marker)


def _draw_prediction(above, below, prediction: Trajectory, reference, label, style) -> None:
    above.plot(prediction.time, prediction.risk, label=label, **style)
    ends = float(prediction.time[-1]) * np.asarray([_RELEASED_AT - 0.04, _RELEASED_AT + 0.04])
    if _has_jump(prediction):
        above.plot(ends, [prediction.final_risk] * 2, **style)
    if prediction.std is not None:
        _draw_band(above, prediction, ends, {**style, "linewidth": 1.0, "linestyle": (0, (4, 2))})
    if reference is not None:
        below.plot(prediction.time, prediction.risk - reference.risk, **style)
        if _has_jump(prediction):
            below.plot(ends, [prediction.final_risk - reference.final_risk] * 2, **style)


def _named(predictions: Sequence[Trajectory]) -> str:
    """A curve's entry in the legend, on short lines that break between the names."""
    names = (name_of(each).replace(" ", "\N{NO-BREAK SPACE}") for each in predictions)
    return textwrap.fill(" = ".join(names), _LEGEND_WIDTH)


def _draw_band(axes: "Axes", prediction: Trajectory, ends, style: dict) -> None:
    """The edges of a predicted band of one standard deviation, with one entry in the legend."""
    risk, std = (np.asarray(each, np.float64) for each in (prediction.risk, prediction.std))
    for sign, label in ((1, f"{prediction.label or 'predicted'} ± standard deviation"), (-1, None)):
        axes.plot(prediction.time, risk + sign * std, label=label, **style)
        if _has_jump(prediction) and prediction.final_std is not None:
            edge = float(prediction.final_risk + sign * prediction.final_std)
            axes.plot(ends, [edge] * 2, **style)


def spread_of(runs: Trajectory) -> Spread:
    """Mean, deviation and standard error of the runs that ended well; ValueError without one."""
    well = np.asarray(runs.status) == Status.OK
    if not well.any():
        raise ValueError(f"expected a run that ended well, got none in {runs.label!r}")
    risk = np.asarray(runs.risk, np.float64)[well]
    final = np.asarray(runs.final_risk, np.float64)[well]
    root = np.sqrt(max(len(risk) - 1, 1))
    return Spread(
        mean=risk.mean(0),
        std=risk.std(0),
        error=risk.std(0) / root,
        final=final.mean(),
        final_std=final.std(),
        final_error=final.std() / root,
        count=len(risk),
    )
