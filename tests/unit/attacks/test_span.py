"""The hypothesis of DR's theorems, optimised: what the features' span gives away."""

import math

import jax
import jax.random as jr
import numpy as np
import pytest
from attack_problems import ACTIVATIONS, projector_loss, random_victim, sphere_rows

from experiments.statements.data_reconstruction.assumption_2 import mixed_parity
from jaxdp import attacks
from jaxdp.attacks.objective import checked_loss

RELU = jax.nn.relu
SEARCH = {"optimiser": attacks.LevenbergMarquardt(), "num_starts": 32, "max_passes": 300}


# Source: DR Theorem 1's hypothesis, and (16).
def test_loss_is_the_share_of_the_rows_features_outside_the_guess():
    rng = np.random.default_rng(0)
    rows, guess = sphere_rows(rng, 3, 5), sphere_rows(rng, 3, 5)
    weights = rng.standard_normal((40, 5)) / math.sqrt(5)
    relu = ACTIVATIONS["relu"]
    true, features = relu(rows @ weights.T), relu(guess @ weights.T)
    target = attacks.span_target(rows, weights, RELU)
    assert checked_loss(target, guess) == pytest.approx(projector_loss(features, true.T), rel=1e-4)
    assert checked_loss(target, rows[::-1]) < 1e-10


# Source: DR Theorem 1, its hypothesis optimised, for an activation that meets Assumption 2.
def test_rows_that_meet_the_hypothesis_are_the_training_rows_with_their_signs():
    num_samples, dim = 4, 6
    rng = np.random.default_rng(1)
    rows, weights = sphere_rows(rng, num_samples, dim), rng.standard_normal((90, dim))
    weights /= math.sqrt(dim)
    target = attacks.span_target(rows, weights, mixed_parity)
    found = attacks.reconstruct(target, num_samples, key=jr.key(0), **SEARCH)
    assert found.converged
    # Zero of the hypothesis is all rows, none twice.
    assert attacks.row_errors(rows, found.inputs).max() < 0.01
    assert attacks.span_residual(rows, found.inputs, target) < 1e-3
    # A sign is no freedom.
    flipped = rows * np.array([[-1], [1], [1], [1]])
    assert checked_loss(target, flipped) > 1e-3


# Source: DR Theorem 1: the span holds more than the one vector that p = dn is counted from.
@pytest.mark.slow
def test_the_span_gives_rows_away_with_fewer_features_than_numbers_in_them():
    num_samples, dim = 6, 8
    width = 2 * (num_samples + dim)
    assert width < num_samples * dim
    victim = random_victim(1, dim, num_samples, width)
    target = attacks.span_target(victim.inputs, victim.weights, RELU)
    found = attacks.reconstruct(target, num_samples, key=jr.key(0), **SEARCH)
    assert found.converged
    assert attacks.row_errors(victim.inputs, found.inputs).max() < 0.01
    # The trained parameters, one vector of it, do not.
    alone = attacks.RandomFeaturesTarget(victim.weights, RELU, victim.parameters)
    guess = attacks.reconstruct(alone, num_samples, key=jr.key(0), **SEARCH)
    assert attacks.reconstruction_error(victim.inputs, guess.inputs) > 0.5


# Source: DR Theorem 2 and Remark 1: for an odd activation up to signs.
@pytest.mark.slow
def test_two_rows_are_both_found_from_the_span_for_tanh_up_to_signs():
    dim, rng = 8, np.random.default_rng(2)
    rows, weights = sphere_rows(rng, 2, dim), rng.standard_normal((120, dim)) / math.sqrt(dim)
    target = attacks.span_target(rows, weights, jax.numpy.tanh)
    for seed in range(3):
        found = attacks.reconstruct(target, 2, key=jr.key(seed), **SEARCH)
        assert found.converged
        assert attacks.row_errors(rows, found.inputs, allow_sign_flips=True).max() < 0.02
    assert checked_loss(target, np.vstack([rows[0], -rows[1]])) < 1e-10
