"""Figures and axes to draw into, and the drawing of one quantity over time."""

import collections
import functools
import io
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from jaxdp.core.packages import require_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# pyplot warns of more than twenty, as open figures cost memory.
_MOST_OPEN = 10
# Okabe and Ito's colours, which colour-blind readers tell apart.
BLACK, BLUE, ORANGE, VERMILLION = "#000000", "#0072B2", "#E69F00", "#D55E00"
# Of a batch each curve has a shade of its own.
_SHADES = (0.0, 0.15, 0.35), (0.55, 0.82, 0.97)
_open: "collections.deque[Figure]" = collections.deque()


def new_figure(size: tuple[float, float]) -> "Figure":
    """A figure of this size in inches, open in pyplot if that is imported.

    The ten latest figures made here stay open in pyplot.
    """
    with require_extra("matplotlib", "plots", "a picture"):
        from matplotlib.figure import Figure

    pyplot = sys.modules.get("matplotlib.pyplot")
    figure = (pyplot.figure if pyplot else Figure)(figsize=size, layout="constrained")
    if pyplot:
        _open.append(figure)
        if len(_open) > _MOST_OPEN:
            pyplot.close(_open.popleft())
    # A notebook shows what a cell returns, and then every open figure: this one is shown once.
    shown: Any = figure
    shown._ipython_display_ = functools.partial(_show, figure)
    return figure


def _show(figure: "Figure") -> None:
    """Show a figure in a notebook, and close it like all that a cell has shown."""
    from IPython.display import publish_display_data  # pyright: ignore[reportMissingImports]

    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(figure)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    publish_display_data({"image/png": drawn.getvalue(), "text/plain": repr(figure)})


def given_axes(ax: Any, count: int, panels: str) -> "list[Axes]":
    """The axes that a caller gave for this many panels, in a list.

    `panels` says in words what they show. TypeError or ValueError for anything else than Axes, or
    another number of them.
    """
    with require_extra("matplotlib", "plots", "a picture"):
        from matplotlib.axes import Axes

    given = [ax] if isinstance(ax, Axes) else list(np.ravel(np.asarray(ax, object)))
    if not all(isinstance(each, Axes) for each in given):
        kinds = ", ".join(sorted({type(each).__name__ for each in given}))
        raise TypeError(f"expected ax to be matplotlib's Axes, got {kinds}")
    if len(given) != count:
        raise ValueError(f"expected ax to be {count} Axes ({panels}), got {len(given)}")
    return given


def panels_in(
    ax: Any, words: str, size: tuple[float, float], rows: int, columns: int, **layout: Any
) -> "tuple[Figure | SubFigure, list[Axes]]":
    """The panels of a new figure of this size, or those that a caller gave as `ax`."""
    if ax is not None:
        axes = given_axes(ax, rows * columns, words)
        return axes[0].figure, axes
    figure = new_figure(size)
    return figure, list(np.ravel(figure.subplots(rows, columns, **layout)))


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
    """Curves, a row of values each, over their own clocks.

    Independent runs are drawn as mean and band of one standard deviation; else each curve is drawn,
    the first in the darkest shade, a single one with the predicted `spread` as a band.
    """
    _, (axes,) = panels_in(ax, "one quantity over time", (6.0, 3.6), 1, 1)
    count, colors = len(values), [BLUE]
    if are_runs and count > 1:
        label = f"{label}, mean of {count} runs"
        spread, values = values.std(axis=0, ddof=1), values.mean(axis=0, keepdims=True)
    elif count > 1:
        label = f"{label}, a batch of {count}, dark to light"
        colors = np.linspace(*_SHADES, count).tolist()
    labels = [label.lstrip(", ") or None, *[None] * (count - 1)]
    for row, clock, color, text in zip(values, time, colors, labels, strict=False):
        axes.plot(clock, row, color=color, linewidth=1.5, label=text)
    if spread is not None:
        band = {"color": BLUE, "alpha": 0.2, "linewidth": 0, "label": "one standard deviation"}
        axes.fill_between(time[0], values[0] - spread, values[0] + spread, **band)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(time.min(), time.max())
    axes.set(xlabel="time", ylabel=name.replace("_", " "))
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False)
    return axes.figure
