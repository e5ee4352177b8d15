"""Proved bounds on membership tests, against closed forms and laws that attain them."""

import math

import numpy as np
import pytest
from scipy.stats import norm
from worst_case import optimiser

from jaxdp.privacy import (
    GaussianMechanism,
    PoissonSampler,
    Release,
    Unproved,
    largest_membership_auc,
    largest_true_positive_rate,
)

RATES = np.array([0.0, 0.001, 0.01, 0.3, 1.0])


def _release(mechanism):
    return Release("sums", "zero-out-one", mechanism)


def test_bound_of_a_gaussian_mechanism_is_its_tradeoff_curve():
    release = _release(GaussianMechanism(1.3))
    found = largest_true_positive_rate(release, RATES)
    np.testing.assert_allclose(found, norm.cdf(norm.ppf(RATES) + 1.3), rtol=1e-12)
    assert largest_membership_auc(release) == pytest.approx(norm.cdf(1.3 / math.sqrt(2)))


def test_bound_of_one_sampled_step_lies_just_above_its_exact_curve():
    # N(0, s^2) against (1 - q) N(0, s^2) + q N(1, s^2), whose best test is a threshold.
    share, noise = 0.25, 0.7
    algorithm = optimiser(PoissonSampler(200, share), noise)
    rates = np.array([0.001, 0.01, 0.1])
    places = norm.isf(rates)
    exact = (1 - share) * rates + share * norm.sf(places - 1 / noise)
    gap = largest_true_positive_rate(algorithm, rates) - exact
    assert np.all(gap >= 0)
    assert np.all(gap < 0.01)
    area = 0.5 * (1 - share) + share * norm.cdf(1 / noise / math.sqrt(2))
    # Both directions are bounded at once, adding the record and removing it.
    assert 0 <= largest_membership_auc(algorithm) - area < 0.04
    # Without amplification the bound would be far above.
    assert largest_membership_auc(optimiser(PoissonSampler(200, 1.0), noise)) > area + 0.1


def test_nothing_proved_bounds_nothing():
    found = largest_true_positive_rate(_release(Unproved("a gap")), RATES)
    np.testing.assert_array_equal(found, 1)
    assert largest_membership_auc(_release(Unproved("a gap"))) == 1
