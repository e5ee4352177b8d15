"""The least error of any attack on one row: three answers, against simulation and each other."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_mean_close

from experiments.statements.data_reconstruction.released_direction import released_direction_error
from jaxdp.theory import one_step_reconstruction_error, optimal_row_error, row_error_lower_bound

RELU = jax.nn.relu
CHANCE = math.sqrt(2)


def linear(values):
    return values


def _distances(rng, mu, dim, count=100_000):
    """Of u to the direction of u + 2/mu noise, from their two components."""
    along = mu / 2 + rng.standard_normal(count)
    across = np.sqrt(rng.chisquare(dim - 1, count))
    return 2 * np.sin(np.arctan2(across, along) / 2)


def test_linear_features_attain_all_three_in_high_dimensions():
    for mu in (10.0, 60.0, 400.0):
        exact = released_direction_error(mu, 2000)
        assert float(optimal_row_error(mu, 2000, linear)) == pytest.approx(exact, rel=1e-3)
        assert float(row_error_lower_bound(mu, 2000, linear)) == pytest.approx(exact, rel=1e-3)
        assert float(row_error_lower_bound(1.1 * mu, 2000, linear)) != pytest.approx(
            exact, rel=5e-3
        )


@pytest.mark.parametrize("dim", [2, 20])
def test_the_bound_is_below_the_best_attack_on_linear_features_and_close(dim):
    for mu in (0.5, 3.0, 40.0):
        squares = _distances(np.random.default_rng(2), mu, dim) ** 2
        spread = squares.std() / math.sqrt(len(squares))
        bound = float(row_error_lower_bound(mu, dim, linear)) ** 2
        assert bound <= squares.mean() + 5 * spread
        # Of the mean square; closer the more dimensions there are.
        assert bound >= (0.6 if dim == 2 else 0.75) * squares.mean()
        # The same check refutes the bound of half the noise's size.
        assert float(row_error_lower_bound(mu / 2, dim, linear)) ** 2 > squares.mean() + 5 * spread


def _arc_cosine(overlap):
    """The normalised kernel of ReLU features and its slope."""
    angle = np.arccos(overlap)
    return (np.sin(angle) + (np.pi - angle) * overlap) / np.pi, 1 - angle / np.pi


def test_optimal_overlap_minimises_the_mutual_information_of_relu():
    # I(q)/(d-1) = snr (k(1) - k(q) - (1 - q) k'(q)) / 2 + log(1 + snr k'(q)) / 2.
    overlaps = 1 - np.geomspace(1e-4, 1, 400_001)
    kernel, slope = _arc_cosine(overlaps)
    for mu, dim in [(3.0, 20), (20.0, 20), (60.0, 50), (300.0, 50)]:
        snr = mu**2 / (4 * (dim - 1))
        information = snr * (1 - kernel - (1 - overlaps) * slope) + np.log1p(snr * slope)
        best = overlaps[np.argmin(information)]
        expected = math.sqrt(2 - 2 * math.sqrt(best))
        assert float(optimal_row_error(mu, dim, RELU)) == pytest.approx(expected, rel=2e-3)


def _direction_of_posterior(generator, log_density, start, num_steps=600, num_discarded=150):
    """The direction of the mean of unit vectors, by elliptical slice sampling of one chain."""
    point, total = start * math.sqrt(len(start)), 0.0
    for step in range(num_steps):
        # The length is not seen by the density: it is drawn anew.
        point *= math.sqrt(generator.chisquare(len(point))) / np.linalg.norm(point)
        other = generator.standard_normal(len(point))
        threshold = log_density(point) + math.log(generator.uniform())
        angle = generator.uniform(0, 2 * math.pi)
        low, high = angle - 2 * math.pi, angle
        proposed = math.cos(angle) * point + math.sin(angle) * other
        while log_density(proposed) < threshold:
            low, high = (angle, high) if angle < 0 else (low, angle)
            angle = generator.uniform(low, high)
            proposed = math.cos(angle) * point + math.sin(angle) * other
        point = proposed
        if step >= num_discarded:
            total = total + point / np.linalg.norm(point)
    return total / np.linalg.norm(total)


@pytest.mark.slow
@pytest.mark.parametrize("mu", [15.0, 40.7])
def test_the_best_attack_on_a_row_of_relu_features_attains_the_optimum(mu):
    generator, dim, width = np.random.default_rng(2), 20, 40
    errors = []
    for _ in range(30):
        weights = generator.standard_normal((width * dim, dim)) / math.sqrt(dim)
        row = generator.standard_normal(dim)
        row /= np.linalg.norm(row)

        def released(point, weights=weights):
            features = np.maximum(weights @ point, 0)
            return features / np.linalg.norm(features)

        # A clipped gradient, in units of the clip norm, beside noise of 2 / mu; its label is known.
        seen = released(row) + 2 / mu * generator.standard_normal(width * dim)

        def log_density(point, seen=seen, released=released):
            return mu**2 / 4 * (seen @ released(point))

        start = weights.T @ seen
        guess = _direction_of_posterior(generator, log_density, start / np.linalg.norm(start))
        errors.append(np.linalg.norm(guess - row))
    # Half of the neurons are dead at a row, and the width costs what it costs least squares.
    effective = mu * math.sqrt(1 - 2 / width)
    expected = float(optimal_row_error(effective, dim, RELU))
    rejects = [float(optimal_row_error(off * effective, dim, RELU)) for off in (2 / 3, 3 / 2)]
    assert_mean_close(errors, expected, sigmas=3, bias=0.02 * expected, rejects=rejects)
    # No attack is below the bound; the bound of half the noise refutes itself.
    squares = np.square(errors)
    spread = squares.std() / math.sqrt(len(squares))
    assert squares.mean() > float(row_error_lower_bound(mu, dim, RELU)) ** 2 - 3 * spread
    assert squares.mean() < float(row_error_lower_bound(mu / 2, dim, RELU)) ** 2 - 3 * spread


def test_bound_optimum_and_least_squares_are_in_this_order_and_agree_on_small_errors():
    mus = np.array([0.0, 1.0, 5.0, 20.0, 40.7, 200.0, 1e4, np.inf])
    for activation in (RELU, jnp.tanh):
        bound = row_error_lower_bound(mus, 30, activation)
        best = optimal_row_error(mus, 30, activation)
        squares = one_step_reconstruction_error(mus, 30, 5, activation, informed=True)
        assert np.all(bound <= best + 1e-6)
        assert np.all(best <= squares + 1e-6)
        np.testing.assert_allclose(bound[-2], squares[-2], rtol=0.01)
        assert best[0] == pytest.approx(CHANCE)
        assert best[-1] == 0
