"""The picture of a forecast over epsilon and over the number of rows."""

from typing import TYPE_CHECKING, Any

from jaxdp.core.checks import require_kind
from jaxdp.core.pictures import BLUE, VERMILLION, panels_in
from jaxdp.planning import Forecast

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure


def plot_forecast(forecast: Forecast, *, title: str = "", ax: Any = None) -> "Figure | SubFigure":
    """Draw a forecast in two panels: over the budget, and over the number of rows.

    Args:
        forecast: a forecast of `jaxdp.forecast`: its accuracy, or its loss without classes.
        title: title above the panels.
        ax: two of matplotlib's Axes to draw into; None for a new figure.

    Returns:
        The figure, with the interval as a bar at the forecast's own budget.

    Example:
        >>> import jax, jaxdp
        >>> features = jax.random.normal(jax.random.key(0), (120, 4))
        >>> labels = jax.numpy.where(features[:, 0] > 0, 1, -1)
        >>> rows = features[:80], labels[:80], features[80:], labels[80:]
        >>> public = jaxdp.FixedFeatures.from_arrays(*rows, loss=jaxdp.losses.Logistic())
        >>> cell = {"num_steps": 8, "sampling_rate": 0.2}
        >>> found = jaxdp.forecast(public, num_samples=80, epsilon=2.0, delta=1e-5, **cell)
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
        panel.set_xscale("log")
        panel.set_xticks(values, [f"{value:g}" for value in values], minor=False)
        panel.set_xticks([], minor=True)
        panel.set_xlabel(label)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel(name if level is not None else f"{name} of the stand-ins")
    panels[0].legend(frameon=False, fontsize="small", loc="best")
    return figure
