"""The infinite-width kernel against closed forms that share nothing with its quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from jaxdp.problems.rows.infinite_width import infinite_width_kernel


def _scales_and_gram(inputs):
    gram = inputs @ inputs.T / inputs.shape[1]
    return np.sqrt(np.diag(gram)), gram


def _cosines(inputs):
    scales, gram = _scales_and_gram(inputs)
    cosines = np.clip(gram / np.outer(scales, scales), -1, 1)
    # Parallel inputs are exactly so: arccos would make 1e-8 of their rounding.
    cosines[np.abs(cosines) > 1 - 1e-14] = np.round(cosines[np.abs(cosines) > 1 - 1e-14])
    return np.outer(scales, scales), cosines


def _relu(inputs):
    sizes, cosines = _cosines(inputs)
    angles = np.arccos(cosines)
    return sizes * (np.sin(angles) + (np.pi - angles) * cosines) / (2 * np.pi)


def _absolute(inputs):
    sizes, cosines = _cosines(inputs)
    angles = np.arccos(cosines)
    return sizes * 2 / np.pi * (np.sin(angles) + (np.pi / 2 - angles) * cosines)


def _step(inputs):
    return 0.5 - np.arccos(_cosines(inputs)[1]) / (2 * np.pi)


def _erf(inputs):
    scales, gram = _scales_and_gram(inputs)
    sizes = np.sqrt(1 + 2 * scales**2)
    return 2 / np.pi * np.arcsin(2 * gram / np.outer(sizes, sizes))


def _wave(sign):
    def kernel(inputs):
        scales, gram = _scales_and_gram(inputs)
        mean = (scales[:, None] ** 2 + scales**2) / 2
        return (np.exp(gram - mean) + sign * np.exp(-gram - mean)) / 2

    return kernel


CLOSED_FORMS = {
    "relu": (jax.nn.relu, _relu),
    "relu by the general route": (lambda x: jnp.maximum(x, 0), _relu),
    "absolute value": (jnp.abs, _absolute),
    "step": (lambda x: x > 0, _step),
    "erf": (jax.scipy.special.erf, _erf),
    "sin": (jnp.sin, _wave(-1)),
    "cos": (jnp.cos, _wave(1)),
    "identity": (lambda x: x, lambda inputs: inputs @ inputs.T / inputs.shape[1]),
}


def _inputs(dim, num_rows=40, seed=0):
    """Gaussian rows, with duplicates, parallel, antiparallel and nearly parallel ones."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(num_rows, dim))
    inputs[1] = inputs[0]
    inputs[3] = 0.5 * inputs[2]
    inputs[5] = -1.5 * inputs[4]
    inputs[7] = inputs[6] + 1e-4 * rng.normal(size=dim)
    inputs[9] = -inputs[8] + 1e-2 * rng.normal(size=dim)
    return inputs


def _assert_close(kernel, expected, tolerance):
    sizes = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    np.testing.assert_allclose(kernel / sizes, expected / sizes, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("name", "dim"),
    [
        *((name, 3) for name in CLOSED_FORMS),
        # All inputs parallel, or nearly orthogonal.
        *(("relu by the general route", 1), ("step", 1), ("erf", 1)),
        *(("relu by the general route", 50), ("step", 50), ("sin", 50)),
    ],
)
def test_kernel_is_its_closed_form(name, dim):
    activation, closed_form = CLOSED_FORMS[name]
    inputs = _inputs(dim, 24)
    # The step's closed form itself loses half the digits of a small angle.
    tolerance = 1e-8 if name == "step" else 1e-10
    _assert_close(infinite_width_kernel(activation, inputs), closed_form(inputs), tolerance)


@pytest.mark.parametrize("name", ["relu by the general route", "absolute value", "erf"])
def test_norms_may_differ_by_orders_of_magnitude(name):
    activation, closed_form = CLOSED_FORMS[name]
    factors = 10 ** np.random.default_rng(1).uniform(-3, 3, size=(40, 1))
    inputs = _inputs(10) * factors
    _assert_close(infinite_width_kernel(activation, inputs), closed_form(inputs), 1e-10)


def test_tanh_agrees_with_two_dimensional_gauss_hermite():
    inputs = np.random.default_rng(3).normal(size=(8, 30))
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / np.sqrt(2 * np.pi)
    scales, gram = _scales_and_gram(inputs)
    first, second = np.meshgrid(nodes, nodes, indexing="ij")
    expected = np.empty_like(gram)
    for i in range(8):
        for j in range(8):
            cosine = np.clip(gram[i, j] / scales[i] / scales[j], -1, 1)
            other = cosine * first + np.sqrt(1 - cosine**2) * second
            values = np.tanh(scales[i] * first) * np.tanh(scales[j] * other)
            expected[i, j] = weights @ values @ weights
    np.testing.assert_allclose(infinite_width_kernel(jnp.tanh, inputs), expected, atol=1e-10)
    # Unit diagonal of the data would be wrong by far more.
    unit = infinite_width_kernel(jnp.tanh, inputs / scales[:, None])
    assert np.abs(unit - expected).max() > 1e-2


def test_kinks_away_from_zero_agree_with_an_inner_closed_form():
    angle, scale = 0.05, 1.2
    second = scale * np.array([np.cos(angle), np.sin(angle)])
    inputs = np.sqrt(2) * np.stack([np.array([1.0, 0.0]), second])
    edges = np.union1d([-1.0, 1.0], np.linspace(-12, 12, 400))
    nodes, weights = np.polynomial.legendre.leggauss(20)
    half = np.diff(edges)[:, None] / 2
    g = edges[:-1, None] + half * (1 + nodes)
    # E of clip(mean + std h, -1, 1) over h.
    mean, std = second[0] * g, second[1]
    low, high = (-1 - mean) / std, (1 - mean) / std
    smoothed = mean * (norm.cdf(high) - norm.cdf(low)) - norm.cdf(low) + norm.sf(high)
    smoothed -= std * (norm.pdf(high) - norm.pdf(low))
    total = (half * weights * norm.pdf(g) * np.clip(g, -1, 1) * smoothed).sum()
    kernel = infinite_width_kernel(lambda x: jnp.clip(x, -1, 1), inputs)
    assert kernel[0, 1] == pytest.approx(total, abs=1e-11)


@pytest.mark.parametrize("activation", [jnp.tanh, jnp.cos, jax.nn.relu])
def test_zero_inputs_give_phi_at_zero(activation):
    inputs = _inputs(6, 10)
    inputs[4] = 0
    kernel = infinite_width_kernel(activation, inputs)
    at_zero = float(activation(0.0))
    assert kernel[4, 4] == pytest.approx(at_zero**2, abs=1e-7)
    mean = infinite_width_kernel(activation, inputs[[4, 0]])
    np.testing.assert_allclose(mean, kernel[np.ix_([4, 0], [4, 0])], atol=1e-12)
    if activation is jnp.cos:
        scales, _ = _scales_and_gram(inputs)
        np.testing.assert_allclose(kernel[4], np.exp(-(scales**2) / 2), atol=1e-12)
    both = infinite_width_kernel(activation, np.zeros((2, 3)))
    np.testing.assert_allclose(both, at_zero**2, atol=1e-7)


def test_extreme_sizes_neither_overflow_nor_vanish():
    inputs = _inputs(5, 12)
    relu = infinite_width_kernel(jax.nn.relu, inputs)
    for factor in (1e-140, 1e140):
        kernel = infinite_width_kernel(jax.nn.relu, factor * inputs)
        _assert_close(kernel / factor**2, relu, 1e-12)
    sharp = infinite_width_kernel(jax.scipy.special.erf, 1e3 * inputs)
    _assert_close(sharp, _erf(1e3 * inputs), 1e-10)
