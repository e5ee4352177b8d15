"""The mu of the best membership test, against the means of clipped descent in NumPy."""

import math

import numpy as np
import pytest
from attack_problems import relu_problem, sphere_rows
from dp_gd_numpy import clipped_gradients
from helpers import assert_mean_close

import jaxdp
from jaxdp.theory import membership_mu

RATE, COUNT, DIM = 1e-3, 3, 4


def _problem(rng, num_features=50, dim=DIM):
    rows = sphere_rows(rng, COUNT + 1, dim)
    weights = rng.standard_normal((num_features, dim)) / math.sqrt(dim)
    labels = np.array([1.0, -1.0, 1.0, 0.4])
    return relu_problem(rows[:-1], labels[:-1], weights), rows, labels, weights


def _gap(rows, labels, weights, clip, num_steps, index):
    """Root of the summed squares of the distance of two clipped gradients, without noise."""
    features, theta, total = np.maximum(rows @ weights.T, 0), np.zeros(len(weights)), 0.0
    for _ in range(num_steps):
        gradients = clipped_gradients(features, labels, theta, clip)
        total += np.sum((gradients[index] - gradients[-1]) ** 2)
        theta = theta - RATE / COUNT * gradients[:-1].sum(0)
    return math.sqrt(total)


@pytest.mark.parametrize("clip", [2.0, 50.0])
def test_mu_is_the_distance_of_the_gradients_in_units_of_the_noise(clip):
    problem, rows, labels, weights = _problem(np.random.default_rng(0))
    for num_steps, index in [(1, 0), (30, 2)]:
        algorithm = jaxdp.DPGD(RATE, clip, num_steps, 0.05)
        gap = _gap(rows, labels, weights, clip, num_steps, index)
        expected = gap * math.sqrt(RATE) / (2 * clip * 0.05)
        found = membership_mu(problem, algorithm, rows[-1], labels[-1], index=index)
        assert found == pytest.approx(expected, rel=1e-4)
        assert found < algorithm.mu


def test_opposite_gradients_attain_the_guarantee():
    problem, rows, labels, _ = _problem(np.random.default_rng(1))
    algorithm = jaxdp.DPGD(RATE, 0.5, 1, 0.05)
    found = membership_mu(problem, algorithm, rows[2], -labels[2])
    assert found == pytest.approx(algorithm.mu, rel=1e-5)
    assert membership_mu(problem, algorithm, rows[2], labels[2]) == 0
    # Without noise another record is told for sure, and none from itself.
    silent = jaxdp.DPGD(RATE, 0.5, 3, 0.0)
    assert membership_mu(problem, silent, rows[2], labels[2]) == 0
    assert membership_mu(problem, silent, rows[-1], 1.0) == math.inf


def test_wide_relu_features_of_independent_rows_have_the_mu_that_the_module_states():
    rng, dim, found = np.random.default_rng(2), 60, []
    algorithm = jaxdp.DPGD(RATE, 0.05, 1, 0.05)
    for _ in range(40):
        problem, rows, labels, _ = _problem(rng, num_features=2000, dim=dim)
        of_signs = (labels[0], -labels[0])
        mus = [membership_mu(problem, algorithm, rows[-1], one, index=0) for one in of_signs]
        found.append(np.square(mus))
    expected = np.array([1 - 1 / np.pi, 1 + 1 / np.pi]) / 2
    # Rows are orthogonal to 1/sqrt(d), and the kernel is curved there: 1/d of order one.
    squares = np.array(found) / float(algorithm.mu) ** 2
    assert_mean_close(squares, expected, bias=0.5 / dim, rejects=[1.2 * expected])
