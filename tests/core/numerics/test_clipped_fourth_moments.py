"""The fourth moments of a clipped Gaussian against 40-digit arithmetic and quadrature."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from jaxdp.clipping import NormClip
from jaxdp.core.numerics.clipped_moments import joint_moments

RATIOS = np.append(np.geomspace(1e-5, 39, 30), [0.999, 1.0, 1.001])


def _exact(ratio):
    with mpmath.workdps(40):
        z = mpmath.mpf(float(ratio))
        second = mpmath.gammainc(1.5, 0, z**2 / 2, regularized=True)
        fourth = 3 * mpmath.gammainc(2.5, 0, z**2 / 2, regularized=True)
        tail = mpmath.erfc(z / mpmath.sqrt(2))
        return [float(x) for x in (z**2 * tail + 3 * second, 3 * second, fourth + z**4 * tail)]


@pytest.mark.parametrize(("x64", "tolerance"), [(False, 1e-5), (True, 1e-13)])
def test_fourth_moments_keep_their_digits(x64, tolerance):
    with jax.enable_x64(x64):
        ratios = jnp.asarray(RATIOS)
        found = jax.jit(joint_moments)(ratios)
        expected = np.transpose([_exact(ratio) for ratio in np.asarray(ratios)])
        for values, exact in zip(found[2:], expected, strict=True):
            np.testing.assert_allclose(values, exact, rtol=tolerance)


def test_fourth_moments_are_what_clipping_does_to_a_gaussian():
    found = np.transpose(jax.jit(joint_moments)(jnp.asarray([0.3, 2.5])))
    for ratio, moments in zip((0.3, 2.5), found, strict=True):

        def mean(first, second, ratio=ratio):
            def integrand(g):
                return np.clip(g, -ratio, ratio) ** first * g**second * norm.pdf(g)

            return quad(integrand, -12, 12, points=[-ratio, ratio])[0]

        expected = [mean(1, 1), mean(2, 0), mean(2, 2), mean(3, 1), mean(4, 0)]
        np.testing.assert_allclose(moments, expected, rtol=2e-6)


def test_without_clipping_they_are_those_of_a_gaussian():
    found = jax.jit(lambda power: NormClip(jnp.inf).joint_moments(power))(jnp.ones(()))
    np.testing.assert_allclose(found, [1, 1, 3, 3, 3])
