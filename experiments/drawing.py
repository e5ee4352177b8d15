"""Colours and axes that the figures share; no global style is touched."""

from matplotlib.axes import Axes

# Okabe and Ito's colours, which colour-blind readers tell apart.
BLUE, SKY, GREEN, ORANGE, RED = "#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00"
PURPLE, BLACK, GREY = "#CC79A7", "#000000", "#777777"


def tidy(axes: Axes, title: str = "") -> None:
    """Two spines, small ticks, and a title at the left."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize="small", length=3)
    axes.set_title(title, loc="left", fontsize="medium")
