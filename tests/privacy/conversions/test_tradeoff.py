"""The trade-off curve of Gaussian DP."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from jaxdp.privacy import gaussian_delta, gaussian_tradeoff

RATES = np.array([1e-12, 0.01, 0.3, 0.9])


def test_curve_is_that_of_two_normals():
    for mu in (0.0, 0.4, 3.0):
        expected = norm.cdf(norm.isf(RATES), loc=mu)
        np.testing.assert_allclose(gaussian_tradeoff(mu, RATES), expected, rtol=1e-12)


def test_its_tangents_are_the_approximate_guarantees():
    # delta(epsilon) = max over alpha of 1 - e^epsilon alpha - beta(alpha).
    alphas = np.linspace(0, 1, 200_001)
    for mu, epsilon in [(1.0, 0.5), (2.0, 3.0)]:
        found = np.max(1 - math.exp(epsilon) * alphas - gaussian_tradeoff(mu, alphas))
        assert found == pytest.approx(float(gaussian_delta(mu, epsilon)), abs=1e-8)


def test_ends_and_bad_arguments():
    np.testing.assert_array_equal(gaussian_tradeoff(1.0, [0.0, 1.0]), [1, 0])
    np.testing.assert_array_equal(gaussian_tradeoff(math.inf, [0.0, 0.5]), [0, 0])
    with pytest.raises(ValueError, match="false-positive"):
        gaussian_tradeoff(1.0, 1.2)
    with pytest.raises(ValueError, match="mu >= 0"):
        gaussian_tradeoff(-1.0, 0.5)
