"""Matplotlib figures and axes to draw into."""

import collections
import functools
import io
import string
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdp.core.packages import require_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# Colours of Okabe and Ito, distinct for colour-blind readers.
BLACK, BLUE, ORANGE, VERMILLION = "#000000", "#0072B2", "#E69F00", "#D55E00"
# The latest figures, which stay open in pyplot; it warns of more than twenty.
_open: "collections.deque[Figure]" = collections.deque(maxlen=10)


def new_figure(size: tuple[float, float]) -> "Figure":
    """A figure of this size in inches, open in pyplot if that is imported."""
    with require_extra("matplotlib", "plots", "a picture"):
        from matplotlib.figure import Figure

    pyplot = sys.modules.get("matplotlib.pyplot")
    figure = (pyplot.figure if pyplot else Figure)(figsize=size, layout="constrained")
    if pyplot:
        if len(_open) == _open.maxlen:
            pyplot.close(_open[0])
        _open.append(figure)
    # A notebook shows what a cell returns and then every open figure: show this one once.
    setattr(figure, "_ipython_display_", functools.partial(_show, figure))  # noqa: B010
    return figure


def _show(figure: "Figure") -> None:
    from IPython.display import publish_display_data  # pyright: ignore[reportMissingImports]

    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close(figure)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    publish_display_data({"image/png": drawn.getvalue(), "text/plain": repr(figure)})


def given_axes(ax: Any, count: int, panels: str) -> "list[Axes]":
    """The caller's axes as a list; TypeError or ValueError unless they are `count` Axes.

    `panels` says in words what the panels show.
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
    """The caller's axes `ax`, or the panels of a new figure of this size."""
    if ax is not None:
        axes = given_axes(ax, rows * columns, words)
        return axes[0].figure, axes
    figure = new_figure(size)
    axes = list(np.ravel(figure.subplots(rows, columns, **layout)))
    letter_panels(axes)
    return figure, axes


def letter_panels(axes: "Sequence[Axes]") -> None:
    """Mark panels with a, b, c, ... at their upper left, if there are several."""
    if 1 < len(axes) <= len(string.ascii_lowercase):
        for letter, panel in zip(string.ascii_lowercase, axes, strict=False):
            title = rf"$\mathbf{{{letter}}}$  {panel.get_title(loc='left')}".rstrip()
            panel.set_title(title, loc="left", fontsize="medium")
