r"""The comparison on real tables: each method's test error on one split, under one budget.

Projected features are drawn once per split, in weight space (joint draws are cubic in the rows).
The first M of them, rescaled, serve a smaller M. The published algorithms and output perturbation
are simulated with NumPy's noise at their own `noise_std`; the certified learners are fitted.

Output perturbation is the minimiser itself with Gaussian noise. For records with $|z| \le B$ and an
objective that is strongly convex with constant $\lambda$, two minimisers on neighbouring tables are
at most $(g + g')/(n\lambda)$ apart, g and g' the norms of the gradients of the two records' losses
at one of them. Derived: the minimisers b, b' of F, F' have
$\lambda |b - b'|^2 \le (\nabla F(b') - \nabla F'(b')) \cdot (b' - b)$.

*Margin losses:* $2 c_1 B / (n\lambda)$, and twice $\tau/\lambda$ for gradients of norm $\tau$.
*Squares* $(y - b \cdot z)^2/2$ with $|y| \le T$: the objective at zero is at most $T^2/2$, so
$|b| \le T/\sqrt\lambda$, and gradients are at most $B(T + B T/\sqrt\lambda)$.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Key
from scipy.optimize import brentq

from experiments.private_kernel_learning.public_tables import CLASSIFICATION, PublicTable
from experiments.private_kernel_learning.published import (
    Algorithm1,
    Algorithm2,
    Algorithm3,
    Algorithm4,
    Algorithm5,
)
from experiments.private_kernel_learning.published.algorithms_2_and_4 import least_tolerance
from experiments.private_kernel_learning.ridge_grid import UnitNoise, solutions
from experiments.private_kernel_learning.ridge_methods import CLIPPED_PATHS, Budget
from experiments.private_kernel_learning.synthetic import Split
from jaxdp.core.keys import purpose_key
from jaxdp.kernels import (
    CosineFeatures,
    Gaussian,
    PrivateKernelClassifier,
    PrivateKernelRidge,
    SamplePaths,
    SelectedRidge,
    blockwise,
)
from jaxdp.kernels.margin.objective_solver import minimise
from jaxdp.kernels.margin.perturbed_objective import PerturbedObjective
from jaxdp.losses import AbstractMarginLoss, Logistic
from jaxdp.privacy import gaussian_noise_std

LOSS = Logistic()
# Of the budget, for the mean label.
_SHARE = 0.1
# Algorithm 5 factors a Gram matrix for each ridge.
_MOST_ROWS = 2000
# How far output perturbation's noise may move a prediction: a share of T, or one unit of a score.
_RIDGE_MOVE, _SCORE_MOVE = 0.1, 1.0

_Rows = Float[np.ndarray, "n outputs"]
_Labels = Float[np.ndarray, " n"]
_Coefficients = Float[np.ndarray, " outputs"]
_Parts = Callable[[int], tuple[np.ndarray, np.ndarray]]


class Sizes(NamedTuple):
    """The most projections, an oracle's candidates for M, and the number of features."""

    most: int
    oracle: tuple[int, ...]
    num_features: int

    def ridges(self, num_samples: int) -> Float[np.ndarray, " ridges"]:
        """An oracle's candidates: n to the powers -1, -0.8, ..., 0."""
        return float(num_samples) ** -np.linspace(1, 0, 6)


class Draw(NamedTuple):
    """The features of one split, at the training rows and then at the test rows."""

    table: PublicTable
    split: Split
    paths: Float[np.ndarray, "rows most"]
    cosines: Float[np.ndarray, "rows most"]
    generator: np.random.Generator

    @classmethod
    def of(cls, table: PublicTable, split: Split, sizes: Sizes, *, key: Key[Array, ""]) -> "Draw":
        """Drawn from the key, as is the noise."""
        init, dim = purpose_key(key, "init"), split.train_inputs.shape[1]
        kernel = Gaussian(table.scale)
        paths = SamplePaths.sample(kernel, sizes.most, sizes.num_features, dim, key=init)
        cosines = CosineFeatures.sample(kernel, sizes.most, dim, key=init)
        seed = np.asarray(jr.key_data(purpose_key(key, "noise")))
        inner, waves = (blockwise(one, split.inputs).astype(np.float64) for one in (paths, cosines))
        return cls(table, split, inner, waves, np.random.default_rng(seed))

    def projected(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """The first paths, at training and at test rows."""
        return self._parts(self.paths[:, :size] * np.sqrt(self.paths.shape[1] / size))

    def waves(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """The first cosines, at training and at test rows."""
        return self._parts(self.cosines[:, :size] * np.sqrt(self.cosines.shape[1] / size))

    def clipped(self) -> tuple[np.ndarray, np.ndarray]:
        """All paths, each row's norm at most one."""
        return self._parts(CLIPPED_PATHS.leading(self.paths, self.paths.shape[1]))

    def _parts(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return rows[: self.split.num_train], rows[self.split.num_train :]

    def error(self, predicted: Any) -> float:
        """The share of wrong signs of scores; or the error of clipped predictions over variance."""
        labels, bound = self.split.test_labels, self.table.label_bound
        if self.table.kind == CLASSIFICATION:
            return float(np.mean(np.where(predicted > 0, 1, -1) != labels))
        within = np.clip(predicted, -bound, bound)
        return float(np.mean((within - labels) ** 2) / np.var(labels))

    def error_of_fit(self, learner: Any, budget: Budget, seed: int, **more: Any) -> float:
        """Test error of a learner of the toolkit, fitted as its user would."""
        release = learner.fit(
            self.split.train_inputs,
            self.split.train_labels,
            epsilon=budget.epsilon,
            delta=budget.delta,
            public_seed=seed,
            noise_seed=seed + 1_000_000,
            **more,
        )
        return self.error(np.asarray(release(self.split.test_inputs), np.float64))


def baselines(draw: Draw, sizes: Sizes) -> dict[str, float]:
    r"""No privacy: the mean label or larger class, and a fit at the best $\lambda$ for the test."""
    (train, test), labels = draw.projected(sizes.most), draw.split.train_labels
    mean, count = labels.mean(), len(labels)
    if draw.table.kind == CLASSIFICATION:
        ridges = sizes.ridges(count)[1:4] / 10
        found = [_minimiser(train, labels, ridge, np.zeros(sizes.most)) for ridge in ridges]
        constant = draw.error(np.broadcast_to(mean, len(test)))
        return {"constant": constant, "non-private": min(draw.error(test @ one) for one in found)}
    ridges = sizes.ridges(count) / 100
    solved, _ = solutions(train.T @ train / count, train.T @ (labels - mean) / count, ridges)
    best = min(map(draw.error, (mean + test @ solved).T))
    return {"constant": draw.error(mean), "non-private": best}


def errors(draw: Draw, sizes: Sizes, budget: Budget, *, seed: int) -> Iterator[tuple[str, float]]:
    """Each method's name and its error; `seed` is of the certified learners."""
    one = _classification_errors if draw.table.kind == CLASSIFICATION else _regression_errors
    return one(draw, sizes, budget, seed)


def _regression_errors(draw: Draw, sizes: Sizes, budget: Budget, seed: int):
    split, bound, kernel = draw.split, draw.table.label_bound, Gaussian(draw.table.scale)
    std = _std(2 * bound / budget.num_samples, budget)
    mean = split.train_labels.mean() + std * draw.generator.standard_normal()
    yield "noisy mean", draw.error(mean)
    for name, learner, parts in (
        ("Algorithm 1", Algorithm1, draw.projected),
        ("Algorithm 3", Algorithm3, draw.waves),
    ):
        found = _published_ridge(learner, parts, draw, sizes, budget)
        yield from zip((name, f"{name}, oracle"), found, strict=True)
    train, test = draw.clipped()
    coefficients = private_ridge(train, split.train_labels, bound, budget, draw.generator)
    yield "output perturbation", draw.error(test @ coefficients)
    common: Any = {"label_bound": bound, "num_features": sizes.num_features}
    for name, share, ridge in (
        ("certified", 0.0, None),
        ("certified, intercept", _SHARE, None),
        ("certified, selected", _SHARE, SelectedRidge()),
    ):
        common |= {"ridge": ridge, "intercept_share": share, "input_bound": math.inf}
        learner = PrivateKernelRidge(kernel, sizes.most, **common)
        yield name, draw.error_of_fit(learner, budget, seed)


def _classification_errors(draw: Draw, sizes: Sizes, budget: Budget, seed: int):
    split, kernel = draw.split, Gaussian(draw.table.scale)
    for name, learner, parts in (
        ("Algorithm 2", Algorithm2, draw.projected),
        ("Algorithm 4", Algorithm4, draw.waves),
    ):
        found = _published_minimiser(learner, parts, draw, sizes, budget)
        yield from zip((name, f"{name}, oracle"), found, strict=True)
    if split.num_train <= _MOST_ROWS:
        found = _algorithm5(draw, sizes, budget, seed)
        yield from zip(("Algorithm 5", "Algorithm 5, oracle"), found, strict=True)
    train, test = draw.clipped()
    coefficients = private_classifier(train, split.train_labels, LOSS, budget, draw.generator)
    yield "output perturbation", draw.error(test @ coefficients)
    learner = PrivateKernelClassifier(
        kernel, sizes.most, sizes.num_features, LOSS, input_bound=math.inf
    )
    yield "certified", draw.error_of_fit(learner, budget, seed)


def _published_ridge(
    learner: Any, parts: _Parts, draw: Draw, sizes: Sizes, budget: Budget
) -> tuple[float, float]:
    r"""As printed: at the largest M with a data-free $\lambda$, and at the best for the test rows.

    That rule is the certified learner's, $\sigma_C\sqrt{2M}$ with the algorithm's own noise.
    """
    noise = UnitNoise.draw(sizes.most, draw.generator)
    count, labels = draw.split.num_train, draw.split.train_labels
    found: list[list[float]] = []
    for size in sorted({*sizes.oracle, sizes.most}):
        train, test = parts(size)
        described = learner(Gaussian(draw.table.scale), size, 1.0, draw.table.label_bound)
        std = described.noise_std(count, budget.epsilon, budget.delta)
        matrix = train.T @ train / count + std["C"] * noise.matrix[:size, :size]
        vector = train.T @ labels / count + std["u"] * noise.vector[:size]
        ridges = np.array([std["C"] * math.sqrt(2 * size), *sizes.ridges(count)])
        as_printed, _ = solutions(matrix, vector, ridges)
        found.append([draw.error(values) for values in (test @ as_printed).T])
    return found[-1][0], float(np.min(found))


def _published_minimiser(
    learner: Any, parts: _Parts, draw: Draw, sizes: Sizes, budget: Budget
) -> tuple[float, float]:
    r"""As `_published_ridge`; here the rule for $\lambda$ is $\sigma/n$."""
    normals = draw.generator.standard_normal(sizes.most)
    count, labels = draw.split.num_train, draw.split.train_labels
    kernel, pair = Gaussian(draw.table.scale), (budget.epsilon, budget.delta)
    found: list[list[float]] = []
    for size in sorted({*sizes.oracle, sizes.most}):
        train, test = parts(size)
        std = learner(kernel, size, 0.0, LOSS).noise_std(count, *pair)["b"]
        row = []
        for ridge in (std / count, *sizes.ridges(count)[1:4]):
            used = learner(kernel, size, ridge, LOSS).perturbation(count, *pair).ridge
            row.append(draw.error(test @ _minimiser(train, labels, used, std * normals[:size])))
        found.append(row)
    return found[-1][0], float(np.min(found))


def _algorithm5(draw: Draw, sizes: Sizes, budget: Budget, seed: int) -> tuple[float, float]:
    r"""As `_published_minimiser`; here the rule's $\lambda$ gives the added path variance one."""
    kernel, count = Gaussian(draw.table.scale), draw.split.num_train
    unit = Algorithm5(kernel, 1.0, LOSS).noise_std(count, budget.epsilon, budget.delta)["f"]
    found = []
    for ridge in (unit, *sizes.ridges(count)[2:4]):
        learner = Algorithm5(kernel, float(ridge), LOSS)
        more = {"test_inputs": draw.split.test_inputs}
        found.append(draw.error_of_fit(learner, budget, seed, **more))
    return found[0], min(found)


def _minimiser(rows: _Rows, labels: _Labels, ridge: float, linear: _Coefficients) -> _Coefficients:
    largest = float(np.sqrt(np.max(np.sum(rows**2, axis=1))))
    objective = PerturbedObjective(rows, labels, LOSS, ridge, linear, largest)
    return minimise(objective, tolerance=least_tolerance(objective)).coefficients


def ridge_sensitivity(ridge: float, num_samples: int) -> float:
    """Sensitivity of the coefficients of ridge regression, for B = T = 1."""
    return 2 * (1 + 1 / math.sqrt(ridge)) / (num_samples * ridge)


def private_ridge(
    rows: _Rows, labels: _Labels, label_bound: float, budget: Budget, generator
) -> _Coefficients:
    r"""Ridge regression on rows of norm at most 1, with the least $\lambda$ whose noise is small.

    That is a standard deviation of a tenth of T on a prediction: a choice free of the data.
    """

    def excess(log_ridge: float) -> float:
        step = ridge_sensitivity(math.exp(log_ridge), budget.num_samples)
        return _std(step, budget) - _RIDGE_MOVE

    ridge = math.exp(float(brentq(excess, -40, 40)))  # pyright: ignore[reportArgumentType]
    count, size = rows.shape
    matrix = rows.T @ rows / count + ridge * np.eye(size)
    exact = np.linalg.solve(matrix, rows.T @ labels / count)
    std = _std(ridge_sensitivity(ridge, count), budget) * label_bound
    return exact + std * generator.standard_normal(size)


def private_classifier(
    rows: _Rows, labels: _Labels, loss: AbstractMarginLoss, budget: Budget, generator
) -> _Coefficients:
    r"""The minimiser with noise, $\lambda$ such that a score moves by one standard deviation."""
    count, size = rows.shape
    ridge = _std(2 * loss.slope_bound / count, budget) / _SCORE_MOVE
    objective = PerturbedObjective(rows, labels, loss, ridge, np.zeros(size), 1.0)
    tolerance = least_tolerance(objective)
    exact = minimise(objective, tolerance=tolerance).coefficients
    step = 2 * (loss.slope_bound / count + tolerance) / ridge
    return exact + _std(step, budget) * generator.standard_normal(size)


def _std(sensitivity: float, budget: Budget) -> float:
    return float(gaussian_noise_std(budget.epsilon, budget.delta, sensitivity=sensitivity))
