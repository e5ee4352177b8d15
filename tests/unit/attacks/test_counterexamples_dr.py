"""What DR's theorems rest on, at the edge: linear features, duplicates, signs, and its leak."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attack_problems import ACTIVATIONS, projector_loss, random_victim, sphere_rows

import jaxdp
from jaxdp import attacks


# Source: DR Assumption 2.
def test_relu_plus_tanh_does_not_satisfy_assumption_2():
    """Erratum: mu_0 and mu_2 come from the ReLU; the clause on parity, which tanh is for, holds."""
    mixed = jaxdp.problems.hermite_coefficients(lambda x: jax.nn.relu(x) + jnp.tanh(x), 4)
    np.testing.assert_allclose(mixed[0], 1 / np.sqrt(2 * np.pi), atol=1e-6)
    np.testing.assert_allclose(mixed[2], 0.5 / np.sqrt(np.pi), atol=1e-6)
    assert abs(mixed[3]) > 0.1
    assert abs(mixed[4]) > 0.05


def _neighbour_sums(rows, last_sign):
    """DR after Theorem 1: sums of neighbours, the last with the first by the sign given."""
    sums = rows + np.roll(rows, -1, axis=0)
    sums[-1] = rows[-1] + last_sign * rows[0]
    return sums * np.sqrt(rows.shape[1]) / np.linalg.norm(sums, axis=1, keepdims=True)


@pytest.mark.parametrize("count", [4, 5])
def test_linear_features_have_other_rows_of_the_same_span(count):
    rows, weights, _ = random_victim(3, 12, count, 300, activation="linear")
    # As printed, x_n - x_1, for an even number; for an odd one that is in the others' span.
    others = _neighbour_sums(rows, -1 if count % 2 == 0 else 1)
    for row in rows:
        assert projector_loss(others @ weights.T, weights @ row) < 1e-24
    assert attacks.reconstruction_error(rows, others, allow_sign_flips=True) > 0.4
    relu = ACTIVATIONS["relu"]
    assert projector_loss(relu(others @ weights.T), relu(weights @ rows[0])) > 1e-3


def test_the_printed_counterexample_needs_an_even_number_of_rows():
    for count, rank in [(2, 2), (3, 2), (4, 4), (5, 4)]:
        rows = sphere_rows(np.random.default_rng(1), count, 9)
        assert np.linalg.matrix_rank(_neighbour_sums(rows, -1)) == rank


def _flipped_losses(name):
    """Losses of the truth with each row negated in turn, and with all: five problems."""
    single, whole = [], []
    for seed in range(5):
        rows, weights, parameters = random_victim(seed, 20, 8, 1600, activation=name)
        for flipped in range(8):
            signs = np.where(np.arange(8) == flipped, -1, 1)
            features = ACTIVATIONS[name](signs[:, None] * rows @ weights.T)
            single.append(projector_loss(features, parameters))
        whole.append(projector_loss(ACTIVATIONS[name](-rows @ weights.T), parameters))
    return np.median(single), np.mean(whole)


# Source: DR Remark 1.
def test_negated_rows_have_loss_zero_for_tanh_alone():
    """Erratum to Remark 1: for the ReLU a sign is no ambiguity of the loss."""
    single, whole = _flipped_losses("tanh")
    assert max(single, whole) < 1e-24
    single, whole = _flipped_losses("relu")
    assert 0.02 < single < 0.2
    assert 0.5 < whole < 1
    single, whole = _flipped_losses("relu_tanh")
    assert 0.01 < single < 0.1
    assert 0.15 < whole < 0.6


def test_negated_relu_rows_have_loss_zero_only_when_their_weighted_sum_vanishes():
    r"""Derived: $\phi(-x) = \phi(x) - Vx$, so rows may be negated iff $\sum a_ix_i = 0$."""
    weights = np.random.default_rng(0).standard_normal((500, 6)) / np.sqrt(6)
    angles = 2 * np.pi * np.arange(3) / 3
    rows = np.zeros((3, 6))
    rows[:, 0], rows[:, 1] = np.sqrt(6) * np.cos(angles), np.sqrt(6) * np.sin(angles)
    relu = ACTIVATIONS["relu"]
    features, negated = relu(rows @ weights.T), relu(-rows @ weights.T)
    assert projector_loss(negated, features.sum(axis=0)) < 1e-24
    assert projector_loss(negated, np.array([1.0, 1.0, 0.9]) @ features) > 1e-4
