"""Audits of recorded scores: how often they fail, how much they find, and what they refuse."""

import jax
import numpy as np
import pytest
from helpers import FALSE_ALARM
from worst_case import assert_rare

from jaxdp.privacy import audit, gaussian_epsilon
from jaxdp.privacy.audits.two_data_sets import MU, bound_of, ranked


def _normal(rng, size, shift):
    return rng.normal(size=size) + shift


def _partly_no_numbers(rng, size, shift):
    scores = _normal(rng, size, shift)
    return np.select([scores < -1, scores > 2, scores < 0], [np.nan, np.inf, -np.inf], scores)


# Laws of scores, and their numbers of either kind.
CASES = [
    (_normal, (300, 300)),
    pytest.param(_partly_no_numbers, (120, 700), marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("law", "sizes"), CASES)
def test_bounds_exceed_the_truth_no_more_often_than_stated(law, sizes):
    found = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        scores = [law(rng, n, shift) for n, shift in zip(sizes, (0, 1), strict=True)]
        # In the order in which a user keeps them: one sorted, the other as it came.
        scores[seed % 2].sort()
        found.append((audit(*scores, measure="mu"), audit(*scores, delta=0.1)))
    mus, epsilons = np.transpose(found)
    assert_rare(mus > 1, 0.05)
    assert_rare(epsilons > gaussian_epsilon(1.0, 0.1), 0.05)
    assert np.median(mus) > 0.4
    with pytest.raises(AssertionError, match="rate"):
        assert_rare(mus > 0.6, 0.05)


def test_nothing_is_found_where_nothing_is_and_the_order_is_not_looked_at():
    rng, found = np.random.default_rng(0), []
    for _ in range(200):
        first, second = np.sort(rng.normal(size=200)), rng.normal(size=300)
        found.append(audit(first, second, measure="mu"))
        shuffled = rng.permutation(first), np.sort(second)[::-1]
        assert audit(*shuffled, measure="mu") == found[-1]
        assert audit(*shuffled, delta=0.01) == audit(first, second, delta=0.01)
    assert_rare(np.asarray(found) > 0, 0.05)
    # What it is for: the others are not what they would be, where the lowest quarter is taken out.
    first, second = np.sort(rng.normal(size=2000) + 2), rng.normal(size=2000)
    assert 1.5 < audit(first, second, measure="mu") <= 2
    assert bound_of(MU, ranked(first, second), 0.05) > 2


@pytest.mark.parametrize(
    ("mu", "sizes"),
    [
        (1.0, (200_000, 200_000)),
        pytest.param(3.0, (400_000, 110_000), marks=pytest.mark.slow),
        pytest.param(0.5, (400_000, 110_000), marks=pytest.mark.slow),
    ],
)
def test_the_bound_reaches_nine_tenths_of_the_truth(mu, sizes):
    rng = np.random.default_rng(1)
    scores = [_normal(rng, n, shift) for n, shift in zip(sizes, (0, mu), strict=True)]
    for pair in (scores, scores[::-1], [-each for each in scores]):
        assert 0.9 * mu <= audit(*pair, measure="mu", confidence=1 - FALSE_ALARM) <= mu
    truth = gaussian_epsilon(mu, 0.1)
    found = audit(*scores, delta=0.1, confidence=1 - FALSE_ALARM)
    assert 0.7 * truth <= found <= truth


def test_an_outcome_that_only_one_input_has_is_a_leak():
    rng = np.random.default_rng(2)
    second = rng.normal(size=30_000)
    for odd_one in (np.nan, -np.inf, np.inf, -3e38):
        first = np.where(rng.random(20_000) < 0.1, odd_one, rng.normal(size=20_000))
        for pair in ((first, second), (second, first)):
            assert 3 < audit(*pair, delta=0.0, confidence=1 - FALSE_ALARM) < np.log(30_000)


def test_what_is_counted_are_scores_of_any_kind():
    rng = np.random.default_rng(3)
    told = rng.random(40_000) < 0.75
    first, second = told[:20_000], ~told[20_000:]
    truth = np.log(3)
    for kind in (bool, np.int8, np.float16, list, jax.numpy.asarray):
        given = [
            kind(x) if kind in (list, jax.numpy.asarray) else x.astype(kind)
            for x in (first, second)
        ]
        assert 0.9 * truth < audit(*given, delta=0.0, confidence=0.999) < truth
