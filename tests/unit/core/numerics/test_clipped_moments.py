"""The clipped Gaussian moments against 50-digit arithmetic."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from jaxdp.clipping.norm_clip import NormClip
from jaxdp.core.numerics.clipped_moments import descent_factor, joint_moments, variance_factor

RATIOS = np.geomspace(1e-6, 1e3, 200)


def _exact(ratio):
    with mpmath.workdps(50):
        z = mpmath.mpf(float(ratio))
        mu = mpmath.erf(z / mpmath.sqrt(2))
        tail = mpmath.erfc(z / mpmath.sqrt(2))
        nu = z**2 * tail + mu - mpmath.sqrt(2 / mpmath.pi) * z * mpmath.exp(-(z**2) / 2)
        return float(mu), float(nu), 2 * float(z * tail)


# Source: AC Lemma 11.
@pytest.mark.parametrize(("x64", "tolerance"), [(False, 1e-6), (True, 1e-14)])
def test_moments_keep_their_digits(x64, tolerance):
    with jax.enable_x64(x64):
        ratios = jnp.asarray(RATIOS)
        assert ratios.dtype == (jnp.float64 if x64 else jnp.float32)
        mu, nu, _ = np.transpose([_exact(ratio) for ratio in ratios])
        np.testing.assert_allclose(jax.jit(descent_factor)(ratios), mu, rtol=tolerance)
        np.testing.assert_allclose(jax.jit(variance_factor)(ratios), nu, rtol=tolerance)


@pytest.mark.parametrize(("x64", "tolerance"), [(False, 3e-6), (True, 1e-12)])
def test_derivatives_keep_their_digits(x64, tolerance):
    with jax.enable_x64(x64):
        ratios = jnp.asarray(RATIOS[RATIOS < 4])
        slopes = jax.jit(jax.vmap(jax.grad(variance_factor)))(ratios)
        expected = [_exact(ratio)[2] for ratio in ratios]
        np.testing.assert_allclose(slopes, expected, rtol=tolerance)
        slopes = jax.jit(jax.vmap(jax.grad(descent_factor)))(ratios)
        np.testing.assert_allclose(slopes, 2 * norm.pdf(np.asarray(ratios)), rtol=tolerance)


def test_no_clipping_is_the_limit():
    for function in (descent_factor, variance_factor):
        assert jax.jit(jax.value_and_grad(function))(jnp.inf) == (1, 0)


ALL_RATIOS = np.append(np.geomspace(1e-5, 39, 30), [0.999, 1.0, 1.001])


def _exact_fourth(ratio):
    with mpmath.workdps(40):
        z = mpmath.mpf(float(ratio))
        second = mpmath.gammainc(1.5, 0, z**2 / 2, regularized=True)
        fourth = 3 * mpmath.gammainc(2.5, 0, z**2 / 2, regularized=True)
        tail = mpmath.erfc(z / mpmath.sqrt(2))
        return [float(x) for x in (z**2 * tail + 3 * second, 3 * second, fourth + z**4 * tail)]


@pytest.mark.parametrize(("x64", "tolerance"), [(False, 1e-5), (True, 1e-13)])
def test_fourth_moments_keep_their_digits(x64, tolerance):
    with jax.enable_x64(x64):
        ratios = jnp.asarray(ALL_RATIOS)
        found = jax.jit(joint_moments)(ratios)
        expected = np.transpose([_exact_fourth(ratio) for ratio in np.asarray(ratios)])
        for values, exact in zip(found[2:], expected, strict=True):
            np.testing.assert_allclose(values, exact, rtol=tolerance)


# Source: AC (23) to (31).
def test_fourth_moments_are_what_clipping_does_to_a_gaussian():
    found = np.transpose(jax.jit(joint_moments)(jnp.asarray([0.1, 0.7, 2.5])))
    for ratio, moments in zip((0.1, 0.7, 2.5), found, strict=True):

        def mean(first, second, ratio=ratio):
            def integrand(g):
                return np.clip(g, -ratio, ratio) ** first * g**second * norm.pdf(g)

            return quad(integrand, -12, 12, points=[-ratio, ratio])[0]

        expected = [mean(1, 1), mean(2, 0), mean(2, 2), mean(3, 1), mean(4, 0)]
        np.testing.assert_allclose(moments, expected, rtol=2e-6)
        np.testing.assert_allclose(descent_factor(ratio), expected[0], rtol=1e-6)
        np.testing.assert_allclose(variance_factor(ratio), expected[1], rtol=1e-6)


def test_without_clipping_they_are_those_of_a_gaussian():
    found = jax.jit(lambda power: NormClip(jnp.inf).joint_moments(power))(jnp.ones(()))
    np.testing.assert_allclose(found, [1, 1, 3, 3, 3])
