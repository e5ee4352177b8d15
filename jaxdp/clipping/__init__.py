"""Per-sample clipping of any Equinox model, and clipping of gradients whose norm is known.

In the docstrings AC is "Better Rates for Private Linear Regression in the Proportional Regime via
Aggressive Clipping".
"""

from jaxdp.clipping.explanation import explain as explain
from jaxdp.clipping.per_sample import clipped_gradient_sum as clipped_gradient_sum
from jaxdp.clipping.per_sample import clipped_gradient_sum_in_parts as clipped_gradient_sum_in_parts
from jaxdp.clipping.per_sample import per_sample_gradient_norms as per_sample_gradient_norms
from jaxdp.clipping.sensitivity import sensitivity_excess as sensitivity_excess
from jaxdp.clipping.two_part_sum import TwoPartSum as TwoPartSum
from jaxdp.clipping.two_part_sum import sum_over_devices as sum_over_devices

__all__ = [
    "TwoPartSum",
    "clipped_gradient_sum",
    "clipped_gradient_sum_in_parts",
    "explain",
    "per_sample_gradient_norms",
    "sensitivity_excess",
    "sum_over_devices",
]
