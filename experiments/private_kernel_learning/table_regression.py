"""Regression on a real table: mean squared test error over the variance of the test labels."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from experiments.private_kernel_learning.output_perturbation import private_ridge
from experiments.private_kernel_learning.public_tables import PublicTable
from experiments.private_kernel_learning.ridge_grid import Budget, UnitNoise, solutions
from experiments.private_kernel_learning.table_methods import Draw, Sizes
from jaxdp.kernels import Gaussian, PrivateKernelRidge, SelectedRidge
from jaxdp.kernels.published import Algorithm1, Algorithm3
from jaxdp.privacy import gaussian_noise_std

# Of the budget, for the mean label.
_SHARE = 0.1


Error = Callable[[Any], float]


def regression_baselines(table: PublicTable, draw: Draw, sizes: Sizes) -> dict[str, float]:
    r"""The mean label, and ridge regression at the best $\lambda$ for the test rows; no privacy."""
    error = _error_of(table, draw)
    (train, test), labels = draw.projected(sizes.most), draw.split.train_labels
    mean, count = labels.mean(), len(labels)
    ridges = sizes.ridges(count) / 100
    found, _ = solutions(train.T @ train / count, train.T @ (labels - mean) / count, ridges)
    return {"constant": error(mean), "non-private": min(map(error, (mean + test @ found).T))}


def regression_errors(
    table: PublicTable, draw: Draw, sizes: Sizes, budget: Budget, *, seed: int
) -> Iterator[tuple[str, float]]:
    """Each method's name and its error.

    Args:
        table: in public units.
        draw: one split of it, and its features.
        sizes: of the features.
        budget: of one release.
        seed: of the certified learners' features and noise.
    """
    split, bound, kernel = draw.split, table.label_bound, Gaussian(table.scale)
    error = _error_of(table, draw)
    std = gaussian_noise_std(
        budget.epsilon, budget.delta, sensitivity=2 * bound / budget.num_samples
    )
    yield "noisy mean", error(split.train_labels.mean() + std * draw.generator.standard_normal())
    for name, learner, parts in (
        ("Algorithm 1", Algorithm1, draw.projected),
        ("Algorithm 3", Algorithm3, draw.waves),
    ):
        fixed, best = _published(learner, parts, table, draw, sizes, budget, error)
        yield name, fixed
        yield f"{name}, oracle", best
    train, test = draw.clipped()
    coefficients = private_ridge(train, split.train_labels, bound, budget, draw.generator)
    yield "output perturbation", error(test @ coefficients)
    common: Any = {"label_bound": bound, "num_features": sizes.num_features}
    common |= {"input_bound": math.inf}
    for name, share, ridge in (
        ("certified", 0.0, None),
        ("certified, intercept", _SHARE, None),
        ("certified, selected", _SHARE, SelectedRidge()),
    ):
        learner = PrivateKernelRidge(
            kernel, sizes.most, ridge=ridge, intercept_share=share, **common
        )
        release = learner.fit(
            split.train_inputs,
            split.train_labels,
            epsilon=budget.epsilon,
            delta=budget.delta,
            public_seed=seed,
            noise_seed=seed + 1_000_000,
        )
        yield name, error(np.asarray(release(split.test_inputs), np.float64))


def _error_of(table: PublicTable, draw: Draw) -> Error:
    """From predictions of the test labels to their error; predictions are clipped to the bound."""
    labels, bound = draw.split.test_labels, table.label_bound
    variance = np.var(labels)

    def error(predicted: Any) -> float:
        within = np.clip(predicted, -bound, bound)
        return float(np.mean((within - labels) ** 2) / variance)

    return error


def _published(
    learner: Any,
    parts: Callable[[int], tuple[np.ndarray, np.ndarray]],
    table: PublicTable,
    draw: Draw,
    sizes: Sizes,
    budget: Budget,
    error: Error,
) -> tuple[float, float]:
    r"""As printed: at the largest M with a data-free $\lambda$, and at the best for the test rows.

    That rule is the certified learner's, $\sigma_C\sqrt{2M}$ with the algorithm's own noise.
    """
    noise = UnitNoise.draw(sizes.most, draw.generator)
    count, labels = draw.split.num_train, draw.split.train_labels
    errors: list[list[float]] = []
    for size in sorted({*sizes.oracle, sizes.most}):
        train, test = parts(size)
        described = learner(Gaussian(table.scale), size, 1.0, table.label_bound)
        std = described.noise_std(count, budget.epsilon, budget.delta)
        matrix = train.T @ train / count + std["C"] * noise.matrix[:size, :size]
        vector = train.T @ labels / count + std["u"] * noise.vector[:size]
        ridges = np.array([std["C"] * math.sqrt(2 * size), *sizes.ridges(count)])
        as_printed, _ = solutions(matrix, vector, ridges)
        errors.append([error(values) for values in (test @ as_printed).T])
    return errors[-1][0], float(np.min(errors))
