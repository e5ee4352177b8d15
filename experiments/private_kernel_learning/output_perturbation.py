r"""Output perturbation: the minimiser itself with Gaussian noise, certified for public bounds.

For records with $|z| \le B$ and an objective that is strongly convex with constant $\lambda$, two
minimisers on neighbouring tables are at most $(g + g')/(n\lambda)$ apart, g and g' the norms of the
gradients of the two records' losses at one of them. Derived: the minimisers b, b' of F, F' have
$\lambda |b - b'|^2 \le (\nabla F(b') - \nabla F'(b')) \cdot (b' - b)$.

*Margin losses:* $2 c_1 B / (n\lambda)$, and twice $\tau/\lambda$ for gradients of norm $\tau$.
*Squares* $(y - b \cdot z)^2/2$ with $|y| \le T$: the objective at zero is at most $T^2/2$, so
$|b| \le T/\sqrt\lambda$, and gradients are at most $B(T + B T/\sqrt\lambda)$.
"""

import math

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from experiments.private_kernel_learning.ridge_grid import Budget
from jaxdp.kernels.margin.objective_solver import minimise
from jaxdp.kernels.margin.perturbed_objective import PerturbedObjective
from jaxdp.kernels.published.algorithms_2_and_4 import least_tolerance
from jaxdp.losses import AbstractMarginLoss
from jaxdp.privacy import gaussian_noise_std

_Rows = Float[np.ndarray, "n outputs"]
# How far noise may move a prediction: a share of T, or one unit of a score.
_RIDGE_MOVE, _SCORE_MOVE = 0.1, 1.0


def ridge_sensitivity(ridge: float, num_samples: int) -> float:
    """Of the coefficients of ridge regression, for B = T = 1."""
    return 2 * (1 + 1 / math.sqrt(ridge)) / (num_samples * ridge)


def private_ridge(
    rows: _Rows, labels: Float[np.ndarray, " n"], label_bound: float, budget: Budget, generator
) -> Float[np.ndarray, " outputs"]:
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
    rows: _Rows,
    labels: Float[np.ndarray, " n"],
    loss: AbstractMarginLoss,
    budget: Budget,
    generator,
) -> Float[np.ndarray, " outputs"]:
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
