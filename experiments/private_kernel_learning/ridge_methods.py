"""The ways to release ridge statistics that PK's figures compare: features, each with its noise.

Features are drawn once for every projection dimension. Columns are independent draws, so the first
M of the most that are drawn, rescaled, are a draw of dimension M: one draw serves a whole curve,
and its points share their randomness.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from experiments.private_kernel_learning.published import (
    Algorithm1,
    Algorithm3,
    exact_sample_paths,
)
from jaxdp.kernels import (
    AbstractKernel,
    CosineFeatures,
    FourierFeatures,
    Gaussian,
    PrivateKernelRidge,
    SamplePaths,
    blockwise,
)
from jaxdp.privacy import gaussian_mu

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


def _exact_paths(kernel: Gaussian, inputs: Any, most: int, *, key) -> Columns:
    """PK Definition 5 to the letter: drawn jointly at all inputs, in $O(n^3)$."""
    return np.asarray(exact_sample_paths(kernel, inputs, most, key=key), np.float64)


def _paths(kernel: Gaussian, inputs: Any, most: int, *, key) -> Columns:
    paths = SamplePaths.sample(kernel, most, _NUM_FEATURES, inputs.shape[1], key=key)
    return blockwise(paths, inputs).astype(np.float64)


def _cosines(kernel: Gaussian, inputs: Any, most: int, *, key) -> Columns:
    features = CosineFeatures.sample(kernel, most, inputs.shape[1], key=key)
    return blockwise(features, inputs).astype(np.float64)


def _pairs(kernel: Gaussian, inputs: Any, most: int, *, key) -> Columns:
    features = FourierFeatures.sample(kernel, most // 2, inputs.shape[1], key=key)
    return blockwise(features, inputs).astype(np.float64)


def _first(columns: Columns, count: int) -> Columns:
    return columns[:, :count] * np.sqrt(columns.shape[1] / count)


def _first_clipped(columns: Columns, count: int) -> Columns:
    """Norms of at most one, the bound of a Gaussian kernel."""
    kept = _first(columns, count)
    norms = np.sqrt(np.einsum("ij,ij->i", kept, kept))
    return kept / np.maximum(norms, 1)[:, None]


def _first_pairs(columns: Columns, count: int) -> Columns:
    """Half of the cosines and half of the sines, in two blocks."""
    halves = [block[:, : count // 2] for block in np.split(columns, 2, axis=1)]
    return np.concatenate(halves, axis=1) * np.sqrt(columns.shape[1] / count)


EXACT_PATHS = FeatureDraw(_exact_paths, _first)
CLIPPED_PATHS = FeatureDraw(_paths, _first_clipped)
COSINES = FeatureDraw(_cosines, _first)
PAIRS = FeatureDraw(_pairs, _first_pairs)


class Budget(NamedTuple):
    """The privacy budget, and how many records share the noise."""

    epsilon: float
    num_samples: int

    @property
    def delta(self) -> float:
        """n^-1.1. Source: PK section 5."""
        return self.num_samples**-1.1

    @property
    def arguments(self) -> tuple[int, float, float]:
        """As a learner's `noise_std` takes them."""
        return self.num_samples, self.epsilon, self.delta


class Bounds(NamedTuple):
    """The clip bound T of the labels, and that of the labels less a released intercept."""

    label: float
    residual: float


def intercept_share(bounds: Bounds, budget: Budget) -> float:
    """The part of mu^2 that makes the intercept's noise a tenth of R, from a tenth to nine tenths.

    Free of data. At epsilon = 0.1 a fixed tenth would leave more noise on the mean label than there
    is to learn; a fixed half would double the other noise's variance for nothing.
    """
    std = 2 * bounds.label / (budget.num_samples * gaussian_mu(budget.epsilon, budget.delta))
    return min(0.9, max(0.1, (10 * std / bounds.residual) ** 2))


def with_intercept(
    kernel: AbstractKernel, size: int, bounds: Bounds, budget: Budget
) -> PrivateKernelRidge:
    """The certified learner of R-bounded residuals, for a budget that is known beforehand."""
    return PrivateKernelRidge(
        kernel,
        size,
        label_bound=bounds.label,
        residual_bound=bounds.residual,
        intercept_share=intercept_share(bounds, budget),
        input_bound=math.inf,
    )


class Method(NamedTuple):
    """Features, and the learner of a kernel, M, bounds and a budget whose noise is added.

    Attributes:
        features: the features in the statistics.
        learner: the learner; None for no noise.
        has_intercept: whether to release an intercept if there is no noise.
    """

    features: FeatureDraw
    learner: Callable[[Gaussian, int, Bounds, Budget], Any] | None
    has_intercept: bool = False

    def noise_std(
        self, kernel: Gaussian, size: int, bounds: Bounds, budget: Budget
    ) -> dict[str, float]:
        """Standard deviations of the noise on the averages: "C" on the diagonal, "u", "intercept".

        The last is there only if an intercept is released.
        """
        if self.learner is None:
            return dict.fromkeys(["C", "u", *["intercept"] * self.has_intercept], 0.0)
        return self.learner(kernel, size, bounds, budget).noise_std(*budget.arguments)


# The ridge has no part in the published noise.
METHODS = {
    "RP, published": Method(EXACT_PATHS, lambda k, m, to, _: Algorithm1(k, m, 1.0, to.label)),
    "RFF, published": Method(COSINES, lambda k, m, to, _: Algorithm3(k, m, 1.0, to.label)),
    "RP, certified": Method(
        CLIPPED_PATHS, lambda k, m, to, _: PrivateKernelRidge(k, m, label_bound=to.label)
    ),
    "RFF, certified": Method(
        PAIRS, lambda k, m, to, _: PrivateKernelRidge(k, m, label_bound=to.label)
    ),
    "RP, certified with intercept": Method(CLIPPED_PATHS, with_intercept),
}
NOISELESS = {
    "RP": Method(EXACT_PATHS, None),
    "RFF": Method(COSINES, None),
    # For the private learner that has one: none without privacy is worse for want of it.
    "RP with intercept": Method(EXACT_PATHS, None, has_intercept=True),
}
