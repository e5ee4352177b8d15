"""The sensitivities that output perturbation rests on, against explicit neighbours."""

import math

import numpy as np
import pytest

from experiments.private_kernel_learning.ridge_grid import Budget
from experiments.private_kernel_learning.table_methods import (
    private_classifier,
    private_ridge,
    ridge_sensitivity,
)
from jaxdp.losses import Logistic
from jaxdp.privacy import gaussian_mu

COUNT, RIDGE = 12, 0.3


def _ridge(rows, labels):
    return np.linalg.solve(rows.T @ rows / COUNT + RIDGE * np.eye(2), rows.T @ labels / COUNT)


def _moves(other_labels):
    """How far the minimiser moves when the first record is replaced, over many records."""
    random, moves = np.random.default_rng(0), []
    for _ in range(3000):
        rows = random.normal(size=(COUNT + 1, 2))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        # Aligned records make the coefficients, and so the residuals, large.
        if random.random() < 0.5:
            rows = rows[:1] * random.choice([-1, 1], size=(COUNT + 1, 1))
        labels = other_labels(random, rows)
        first, second = rows[:COUNT], np.concatenate([rows[COUNT:], rows[1:COUNT]])
        moved = np.concatenate([labels[COUNT:], labels[1:COUNT]])
        moves.append(np.linalg.norm(_ridge(first, labels[:COUNT]) - _ridge(second, moved)))
    return max(moves)


def test_no_neighbours_are_farther_apart_than_the_ridge_sensitivity():
    largest = _moves(lambda random, rows: random.choice([-1.0, 1.0], size=len(rows)))
    bound = ridge_sensitivity(RIDGE, COUNT)
    assert largest <= bound
    # Not a vacuous bound: half of what gradients of norm one would give is exceeded.
    assert largest > 1 / (COUNT * RIDGE)


def _noise(fit, size):
    """The released coefficients less those without noise."""

    class Silent:
        def standard_normal(self, size):
            return np.zeros(size)

    return fit(np.random.default_rng(3)) - fit(Silent())


@pytest.mark.parametrize("epsilon", [0.5, 5.0])
def test_noise_on_a_prediction_is_what_was_asked_for(epsilon):
    random, budget = np.random.default_rng(1), Budget(epsilon, 400)
    rows = random.normal(size=(400, 300))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    labels = np.sign(rows[:, 0])
    ridge = _noise(lambda noise: private_ridge(rows, 2 * labels, 2.0, budget, noise), 300)
    score = _noise(lambda noise: private_classifier(rows, labels, Logistic(), budget, noise), 300)
    # Of 300 normals the standard deviation is known to 1 / sqrt(600) of itself.
    assert np.std(ridge) == pytest.approx(0.2, rel=5 / math.sqrt(600))
    assert np.std(score) == pytest.approx(1.0, rel=5 / math.sqrt(600))
    assert gaussian_mu(epsilon, budget.delta) > 0
