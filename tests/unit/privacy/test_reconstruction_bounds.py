"""Bounds on reconstruction against the best attacks on mechanisms where those are known."""

import functools
import math

import mpmath
import numpy as np
import pytest
from scipy.stats import norm

from jaxdp.privacy import (
    approximate_reconstruction_bound,
    error_lower_bound,
    gaussian_delta,
    reconstruction_bound,
    sphere_log_baseline,
)

NUM_TRIALS = 200_000


def _directions(rng, count, dim):
    rows = rng.standard_normal((count, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@functools.cache
def _best_errors(dim, mu):
    """|x - guess| of the best guess on the sphere from x + noise: a direction of radius 1."""
    rng = np.random.default_rng(0)
    true = _directions(rng, NUM_TRIALS, dim)
    seen = true + 2 / mu * rng.standard_normal(true.shape)
    return np.linalg.norm(true - seen / np.linalg.norm(seen, axis=1, keepdims=True), axis=1)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("mu", [1.0, 4.0])
def test_no_attack_on_a_clipped_sum_exceeds_the_bound_at_half_of_mu(dim, mu):
    errors = _best_errors(dim, mu)
    for radius in (0.4, 1.0):
        success = np.mean(errors <= radius)
        spread = math.sqrt(success * (1 - success) / NUM_TRIALS)
        baseline = math.exp(sphere_log_baseline(radius, dim))
        bound = reconstruction_bound(mu / 2, baseline)
        assert success <= bound + 5 * spread
        # Within a factor of two of what is possible.
        assert bound <= 2 * success
        # And the same check refutes a quarter of mu.
        assert success > reconstruction_bound(mu / 4, baseline) + 5 * spread


def test_two_records_attain_the_bound():
    # x = -1 or 1 with noise 2 / mu: the likelier one is found with probability Phi(mu / 2).
    for mu in (0.3, 2.0):
        assert reconstruction_bound(mu / 2, 0.5) == pytest.approx(norm.cdf(mu / 2), rel=1e-12)


def test_half_of_mu_is_not_a_bound_where_no_run_lies_half_way():
    # 300 records, every two of them mu apart: no centre is nearer than mu / sqrt(2).
    rng, mu, count = np.random.default_rng(1), 5.0, 300
    seen = rng.standard_normal((20_000, count))
    seen[:, 0] += mu / math.sqrt(2)
    success = np.mean(np.argmax(seen, axis=1) == 0)
    spread = math.sqrt(success * (1 - success) / len(seen))
    assert success > reconstruction_bound(mu / 2, 1 / count) + 5 * spread
    assert success <= reconstruction_bound(mu / math.sqrt(2), 1 / count) + 5 * spread
    assert success <= reconstruction_bound(mu, 1 / count)


@pytest.mark.parametrize("dim", [2, 3])
def test_expected_error_of_the_best_attack_is_above_its_lower_bound(dim):
    for mu in (0.5, 2.0, 4.0):
        errors = _best_errors(dim, mu)
        spread = errors.std() / math.sqrt(NUM_TRIALS)
        bound = error_lower_bound(mu / 2, dim)
        assert bound <= errors.mean() + 5 * spread
        assert error_lower_bound(mu / 4, dim) > errors.mean() + 5 * spread
        assert bound > 0.5 * errors.mean()


def test_expected_error_of_the_closest_of_several_guesses_is_above_its_lower_bound():
    rng = np.random.default_rng(2)
    true, guesses = _directions(rng, NUM_TRIALS, 4), _directions(rng, 5, 4)
    closest = np.sqrt(2 - 2 * np.max(true @ guesses.T, axis=1))
    spread = closest.std() / math.sqrt(NUM_TRIALS)
    assert error_lower_bound(0.0, 4, num_guesses=5) <= closest.mean() + 5 * spread
    assert error_lower_bound(0.0, 4) > closest.mean() + 5 * spread


def test_cap_is_its_area():
    errors = np.array([0.01, 0.5, 1.4, 1.9, 2.0, 5.0])
    cut = np.minimum(errors, 2)
    # Archimedes: in three dimensions a cap's share is its height's.
    np.testing.assert_allclose(np.exp(sphere_log_baseline(errors, 3)), cut**2 / 4, rtol=1e-12)
    arcs = 2 * np.arcsin(cut / 2) / np.pi
    np.testing.assert_allclose(np.exp(sphere_log_baseline(errors, 2)), arcs, rtol=1e-12)


@pytest.mark.parametrize(("dim", "error"), [(3072, 0.05), (3072, 0.5), (3072, 1.2), (10**6, 0.9)])
def test_cap_that_underflows_keeps_its_digits(dim, error):
    with mpmath.workdps(40):
        square = mpmath.mpf(error) ** 2 * (1 - mpmath.mpf(error) ** 2 / 4)
        a = mpmath.mpf(dim - 1) / 2
        # I_x(a, b) = x^a (1 - x)^b 2F1(a + b, 1; a + 1; x) / (a B(a, b)).
        share = mpmath.hyp2f1(a + 0.5, 1, a + 1, square) / (2 * a)
        logarithm = mpmath.log(share) + a * mpmath.log(square) + mpmath.log(1 - square) / 2
        logarithm -= mpmath.loggamma(a) + mpmath.loggamma(0.5) - mpmath.loggamma(a + 0.5)
    assert float(sphere_log_baseline(error, dim)) == pytest.approx(float(logarithm), rel=1e-11)


def test_guess_inside_the_sphere_reaches_more_and_none_reaches_beyond_the_radius():
    rng, radius = np.random.default_rng(3), 0.8
    true = _directions(rng, NUM_TRIALS, 3)
    inside = np.array([math.sqrt(1 - radius**2), 0, 0])
    share = np.mean(np.linalg.norm(true - inside, axis=1) <= radius)
    expected = math.exp(sphere_log_baseline(radius, 3, is_on_sphere=False))
    assert share == pytest.approx(expected, abs=5 * math.sqrt(share / NUM_TRIALS))
    assert expected > math.exp(sphere_log_baseline(radius, 3)) * 1.1
    assert sphere_log_baseline(1.0, 3, is_on_sphere=False) == 0
    assert error_lower_bound(0.0, 50, is_on_sphere=False) == pytest.approx(1.0, abs=0.02)


def test_approximate_bound_is_never_below_the_gaussian_one_and_touches_it():
    epsilons = np.linspace(0, 15, 1001)
    for mu, baseline in [(1.0, 1e-3), (3.0, 1e-3), (2.0, 1e-8)]:
        bounds = [
            approximate_reconstruction_bound(e, gaussian_delta(mu, e), baseline) for e in epsilons
        ]
        gaussian = reconstruction_bound(mu, baseline)
        assert min(bounds) >= gaussian * (1 - 1e-12)
        assert min(bounds) == pytest.approx(gaussian, rel=1e-4)


def test_a_blind_guess_has_its_known_error():
    # On the circle, in three dimensions and in many.
    for dim, blind in ((2, 4 / math.pi), (3, 4 / 3), (3072, math.sqrt(2))):
        assert error_lower_bound(0.0, dim) == pytest.approx(blind, rel=1e-3)
    assert error_lower_bound(math.inf, 10) == 0


def test_limits():
    known = np.array([0.0, 0.2, 1.0])
    np.testing.assert_array_equal(reconstruction_bound(0.0, known)[[0, 2]], [0, 1])
    assert reconstruction_bound(0.0, 0.2) == pytest.approx(0.2, rel=1e-12)
    np.testing.assert_array_equal(reconstruction_bound(math.inf, known), 1.0)
    assert approximate_reconstruction_bound(0.0, 1e-5, 0.2) == pytest.approx(0.2 + 1e-5)
    assert approximate_reconstruction_bound(math.inf, 1e-5, 0.2) == 1
