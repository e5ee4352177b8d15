"""Does theory agree with what happens? A table, the largest gaps, and a picture."""

from jaxdp.comparison.comparing import average as average
from jaxdp.comparison.comparing import compare as compare
from jaxdp.comparison.picture import plot_comparison as plot_comparison
from jaxdp.comparison.result import Comparison as Comparison

__all__ = [
    "Comparison",
    "average",
    "compare",
    "plot_comparison",
]
