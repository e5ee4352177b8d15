"""Exact Gaussian privacy against high precision, laws and limits."""

import math

import jax
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from jaxdp.privacy import (
    composed_mu,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    gaussian_tradeoff,
)


def _exact_delta(mu, epsilon):
    with mpmath.workdps(80):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        first = mpmath.ncdf(mu / 2 - epsilon / mu)
        return float(first - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu))


@settings(max_examples=200)
@given(log_mu=st.floats(-4, np.log10(50)), log_epsilon=st.floats(-3, np.log10(50)))
def test_delta_keeps_ten_digits_and_is_never_below_the_truth(log_mu, log_epsilon):
    _check_delta(10**log_mu, 10**log_epsilon)


@settings(max_examples=150)
@given(log_mu=st.floats(0, 8), near=st.floats(-8, 8))
def test_delta_keeps_its_digits_where_mu_and_epsilon_nearly_cancel(log_mu, near):
    # epsilon / mu - mu / 2 is of order one while both terms are large.
    mu = 10**log_mu
    _check_delta(mu, max(0.0, mu * (mu / 2 + near)))


@pytest.mark.parametrize("mu", [1e-100, 1e-15, 1e-8, 1e-3, 0.999, 1.0, 30.0])
def test_delta_at_epsilon_zero_is_the_total_variation(mu):
    exact = float(mpmath.erf(mpmath.mpf(mu) / mpmath.sqrt(8)))
    assert gaussian_delta(mu, 0.0) == pytest.approx(exact, rel=1e-12)
    assert gaussian_delta(mu, 0.0) >= exact


def _check_delta(mu, epsilon):
    exact = _exact_delta(mu, epsilon)
    found = gaussian_delta(mu, epsilon)
    assert found >= exact
    if exact >= 1e-12:
        assert found == pytest.approx(exact, rel=1e-11)


def test_what_underflows_is_not_rounded_to_nothing():
    assert 0 < gaussian_delta(1.0, 1e4) < 1e-300
    assert 0 < gaussian_delta(1e-200, 1e200) < 1e-300


@settings(max_examples=100)
@given(log_mu=st.floats(-3, 1), log_delta=st.floats(-12, -1))
def test_epsilon_and_mu_round_toward_more_privacy_loss(log_mu, log_delta):
    mu, delta = 10**log_mu, 10**log_delta
    epsilon = gaussian_epsilon(mu, delta)
    assert _exact_delta(mu, epsilon) <= delta
    if epsilon > 1e-6:
        assert _exact_delta(mu, epsilon * (1 - 1e-8) - 1e-10) > delta
        assert gaussian_mu(epsilon, delta) == pytest.approx(mu, rel=1e-6)
    found = gaussian_mu(10**log_mu, delta)
    assert _exact_delta(found, 10**log_mu) <= delta


def test_limits():
    assert gaussian_delta(0.0, 1.0) == gaussian_delta(0.0, 0.0) == 0
    assert gaussian_delta(1.0, math.inf) == gaussian_delta(math.inf, math.inf) == 0
    assert gaussian_delta(math.inf, 1.0) == 1
    assert gaussian_epsilon(0.0, 1e-5) == gaussian_epsilon(1e-6, 1e-5) == 0
    assert gaussian_epsilon(math.inf, 1e-5) == gaussian_mu(math.inf, 1e-5) == math.inf
    assert gaussian_mu(0.0, 1e-5) == pytest.approx(1e-5 * math.sqrt(2 * math.pi), rel=1e-9)


def test_traced_limits_have_finite_derivatives():
    traced = jax.jit(jax.value_and_grad(gaussian_delta, argnums=(0, 1)))
    slope = 1 / math.sqrt(2 * math.pi)
    for arguments, value, slopes in [
        ((0.0, 0.0), 0, (slope, 0)),
        ((0.0, 1.0), 0, (0, 0)),
        ((math.inf, 1.0), 1, (0, 0)),
        ((1.0, math.inf), 0, (0, 0)),
        ((math.inf, math.inf), 0, (0, 0)),
    ]:
        found, found_slopes = traced(*arguments)
        assert found == value
        assert found_slopes == pytest.approx(slopes)
    traced = jax.jit(jax.value_and_grad(lambda mu: gaussian_epsilon(mu, 1e-5)))
    assert [tuple(map(float, traced(mu))) for mu in (0.0, 1e-6)] == [(0, 0)] * 2
    assert tuple(map(float, traced(math.inf))) == (math.inf, 0)


def test_second_derivatives_are_those_of_the_implicit_function():
    def epsilon(mu):
        return gaussian_epsilon(mu, 1e-5)

    difference = (epsilon(1.01) - 2 * epsilon(1.0) + epsilon(0.99)) / 1e-4
    assert jax.jit(jax.grad(jax.grad(epsilon)))(1.0) == pytest.approx(difference, rel=1e-3)


def test_traced_delta_keeps_its_stated_tolerance_and_a_wrong_mu_does_not():
    mus, epsilons = np.meshgrid(np.geomspace(1e-4, 50, 60), [0, *np.geomspace(1e-3, 1500, 60)])
    mus, epsilons = (axis.ravel().astype(np.float32) for axis in (mus, epsilons))
    exact = gaussian_delta(mus, epsilons)
    shown = exact > 1e-12
    for factor, is_right in [(1, True), (1.0001, False)]:
        found = jax.jit(gaussian_delta)(mus * np.float32(factor), epsilons)
        assert np.all(np.abs(found[shown] / exact[shown] - 1) < 2e-5) == is_right


def test_composed_gaussians_add_the_squares_of_mu():
    assert composed_mu(3.0, 4.0) == pytest.approx(5.0, rel=1e-15)
    assert composed_mu(3.0, 4.0) >= 5.0
    assert composed_mu(0.7) == 0.7
    np.testing.assert_allclose(jax.jit(composed_mu)(3.0, 4.0), 5.0, rtol=1e-6)


# Source: PK Proposition 3.
@pytest.mark.parametrize(("first", "second"), [(0.5, 0.5), (1.0, 0.2), (3.0, 2.0)])
def test_two_releases_cost_no_more_than_the_sums_of_epsilon_and_delta(first, second):
    for epsilon in (0.1, 1.0, 5.0):
        parts = gaussian_delta(first, epsilon) + gaussian_delta(second, epsilon)
        together = composed_mu(first, second)
        assert gaussian_delta(together, 2 * epsilon) <= parts
    # One epsilon, with the deltas added, is not enough.
    assert gaussian_delta(together, epsilon) > parts


@pytest.mark.parametrize("epsilon", [0.0, 5e-324, 1e-300, 1.0, 1e150])
def test_every_budget_that_is_taken_has_noise_that_float64_holds(epsilon):
    mu = gaussian_mu(epsilon, 1e-300)
    assert mu > 0
    assert math.isfinite(1 / mu)
    # At epsilon = 0, delta is mu over the root of 2 pi.
    if epsilon < 1e-300:
        assert mu == pytest.approx(math.sqrt(2 * math.pi) * 1e-300, rel=1e-9)


RATES = np.array([1e-12, 0.01, 0.3, 0.9])


def test_curve_is_that_of_two_normals():
    for mu in (0.0, 0.4, 3.0):
        expected = norm.cdf(norm.isf(RATES), loc=mu)
        np.testing.assert_allclose(gaussian_tradeoff(mu, RATES), expected, rtol=1e-12)


def test_ends_are_answered():
    np.testing.assert_array_equal(gaussian_tradeoff(1.0, [0.0, 1.0]), [1, 0])
    np.testing.assert_array_equal(gaussian_tradeoff(math.inf, [0.0, 0.5]), [0, 0])
