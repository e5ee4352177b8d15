"""Where pictures are drawn: a new figure, which pyplot knows where pyplot is used, or given axes.

A notebook shows a new figure, `plt.show()` and `plt.savefig` take it, and a script that draws
thousands keeps a few of them open in pyplot, as figures cost memory there.
"""

import collections
import functools
import io
import sys
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdp.core.extras import require_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# pyplot warns of more than twenty.
_MOST_OPEN = 10
_open: collections.deque[weakref.ref] = collections.deque()


def new_figure(size: tuple[float, float]) -> "Figure":
    """A figure of this size in inches, open in pyplot where that is imported.

    Of figures made here the ten latest stay open in pyplot; older ones still belong to whoever
    holds them.
    """
    with require_extra("matplotlib", "plots", "a picture"):
        from matplotlib.figure import Figure

    settings: dict[str, Any] = {"figsize": size, "layout": "constrained"}
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        figure = Figure(**settings)
    else:
        while len(_open) >= _MOST_OPEN:
            _close(_open.popleft()())
        figure = pyplot.figure(**settings)
        _open.append(weakref.ref(figure))
    # IPython shows what a cell returns, and then every open figure: this one is shown once.
    shown: Any = figure
    shown._ipython_display_ = functools.partial(_show, figure)
    return figure


def given_axes(ax: Any, count: int, panels: str) -> "list[Axes]":
    """The axes that a caller gave for this many panels, in a list.

    Args:
        ax: one Axes, or an array or a sequence of them.
        count: of the panels.
        panels: what they show, in words.

    Raises:
        TypeError, ValueError: something else was given, or another number of axes.
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


def _close(figure: "Figure | None") -> None:
    if figure is not None and "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(figure)


def _show(figure: "Figure") -> None:
    """Show a figure in a notebook; it is not open any more then, like all that a cell has shown."""
    from IPython.display import publish_display_data  # pyright: ignore[reportMissingImports]

    _close(figure)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    publish_display_data({"image/png": drawn.getvalue(), "text/plain": repr(figure)})
