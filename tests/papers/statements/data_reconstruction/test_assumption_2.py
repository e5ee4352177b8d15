"""DR's Assumption 2: an activation that has it, and what those of the figures lack."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.statements.data_reconstruction.assumption_2 import assumption_2, mixed_parity

RELU = jax.nn.relu


def _coefficients(function, max_order):
    """Orthonormal Hermite coefficients by Gauss-Hermite quadrature, for smooth functions."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    found, factorial = [], 1.0
    for order in range(max_order + 1):
        factorial *= max(order, 1)
        values = np.polynomial.hermite_e.hermeval(nodes, np.eye(max_order + 1)[order])
        moment = np.sum(weights * function(nodes) * values) / np.sqrt(2 * np.pi)
        found.append(moment / np.sqrt(factorial))
    return np.array(found)


# Source: DR Assumption 2.
def test_an_activation_meets_the_assumption():
    def by_hand(z):
        even = np.cos(z) - np.exp(1.5) / 4 * np.cos(2 * z) - 0.75 * np.exp(-0.5)
        return np.tanh(z) + even / 4

    found = _coefficients(by_hand, 4)
    np.testing.assert_allclose(found[[0, 2]], 0, atol=1e-12)
    assert found[4] == pytest.approx(-0.75 * np.exp(-0.5) / np.sqrt(24), abs=1e-12)
    # The poles of tanh leave plain quadrature five digits.
    assert found[1] == pytest.approx(0.6057, abs=1e-3)
    assert abs(found[3]) > 0.1
    report = assumption_2(mixed_parity)
    assert report.failures == ()
    assert report.even == pytest.approx(found[4], abs=1e-9)
    assert report.odd == pytest.approx(found[3], abs=1e-3)
    z = np.linspace(-9, 9, 4001)
    np.testing.assert_allclose(np.asarray(mixed_parity(z)), by_hand(z), atol=2e-6)
    # Its slope is bounded and Lipschitz: tanh's is at most 1 in both, cosines' sizes add up.
    slope = np.gradient(by_hand(z), z)
    assert np.abs(slope).max() < 1 + (1 + np.exp(1.5) / 2) / 4
    assert np.abs(np.gradient(slope, z)).max() < 1 + (1 + np.exp(1.5)) / 4


# Source: DR Assumption 2; Sections 5.1 and E.2 say that ReLU + tanh has it.
@pytest.mark.parametrize(
    ("activation", "words"),
    [
        (RELU, ["mu_0 is 0.399", "mu_2 is 0.282", "no odd", "jumps by 1"]),
        (lambda z: RELU(z) + jnp.tanh(z), ["mu_0 is 0.399", "mu_2 is 0.282", "jumps by 1"]),
        (jnp.tanh, ["no even"]),
        (lambda z: z, ["no odd", "no even"]),
        (lambda z: z**3 - z, ["no even", "slope is not bounded", "derivative is not"]),
        (jnp.cos, ["mu_0 is", "mu_1 is 0", "mu_2 is", "no odd"]),
        (lambda z: z + jnp.sign(z), ["no even", "activation jumps by 2"]),
        # Its slope stays within 3, and the slope's derivative grows.
        (lambda z: 2 * z + jnp.sin(z**2) / (1 + z**2) ** 0.5 - jnp.sin(1.0 * z), None),
    ],
)
def test_others_lack_what_is_named(activation, words):
    failures = assumption_2(activation).failures
    if words is None:
        assert failures[-1] == "the slope's derivative is not bounded"
        return
    assert len(failures) == len(words)
    for found, expected in zip(failures, words, strict=True):
        assert expected in found


def test_a_slope_with_a_kink_is_continuous():
    # Huber's slope is Lipschitz; its square is even.
    report = assumption_2(lambda z: jnp.where(jnp.abs(z) < 1, z**2 / 2, jnp.abs(z) - 0.5))
    assert report.slope_jump == 0
    assert report.has_bounded_slope
