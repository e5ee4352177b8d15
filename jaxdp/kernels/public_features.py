"""The feature map of a private learner: public, of one record at a time, and bounded."""

import math

import jax.random as jr
import numpy as np
from jaxtyping import Float

from jaxdp.core.keys import purpose_key
from jaxdp.kernels.base import AbstractFeatureMap, AbstractKernel
from jaxdp.kernels.blocks import row_blocks
from jaxdp.kernels.bounded import ClippedFeatures
from jaxdp.kernels.joint_release import MAX_BITS, unit_rows
from jaxdp.kernels.norm_scaling import NormScaling
from jaxdp.kernels.sample_paths import SamplePaths

# Features are float32.
_LARGEST_BOUND = 1e38


def public_bound(
    kernel: AbstractKernel | None,
    feature_map: AbstractFeatureMap | None,
    input_bound: float | None,
) -> float:
    """B: what the map guarantees, or else the kernel on the ball that inputs are brought into.

    Raises:
        TypeError: neither a kernel nor a map is given, or something else in its place.
        ValueError: nothing bounds the features.
    """
    if kernel is None and feature_map is None:
        raise TypeError("expected a kernel or a feature_map, got neither")
    for name, value, kind, example in (
        ("kernel", kernel, AbstractKernel, "jaxdp.kernels.Gaussian(1.0)"),
        ("feature_map", feature_map, AbstractFeatureMap, "jaxdp.kernels.FourierFeatures"),
    ):
        if value is not None and not isinstance(value, kind):
            got = value.__name__ if isinstance(value, type) else type(value).__name__
            raise TypeError(f"expected {name} such as {example}, got {got}")
    if feature_map is not None and math.isfinite(feature_map.norm_bound):
        return feature_map.norm_bound
    radius = math.inf if input_bound is None else input_bound
    bound = math.inf if kernel is None else kernel.bound(radius)
    if bound <= _LARGEST_BOUND:
        return bound
    if kernel is None:
        raise ValueError(
            "expected a feature_map with a bound of its own: wrap it in ClippedFeatures(map, bound)"
        )
    if math.isinf(radius):
        raise ValueError(
            "expected a finite input_bound: the features of this kernel are bounded only on a ball"
        )
    raise ValueError(
        f"expected a kernel that is bounded on |x| <= {input_bound:g}, got one that overflows "
        "there or states no bound (a CallableKernel: give largest_norm)"
    )


def public_features(
    kernel: AbstractKernel | None,
    feature_map: AbstractFeatureMap | None,
    sizes: tuple[int, int, int],
    *,
    input_bound: float | None,
    public_seed: int,
) -> ClippedFeatures:
    """The given map, or sample paths drawn from the seed, clipped to `public_bound`.

    Args:
        kernel: k, needed where no map is given.
        feature_map: a map that was drawn without the data, or None.
        sizes: numbers of projections, of random features and of input columns.
        input_bound: to which rows are scaled down first; None and infinity leave them.
        public_seed: of the paths.

    Raises:
        ValueError, TypeError: as `public_bound`, or the map is of another input dimension.
    """
    bound, dim = public_bound(kernel, feature_map, input_bound), sizes[-1]
    if feature_map is None:
        assert kernel is not None
        key = purpose_key(jr.key(public_seed), "init")
        feature_map = SamplePaths.sample(kernel, *sizes, key=key)
    if feature_map.dim != dim:
        raise ValueError(f"expected inputs of {feature_map.dim} numbers, got {dim}")
    if input_bound is not None and math.isfinite(input_bound):
        feature_map = NormScaling(feature_map, input_bound)
    return ClippedFeatures(feature_map, bound)


def unit_features(
    features: ClippedFeatures, table: Float[np.ndarray, "n dim"]
) -> Float[np.ndarray, "n outputs"]:
    """z / B of every row, of norm at most 1 in exact arithmetic: multiples of 2^-21 in float32."""
    found = np.empty((len(table), features.num_outputs), np.float32)
    start, bound = 0, float(features.bound)
    for block in row_blocks(features, table):
        found[start : start + len(block)] = unit_rows(block, bound, MAX_BITS) * 2.0**-MAX_BITS
        start += len(block)
    return found
