"""Pictures of plans: the schedule, the predicted risk, and the sensitivities."""

import math
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from jaxdp.core.checks import require_kind
from jaxdp.core.pictures import BLACK, BLUE, ORANGE, panels_in
from jaxdp.core.trajectory import Trajectory
from jaxdp.planning import OnePassPlan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_FAR_BELOW = 1e3  # a floor this many times below the prediction is named, not drawn
_NAMES = {"exchange": "clip scale at a fixed\nproduct with the rate"}
_NUM_TIMES, _FIRST_TIME = 400, 1e-4  # times of a drawn schedule
# Least range of a logarithmic axis, range below which 2 and 5 are numbered, largest range of rates.
_SHORTEST, _PLAIN, _LONGEST = 5.0, 40.0, 1e4


def plot_plan(
    plan: OnePassPlan, predicted: Trajectory | None = None, *, title: str = "", ax: Any = None
) -> "Figure | SubFigure":
    """Draw a plan of one-pass DP-SGD in three panels: learning rate, predicted risk, sensitivity.

    The third panel has the factor of the risk if an argument is halved or doubled; "at a fixed
    product with the rate" changes clip scale and learning rate inversely.

    Args:
        plan: a plan of `jaxdp.plan`, for linear regression.
        predicted: a prediction of `plan.algorithm`, such as that of `jaxdp.Fluctuations()`, with a
            band of one standard deviation of single runs; None for the plan's own, without a band.
        title: title above the panels.
        ax: three of matplotlib's Axes to draw into; None for a new figure.

    Returns:
        The figure.

    Raises:
        TypeError: the argument is not a plan or a Trajectory.

    Example:
        >>> import jaxdp
        >>> from jaxdp.plots import plot_plan
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> figure = plot_plan(jaxdp.plan(problem, num_samples=1000, rho=1.0))
        >>> len(figure.axes)
        3
    """
    require_kind("plan", plan, OnePassPlan, "a plan of jaxdp.plan for linear regression")
    predicted = plan.predicted if predicted is None else predicted
    require_kind("predicted", predicted, Trajectory, "a trajectory of jaxdp.predict")
    words = "learning rate, risk and sensitivity"
    figure, (rate, risk, sensitivity) = panels_in(ax, words, (10.0, 3.2), 1, 3)
    if ax is None:
        figure.suptitle(title, fontsize="medium")
    _draw_schedule(rate, plan)
    _draw_risk(risk, plan, predicted)
    _draw_sensitivities(sensitivity, plan)
    for axes in (rate, risk, sensitivity):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_schedule(axes: "Axes", plan: OnePassPlan) -> None:
    times = np.geomspace(_FIRST_TIME, 1.0, _NUM_TIMES)
    rates = plan.algorithm.learning_rate(jnp.asarray(times))
    axes.loglog(times, np.asarray(rates), color=BLUE)
    _number_logarithms(axes.yaxis, axes.set_ylim, *_span(rates))
    axes.set_xlabel("time $k/n$")
    axes.set_ylabel(r"learning rate $\tilde\eta$")
    axes.set_title(f"clip scale {float(plan.algorithm.clip_scale):.3g}", fontsize="medium")


def _draw_risk(axes: "Axes", plan: OnePassPlan, predicted: Trajectory) -> None:
    time, risk = np.asarray(predicted.time), np.asarray(predicted.risk, np.float64)
    axes.semilogy(time, risk, color=BLUE, label="predicted")
    if predicted.std is not None:
        std = np.asarray(predicted.std, np.float64)
        low = np.maximum(risk - std, risk / 10)
        axes.fill_between(
            time, low, risk + std, color=BLUE, alpha=0.2, linewidth=0, label="± one run's deviation"
        )
    final = float(predicted.final_risk)
    axes.semilogy([1.0], [final], "o", color=BLACK, markersize=4, label="released")
    if plan.floor * _FAR_BELOW > risk.min():
        axes.axhline(plan.floor, color=ORANGE, linestyle="--", label="best without privacy")
    else:
        axes.plot([], [], " ", label=f"without privacy {plan.floor:.1g}")
    axes.set_xlabel("time $k/n$")
    axes.set_ylabel("excess risk $R$")
    _number_logarithms(axes.yaxis, axes.set_ylim, *axes.get_ylim())
    _legend_above(axes)


def _draw_sensitivities(axes: "Axes", plan: OnePassPlan) -> None:
    names = list(plan.sensitivities)
    places = np.arange(len(names))
    for shift, color, label, values in (
        (0.2, BLUE, "halved", [each.halved for each in plan.sensitivities.values()]),
        (-0.2, ORANGE, "doubled", [each.doubled for each in plan.sensitivities.values()]),
    ):
        axes.barh(places + shift, np.asarray(values), 0.36, left=1, color=color, label=label)
    axes.axvline(1.0, color=BLACK, linewidth=0.8)
    axes.set_xscale("log")
    _number_logarithms(axes.xaxis, axes.set_xlim, *axes.get_xlim())
    axes.set_yticks(places, [_NAMES.get(name, name.replace("_", " ")) for name in names])
    axes.set_xlabel("risk, in units of the plan's")
    _legend_above(axes)


def _span(values: Any) -> tuple[float, float]:
    """The range of the positive values, a little extended."""
    positive = np.asarray(values, np.float64)
    positive = positive[positive > 0]
    if not positive.size:
        return 1.0, 1.0
    return max(positive.min(), positive.max() / _LONGEST) / 1.2, positive.max() * 1.2


def _number_logarithms(axis: Any, set_limits: Any, low: float, high: float) -> None:
    """Set a logarithmic axis of at least a factor of five, with few and plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if high / low < _SHORTEST:
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(_SHORTEST), middle * math.sqrt(_SHORTEST)
    set_limits(low, high)
    subs = (1.0, 2.0, 5.0) if high / low < _PLAIN else (1.0,)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _as_text(value)))
    axis.set_minor_formatter(NullFormatter())


def _as_text(value: float) -> str:
    """A number from 0.001 to 1,000 as it is, others as powers of ten."""
    power = math.floor(math.log10(value) + 1e-9)
    if -3 <= power <= 3:
        return f"{value:g}"
    digit = round(value / 10.0**power)
    return ("" if digit == 1 else rf"{digit}$\times$") + f"$10^{{{power}}}$"


def _legend_above(axes: "Axes") -> None:
    """Add a legend above the axes, where it hides nothing."""
    place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "borderaxespad": 0.2}
    space = {"ncols": 2, "columnspacing": 1.2, "handlelength": 1.5}
    axes.legend(frameon=False, fontsize="small", **place, **space)
