"""One-run audits: the tail against linear programs and a published one, failures, power."""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import lil_matrix
from scipy.stats import binom

from jaxdp.privacy import audit_one_run, gaussian_epsilon, num_correct_guesses, one_run_epsilon
from jaxdp.privacy.audits.one_run import correct_guesses_tail


def _published_tail(v, epsilon, *, num_guesses, num_canaries, delta):
    """Steinke, Nasr and Jagielski (2023), Appendix D, as printed."""
    q = 1 / (1 + np.exp(-epsilon))
    beta = binom.sf(v - 1, num_guesses, q)
    below = np.cumsum(binom.pmf(np.arange(v), num_guesses, q)[::-1])
    alpha = np.max(below / np.arange(1, v + 1), initial=0)
    return beta + 2 * num_canaries * delta * alpha


def _largest_probability(v, epsilon, delta, num_canaries, num_guesses):
    """The highest probability of v correct guesses, over all mechanisms that are private.

    A linear program whose unknowns are the probabilities of every guess (in, out or none, at
    `num_guesses` of the canaries) given every set of included canaries, and their excesses.
    """
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


def test_without_delta_the_tail_is_binomial():
    for v in range(41):
        for epsilon in (0.0, 0.3, 4.0):
            found = correct_guesses_tail(v, epsilon, num_guesses=40, num_canaries=1000, delta=0.0)
            exact = binom.sf(v - 1, 40, 1 / (1 + np.exp(-epsilon)))
            assert found == pytest.approx(exact, rel=1e-10)
    # All of r guesses correct: (e^epsilon / (1 + e^epsilon))^r = .05.
    share = 0.05 ** (1 / 40)
    found = one_run_epsilon(40, num_guesses=40, num_canaries=1000, delta=0.0)
    assert found == pytest.approx(np.log(share / (1 - share)), rel=1e-9)


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
    found = one_run_epsilon(num_correct, **sizes)
    assert published < found < 1.06 * published


@settings(max_examples=200)
@given(
    num_guesses=st.integers(1, 500),
    others=st.integers(0, 5000),
    share=st.floats(0.5, 1),
    epsilon=st.floats(0, 6),
    log_delta=st.floats(-9, -1),
)
def test_the_tail_is_below_the_published_one_where_an_audit_looks(
    num_guesses, others, share, epsilon, log_delta
):
    sizes = dict(num_guesses=num_guesses, num_canaries=num_guesses + others, delta=10**log_delta)
    v = math.ceil(share * num_guesses)
    published = _published_tail(v, epsilon, **sizes)
    if published <= 0.5:
        assert correct_guesses_tail(v, epsilon, **sizes) <= published * (1 + 1e-9)


def test_the_published_tail_is_too_small_far_below_the_mean():
    # An (ln 9, .01)-DP mechanism of two bits: both guesses fail with probability .0089 in place
    # of .01, one with .18018 in place of .18. Its excesses over e^epsilon sum to delta.
    ways = {0: 1, 1: 2, 2: 1}
    leaked = 2 * 0.01 / 0.18
    start = 1 - 0.99 * leaked
    share = {0: start * 0.01, 1: (start + leaked) * 0.18, 2: (start + leaked) * 0.81}
    assert sum(share.values()) == pytest.approx(1)
    chance = {count: share[count] / ways[count] for count in ways}
    # A flip of one coin turns the numbers of correct guesses (2, 1, 1, 0) into (1, 2, 0, 1).
    flips = [(2, 1), (1, 2), (1, 0), (0, 1)]
    assert sum(max(0, chance[a] - 9 * chance[b]) for a, b in flips) == pytest.approx(0.01)
    sizes = dict(num_guesses=2, num_canaries=2, delta=0.01)
    assert correct_guesses_tail(1, math.log(9), **sizes) == pytest.approx(1 - share[0])
    assert _published_tail(1, math.log(9), **sizes) < 1 - share[0] - 5e-4


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


def test_guesses_are_the_ends_of_the_order():
    scores = jnp.asarray([5.0, -1.0, jnp.nan, 3.0, 0.0, jnp.inf])
    included = jnp.asarray([True, False, False, False, True, True])
    assert num_correct_guesses(scores, included, 2) == 2  # inf in, nan out
    assert num_correct_guesses(scores, included, 3) == 3  # 5 in as well
    assert num_correct_guesses(scores, included, 4) == 4  # -1 out as well
    assert num_correct_guesses(scores, included, 6) == 4  # 3 in and 0 out are wrong
    assert num_correct_guesses(scores, ~included, 6) == 2


def _leaky_response(epsilon, delta):
    """Randomised response that gives each canary away with probability delta."""

    def mechanism(included, key):
        lie, leak = jr.split(key)
        lies = jr.bernoulli(lie, 1 / (1 + np.exp(epsilon)), included.shape)
        leaks = jr.bernoulli(leak, delta, included.shape)
        return jnp.where(included, 1.0, -1.0) * jnp.where(leaks, 2, jnp.where(lies, -1, 1))

    return mechanism


def _correct_over_keys(mechanism, num_canaries, num_guesses, num_keys):
    def one(key):
        coins, noise = jr.split(key)
        included = jr.bernoulli(coins, 0.5, (num_canaries,))
        return num_correct_guesses(mechanism(included, noise), included, num_guesses)

    return np.asarray(jax.jit(jax.vmap(one))(jr.split(jr.key(0), num_keys)))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 0.0), (1.0, 0.01)])
def test_bounds_exceed_the_truth_no_more_often_than_stated(epsilon, delta):
    sizes = dict(num_guesses=100, num_canaries=200, delta=delta)
    correct = _correct_over_keys(_leaky_response(epsilon, delta), 200, 100, 2000)
    bounds = {v: one_run_epsilon(v, **sizes) for v in set(correct.tolist())}
    allowed = binom.isf(1e-6, len(correct), 0.05)
    assert np.sum([bounds[v] > epsilon for v in correct.tolist()]) <= allowed
    # Bounds of less confidence break the same check.
    bounds = {v: one_run_epsilon(v, **sizes, confidence=0.7) for v in bounds}
    assert np.sum([bounds[v] > epsilon for v in correct.tolist()]) > allowed


class _Gaussian(eqx.Module):
    """Each canary a coordinate of its own, of size mu in units of the noise."""

    mu: jax.Array = eqx.field(converter=jnp.asarray)

    def __call__(self, included, key):
        return self.mu * included + jr.normal(key, included.shape)


def test_a_third_of_the_claimed_noise_refutes_the_claim():
    delta, claim = 1e-4, gaussian_epsilon(1.0, 1e-4)
    arguments = dict(num_guesses=1000, delta=delta, key=jr.key(0))
    assert 1 < audit_one_run(_Gaussian(1.0), 10_000, **arguments) < claim
    assert audit_one_run(_Gaussian(3.0), 10_000, **arguments) > claim


def test_more_noise_shows_less():
    arguments = dict(num_guesses=1000, delta=1e-5, key=jr.key(0))
    found = [audit_one_run(_Gaussian(mu), 10_000, **arguments) for mu in (0.0, 1.0, 2.0, 6.0)]
    assert found == sorted(found)
    # All guesses correct: no more can be shown by so many.
    assert found[-1] == one_run_epsilon(1000, num_guesses=1000, num_canaries=10_000, delta=1e-5)


def test_nothing_is_found_in_a_mechanism_that_ignores_its_canaries():
    found = [
        audit_one_run(_Gaussian(0.0), 100, num_guesses=50, delta=1e-5, key=jr.key(i))
        for i in range(300)
    ]
    assert np.sum(np.asarray(found) > 0) <= binom.isf(1e-6, 300, 0.05)


def test_a_delta_of_one_over_the_canaries_shows_little_and_a_large_one_nothing():
    sizes = dict(num_guesses=100, num_canaries=1000)
    found = [one_run_epsilon(90, **sizes, delta=delta) for delta in (0.0, 1e-5, 1e-3, 0.05)]
    assert found == sorted(found, reverse=True)
    assert found[0] > 1.4
    assert found[-1] == 0
