"""The four feature maps that PK's figures compare, drawn once for every projection dimension.

Columns are independent draws, so the first M of the most that are drawn, rescaled, are a draw of
dimension M: one draw serves a whole curve, and its points share their randomness.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Array, Float, Key

from jaxdp.kernels import (
    AbstractFeatureMap,
    CosineFeatures,
    FourierFeatures,
    Gaussian,
    SamplePaths,
    blockwise,
    exact_sample_paths,
)

# Random features behind a sample path; the independent study saw no gain beyond 512.
_NUM_FEATURES = 1024

Columns = Float[np.ndarray, "rows most"]


@dataclasses.dataclass(frozen=True)
class FeatureDraw:
    """A way to draw features.

    Attributes:
        draw: from kernel, inputs, the largest dimension and `key` to the features' values there.
        leading: the features of a smaller dimension, a number of columns that is even.
    """

    draw: Callable[..., Columns]
    leading: Callable[[Columns, int], Columns]


def _exact_paths(kernel: Gaussian, inputs: Any, most: int, *, key: Key[Array, ""]) -> Columns:
    """PK Definition 5 to the letter: drawn jointly at all inputs, in $O(n^3)$."""
    return np.asarray(exact_sample_paths(kernel, inputs, most, key=key), np.float64)


def _paths(kernel: Gaussian, inputs: Any, most: int, *, key: Key[Array, ""]) -> Columns:
    dim = inputs.shape[1]
    return _values(SamplePaths.sample(kernel, most, _NUM_FEATURES, dim, key=key), inputs)


def _cosines(kernel: Gaussian, inputs: Any, most: int, *, key: Key[Array, ""]) -> Columns:
    return _values(CosineFeatures.sample(kernel, most, inputs.shape[1], key=key), inputs)


def _pairs(kernel: Gaussian, inputs: Any, most: int, *, key: Key[Array, ""]) -> Columns:
    return _values(FourierFeatures.sample(kernel, most // 2, inputs.shape[1], key=key), inputs)


def _values(features: AbstractFeatureMap, inputs: Any) -> Columns:
    return blockwise(features, inputs).astype(np.float64)


def _first(columns: Columns, count: int) -> Columns:
    return columns[:, :count] * np.sqrt(columns.shape[1] / count)


def _first_clipped(columns: Columns, count: int) -> Columns:
    """Norms of at most one, the bound of a Gaussian kernel."""
    kept = _first(columns, count)
    norms = np.sqrt(np.einsum("ij,ij->i", kept, kept))
    return kept / np.maximum(norms, 1)[:, None]


def _first_pairs(columns: Columns, count: int) -> Columns:
    """Half of the cosines and half of the sines, which stand in two blocks."""
    cosines, sines = np.split(columns, 2, axis=1)
    half = count // 2
    kept = np.concatenate([cosines[:, :half], sines[:, :half]], axis=1)
    return kept * np.sqrt(columns.shape[1] / count)


EXACT_PATHS = FeatureDraw(_exact_paths, _first)
CLIPPED_PATHS = FeatureDraw(_paths, _first_clipped)
COSINES = FeatureDraw(_cosines, _first)
PAIRS = FeatureDraw(_pairs, _first_pairs)
