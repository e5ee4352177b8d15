"""Powers of a clipped Gaussian against quadrature, also where closed forms cancel."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from jaxdp.core.numerics.clipped_gaussian import clipped_powers

# One function and one shape, so that one compilation serves all cases of a type.
POWERS = jax.jit(clipped_powers)
CASES = [
    (mean, std, limit)
    for mean in (0.0, 0.4, -2.0)
    for std in (0.3, 1.0)
    for limit in (1e-3, 0.2, 0.6, 3.0)
]


def _mean_power(mean, std, limit, power):
    """By Gauss and Legendre's rule on panels that end where the integrand has a kink."""
    places = np.append(np.linspace(-12, 12, 25) * std + mean, [-limit, limit])
    edges = np.sort(places[np.abs(places - mean) <= 12 * std])
    nodes, weights = np.polynomial.legendre.leggauss(12)
    half = np.diff(edges)[:, None] / 2
    x = edges[:-1, None] + half * (1 + nodes)
    return np.sum(half * weights * np.clip(x, -limit, limit) ** power * norm.pdf(x, mean, std))


@pytest.mark.parametrize(("x64", "tolerance"), [(False, 3e-5), (True, 2e-9)])
def test_agrees_with_quadrature(x64, tolerance):
    with jax.enable_x64(x64):
        for mean, std, limit in CASES:
            *found, beyond = POWERS(*map(jnp.asarray, (mean, std, limit)))
            expected = [_mean_power(mean, std, limit, power) for power in (1, 2, 3, 4)]
            # Odd powers of a centred Gaussian are zero but for rounding.
            scale = np.minimum(limit, np.hypot(mean, std)) ** np.arange(1, 5)
            np.testing.assert_allclose(found / scale, expected / scale, atol=tolerance)
            outside = norm.sf(limit, mean, std) + norm.cdf(-limit, mean, std)
            np.testing.assert_allclose(beyond, outside, atol=1e-6)


def test_limits_of_no_deviation_and_no_clipping():
    def powers(*arguments):
        return np.asarray(POWERS(*map(jnp.asarray, arguments)))

    np.testing.assert_allclose(powers(0.5, 0.0, 1.0), [0.5, 0.25, 0.125, 0.0625, 0])
    np.testing.assert_allclose(powers(-2.0, 0.0, 1.0), [-1, 1, -1, 1, 1])
    expected = [0.5, 4.25, 0.5**3 + 3 * 0.5 * 4, 0.5**4 + 6 * 0.25 * 4 + 3 * 16, 0]
    np.testing.assert_allclose(powers(0.5, 2.0, jnp.inf), expected, rtol=1e-6)
