"""Pictures: results in, a matplotlib Figure out, without changes of global style."""

from jaxdp.comparison import plot_comparison
from jaxdp.plots.forecasts import plot_forecast, plot_leak
from jaxdp.plots.grids import plot_grid
from jaxdp.plots.images import plot_images
from jaxdp.plots.parts import plot_parts
from jaxdp.plots.plans import plot_plan
from jaxdp.plots.sliders import show_sliders

__all__ = [
    "plot_comparison",
    "plot_forecast",
    "plot_grid",
    "plot_images",
    "plot_leak",
    "plot_parts",
    "plot_plan",
    "show_sliders",
]
