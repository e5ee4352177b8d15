"""Proved bounds on membership tests, against closed forms and laws that attain them."""

import math

import jax
import numpy as np
import pytest
from scipy.stats import norm
from worst_case import optimiser

import jaxdp
from jaxdp.privacy import (
    Composition,
    GaussianMechanism,
    PoissonSampler,
    Release,
    TruePositiveRate,
    Unproved,
    calibrated_noise_multiplier,
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
    assert np.all(gap < 1e-6)
    area = 0.5 * (1 - share) + share * norm.cdf(1 / noise / math.sqrt(2))
    assert 0 <= largest_membership_auc(algorithm) - area < 1e-6
    # Without amplification the bound would be far above.
    assert largest_membership_auc(optimiser(PoissonSampler(200, 1.0), noise)) > area + 0.1


def _own_curve(share, noise, num_steps, spacing=2e-5, size=2**21):
    """Both rates of the best tests, by a convolution of losses that are rounded in the mean."""
    edges = np.linspace(-12 * noise, 12 * noise + 1, 500_001)
    without, drawn = (np.diff(norm.cdf(edges - moved, scale=noise)) for moved in (0, 1))
    middles = (edges[1:] + edges[:-1]) / 2
    losses = np.log1p(share * np.expm1((middles - 0.5) / noise**2)) / spacing
    places = losses - math.floor(losses[0])
    low, found = places.astype(int), []
    for masses in ((1 - share) * without + share * drawn, without):
        one = np.bincount(low, masses * (1 - places + low), size)
        one += np.bincount(low + 1, masses * (places - low), size)
        found.append(np.fft.irfft(np.fft.rfft(one) ** num_steps, size)[::-1].cumsum())
    return found


def test_bound_of_sampled_steps_is_the_curve_of_an_own_convolution():
    true, false = _own_curve(0.1, 1.1, 20)
    rates = np.array([0.001, 0.01, 0.1, 0.5, 0.9])
    backward = 1 - np.interp(1 - rates, true, false)
    exact = np.maximum(np.interp(rates, false, true), backward)
    mechanism = PoissonSampler(100, 0.1, capacity=101).mechanism(1.1, 20)
    gap = largest_true_positive_rate(mechanism, rates, adjacency="zero-out-one") - exact
    assert np.all(gap > -1e-9)
    assert np.all(gap < 1e-6)
    area = np.sum(np.diff(false, prepend=0) * (true + np.append(0, true[:-1])) / 2)
    found = largest_membership_auc(mechanism, adjacency="zero-out-one")
    assert 0 < found - area < 1e-6
    less = PoissonSampler(100, 0.1, capacity=101).mechanism(1.1 * math.sqrt(2), 20)
    assert largest_membership_auc(less, adjacency="zero-out-one") < area - 0.02


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "at"), [(0.05, 0.01), (0.3, 0.1)])
def test_a_rate_of_sampled_steps_is_inverted_as_an_own_convolution_says(rate, at):
    sampler = PoissonSampler(100, 0.1, capacity=101)
    noise = calibrated_noise_multiplier(TruePositiveRate(rate, at), sampler=sampler, num_steps=20)
    true, false = _own_curve(0.1, noise, 20)
    assert 0 <= rate - np.interp(at, false, true) < 1e-4
    true, false = _own_curve(0.1, noise / math.sqrt(2), 20)
    assert np.interp(at, false, true) > rate + 0.02


def test_a_composition_of_sampled_and_plain_steps_is_bounded_by_their_losses_together():
    half = PoissonSampler(40, 0.5, capacity=41)
    mixed = Composition((half.mechanism(3.0, 1), GaussianMechanism(0.4)))
    found = largest_membership_auc(mixed, adjacency="zero-out-one")
    # Between the areas of the plain step alone, and if half of the draws were public.
    plain, drawn = norm.cdf(np.array([0.4, math.hypot(1 / 3, 0.4)]) / math.sqrt(2))
    assert plain < found < (drawn + plain) / 2 + 1e-6


def test_a_mechanism_of_several_adjacencies_asks_for_one():
    with pytest.raises(ValueError, match=r"expected adjacency to be one of .*got None"):
        largest_membership_auc(PoissonSampler(40, 0.5).mechanism(1.0, 1))
    with pytest.raises(ValueError, match="no adjacency beside a release"):
        largest_membership_auc(_release(GaussianMechanism(1.0)), adjacency="replace-one")


def test_a_cost_tells_the_best_test_in_words():
    cost = jaxdp.account(_release(GaussianMechanism(1.0)), delta=1e-5)
    assert cost.membership_auc == pytest.approx(norm.cdf(1 / math.sqrt(2)))
    assert cost.membership_rate == pytest.approx(norm.cdf(norm.ppf(0.01) + 1))
    line = str(cost).splitlines()[1]
    assert "one record was used, by someone who knows all others: AUC 0.7603 at most" in line
    assert "true-positive rate 0.0924 at most at 1 % false positives" in line
    assert cost.in_words in repr(cost._explanation())
    traced = jax.vmap(lambda mu: jaxdp.account(_release(GaussianMechanism(mu)), delta=1e-5))
    assert traced(jax.numpy.ones(2)).membership_auc is None


def test_nothing_proved_bounds_nothing():
    found = largest_true_positive_rate(_release(Unproved("a gap")), RATES)
    np.testing.assert_array_equal(found, 1)
    assert largest_membership_auc(_release(Unproved("a gap"))) == 1
