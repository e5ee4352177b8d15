"""One quantity over time: a curve, the mean and band of runs, or a curve for each of a batch."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from jaxdp.core.pictures.figures import given_axes, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

# Okabe and Ito's blue; of a batch each curve has a shade of its own.
_BLUE, _SHADES = "#0072B2", ((0.0, 0.15, 0.35), (0.55, 0.82, 0.97))


def draw_curves(
    time: Float[np.ndarray, "curves records"],
    values: Float[np.ndarray, "curves records"],
    *,
    spread: Float[np.ndarray, " records"] | None = None,
    are_runs: bool = False,
    label: str = "",
    name: str = "",
    ax: Any = None,
) -> "Figure | SubFigure":
    """Curves, each over its own clock.

    Args:
        time: of the records.
        values: one row a curve.
        spread: the predicted standard deviation of a single curve, drawn as a band.
        are_runs: whether the curves are independent runs, drawn as mean and band of one standard
            deviation; else each is drawn, the first in the darkest shade.
        label: name of the simulator or theory, shown in the legend.
        name: of the quantity.
        ax: matplotlib's Axes to draw into; a new figure when None.
    """
    if ax is None:
        axes = new_figure((6.0, 3.6)).subplots()
    else:
        (axes,) = given_axes(ax, 1, "one quantity over time")
    if are_runs and len(values) > 1:
        mean, spread = values.mean(axis=0), values.std(axis=0, ddof=1)
        text = f"{label}, mean of {len(values)} runs".lstrip(", ")
        curves, colors = [(text, mean)], [_BLUE]
    elif len(values) == 1:
        curves, colors = [(label, values[0])], [_BLUE]
    else:
        curves = [(f"{label}, a batch of {len(values)}, dark to light".lstrip(", "), values[0])]
        curves += [("", row) for row in values[1:]]
        colors = np.linspace(*_SHADES, len(values)).tolist()
    for (text, row), clock, color in zip(curves, time, colors, strict=False):
        axes.plot(clock, row, color=color, linewidth=1.5, label=text or None)
    if spread is not None:
        middle = curves[0][1]
        band = {"color": _BLUE, "alpha": 0.2, "linewidth": 0, "label": "one standard deviation"}
        axes.fill_between(time[0], middle - spread, middle + spread, **band)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(time.min(), time.max())
    axes.set(xlabel="time", ylabel=name.replace("_", " "))
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False)
    return axes.figure
