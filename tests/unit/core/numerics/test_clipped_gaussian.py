"""The clipped Gaussian of any mean against 40-digit arithmetic."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy.stats import norm

from jaxdp.core.numerics import clipped_gaussian
from jaxdp.core.numerics.clipped_gaussian import clipped_powers

# Compiled: operation by operation they take seconds.
clipped_mean = jax.jit(clipped_gaussian.clipped_mean)
clipped_square = jax.jit(clipped_gaussian.clipped_square)
inside_probability = jax.jit(clipped_gaussian.inside_probability)
SLOPES = {
    function: jax.jit(jax.vmap(jax.grad(function, (0, 1, 2))))
    for function in (clipped_mean, clipped_square, inside_probability)
}
RNG = np.random.default_rng(0)
CASES = np.stack(
    [
        RNG.standard_normal(400) * 10 ** RNG.uniform(-3, 1, 400),
        10 ** RNG.uniform(-6, 2, 400),
        10 ** RNG.uniform(-5, 3, 400),
    ]
)


def _exact(mean, variance, limit):
    with mpmath.workdps(40):
        mean, limit = mpmath.mpf(float(mean)), mpmath.mpf(float(limit))
        std = mpmath.sqrt(mpmath.mpf(float(variance)))
        above, below = (limit - mean) / std, (limit + mean) / std

        def area(z):
            return z * mpmath.ncdf(z) + mpmath.npdf(z)

        clipped = mean - std * (area(-above) - area(-below))
        slope = -(above * mpmath.npdf(above) + below * mpmath.npdf(below)) / (2 * std**2)
        in_variance = (mpmath.npdf(below) - mpmath.npdf(above)) / (2 * std)
        return (
            float(clipped),
            float(mpmath.ncdf(above) - mpmath.ncdf(-below)),
            float(in_variance),
            float(mpmath.ncdf(-above) - mpmath.ncdf(-below)),
            float(slope),
        )


def _exact_square(mean, variance, limit):
    """The mean square, and its derivatives in mean, variance and limit."""
    with mpmath.workdps(40):
        mean, limit, variance = (mpmath.mpf(float(one)) for one in (mean, limit, variance))
        std = mpmath.sqrt(variance)
        above, below = (limit - mean) / std, (limit + mean) / std
        at_above, at_below = mpmath.npdf(above), mpmath.npdf(below)
        inside = mpmath.ncdf(above) - mpmath.ncdf(-below)
        outside = mpmath.ncdf(-above) + mpmath.ncdf(-below)
        square = (mean**2 + variance) * inside + 2 * mean * std * (at_below - at_above)
        square += limit**2 * outside - variance * (above * at_above + below * at_below)
        return (
            float(square),
            float(2 * (mean * inside + std * (at_below - at_above))),
            float(inside - limit * (at_above + at_below) / std),
            float(2 * limit * outside),
        )


@pytest.mark.parametrize(("x64", "tolerance"), [(False, 3e-7), (True, 1e-14)])
def test_the_mean_square_and_its_derivatives_keep_their_digits(x64, tolerance):
    with jax.enable_x64(x64):
        mean, variance, limit = jnp.asarray(CASES)
        exact = [_exact_square(*case) for case in zip(mean, variance, limit, strict=True)]
        exact = np.transpose(exact)
        size = np.minimum(limit, np.abs(mean) + np.sqrt(variance))
        error = np.abs(clipped_square(mean, variance, limit) - exact[0]) / size**2
        assert error.max() < tolerance
        slopes = SLOPES[clipped_square](mean, variance, limit)
        for slope, expected, scale in zip(slopes, exact[1:], (size, 1, size), strict=True):
            assert np.max(np.abs(slope - expected) / scale) < tolerance


@pytest.mark.parametrize(("x64", "tolerance"), [(False, 3e-7), (True, 1e-14)])
def test_moments_keep_their_digits(x64, tolerance):
    with jax.enable_x64(x64):
        mean, variance, limit = jnp.asarray(CASES)
        assert mean.dtype == (jnp.float64 if x64 else jnp.float32)
        exact = np.transpose([_exact(*case) for case in zip(mean, variance, limit, strict=True)])
        # Relative to the largest that it could be, for a limit a thousandth of the deviation too.
        size = np.minimum(limit, np.abs(mean) + np.sqrt(variance))
        error = np.abs(clipped_mean(mean, variance, limit) - exact[0]) / size
        assert error.max() < tolerance
        error = np.abs(inside_probability(mean, variance, limit) - exact[1])
        assert error.max() < tolerance


def test_derivatives_are_exact():
    with jax.enable_x64():
        mean, variance, limit = jnp.asarray(CASES[:, :100])
        exact = np.transpose([_exact(*case) for case in zip(mean, variance, limit, strict=True)])
        slopes = SLOPES[clipped_mean](mean, variance, limit)
        for slope, expected in zip(slopes, exact[1:4], strict=True):
            np.testing.assert_allclose(slope, expected, rtol=1e-9, atol=1e-13)
        first = SLOPES[inside_probability](mean, variance, limit)
        np.testing.assert_allclose(first[1], exact[4], rtol=1e-9, atol=1e-13)
        # The mean's second derivative is the probability's first.
        second = jax.jit(jax.vmap(jax.grad(jax.grad(clipped_mean))))(mean, variance, limit)
        np.testing.assert_allclose(second, first[0], rtol=1e-9, atol=1e-13)


@pytest.mark.slow
def test_without_variance_it_is_the_clip():
    mean = jnp.asarray([-3.0, -0.5, 0.0, 0.7, 2.0])
    variance, limit = jnp.zeros(5), jnp.ones(5)
    np.testing.assert_array_equal(clipped_mean(mean, variance, limit), np.clip(mean, -1, 1))
    inside = np.abs(mean) < 1
    np.testing.assert_array_equal(inside_probability(mean, variance, limit), inside)
    np.testing.assert_array_equal(SLOPES[clipped_mean](mean, variance, limit)[0], inside)
    squares = np.clip(mean, -1, 1) ** 2
    np.testing.assert_array_equal(clipped_square(mean, variance, limit), squares)
    for slopes in SLOPES.values():
        assert np.isfinite(slopes(mean, variance, limit)).all()


# One function and one shape, so that one compilation serves all cases of a type.
POWERS = jax.jit(clipped_powers)
POWER_CASES = [
    (mean, std, limit)
    for mean in (0.0, 0.4, -2.0)
    for std in (0.3, 1.0)
    for limit in (1e-3, 0.2, 0.6, 3.0)
]


def _mean_power(mean, std, limit, power):
    """The mean power by Gauss and Legendre's rule on panels that end at the kinks."""
    places = np.append(np.linspace(-12, 12, 25) * std + mean, [-limit, limit])
    edges = np.sort(places[np.abs(places - mean) <= 12 * std])
    nodes, weights = np.polynomial.legendre.leggauss(12)
    half = np.diff(edges)[:, None] / 2
    x = edges[:-1, None] + half * (1 + nodes)
    return np.sum(half * weights * np.clip(x, -limit, limit) ** power * norm.pdf(x, mean, std))


@pytest.mark.parametrize(("x64", "tolerance"), [(False, 3e-5), (True, 2e-9)])
def test_powers_agree_with_quadrature(x64, tolerance):
    with jax.enable_x64(x64):
        for mean, std, limit in POWER_CASES:
            *found, beyond = POWERS(*map(jnp.asarray, (mean, std, limit)))
            expected = [_mean_power(mean, std, limit, power) for power in (1, 2, 3, 4)]
            # Odd powers of a centred Gaussian are zero but for rounding.
            scale = np.minimum(limit, np.hypot(mean, std)) ** np.arange(1, 5)
            np.testing.assert_allclose(found / scale, expected / scale, atol=tolerance)
            given = [jnp.asarray(number) for number in (mean, std**2, limit)]
            two = np.asarray([clipped_mean(*given), clipped_square(*given)])
            np.testing.assert_allclose(two / scale[:2], expected[:2] / scale[:2], atol=tolerance)
            outside = norm.sf(limit, mean, std) + norm.cdf(-limit, mean, std)
            np.testing.assert_allclose(beyond, outside, atol=1e-6)
            np.testing.assert_allclose(1 - inside_probability(*given), outside, atol=1e-6)


def test_powers_at_the_limits_of_no_deviation_and_no_clipping():
    def powers(*arguments):
        return np.asarray(POWERS(*map(jnp.asarray, arguments)))

    np.testing.assert_allclose(powers(0.5, 0.0, 1.0), [0.5, 0.25, 0.125, 0.0625, 0])
    np.testing.assert_allclose(powers(-2.0, 0.0, 1.0), [-1, 1, -1, 1, 1])
    expected = [0.5, 4.25, 0.5**3 + 3 * 0.5 * 4, 0.5**4 + 6 * 0.25 * 4 + 3 * 16, 0]
    np.testing.assert_allclose(powers(0.5, 2.0, jnp.inf), expected, rtol=1e-6)
