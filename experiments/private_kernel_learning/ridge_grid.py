r"""Test errors of private kernel ridge regression over epsilon, M and lambda, from one draw.

Fitting every cell would draw features and solve systems anew. Here each repetition draws the
features and standard normal noise at the largest M, scales the noise to each budget and takes the
leading block for each M; one eigendecomposition then answers for every lambda. The scales are the
learners' own `noise_std`. Simulated, not released: the noise is NumPy's.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float, Key
from scipy import linalg

from experiments.private_kernel_learning.feature_draws import FeatureDraw
from experiments.private_kernel_learning.ridge_methods import Bounds, Budget, Method
from experiments.private_kernel_learning.synthetic import Split
from jaxdp.kernels import Gaussian

# As printed: the system is solved though it may be indefinite. Repaired, which is free: without its
# negative eigenvalues, and predictions within the label bound.
FORMS = ["as printed", "repaired"]


class Grid(NamedTuple):
    """What the smallest error is taken over, and the budgets."""

    epsilons: tuple[float, ...]
    num_projections: tuple[int, ...]

    @property
    def most(self) -> int:
        return max(self.num_projections)

    def ridges(self, num_samples: int) -> Float[np.ndarray, " ridges"]:
        """n^(-i/10), i = 0, ..., 10. Source: PK section 5."""
        return float(num_samples) ** (-np.arange(11) / 10)


class UnitNoise(NamedTuple):
    """Standard normal noise for the largest M: symmetrised, the diagonal of variance one."""

    matrix: Float[np.ndarray, "most most"]
    vector: Float[np.ndarray, " most"]
    scalar: float

    @classmethod
    def draw(cls, most: int, generator: np.random.Generator) -> "UnitNoise":
        square = generator.standard_normal((most, most))
        vector = generator.standard_normal(most)
        return cls((square + square.T) / 2, vector, float(generator.standard_normal()))


def columns_of(
    methods: dict[str, Method], kernel: Gaussian, split: Split, most: int, *, key: Key[Array, ""]
) -> dict[FeatureDraw, Float[np.ndarray, "both most"]]:
    """The features of every kind that the methods use, at the training and the test inputs."""
    draws = dict.fromkeys(method.features for method in methods.values())
    return {one: one.draw(kernel, split.inputs, most, key=key) for one in draws}


def errors(
    method: Method,
    columns: Float[np.ndarray, "both most"],
    kernel: Gaussian,
    split: Split,
    bounds: Bounds,
    grid: Grid,
    noise: UnitNoise,
) -> Float[np.ndarray, "forms epsilons projections ridges"]:
    """Mean squared test error in every cell, as printed and repaired.

    Args:
        method: features and noise.
        columns: the features at the largest M, training rows first.
        kernel: of the learner.
        split: training rows and test rows.
        bounds: of training labels.
        grid: budgets and sizes.
        noise: of standard deviation one.
    """
    count, ridges = split.num_train, grid.ridges(split.num_train)
    labels = np.clip(split.train_labels, -bounds.label, bounds.label)
    shape = (len(FORMS), len(grid.epsilons), len(grid.num_projections), len(ridges))
    found = np.empty(shape)
    for column, size in enumerate(grid.num_projections):
        rows = method.features.leading(columns, size)
        train, test = rows[:count], rows[count:]
        moments = train.T @ train / count
        for row, epsilon in enumerate(grid.epsilons):
            std = method.noise_std(kernel, size, bounds, Budget(epsilon, count))
            intercept, targets = _centred(labels, bounds, std, noise)
            matrix = moments + std["C"] * noise.matrix[:size, :size]
            vector = train.T @ targets / count + std["u"] * noise.vector[:size]
            for form, coefficients in enumerate(solutions(matrix, vector, ridges)):
                values = test @ coefficients + intercept
                if FORMS[form] == "repaired":
                    values = np.clip(values, -bounds.label, bounds.label)
                misses = values - split.test_labels[:, None]
                found[form, row, column] = np.mean(misses**2, axis=0)
    return found


def _centred(labels, bounds: Bounds, std: dict[str, float], noise: UnitNoise):
    """The released intercept and the labels less it; 0 and the labels where none is released."""
    if "intercept" not in std:
        return 0.0, labels
    mean = labels.mean() + std["intercept"] * noise.scalar
    intercept = float(np.clip(mean, -bounds.label, bounds.label))
    # The bound is for privacy's sake: an intercept without noise keeps all residuals.
    bound = bounds.residual if std["intercept"] else np.inf
    return intercept, np.clip(labels - intercept, -bound, bound)


def solutions(
    matrix: Float[np.ndarray, "size size"],
    vector: Float[np.ndarray, " size"],
    ridges: Float[np.ndarray, " ridges"],
) -> list[Float[np.ndarray, "size ridges"]]:
    r"""$(C + \lambda I)^{-1} u$ for every $\lambda$, and the same with C's positive part.

    Source: PK Algorithm 1, step 5.
    """
    decomposition: Any = linalg.eigh(matrix, driver="evd", check_finite=False)
    values, vectors = decomposition
    parts = (vectors.T @ vector)[:, None]
    return [
        vectors @ (parts / (kept[:, None] + ridges)) for kept in (values, np.maximum(values, 0))
    ]
