"""The features of a private learner: public, of one record at a time, and bounded.

A kernel compares inputs at one scale. On raw columns (years beside incomes) all rows are then
equally far apart, and a learner releases noise; scaling by the columns' own means and deviations
would make each record's features depend on all others. So the ranges of the inputs have to be
stated by whoever fits. Whether they were is known before any data are looked at: a warning about
it tells nothing of them.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from jaxdp.core.arrays import plain_number
from jaxdp.core.checks import host_number, require_count, require_positive
from jaxdp.core.keys import purpose_key
from jaxdp.kernels.base import (
    AbstractFeatureMap,
    AbstractInputScaling,
    AbstractKernel,
    require_kernel,
)
from jaxdp.kernels.evaluation import row_blocks
from jaxdp.kernels.features.function_features import FunctionFeatures, require_function
from jaxdp.kernels.features.sample_paths import SamplePaths
from jaxdp.kernels.functions.bounded import ClippedFeatures, NormScaling, RangeScaling, in_order
from jaxdp.kernels.functions.dot_product import IdentityFeatures
from jaxdp.kernels.functions.torus import MercerFeatures, TorusKernel
from jaxdp.kernels.release.joint_release import unit_rows
from jaxdp.kernels.release.private_learner import AbstractPrivateLearner
from jaxdp.kernels.release.released_function import ReleasedFunction, check_seeds

# Features are float32.
_LARGEST_BOUND = 1e38
# The norm to which the features of a function are clipped.
_FUNCTION_BOUND = 1.0
# Kernels and maps that state themselves where their inputs lie.
_PLACED = (AbstractInputScaling, FunctionFeatures, MercerFeatures, TorusKernel)
_UNPLACED = (
    "no public range of the inputs is given, and on columns whose scale is not the kernel's what "
    "is released is noise: give an input_range, an input_bound, or input_bound=math.inf where "
    "public numbers have scaled them already"
)


def _range_ends(given: Any) -> tuple[Float[Array, " dim"], Float[Array, " dim"]] | None:
    """The two ends of the range of every column; None where no range is given."""
    if given is None:
        return None
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise TypeError("expected input_range to be (low, high), one number a column in each")
    return in_order(given[0]), in_order(given[1])


class AbstractFeatureLearner(AbstractPrivateLearner[ReleasedFunction]):
    """A private learner on clipped features, which are drawn from the public seed or given."""

    kernel: AbstractKernel | None
    num_projections: int = eqx.field(static=True, converter=plain_number, default=200)
    num_features: int = eqx.field(static=True, converter=plain_number, default=2048)
    input_bound: float | None = eqx.field(
        static=True, converter=plain_number, default=None, kw_only=True
    )
    input_range: tuple[Float[Array, " dim"], Float[Array, " dim"]] | None = eqx.field(
        converter=_range_ends, default=None, kw_only=True
    )
    feature_map: Callable[[Any], Any] | None = eqx.field(default=None, kw_only=True)

    def __check_init__(self):
        require_count("num_projections", self.num_projections)
        require_count("num_features", self.num_features)
        if self.input_bound is not None:
            require_positive(
                "input_bound", host_number("input_bound", self.input_bound), infinite=True
            )
        if self.input_range is not None:
            if self.input_bound is not None:
                raise ValueError("expected input_bound or input_range, got both")
            RangeScaling(IdentityFeatures(self.input_range[0].size), *self.input_range)
        if self.kernel is None and self.feature_map is None:
            raise TypeError("expected a kernel or a feature_map, got neither")
        if self.kernel is not None:
            require_kernel(self.kernel)
        if self.feature_map is not None:
            require_function(self.feature_map, "feature_map")
        # A learner without a public bound is none.
        _ = self.feature_bound

    @property
    def feature_bound(self) -> float:
        """B: what the map guarantees, or else the kernel on its inputs; the clip's norm.

        The features of a function that is no feature map are clipped to norm one.
        """
        kernel, feature_map = self.kernel, self.feature_map
        if feature_map is not None:
            is_map = isinstance(feature_map, AbstractFeatureMap)
            bound = feature_map.norm_bound if is_map else _FUNCTION_BOUND
            if math.isfinite(bound):
                return bound
        radius = math.inf if self.input_bound is None else self.input_bound
        if self.input_range is not None:
            radius = math.sqrt(self.input_range[0].size)
        bound = math.inf if kernel is None else kernel.bound(radius)
        if bound <= _LARGEST_BOUND:
            return bound
        if kernel is None:
            raise ValueError(
                "expected a feature_map with a bound of its own: wrap it in ClippedFeatures(map, "
                "bound)"
            )
        if math.isinf(radius):
            raise ValueError(
                "expected a finite input_bound or an input_range: the features of this kernel are "
                "bounded only on a ball"
            )
        raise ValueError(
            f"expected a kernel that is bounded on |x| <= {radius:g}, got one that overflows there "
            "or states no bound"
        )

    def features(self, dim: int, public_seed: int) -> ClippedFeatures:
        """The clipped map that a fit with this seed uses: no data are asked for.

        ValueError if the given map or range is of another input dimension.
        """
        check_seeds(public_seed, None)
        found = self.feature_map
        if found is None:
            assert self.kernel is not None
            key, sizes = purpose_key(jr.key(public_seed), "init"), (self.num_features, dim)
            found = SamplePaths.sample(self.kernel, self.num_projections, *sizes, key=key)
        elif not isinstance(found, AbstractFeatureMap):
            found = FunctionFeatures(found, dim)
        if found.dim != dim:
            raise ValueError(f"expected inputs of {found.dim} numbers, got {dim}")
        if self.input_range is not None:
            found = RangeScaling(found, *self.input_range)
        if self.input_bound is not None and math.isfinite(self.input_bound):
            found = NormScaling(found, self.input_bound)
        return ClippedFeatures(found, self.feature_bound)

    @property
    def _warning(self):
        is_stated = self.input_bound is not None or self.input_range is not None
        return None if is_stated or is_placed(self.kernel, self.feature_map) else _UNPLACED


def is_placed(kernel: Any, feature_map: Any) -> bool:
    """Whether a kernel or a map, or a part of it, says where its inputs lie.

    A user's function does: whoever writes it knows the columns.
    """
    if feature_map is not None and not isinstance(feature_map, AbstractFeatureMap):
        return True
    parts = jax.tree.leaves((kernel, feature_map), is_leaf=lambda part: isinstance(part, _PLACED))
    return any(isinstance(part, _PLACED) for part in parts)


def whole_features(
    features: AbstractFeatureMap, table: Float[np.ndarray, "n dim"], bound: float, bits: int
) -> Float[np.ndarray, "n outputs"]:
    """`unit_rows` of every row's features: whole numbers in float32, of norm at most 2^bits."""
    found = np.empty((len(table), features.num_outputs), np.float32)
    start = 0
    for block in row_blocks(features, table):
        found[start : start + len(block)] = unit_rows(block, bound, bits)
        start += len(block)
    return found
