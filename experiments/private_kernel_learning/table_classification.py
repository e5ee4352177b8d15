"""Classification on a real table: the share of test rows that are assigned to the wrong class."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Float

from experiments.private_kernel_learning.output_perturbation import private_classifier
from experiments.private_kernel_learning.public_tables import PublicTable
from experiments.private_kernel_learning.ridge_grid import Budget
from experiments.private_kernel_learning.table_methods import Draw, Sizes
from jaxdp.kernels import Gaussian, PrivateKernelClassifier
from jaxdp.kernels.margin.objective_solver import minimise
from jaxdp.kernels.margin.perturbed_objective import PerturbedObjective
from jaxdp.kernels.published import Algorithm2, Algorithm4, Algorithm5
from jaxdp.kernels.published.algorithms_2_and_4 import least_tolerance
from jaxdp.losses import Logistic

LOSS = Logistic()
# Algorithm 5 factors a Gram matrix for each ridge.
_MOST_ROWS = 2000


Error = Callable[[Any], float]


def classification_baselines(table: PublicTable, draw: Draw, sizes: Sizes) -> dict[str, float]:
    r"""The larger class, and logistic regression at the best $\lambda$; no privacy."""
    error, (train, test) = _error_of(draw), draw.projected(sizes.most)
    labels, nothing = draw.split.train_labels, np.zeros(sizes.most)
    ridges = sizes.ridges(len(labels))[1:4] / 10
    found = [_minimiser(train, labels, ridge, nothing) for ridge in ridges]
    return {
        "constant": error(np.broadcast_to(labels.mean(), len(test))),
        "non-private": min(error(test @ coefficients) for coefficients in found),
    }


def classification_errors(
    table: PublicTable, draw: Draw, sizes: Sizes, budget: Budget, *, seed: int
) -> Iterator[tuple[str, float]]:
    """Each method's name and its error; arguments as `regression_errors`."""
    split, kernel, error = draw.split, Gaussian(table.scale), _error_of(draw)
    for name, learner, parts in (
        ("Algorithm 2", Algorithm2, draw.projected),
        ("Algorithm 4", Algorithm4, draw.waves),
    ):
        fixed, best = _published(learner, parts, kernel, draw, sizes, budget, error)
        yield name, fixed
        yield f"{name}, oracle", best
    if split.num_train <= _MOST_ROWS:
        fixed, best = _algorithm5(kernel, draw, sizes, budget, error, seed)
        yield "Algorithm 5", fixed
        yield "Algorithm 5, oracle", best
    train, test = draw.clipped()
    coefficients = private_classifier(train, split.train_labels, LOSS, budget, draw.generator)
    yield "output perturbation", error(test @ coefficients)
    sized = kernel, sizes.most, sizes.num_features
    release = PrivateKernelClassifier(*sized, LOSS, input_bound=math.inf).fit(
        split.train_inputs,
        split.train_labels,
        epsilon=budget.epsilon,
        delta=budget.delta,
        public_seed=seed,
        noise_seed=seed + 1_000_000,
    )
    yield "certified", error(np.asarray(release(split.test_inputs)))


def _error_of(draw: Draw) -> Error:
    """From scores of the test rows to the share of wrong signs."""
    labels = draw.split.test_labels

    def error(scores: Any) -> float:
        return float(np.mean(np.where(scores > 0, 1, -1) != labels))

    return error


def _minimiser(
    rows: Float[np.ndarray, "n outputs"],
    labels: Float[np.ndarray, " n"],
    ridge: float,
    linear_term: Float[np.ndarray, " outputs"],
) -> Float[np.ndarray, " outputs"]:
    largest = float(np.sqrt(np.max(np.sum(rows**2, axis=1))))
    objective = PerturbedObjective(rows, labels, LOSS, ridge, linear_term, largest)
    return minimise(objective, tolerance=least_tolerance(objective)).coefficients


def _published(
    learner: Any,
    parts: Callable[[int], tuple[np.ndarray, np.ndarray]],
    kernel: Gaussian,
    draw: Draw,
    sizes: Sizes,
    budget: Budget,
    error: Error,
) -> tuple[float, float]:
    r"""As printed: with a data-free $\lambda$ at the largest M, and at the best for the test rows.

    That rule is the certified learner's, $\sigma/n$ with the algorithm's own noise.
    """
    normals = draw.generator.standard_normal(sizes.most)
    count, labels = draw.split.num_train, draw.split.train_labels
    errors: list[list[float]] = []
    for size in sorted({*sizes.oracle, sizes.most}):
        train, test = parts(size)
        std = learner(kernel, size, 0.0, LOSS).noise_std(count, budget.epsilon, budget.delta)["b"]
        row = []
        for ridge in (std / count, *sizes.ridges(count)[1:4]):
            used = learner(kernel, size, ridge, LOSS).perturbation(count, *_pair(budget)).ridge
            found = _minimiser(train, labels, used, std * normals[:size])
            row.append(error(test @ found))
        errors.append(row)
    return errors[-1][0], float(np.min(errors))


def _algorithm5(
    kernel: Gaussian,
    draw: Draw,
    sizes: Sizes,
    budget: Budget,
    error: Error,
    seed: int,
) -> tuple[float, float]:
    r"""The same for Algorithm 5, whose $\lambda$ of the rule gives the added path variance one."""
    split = draw.split
    unit = Algorithm5(kernel, 1.0, LOSS).noise_std(split.num_train, *_pair(budget))["f"]
    found = []
    for ridge in (unit, *sizes.ridges(split.num_train)[2:4]):
        answers = Algorithm5(kernel, float(ridge), LOSS).fit(
            split.train_inputs,
            split.train_labels,
            epsilon=budget.epsilon,
            delta=budget.delta,
            public_seed=seed,
            noise_seed=seed + 1_000_000,
            test_inputs=split.test_inputs,
        )
        found.append(error(np.asarray(answers(split.test_inputs))))
    return found[0], min(found)


def _pair(budget: Budget) -> tuple[float, float]:
    return budget.epsilon, budget.delta
