"""A logistic sigmoid as a mixture of normal distribution functions."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit

from jaxdp.losses.gaussian import normal_mixture
from jaxdp.losses.gaussian.normal_mixture import sigmoid_moments


def test_without_variance_it_is_the_sigmoid_and_its_derivative():
    logits = np.linspace(-60, 60, 4001)
    with jax.enable_x64():
        found = sigmoid_moments(jnp.asarray(logits), jnp.zeros(1))
    np.testing.assert_allclose(found[0], expit(logits), atol=3e-11, rtol=0)
    np.testing.assert_allclose(found[1], expit(logits) * expit(-logits), atol=3e-11, rtol=0)


def test_the_law_of_the_deviations_is_that_of_a_logistic_variable():
    # 2K times a normal has variance pi^2/3 and fourth moment 7 pi^4/15.
    deviations, weights = normal_mixture._mixture(16)
    np.testing.assert_allclose(weights.sum(), 1, rtol=1e-14)
    np.testing.assert_allclose(weights @ deviations**2, np.pi**2 / 3, rtol=1e-10)
    np.testing.assert_allclose(3 * weights @ deviations**4, 7 * np.pi**4 / 15, rtol=1e-8)


def test_means_over_a_gaussian_are_those_of_a_quadrature():
    nodes, weights = np.polynomial.hermite_e.hermegauss(150)
    weights = weights / np.sqrt(2 * np.pi)
    mean, variance = np.asarray([-3.0, 0.0, 0.4, 8.0]), np.asarray([0.01, 1.0, 4.0, 9.0])
    logits = mean[:, None] + np.sqrt(variance)[:, None] * nodes
    with jax.enable_x64():
        found = sigmoid_moments(jnp.asarray(mean), jnp.asarray(variance))
    np.testing.assert_allclose(found[0], expit(logits) @ weights, atol=1e-9)
    np.testing.assert_allclose(found[1], (expit(logits) * expit(-logits)) @ weights, atol=1e-9)
