"""Comparison of simulated runs with predictions: a table, the largest gaps, and a picture."""

from jaxdp.comparison.comparing import average, compare
from jaxdp.comparison.picture import plot_comparison
from jaxdp.comparison.result import Comparison

__all__ = ["Comparison", "average", "compare", "plot_comparison"]
