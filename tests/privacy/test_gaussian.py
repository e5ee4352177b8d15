"""Exact Gaussian privacy against high precision, laws and limits."""

import math

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxdp.privacy import gaussian_delta, gaussian_epsilon, gaussian_mu


def _exact_delta(mu, epsilon):
    with mpmath.workdps(60):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        first = mpmath.ncdf(mu / 2 - epsilon / mu)
        return float(first - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu))


@settings(max_examples=200, deadline=None)
@given(log_mu=st.floats(-4, np.log10(50)), log_epsilon=st.floats(-3, np.log10(50)))
def test_delta_keeps_ten_digits_and_is_never_below_the_truth(log_mu, log_epsilon):
    mu, epsilon = 10**log_mu, 10**log_epsilon
    exact = _exact_delta(mu, epsilon)
    found = gaussian_delta(mu, epsilon)
    assert found >= exact
    if exact >= 1e-12:
        assert found == pytest.approx(exact, rel=1e-10)


@settings(max_examples=100, deadline=None)
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
    assert gaussian_delta(0.0, 1.0) == 0
    assert gaussian_delta(math.inf, 1.0) == 1
    assert gaussian_epsilon(0.0, 1e-5) == 0
    assert gaussian_epsilon(math.inf, 1e-5) == math.inf
    traced = jax.jit(gaussian_delta)
    assert [traced(0.0, 0.0), traced(math.inf, 1.0), traced(1.0, math.inf)] == [0, 1, 0]
    assert jax.grad(gaussian_delta)(math.inf, 1.0) == 0
    traced = jax.jit(lambda mu: gaussian_epsilon(mu, 1e-5))
    assert [traced(0.0), traced(math.inf)] == [0, math.inf]


def test_traced_equals_concrete_and_is_differentiable():
    mus = jnp.asarray([0.1, 1.0, 4.0])
    epsilons = jax.jit(jax.vmap(lambda m: gaussian_epsilon(m, 1e-5)))(mus)
    expected = [gaussian_epsilon(float(m), 1e-5) for m in mus]
    np.testing.assert_allclose(epsilons, expected, rtol=1e-4)
    np.testing.assert_allclose(
        jax.jit(jax.vmap(lambda e: gaussian_mu(e, 1e-5)))(epsilons), mus, rtol=1e-4
    )
    np.testing.assert_allclose(
        jax.jit(jax.vmap(lambda m: gaussian_delta(m, 1.0)))(mus),
        [gaussian_delta(float(m), 1.0) for m in mus],
        rtol=1e-3,
    )
    slope = jax.grad(lambda m: gaussian_epsilon(m, 1e-5))(1.0)
    difference = (gaussian_epsilon(1.0005, 1e-5) - gaussian_epsilon(0.9995, 1e-5)) / 1e-3
    assert slope == pytest.approx(difference, rel=1e-3)


def test_traced_delta_keeps_its_stated_tolerance():
    mus, epsilons = np.meshgrid(np.geomspace(1e-3, 20, 25), np.geomspace(1e-3, 20, 25))
    mus, epsilons = (axis.ravel().astype(np.float32) for axis in (mus, epsilons))
    found = jax.jit(jax.vmap(gaussian_delta))(mus, epsilons)
    exact = np.asarray(
        [_exact_delta(float(m), float(e)) for m, e in zip(mus, epsilons, strict=True)]
    )
    shown = exact > 1e-12
    error = np.abs(found[shown] / exact[shown] - 1)
    assert np.all(error < 2e-5 * (1 + 1 / mus[shown]))


def test_negative_arguments_are_refused():
    with pytest.raises(ValueError, match="mu >= 0"):
        gaussian_delta(-1.0, 1.0)
    with pytest.raises(ValueError, match="mu >= 0"):
        gaussian_epsilon(-1.0, 1e-5)
    with pytest.raises(ValueError, match="epsilon >= 0"):
        gaussian_mu(-1.0, 1e-5)
