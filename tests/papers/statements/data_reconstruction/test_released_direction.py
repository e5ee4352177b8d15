"""The least error on one row of linear features, against simulation and other integrals."""

import math

import numpy as np
import pytest
from helpers import assert_mean_close

from experiments.statements.data_reconstruction.released_direction import released_direction_error


def _distances(rng, mu, dim, count=100_000):
    """Distances of u to the direction of u + 2/mu noise, from their two components."""
    along = mu / 2 + rng.standard_normal(count)
    across = np.sqrt(rng.chisquare(dim - 1, count))
    return 2 * np.sin(np.arctan2(across, along) / 2)


@pytest.mark.parametrize(("mu", "dim"), [(1.0, 2), (5.0, 3), (40.7, 20), (300.0, 1000)])
def test_error_of_a_released_direction_is_that_of_the_observed_one(mu, dim):
    found = _distances(np.random.default_rng(0), mu, dim)
    assert_mean_close(
        found, released_direction_error(mu, dim), rejects=[released_direction_error(1.05 * mu, dim)]
    )


def test_large_mu_is_the_length_across_over_half_of_it():
    # E of a chi of three degrees of freedom, over mu / 2.
    for mu in (1e8, 1e300):
        expected = 2 * math.sqrt(8 / math.pi) / mu
        assert released_direction_error(mu, 4) == pytest.approx(expected, rel=1e-9)
    below, above = (released_direction_error(mu, 4) * mu for mu in (3.9e6, 4.1e6))
    assert below == pytest.approx(above, rel=1e-9)


@pytest.mark.parametrize("mu", [0.0, 1.0, 19.0, 21.0, 2e4])
def test_many_dimensions_are_seen_by_the_quadrature(mu):
    # The angle concentrates where its cosine is half mu over the length.
    cosine = mu / 2 / math.hypot(mu / 2, 1e4)
    found = released_direction_error(mu, 10**8)
    assert found == pytest.approx(math.sqrt(2 - 2 * cosine), rel=1e-7)


def test_no_other_guess_on_the_circle_is_better_than_the_observed_direction():
    # Bayes' rule by quadrature over the circle, for seen points of a simulation.
    rng, mu, grid = np.random.default_rng(1), 3.0, 2 * np.pi * np.arange(720) / 720
    points = np.column_stack([np.cos(grid), np.sin(grid)])
    for _ in range(20):
        seen = np.array([1.0, 0.0]) + 2 / mu * rng.standard_normal(2)
        posterior = np.exp(-(mu**2) / 8 * ((points - seen) ** 2).sum(1))
        risks = 2 * np.abs(np.sin((grid[:, None] - grid) / 2)) @ (posterior / posterior.sum())
        gap = grid[np.argmin(risks)] - np.arctan2(seen[1], seen[0])
        assert abs(np.sin(gap / 2)) < 0.005


def test_without_noise_and_with_nothing_else_the_error_is_none_and_a_blind_guess():
    assert released_direction_error(0.0, 3) == pytest.approx(4 / 3, rel=1e-9)
    assert released_direction_error(0.0, 2) == pytest.approx(4 / np.pi, rel=1e-9)
    assert released_direction_error(math.inf, 3) == 0
