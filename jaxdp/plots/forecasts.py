"""Pictures of forecasts, and of accuracy and leak over epsilon."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import ArrayLike

from jaxdp.attacks import PredictedMembership
from jaxdp.core.checks import host_array, require_kind
from jaxdp.core.pictures import BLUE, VERMILLION, panels_in
from jaxdp.planning import Forecast

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

_GREY = "0.45"


def plot_forecast(forecast: Forecast, *, title: str = "", ax: Any = None) -> "Figure | SubFigure":
    """Draw a forecast in two panels: over the budget, and over the number of rows.

    Args:
        forecast: a forecast of `jaxdp.forecast`: its accuracy, or its loss without classes.
        title: title above the panels.
        ax: two of matplotlib's Axes to draw into; None for a new figure.

    Returns:
        The figure, with the interval as a bar at the forecast's own budget, thick for the part of
        single runs and the draw of the public rows.

    Raises:
        TypeError: the argument is not a forecast.

    Example:
        >>> import jax, jaxdp
        >>> x = jax.random.normal(jax.random.key(0), (120, 4))
        >>> public = jaxdp.FixedFeatures.from_arrays(x[:80], x[:80, 0], x[80:], x[80:, 0])
        >>> budget = {"epsilon": 2.0, "delta": 1e-5, "num_steps": 8, "sampling_rate": 0.2}
        >>> found = jaxdp.forecast(public, num_samples=80, **budget)
        >>> len(jaxdp.plots.plot_forecast(found).axes)
        2
    """
    require_kind("forecast", forecast, Forecast, "a forecast of jaxdp.forecast")
    words = "over epsilon and over the number of rows"
    figure, panels = panels_in(ax, words, (7.0, 2.9), 1, 2, sharey=True)
    if ax is None:
        figure.suptitle(title, fontsize="medium")
    name = "loss" if forecast.curve[0].accuracy is None else "accuracy"
    level, epsilon = getattr(forecast, name), forecast.plan.epsilon
    for panel, axis, own, label, curve in (
        (panels[0], "epsilon", epsilon, r"$\varepsilon$", forecast.over_epsilon),
        (panels[1], "num_samples", forecast.num_samples, "rows $n$", forecast.over_samples),
    ):
        values = [getattr(one, axis) for one in curve]
        found = [getattr(one, name) for one in curve]
        panel.plot(values, found, "o-", color=BLUE, markersize=4, label="expected, best settings")
        if level is not None:
            bars = [[level.mean - level.low], [level.high - level.mean]]
            settings = {"fmt": "s", "color": VERMILLION, "markersize": 5, "capsize": 3}
            panel.errorbar([own], [level.mean], bars, label="forecast, 9 runs in 10", **settings)
            ends = level.mean + level.sampling * np.asarray([-1, 1])
            panel.plot([own, own], ends.clip(level.low, level.high), color=VERMILLION, linewidth=4)
        panel.set_xscale("log")
        panel.set_xticks(values, [f"{value:g}" for value in values], minor=False)
        panel.set_xticks([], minor=True)
        panel.set_xlabel(label)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel(name if level is not None else f"{name} of the stand-ins")
    panels[0].legend(frameon=False, fontsize="small", loc="best")
    return figure


def plot_leak(
    epsilons: ArrayLike,
    accuracies: ArrayLike,
    memberships: Sequence[PredictedMembership],
    *,
    ax: Any = None,
) -> "Figure | SubFigure":
    """Draw expected accuracy, and success of membership tests on the worst record, over epsilon.

    The second panel has the predicted area under the ROC curve of the best test of the final model,
    and the proved bound for any test.

    Args:
        epsilons: rising budgets > 0, (budgets,).
        accuracies: expected accuracy at each, in [0, 1], (budgets,).
        memberships: `jaxdp.attacks.predicted_membership` at each.
        ax: two of matplotlib's Axes to draw into; None for a new figure.

    Returns:
        The figure.

    Raises:
        TypeError: an entry is not a predicted membership.
        ValueError: the three do not have one length, or an epsilon is not positive.

    Example:
        >>> import jaxdp
        >>> from jaxdp.attacks import PredictedMembership
        >>> from jaxdp.privacy import GaussianMechanism, Release
        >>> sums = [Release("", "zero-out-one", GaussianMechanism(mu)) for mu in (0.3, 1.0)]
        >>> found = [PredictedMembership(0, it.mechanism.mu / 2, 1.0, it) for it in sums]
        >>> figure = jaxdp.plots.plot_leak([1.0, 4.0], [0.8, 0.9], found)
        >>> len(figure.axes)
        2
    """
    places, shares = (
        np.asarray(host_array(name, value), np.float64)
        for name, value in (("epsilons", epsilons), ("accuracies", accuracies))
    )
    if places.ndim != 1 or not places.shape == shares.shape == (len(memberships),):
        raise ValueError(
            "expected one accuracy and one membership for each epsilon, got "
            f"{places.shape}, {shares.shape} and {len(memberships)}"
        )
    if not np.all(places > 0):
        raise ValueError(f"expected epsilons > 0, got {places}")
    for number, each in enumerate(memberships):
        expected = "what predicted_membership(...) returned"
        require_kind(f"memberships[{number}]", each, PredictedMembership, expected)
    figure, (left, right) = panels_in(ax, "accuracy and leak", (6.6, 2.7), 1, 2)
    found, most = (np.array([getattr(it, name) for it in memberships]) for name in ("auc", "bound"))
    left.plot(places, shares, "o-", color=BLUE, markersize=4)
    left.set_ylabel("expected accuracy")
    right.fill_between(places, found, most, color=_GREY, alpha=0.12, linewidth=0)
    right.plot(places, most, "--", color=_GREY, label="any test, proved bound")
    right.plot(places, found, "o-", color=VERMILLION, markersize=4, label="best test, predicted")
    right.axhline(0.5, color=_GREY, linewidth=0.6)
    style: dict[str, Any] = {"ha": "right", "va": "top", "fontsize": "small", "color": _GREY}
    right.annotate("guess", (places[-1], 0.5), (0, -3), textcoords="offset points", **style)
    right.set_ylim(0.45, 1.0)
    right.set_ylabel("AUC for the worst record")
    right.legend(frameon=False, fontsize="small", loc="upper left")
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_xticks(places, [f"{value:g}" for value in places])
        axes.minorticks_off()
        axes.set_xlabel(r"$\epsilon$")
        axes.spines[["top", "right"]].set_visible(False)
    return figure
