"""How many rows an interval needs, from public assumptions about the columns."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
from jaxtyping import Float

from jaxdp.core.checks import host_number, require_positive
from jaxdp.kernels.base import AbstractFeatureMap
from jaxdp.regression import ColumnFeatures, WithConstant
from jaxdp.regression.methods import AbstractDescentMethod
from jaxdp.regression.structure import Structure

_FEWEST, _MOST = 50, 10**9
_CLOSE = 1.005  # ratio of two numbers of rows that are told apart no more


def assumed_covariance(
    method: AbstractDescentMethod, features: AbstractFeatureMap, **options: Any
) -> Float[np.ndarray, "features features"]:
    """The covariance of the errors of a fit to come, under `assumed_moments`."""
    moments = assumed_moments(features) / features.norm_bound**2
    learnt = method.expected_errors(Structure.of(features), moments, **options)
    assert learnt.known is not None
    return (learnt.known.noise + learnt.known.sampling) / features.norm_bound**2


def assumed_moments(features: AbstractFeatureMap) -> Float[np.ndarray, "features features"]:
    """Second moments of linear features of independent columns without missing values.

    Places are spread evenly over ranges, and categories are equally frequent.
    """
    size, base = features.num_outputs, features
    means, within = np.zeros(size), np.eye(size) / 3
    if isinstance(features, WithConstant):
        base, means[-1], within[-1, -1] = features.base, features.constant, 0.0
    if isinstance(base, ColumnFeatures):
        # Cells for missing numbers have no rows.
        missing = np.flatnonzero(~base.is_line)
        within[missing, missing] = 0.0
        for cells in base.groups:
            listed = cells[: len(base.columns.specs[base.owner[cells[0]]])]
            means[listed] = 1 / len(listed)
            within[np.ix_(listed, listed)] = np.diag(means[listed]) - 1 / len(listed) ** 2
    return np.outer(means, means) + within


def rows_for_width(variance: Callable[[int], float], width: Any, level: Any) -> int:
    """The least number of rows at which an interval of this level is no wider."""
    width, level = host_number("width", width), host_number("level", level)
    require_positive("width", width)
    if not 0 < level < 1:
        raise ValueError(f"expected 0 < level < 1, such as 0.95, got {level}")
    largest = (width / 2 / float(scipy.special.ndtri((1 + level) / 2))) ** 2
    low, high = _FEWEST, _MOST
    if not variance(high) <= largest:
        raise ValueError(f"expected a wider interval: this one needs more than {_MOST} rows")
    while high > _CLOSE * low + 1:
        middle = round(math.sqrt(low * high))
        low, high = (low, middle) if variance(middle) <= largest else (middle, high)
    return high
