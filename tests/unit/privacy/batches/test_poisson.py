"""The Poisson sampler: independent coins of the stated rate, in a batch of a fixed shape."""

import functools
import itertools
import math

import jax
import jax.random as jr
import mpmath
import numpy as np
import pytest
from helpers import FALSE_ALARM, assert_mean_close
from scipy.stats import chi2_contingency, chisquare, norm

from jaxdp.privacy import PoissonSampler, SecretNoise
from jaxdp.privacy.batches.poisson import PoissonSubsampledGaussian


def _batches(sampler, num_draws):
    keys = jr.split(jr.key(0), num_draws)
    indices, is_real = jax.jit(jax.vmap(lambda key: sampler.sample(0, key=key)))(keys)
    drawn = np.zeros((num_draws, sampler.num_records))
    draws, places = np.nonzero(np.asarray(is_real))
    np.add.at(drawn, (draws, np.asarray(indices)[draws, places]), 1)
    return drawn


def test_records_are_drawn_at_the_rate_and_independently():
    sampler = PoissonSampler(40, 0.15)
    drawn = _batches(sampler, 20_000)
    assert set(np.unique(drawn)) == {0, 1}
    assert_mean_close(drawn, sampler.sampling_rate)
    with pytest.raises(AssertionError):
        assert_mean_close(drawn, 0.17)
    centred = drawn - sampler.sampling_rate
    first, second = np.triu_indices(40, 1)
    assert_mean_close(centred[:, first] * centred[:, second], 0)
    # Sizes spread as a binomial: batches of a fixed size would not.
    sizes = drawn.sum(1)
    variance = 40 * sampler.sampling_rate * (1 - sampler.sampling_rate)
    assert_mean_close((sizes - sizes.mean()) ** 2, variance)


def test_the_rate_that_is_accounted_for_is_the_one_that_is_drawn():
    for rate in (1e-3, 1 / 3, 0.7):
        sampler = PoissonSampler(100, rate)
        assert (sampler.sampling_rate * 2**32).is_integer()
        assert abs(sampler.sampling_rate - rate) <= 2**-33
    assert PoissonSampler(100, 2**-32).sampling_rate == 2**-32


def test_records_stand_in_order_before_marked_padding_and_what_does_not_fit_is_left_out():
    sampler = PoissonSampler(7, 1.0)
    indices, is_real = sampler.sample(0, key=jr.key(0))
    assert is_real.tolist() == [True] * 7 + [False]
    assert indices.tolist() == [*range(7), 0]
    assert sampler.overflow_probability == 0
    few, _ = PoissonSampler(40, 0.5, capacity=2).sample(0, key=jr.key(1))
    whole, is_real = PoissonSampler(40, 0.5).sample(0, key=jr.key(1))
    assert is_real.sum() > 2
    assert few.tolist() == whole[:2].tolist()
    whole, is_real = np.asarray(whole), np.asarray(is_real)
    assert not whole[~is_real].any()
    assert np.all(np.diff(whole[is_real]) > 0)
    assert np.all(np.diff(is_real.astype(int)) <= 0)


@pytest.mark.parametrize(
    ("num_records", "rate"), [(1, 0.5), (100, 0.01), (60_000, 256 / 60_000), (10**9, 1e-6)]
)
def test_the_default_capacity_is_the_least_that_hardly_ever_overflows(num_records, rate):
    sampler = PoissonSampler(num_records, rate)
    assert sampler.overflow_probability <= 1e-30
    tighter = PoissonSampler(num_records, rate, capacity=max(sampler.capacity - 1, 1))
    assert sampler.capacity == 1 or tighter.overflow_probability > 1e-30


@pytest.mark.parametrize("num_records", [10, 1000, 10**6])
@pytest.mark.parametrize("sigmas", [1, 5, 20])
def test_overflow_is_bounded_from_above_and_hardly_more(num_records, sigmas):
    rate = 3 / num_records
    capacity = min(int(3 + sigmas * 3**0.5), num_records)
    sampler = PoissonSampler(num_records, rate, capacity=capacity)
    with mpmath.workdps(40):
        q = mpmath.mpf(sampler.sampling_rate)
        n = num_records + 1
        exact = mpmath.fsum(
            mpmath.binomial(n, k) * q**k * (1 - q) ** (n - k)
            for k in range(capacity + 1, min(n, capacity + 80) + 1)
        )
    assert exact <= sampler.overflow_probability <= exact * (1 + 1e-5) + 1e-300


def test_a_neighbour_with_one_record_more_is_covered():
    assert PoissonSampler(5, 0.5, capacity=5).overflow_probability >= 0.5**6
    assert PoissonSampler(5, 0.5, capacity=6).overflow_probability == 0


def _places_of_the_second(sample, trials):
    """Counts of the places of record 1 of three, split by whether record 0 is drawn."""
    counts = np.zeros((2, 4), int)
    for trial in range(trials):
        indices, mask = (np.asarray(part) for part in sample(trial))
        drawn = indices[mask].tolist()
        assert len(set(drawn)) == len(drawn)
        if 1 in drawn:
            counts[int(0 in drawn), int(np.flatnonzero((indices == 1) & mask)[0])] += 1
    return counts


@pytest.mark.slow
def test_where_a_record_stands_does_not_tell_whether_another_was_drawn():
    """A record that moved others to other blocks of a sum would change its rounding."""
    sampler = PoissonSampler(3, 0.5, capacity=4)

    def secretly(trial):
        return sampler.sample_secretly(trial, noise=SecretNoise(2**200), key=jr.key(0))

    counts = _places_of_the_second(secretly, 1200)
    assert all(chisquare(row).pvalue > FALSE_ALARM for row in counts)
    assert chi2_contingency(counts).pvalue > FALSE_ALARM
    # Side by side, as simulated batches are, it does tell.
    side_by_side = _places_of_the_second(lambda trial: sampler.sample(trial, key=jr.key(0)), 400)
    assert side_by_side[0, 1] == side_by_side[1, 0] == 0
    assert all(chisquare(row).pvalue < FALSE_ALARM for row in side_by_side)


def test_secret_batches_have_the_stated_rate_and_hold_each_record_once():
    sampler = PoissonSampler(1000, 0.25)
    counts = np.zeros(1000)
    for step in range(40):
        indices, mask = sampler.sample_secretly(step, noise=SecretNoise(2**200), key=jr.key(0))
        drawn = np.asarray(indices)[np.asarray(mask)]
        assert len(np.unique(drawn)) == len(drawn) <= sampler.capacity
        counts[drawn] += 1
    assert_mean_close(counts / 40, 0.25)
    with pytest.raises(AssertionError):
        # Nineteen standard errors off.
        assert_mean_close(counts / 40, 0.25 / 1.2)


def test_batches_that_use_delta_up_say_so():
    def said(capacity):
        mechanism = PoissonSubsampledGaussian(PoissonSampler(500, 0.1, capacity), 1.0, 10)
        (line,) = [each for each in mechanism.assumptions if "a batch holds" in each]
        return mechanism, line

    mechanism, line = said(100)
    least = 10 * mechanism.sampler.overflow_probability
    assert f"all of it up to delta = {least:.1e}" in line
    assert mechanism.epsilon(least, "zero-out-one") == math.inf
    assert math.isfinite(mechanism.epsilon(1.01 * least, "zero-out-one"))
    assert "infinite" not in said(None)[1]


# Batches that do not fit.


def _delta(first, second, num_steps, epsilon):
    """delta of independent steps with these laws on a grid, in the worse direction."""
    first, second = (
        functools.reduce(np.multiply.outer, [law] * num_steps) for law in (first, second)
    )
    return max(
        np.maximum(one - math.exp(epsilon) * other, 0).sum()
        for one, other in [(first, second), (second, first)]
    )


def _law_of_a_sum(sampler, contributions, noise, points, *, has_first=True):
    """The law of one noisy sum over the sampler's batch, on a grid, by enumerating all coins."""
    rate, law = sampler.sampling_rate, 0.0
    for coins in itertools.product([False, True], repeat=len(contributions)):
        drawn = np.asarray(coins) & (has_first | (np.arange(len(coins)) > 0))
        bits = np.where(drawn, 0, 2**32 - 1).astype(np.uint32)
        indices, is_real = (np.asarray(part) for part in sampler._drawn(bits))
        mean = np.asarray(contributions)[indices][is_real].sum()
        law = law + np.prod(np.where(coins, rate, 1 - rate)) * norm.pdf(points, mean, noise)
    return law * (points[1] - points[0])


def test_truncated_batches_cost_what_enumeration_says():
    """Where the first of three records is drawn another one is left out: the sum moves by two."""
    sampler, noise = PoissonSampler(3, 0.25, capacity=1), 0.4
    points = np.linspace(-4, 4, 401)
    law = functools.partial(_law_of_a_sum, sampler, noise=noise, points=points)
    with_it = law([1.0, -1.0, -1.0])
    without = {
        "zero-out-one": law([0.0, -1.0, -1.0]),
        "add-or-remove-one": law([1.0, -1.0, -1.0], has_first=False),
    }
    whole = [
        _law_of_a_sum(PoissonSampler(1, 0.25, capacity=2), [one], noise, points) for one in (1, 0)
    ]
    tau = sampler.overflow_probability
    excesses = []
    for adjacency, other in without.items():
        for num_steps, epsilon in itertools.product([1, 2], [0.5, 1.0, 4.0, 8.0]):
            delta = _delta(with_it, other, num_steps, epsilon)
            untruncated = _delta(*whole, num_steps, epsilon)
            assert delta <= untruncated + num_steps * tau
            excesses.append(delta - untruncated)
            mechanism = PoissonSubsampledGaussian(sampler, noise, num_steps)
            stated = mechanism.epsilon(untruncated + num_steps * tau, adjacency)
            assert stated == pytest.approx(epsilon, rel=0.01)
    # Without the share of batches that do not fit the account would be false.
    assert max(excesses) > 0.01


def test_truncated_batches_with_two_records_of_a_person_cost_what_enumeration_says():
    sampler, noise, points = PoissonSampler(4, 0.5, capacity=2), 0.4, np.linspace(-5, 5, 501)
    pair = [_law_of_a_sum(sampler, [one, one, -1, -1], noise, points) for one in (1, 0)]
    room = PoissonSampler(2, 0.5, capacity=3)
    whole = [_law_of_a_sum(room, [one, one], noise, points) for one in (1, 0)]
    tau, excesses = sampler.overflow_for_person(2), []
    assert tau == pytest.approx((1 - 0.5**2) ** 2, rel=1e-5)
    mechanism = PoissonSubsampledGaussian(sampler, noise, 1).for_groups(2)
    for epsilon in (4.0, 8.0):
        delta, untruncated = _delta(*pair, 1, epsilon), _delta(*whole, 1, epsilon)
        assert delta <= untruncated + tau
        excesses.append(delta - untruncated)
        stated = mechanism.epsilon(untruncated + tau, "zero-out-one")
        assert stated == pytest.approx(epsilon, rel=0.01)
    # Without the share of batches that do not fit the account would be false.
    assert max(excesses) > 0.002
