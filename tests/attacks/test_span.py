"""The hypothesis of DR's theorems, optimised: what the features' span gives away."""

import math

import jax
import jax.random as jr
import numpy as np
import pytest
from attack_problems import ACTIVATIONS, projector_loss, random_victim, sphere_rows

from jaxdp.attacks import (
    RandomFeaturesTarget,
    reconstruct,
    reconstruction_error,
    row_errors,
    span_residual,
    span_target,
)
from jaxdp.attacks.objective import checked_loss
from jaxdp.theory import mixed_parity

RELU = jax.nn.relu


# Source: DR Theorem 1's hypothesis, and (16).
def test_loss_is_the_share_of_the_rows_features_outside_the_guess():
    rng = np.random.default_rng(0)
    rows, guess = sphere_rows(rng, 3, 5), sphere_rows(rng, 3, 5)
    weights = rng.standard_normal((40, 5)) / math.sqrt(5)
    relu = ACTIVATIONS["relu"]
    true, features = relu(rows @ weights.T), relu(guess @ weights.T)
    target = span_target(rows, weights, RELU)
    assert checked_loss(target, guess) == pytest.approx(projector_loss(features, true.T), rel=1e-4)
    assert checked_loss(target, rows[::-1]) < 1e-10
    with pytest.raises(ValueError, match="inputs of shape"):
        span_target(rows[:, 1:], weights, RELU)


# Source: DR Theorem 1, its hypothesis optimised; Assumption 2 by `mixed_parity`, and ReLU.
@pytest.mark.parametrize("activation", [mixed_parity, RELU])
def test_rows_are_found_from_the_span_with_fewer_features_than_numbers_in_them(activation):
    num_samples, dim = 6, 8
    rng = np.random.default_rng(1)
    rows, width = sphere_rows(rng, num_samples, dim), 2 * (num_samples + dim)
    assert width < num_samples * dim
    weights = rng.standard_normal((width, dim)) / math.sqrt(dim)
    found = reconstruct(span_target(rows, weights, activation), num_samples, key=jr.key(0))
    assert found.converged
    # Zero of the hypothesis is all rows, none twice, and with their signs.
    assert row_errors(rows, found.inputs).max() < 0.02
    assert span_residual(rows, found.inputs, span_target(rows, weights, activation)) < 1e-3
    # One vector of the span, the trained parameters, does not determine them at this width.
    victim = random_victim(1, dim, num_samples, width)
    alone = RandomFeaturesTarget(victim.weights, RELU, victim.parameters)
    guess = reconstruct(alone, num_samples, key=jr.key(0), max_passes=400)
    assert reconstruction_error(victim.inputs, guess.inputs) > 0.5


# Source: DR Theorem 2 and Remark 1: for an odd activation up to signs.
def test_two_rows_are_both_found_from_the_span_for_tanh_up_to_signs():
    dim, rng = 8, np.random.default_rng(2)
    rows, weights = sphere_rows(rng, 2, dim), rng.standard_normal((120, dim)) / math.sqrt(dim)
    target = span_target(rows, weights, jax.numpy.tanh)
    for seed in range(3):
        found = reconstruct(target, 2, key=jr.key(seed))
        assert found.converged
        assert row_errors(rows, found.inputs, allow_sign_flips=True).max() < 0.02
    assert checked_loss(target, np.vstack([rows[0], -rows[1]])) < 1e-10
