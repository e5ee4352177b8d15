"""Whether somebody said, in public, where the inputs lie.

A kernel compares inputs at one scale. On raw columns (years beside incomes) all rows are then
equally far apart, and a learner releases noise; scaling by the columns' own means and deviations
would make each record's features depend on all others. So the ranges have to be said, and whether
they were is known before any data are looked at: a warning about it tells nothing of them.
"""

import warnings
from typing import Any

import jax

from jaxdp.kernels.base import AbstractInputScaling
from jaxdp.kernels.nystrom import NystromFeatures
from jaxdp.kernels.ranged_kernel import RangedKernel
from jaxdp.kernels.torus import MercerFeatures, TorusKernel

# Each has a place of its own where inputs lie.
_PLACED = (AbstractInputScaling, RangedKernel, NystromFeatures, MercerFeatures, TorusKernel)


def is_placed(kernel: Any, feature_map: Any) -> bool:
    """Whether a kernel or a map, or a part of it, says where its inputs lie."""
    parts = jax.tree.leaves((kernel, feature_map), is_leaf=lambda part: isinstance(part, _PLACED))
    return any(isinstance(part, _PLACED) for part in parts)


def warn_without_ranges(kernel: Any, feature_map: Any, input_bound: float | None) -> None:
    """Warn whoever fits where no public range of the inputs is given; no data are asked for."""
    if input_bound is None and not is_placed(kernel, feature_map):
        warnings.warn(
            "no public range of the inputs is given, and on columns whose scale is not the "
            "kernel's what is released is noise: give a RangedKernel (or RangeScaling of a map), "
            "an input_bound, or input_bound=math.inf where public numbers have scaled them already",
            UserWarning,
            # Between this and the caller of fit stands Equinox.
            stacklevel=4,
        )
