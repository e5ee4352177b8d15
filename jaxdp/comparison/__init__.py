"""Comparison of simulated runs with predictions: a table, the largest gaps, and a picture."""

from jaxdp.comparison.comparing import Comparison, average, compare
from jaxdp.comparison.picture import plot_comparison

__all__ = ["Comparison", "average", "compare", "plot_comparison"]
