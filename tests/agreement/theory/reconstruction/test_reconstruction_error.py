"""The law of reconstruction after one private step, against what it is derived from."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attack_problems import sphere_rows
from helpers import assert_mean_close, quick_and_slow
from scipy.optimize import brentq

from jaxdp.theory.reconstruction.error import (
    mu_at_reconstruction_error,
    one_step_noise_ratio,
    one_step_reconstruction_error,
    reconstruction_constant,
    saturated_error,
)
from jaxdp.theory.reconstruction.local import local_reconstruction_errors

RELU = jax.nn.relu
CHANCE = pytest.approx(math.sqrt(2), rel=1e-12)


@pytest.mark.parametrize("num_samples", [1, 5])
def test_constant_is_that_of_the_slopes_of_independent_rows(num_samples):
    rng = np.random.default_rng(0)
    for activation, host, slope in [
        (RELU, lambda z: np.maximum(z, 0), lambda z: (z > 0) * 1.0),
        (jnp.tanh, np.tanh, lambda z: 1 / np.cosh(z) ** 2),
    ]:
        arguments = rng.standard_normal((20, 5_000, num_samples))
        slopes = slope(arguments)
        inverse = np.linalg.inv(np.einsum("bki,bkj->bij", slopes, slopes) / 5_000)
        squares = np.mean(host(arguments) ** 2, axis=(1, 2))
        samples = squares * np.trace(inverse, axis1=1, axis2=2) / num_samples
        expected = reconstruction_constant(activation, num_samples)
        assert_mean_close(samples, expected, rejects=[1.3 * expected])


def test_constants_of_relu():
    for count in (1, 2, 7, 100):
        assert reconstruction_constant(RELU, count) == pytest.approx(2 * count / (count + 1))
    assert reconstruction_constant(RELU, 7, informed=True) == pytest.approx(1.0)


@pytest.mark.parametrize(("count", "informed"), [(3, False), (3, True)])
def test_linearised_problem_on_random_rows_has_the_error_of_the_law(count, informed):
    rng, dim, mu = np.random.default_rng(1), 40, 500.0
    num_features, sizes = 20 * dim * count, []
    for _ in range(16):
        inputs = sphere_rows(rng, count, dim)
        weights = rng.standard_normal((num_features, dim)) / np.sqrt(dim)
        norms = np.linalg.norm(np.maximum(weights @ inputs.T, 0), axis=0)
        found = local_reconstruction_errors(
            inputs, weights, RELU, 1 / norms, 2 / mu, num_known=count - 1 if informed else 0
        )
        sizes.append(np.sqrt(np.mean(found**2)))
    options = {"informed": informed, "num_features": num_features}
    expected = one_step_noise_ratio(mu, dim, count, RELU, **options)
    # Rows are orthogonal to 1 / sqrt(d), which comes in squared and n times.
    bias = max(count, 2) / dim * expected
    assert_mean_close(sizes, expected, bias=bias, rejects=[expected / math.sqrt(1.7)])


@pytest.mark.slow
def test_width_adds_what_least_squares_adds():
    rng, dim, count = np.random.default_rng(2), 40, 3
    inputs = sphere_rows(rng, count, dim)

    def ratio(width):
        weights = rng.standard_normal((width * dim * count, dim)) / np.sqrt(dim)
        norms = np.linalg.norm(np.maximum(weights @ inputs.T, 0), axis=0)
        return np.mean(local_reconstruction_errors(inputs, weights, RELU, 1 / norms, 0.01))

    def law(width):
        return one_step_noise_ratio(200.0, dim, count, RELU, num_features=width * dim * count)

    assert law(2) / law(60) == pytest.approx(math.sqrt(2), rel=0.02)
    # The same rows, so that their correlations drop out; a ReLU's dead neurons do not: one in eight
    # is of no use to any of three rows.
    widest = ratio(60)
    assert ratio(2) / widest == pytest.approx(law(2) / law(60), rel=0.17)
    assert ratio(10) / widest == pytest.approx(law(10) / law(60), rel=0.02)
    assert one_step_reconstruction_error(200.0, dim, count, RELU, num_features=100) == CHANCE


def test_linear_and_relu_activations_have_their_closed_forms():
    ratios = np.array([1e-6, 1e-3, 0.1, 1.0, 10.0, 1e6])
    lengths = np.sqrt(1 + ratios**2)
    expected = np.sqrt(2) * ratios / lengths / np.sqrt(1 + 1 / lengths)
    np.testing.assert_allclose(saturated_error(ratios, lambda z: z), expected, rtol=1e-6)
    for ratio in (1e-3, 0.3, 1.0, 3.0, 100.0):
        angle = 2 * np.arcsin(float(saturated_error(ratio, RELU)) / 2)
        assert (1 - angle / np.pi) * np.tan(angle) == pytest.approx(ratio, rel=1e-5)


def _full_solution(ratio):
    """The error where replicas break, by Crisanti and Sommers' functional at zero temperature."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    nodes, weights = (1 + nodes) / 2, weights / 2

    def ground_state(overlap):
        span = 1 - overlap**2

        def first(rest):
            return span * (1 - np.arccos(1 - span * rest) / np.pi)

        def second(rest):
            return span**2 / (np.pi * np.sqrt(span * rest * (2 - span * rest)))

        def gap(log_rest):
            rest = np.exp(log_rest)
            return first(rest) - (1 - rest) * second(rest)

        rest = 1.0 if gap(-1e-12) <= 0 else np.exp(brentq(gap, -60, -1e-12))
        inner = rest * nodes**4
        tail = np.sum(weights * 4 * nodes**3 * rest * np.sqrt(second(inner)))
        return (1 - rest) * np.sqrt(second(rest)) + tail

    errors = np.linspace(0.01, 1.4, 700)
    overlaps = 1 - errors**2 / 2
    kernel = np.sqrt(1 - overlaps**2) + overlaps * (np.pi - np.arccos(overlaps))
    ground = np.array([ground_state(overlap) for overlap in overlaps])
    return errors[np.argmax(kernel / np.pi / ratio + ground)]


def test_replica_symmetry_costs_little():
    for ratio in (0.1, 0.3, 0.6, 1.0, 2.0, 5.0):
        full, symmetric = _full_solution(ratio), saturated_error(ratio, RELU)
        # The grid's half step beside the stated share.
        assert full - 0.001 <= symmetric <= 1.012 * full + 0.001


def _maximum_near_the_truth(rng, dim, ratio, num_features):
    """Error of the direction x that maximises <theta, psi(x)>, climbed to from the true one."""
    mu = 2 * np.sqrt(dim - 1) / ratio
    true = sphere_rows(rng, 1, dim)[0] / np.sqrt(dim)
    weights = rng.standard_normal((num_features, dim))
    features = np.maximum(weights @ true, 0)
    theta = features / np.linalg.norm(features)
    theta += 2 / mu * rng.standard_normal(num_features)
    x = true
    for _ in range(150):
        z = weights @ x
        features = np.maximum(z, 0)
        size, along = features @ features, theta @ features
        step = weights.T @ ((theta - along / size * features) * (z > 0))
        x = x + (step - x * (x @ step)) * size / along / num_features
        x /= np.linalg.norm(x)
    return np.linalg.norm(x - true)


@pytest.mark.parametrize("ratio", quick_and_slow([0.5, 2.0], 0.5))
def test_one_row_is_found_with_the_predicted_error(ratio):
    rng, width, dim = np.random.default_rng(3), 40, 50 if ratio == 0.5 else 100
    found = [_maximum_near_the_truth(rng, dim, ratio, width * dim) for _ in range(40)]
    # Half of the neurons are dead at a row.
    expected = saturated_error(ratio / math.sqrt(1 - 2 / width), RELU)
    bias = 0.04 * expected
    assert_mean_close(found, expected, bias=bias, rejects=[expected * math.sqrt(1.7)])


def test_mu_is_the_inverse_of_the_error():
    errors = np.array([0.01, 0.2, 0.5, 1.0, 1.3])
    options = {"informed": True, "num_features": 5000}
    mus = mu_at_reconstruction_error(errors, 20, 5, RELU, **options)
    found = one_step_reconstruction_error(mus, 20, 5, RELU, **options)
    np.testing.assert_allclose(found, errors, rtol=1e-6)


def test_limits():
    found = one_step_reconstruction_error(np.array([0.0, math.inf]), 20, 5, RELU)
    assert found[0] == CHANCE
    assert found[1] == 0
    small = one_step_reconstruction_error(1e6, 20, 5, RELU)
    assert small == pytest.approx(2e-6 * math.sqrt(10 / 6 * 19), rel=1e-4)
    # A sum of linear features hides its terms from any attack, at any budget.
    assert one_step_reconstruction_error(1e6, 20, 5, lambda z: z) == CHANCE
    assert one_step_reconstruction_error(1e6, 20, 1, lambda z: z) < 1e-4
