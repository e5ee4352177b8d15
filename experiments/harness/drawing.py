"""Colours, axes and bands that the figures share; no global style is touched."""

from typing import Any

import xarray
from matplotlib.axes import Axes
from matplotlib.colors import same_color
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.spines import Spine
from matplotlib.text import Text

# Okabe and Ito's colours, which colour-blind readers can distinguish.
BLUE, SKY, GREEN, ORANGE, RED = "#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00"
PURPLE, BLACK, GREY = "#CC79A7", "#000000", "#777777"


def tidy(axes: Axes, title: str = "") -> None:
    """Two spines, small ticks, and a title at the left."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize="small", length=3)
    axes.set_title(title, loc="left", fontsize="medium")


def band(axes: Axes, places: Any, low: Any, high: Any, color: str, alpha: float = 0.15) -> None:
    """Shade the area between two curves."""
    axes.fill_between(places, low, high, color=color, alpha=alpha, linewidth=0)


def spread(axes: Axes, places: Any, runs: xarray.DataArray, color: str) -> None:
    """Shade from the least to the largest over the axis "seed"."""
    band(axes, places, runs.min("seed"), runs.max("seed"), color)


def means(axes: Axes, places: Any, runs: xarray.DataArray, color: str, **style: Any) -> None:
    """Means over the axis "seed" as a curve, in the shade of their `spread`."""
    spread(axes, places, runs, color)
    style = {"markersize": 3.5, "linewidth": 1.3, "color": color} | style
    axes.plot(places, runs.mean("seed"), **style)


def threshold(axes: Axes, place: float, name: str) -> None:
    """A dashed line across the panel, with its name at the top."""
    axes.axvline(place, color=GREY, linewidth=0.9, linestyle="--", zorder=0)
    at = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
    axes.annotate(name, (place, 1), xytext=(3, -7), fontsize="small", color=GREY, **at)


def errorbars(axes: Axes, places: Any, mean: Any, error: Any, color: str, **style: Any) -> None:
    """Means with bars of their errors, as points unless `linestyle` is given."""
    style = {"linestyle": "none", "marker": "o", "markersize": 4} | style
    axes.errorbar(places, mean, error, color=color, **style)


def for_any_page(figure: Any) -> Any:
    """A figure with photographs, read on a light and on a dark page: no ground, grey for black."""
    for artist in figure.findobj():
        if isinstance(artist, (Figure, SubFigure, Axes)):
            artist.patch.set_alpha(0)
        elif isinstance(artist, (Text, Line2D)) and same_color(artist.get_color(), BLACK):
            artist.set_color(GREY)
        elif isinstance(artist, Spine):
            artist.set_edgecolor(GREY)
    return figure
