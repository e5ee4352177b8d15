"""The polynomial against the quantile transform it stands for, and the law it gives."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from scipy import stats

from jaxdp.core.numerics.counter_normals import chi_square

DEGREES = (3, 4, 5, 7, 10, 19, 50, 199, 999, 3999, 100_000, 1_000_000)


def _quantile(degrees, normal):
    """Both tails from their own side."""
    below = stats.chi2.ppf(stats.norm.cdf(normal), degrees)
    return np.where(normal < 0, below, stats.chi2.isf(stats.norm.sf(normal), degrees))


def _errors(degrees, reach, dtype):
    """Largest error over |z| <= reach for each k, as a share of k."""
    normal = jnp.broadcast_to(jnp.linspace(-reach, reach, 4001, dtype=dtype), (len(degrees), 4001))
    found = np.asarray(jax.jit(lambda z: chi_square(z, degrees))(normal), np.float64)
    expected = _quantile(np.asarray(degrees)[:, None], np.asarray(normal, np.float64))
    return np.max(np.abs(found - expected), axis=1) / np.asarray(degrees)


def test_the_map_is_the_quantile_transform():
    errors = _errors((2, *DEGREES), 5.42, jnp.float32)
    assert np.all(errors < 8e-6)
    assert np.all(errors[np.asarray((2, *DEGREES)) >= 50] < 1.2e-6)
    # The check sees one degree of freedom more.
    shifted = _quantile(1000, np.linspace(-5, 5, 11)) - _quantile(999, np.linspace(-5, 5, 11))
    assert np.all(np.abs(shifted) / 999 > 5e-4)


def test_the_map_keeps_float64():
    with jax.enable_x64():
        errors = _errors((2, *DEGREES[:-1]), 8.29, jnp.float64)
        assert np.all(errors < 3e-12)
        # Here SciPy's quantile is the limit.
        assert np.all(_errors((1_000_000,), 8.29, jnp.float64) < 3e-11)


def test_no_and_one_degree_of_freedom_are_zero_and_a_square():
    normal = jr.normal(jr.key(0), (3, 4))
    found = chi_square(normal, (0, 1, 5))
    assert np.all(np.asarray(found[0]) == 0)
    np.testing.assert_array_equal(found[1], normal[1] ** 2)
    np.testing.assert_allclose(found[2], _quantile(5, np.asarray(normal[2], float)), rtol=1e-5)
