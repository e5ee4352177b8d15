"""One-run audits: the tail against linear programs and a published one, failures, power."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import lil_matrix
from scipy.stats import binom

from jaxdp.privacy import audit, audit_one_run, gaussian_delta, gaussian_epsilon, gaussian_mu
from jaxdp.privacy.audits import two_data_sets
from jaxdp.privacy.audits.one_run import (
    bound_from_guesses,
    correct_guesses_tail,
    num_correct_guesses,
)

MU = {"measure": "mu"}


def _bound(num_correct, *, measure="epsilon", delta=None, confidence=0.95, **sizes):
    named, error = two_data_sets.asked(measure, delta, confidence)
    return bound_from_guesses(named, num_correct, error=error, **sizes)


def _published_tail(v, epsilon, *, num_guesses, num_canaries, delta):
    """Steinke, Nasr and Jagielski (2023), Appendix D, as printed."""
    q = 1 / (1 + np.exp(-epsilon))
    beta = binom.sf(v - 1, num_guesses, q)
    below = np.cumsum(binom.pmf(np.arange(v), num_guesses, q)[::-1])
    alpha = np.max(below / np.arange(1, v + 1), initial=0)
    return beta + 2 * num_canaries * delta * alpha


def _largest_probability(v, epsilon, delta, num_canaries, num_guesses):
    """The highest probability of v correct guesses, over all mechanisms that are private."""
    included = list(itertools.product((-1, 1), repeat=num_canaries))
    guesses = [
        guess
        for guess in itertools.product((-1, 0, 1), repeat=num_canaries)
        if sum(map(abs, guess)) == num_guesses
    ]
    shape = len(included), len(guesses)
    probability = np.arange(math.prod(shape)).reshape(shape)
    flips = [
        (row, included.index((*coins[:j], -coins[j], *coins[j + 1 :])))
        for row, coins in enumerate(included)
        for j in range(num_canaries)
    ]
    num_unknown = probability.size + len(flips) * len(guesses)
    excess = np.arange(probability.size, num_unknown).reshape(len(flips), len(guesses))
    above = lil_matrix((excess.size + len(flips), num_unknown))
    limit = np.zeros(above.shape[0])
    for i, (row, flipped) in enumerate(flips):
        for g in range(len(guesses)):
            line = excess[i, g] - probability.size
            above[line, probability[row, g]] = 1
            above[line, probability[flipped, g]] = -np.exp(epsilon)
            above[line, excess[i, g]] = -1
        above[excess.size + i, excess[i]] = 1
        limit[excess.size + i] = delta
    whole = lil_matrix((len(included), num_unknown))
    gain = np.zeros(num_unknown)
    for row, coins in enumerate(included):
        whole[row, probability[row]] = 1
        for g, guess in enumerate(guesses):
            correct = sum(a == b for a, b in zip(coins, guess, strict=True))
            gain[probability[row, g]] = (correct >= v) / len(included)
    found = linprog(
        -gain, above.tocsr(), limit, whole.tocsr(), np.ones(len(included)), bounds=(0, None)
    )
    assert found.success
    return -found.fun


@pytest.mark.parametrize(("num_canaries", "num_guesses"), [(1, 1), (2, 2), (3, 3), (3, 2)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.05), (1.0, 0.02), (2.2, 0.01), (0.5, 0.3)])
def test_the_tail_is_the_largest_over_all_mechanisms(num_canaries, num_guesses, epsilon, delta):
    for v in range(num_guesses + 1):
        found = correct_guesses_tail(
            v, epsilon, num_guesses=num_guesses, num_canaries=num_canaries, delta=delta
        )
        best = _largest_probability(v, epsilon, delta, num_canaries, num_guesses)
        assert found == pytest.approx(best, abs=1e-7)


@pytest.mark.parametrize(
    ("num_canaries", "num_guesses", "num_correct", "delta", "published"),
    [(1000, 100, 75, 1e-4, 0.673), (100_000, 1510, 1439, 1e-5, 2.675)],
)
def test_bounds_are_a_little_above_the_published_ones(
    num_canaries, num_guesses, num_correct, delta, published
):
    # Steinke, Nasr and Jagielski (2023), Appendix D and Section 7; one unit in the last place.
    sizes = dict(num_guesses=num_guesses, num_canaries=num_canaries, delta=delta)
    tails = [_published_tail(num_correct, published + step, **sizes) for step in (-0.001, 0.001)]
    assert tails[0] < 0.05 < tails[1]
    found = _bound(num_correct, **sizes)
    assert published < found < 1.06 * published


@pytest.mark.parametrize(
    ("num_canaries", "num_guesses", "num_correct"), [(100, 50, 40), (1000, 158, 120), (200, 100, 0)]
)
def test_mu_is_refuted_where_one_of_its_pairs_of_epsilon_and_delta_is(
    num_canaries, num_guesses, num_correct
):
    sizes = {"num_guesses": num_guesses, "num_canaries": num_canaries}

    def least_tail(mu):
        return min(
            correct_guesses_tail(num_correct, e, delta=gaussian_delta(mu, e), **sizes)
            for e in np.linspace(0, 8, 801)
        )

    found = _bound(num_correct, measure="mu", **sizes)
    assert found == 0 or least_tail(0.998 * found) < 0.05
    # No epsilon refutes much more.
    assert least_tail(1.002 * found + 1e-3) > 0.05
    for delta in (1e-6, 1e-4, 1e-2):
        epsilon = _bound(num_correct, delta=delta, **sizes)
        assert epsilon == 0 or gaussian_mu(epsilon, delta) <= 1.002 * found


@settings(max_examples=100)
@given(
    num_guesses=st.integers(1, 300),
    share=st.floats(0, 1),
    epsilon=st.floats(0, 8),
    log_delta=st.floats(-9, -2),
)
def test_the_tail_is_monotone(num_guesses, share, epsilon, log_delta):
    v, delta = round(share * num_guesses), 10**log_delta
    sizes = dict(num_guesses=num_guesses, num_canaries=2 * num_guesses, delta=delta)
    here = correct_guesses_tail(v, epsilon, **sizes)
    assert 0 <= here <= 1
    assert correct_guesses_tail(v, epsilon + 0.1, **sizes) >= here * (1 - 1e-9)
    if v:
        assert correct_guesses_tail(v - 1, epsilon, **sizes) >= here * (1 - 1e-9)
    sizes["delta"] *= 2
    assert correct_guesses_tail(v, epsilon, **sizes) >= here


# Whole numbers around 3e9 and nanoseconds in this order wrap in 32 bits, floats become equal there,
# and of the unsigned ones and the lowest integer there is no negative.
SAME_ORDER = {
    "nanoseconds": lambda place: 1_700_000_000_000_000_000 + place,
    "the lowest": lambda place: np.iinfo(np.int64).min + place,
    "unsigned": lambda place: np.uint64(2**64 - 100) + place.astype(np.uint64),
    "long doubles": lambda place: place / np.longdouble(2**70),
    "with an infinity": lambda place: np.where(place == 99, np.inf, place),
}


@pytest.mark.parametrize("name", SAME_ORDER)
def test_the_order_of_the_scores_is_all_that_counts(name):
    rng = np.random.default_rng(0)
    included, place = rng.random(100) < 0.5, rng.permutation(100)
    scores = SAME_ORDER[name](place)
    for num_guesses in (1, 20, 100):
        expected = num_correct_guesses(place, included, num_guesses)
        assert num_correct_guesses(scores, included, num_guesses) == expected
    found, expected = (
        audit(one[included], one[~included], measure="mu") for one in (scores, place)
    )
    assert found == expected


def _by_every_choice(scores, included, num_guesses):
    """The right guesses of every way of telling equal scores apart."""
    found = []
    for order in itertools.permutations(range(len(scores))):
        ranks = [scores[i] for i in order]
        if ranks == sorted(ranks):
            coins = included[list(order)]
            out = num_guesses // 2
            found.append(int((~coins[:out]).sum() + coins[len(coins) - num_guesses + out :].sum()))
    return found


@settings(max_examples=60, deadline=None)
@given(
    scores=st.lists(st.integers(0, 2), min_size=1, max_size=6),
    coins=st.integers(0, 63),
    data=st.data(),
)
def test_ties_count_as_the_fewest_right_guesses_of_any_choice(scores, coins, data):
    """So no bound comes of ties, by the proof: a choice by chance has at least as many."""
    included = np.array([bool(coins >> i & 1) for i in range(len(scores))])
    num_guesses = data.draw(st.integers(1, len(scores)))
    found = num_correct_guesses(scores, included, num_guesses)
    assert found == min(_by_every_choice(scores, included, num_guesses))


def test_equal_scores_show_nothing_wherever_they_stand():
    rng, inside = np.random.default_rng(0), np.arange(100) >= 50
    saturated = np.where(np.arange(100) % 10 == 0, rng.normal(size=100), np.inf)
    for scores in (np.ones(100), np.zeros(100, bool), np.full(100, 2**60), saturated):
        for included in (inside, ~inside, inside[::-1]):
            for num_guesses in (None, 100):
                for asked in ({"delta": 1e-5}, MU):
                    assert audit_one_run(scores, included, **asked, num_guesses=num_guesses) == 0
    # What does not depend on ties is shown all the same.
    scores = np.where(inside, np.where(np.arange(100) > 60, 9.0, 5.0), 0.0)
    assert audit_one_run(scores, inside, delta=0.0, num_guesses=30) > 2


def test_the_number_of_guesses_depends_on_the_number_of_canaries_alone():
    rng = np.random.default_rng(0)
    for count, num_guesses in ((1, 1), (3, 2), (40, 20), (100, 50), (1000, 158), (10_000, 500)):
        included = rng.permutation(count) % 2 == 0
        found = audit_one_run(2.0 * included + rng.normal(size=count), included, delta=1e-6)
        all_right = audit_one_run(np.arange(count) + count * included, included, delta=1e-6)
        sizes = {"num_guesses": num_guesses, "num_canaries": count, "delta": 1e-6}
        assert all_right == _bound(num_guesses, **sizes)
        possible = [_bound(v, **sizes) for v in range(num_guesses + 1)]
        assert found in possible


def _leaky_response(included, rng, epsilon, delta):
    """Randomised response that gives each canary away with probability delta."""
    lies = rng.random(included.shape) < 1 / (1 + np.exp(epsilon))
    leaks = rng.random(included.shape) < delta
    # Fine scores: those of a coarse answer are all equal, and show nothing.
    answers = np.where(included, 1.0, -1.0) * np.where(leaks, 2, np.where(lies, -1, 1))
    return answers + 0.1 * rng.random(included.shape)


def _correct_over_seeds(epsilon, delta, num_canaries, num_guesses, num_seeds):
    rng, found = np.random.default_rng(0), []
    for _ in range(num_seeds):
        included = rng.random(num_canaries) < 0.5
        scores = _leaky_response(included, rng, epsilon, delta)
        found.append(num_correct_guesses(scores, included, num_guesses))
    return np.array(found)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 0.0), (1.0, 0.01)])
def test_bounds_exceed_the_truth_no_more_often_than_stated(epsilon, delta):
    sizes = dict(num_guesses=100, num_canaries=200, delta=delta)
    correct = _correct_over_seeds(epsilon, delta, 200, 100, 2000)
    bounds = {v: _bound(v, **sizes) for v in set(correct.tolist())}
    allowed = binom.isf(1e-6, len(correct), 0.05)
    assert np.sum([bounds[v] > epsilon for v in correct.tolist()]) <= allowed
    # Bounds of less confidence break the same check.
    bounds = {v: _bound(v, **sizes, confidence=0.7) for v in bounds}
    assert np.sum([bounds[v] > epsilon for v in correct.tolist()]) > allowed


def _gaussian(mu, num_canaries, seed=0, **options):
    """The bound of canaries that are coordinates of their own, of size mu in units of the noise."""
    rng = np.random.default_rng(seed)
    included = rng.random(num_canaries) < 0.5
    scores = mu * included + rng.normal(size=num_canaries)
    return audit_one_run(scores, included, **options)


def test_a_third_of_the_claimed_noise_refutes_the_claim():
    delta, claim = 1e-4, gaussian_epsilon(1.0, 1e-4)
    for num_guesses in (None, 1000):
        assert 1 < _gaussian(1.0, 10_000, delta=delta, num_guesses=num_guesses) < claim
        assert _gaussian(3.0, 10_000, delta=delta, num_guesses=num_guesses) > claim


@pytest.mark.parametrize(
    ("scores", "included", "message"),
    [
        ([1.0, np.nan], [True, False], "expected scores that are numbers, got NaN"),
        ([1.0, 2.0], [1, 0], "expected included to hold booleans, got int64"),
        ([1.0, 2.0], [True], "one score for each canary"),
        ([[1.0, 2.0]], [[True, False]], "expected scores to be a vector"),
    ],
)
def test_scores_that_are_none_are_refused(scores, included, message):
    with pytest.raises((ValueError, TypeError), match=message):
        audit_one_run(scores, included, delta=1e-5)


def test_traced_scores_are_named():
    with pytest.raises(TypeError, match="expected concrete scores, got a traced one"):
        jax.eval_shape(lambda scores: audit_one_run(scores, [True], delta=0.1), jnp.ones(1))
