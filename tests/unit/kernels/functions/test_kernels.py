"""Kernels against closed forms that are computed elsewhere, and the laws that all of them keep."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
from every_map import DIM, INPUTS, KERNELS, RADIAL, TORUS
from helpers import FALSE_ALARM

from jaxdp import kernels
from jaxdp.kernels.evaluation import host_gram


def _matern(order):
    def value(x, y):
        radius = np.sqrt(2 * order) * np.linalg.norm(x - y) / 0.75
        if radius == 0:
            return 1.0
        bessel = radius**order * scipy.special.kv(order, radius)
        return 2 ** (1 - order) / scipy.special.gamma(order) * bessel

    return value


REFERENCES = {
    "gaussian": lambda x, y: np.exp(-np.sum((x - y) ** 2) / (2 * 0.75**2)),
    "laplace": lambda x, y: np.exp(-np.linalg.norm(x - y) / 0.75),
    "matern 1.5": _matern(1.5),
    "matern 2.5": _matern(2.5),
    "matern 5.5": _matern(5.5),
    "inner product": lambda x, y: x @ y,
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_has_the_values_of_its_closed_form(name):
    rows = np.float64(INPUTS)
    expected = [[REFERENCES[name](x, y) for y in rows] for x in rows]
    # arccos in the references loses half the digits on the diagonal.
    np.testing.assert_allclose(host_gram(KERNELS[name], rows, rows), expected, rtol=0, atol=3e-8)
    off = ~np.eye(len(rows), dtype=bool)
    exact = host_gram(KERNELS[name], rows, rows)[off]
    np.testing.assert_allclose(exact, np.array(expected)[off], rtol=1e-12, atol=1e-12)
    single = KERNELS[name](INPUTS, INPUTS)
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, expected, rtol=3e-6, atol=1e-6)


# Source: PK Assumption 5.
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_positive_and_below_its_bound(name):
    kernel, rows = KERNELS[name], np.float64(INPUTS)
    rows = np.concatenate([rows[:4], rows[:1], 1e-3 * rows[:1]])
    gram = host_gram(kernel, rows, rows)
    np.testing.assert_allclose(gram, gram.T, rtol=1e-14)
    assert np.linalg.eigvalsh(gram).min() > -1e-13 * len(rows) * gram.max()
    diagonal = np.asarray(kernel.diagonal(rows))
    np.testing.assert_allclose(diagonal, np.diag(gram), rtol=1e-6)
    radius = np.linalg.norm(rows, axis=1).max() * (1 + 1e-6)
    assert np.sqrt(diagonal.max()) <= kernel.bound(radius) <= kernel.bound()


def test_bounds_are_attained_or_infinite():
    for name in ("gaussian", "laplace", "matern 2.5"):
        assert KERNELS[name].bound() == 1.0
    product = KERNELS["inner product"]
    assert product.bound(2.0) == pytest.approx(2.0)
    assert product.bound() == np.inf
    assert np.sqrt(product.diagonal(2 * np.eye(6, 3))[0]) == pytest.approx(2.0)


def test_near_points_keep_their_digits_and_equal_ones_are_exactly_equal():
    rows = np.float32(100 + np.array([[0.0, 0.0], [2**-10, 0.0], [0.0, 3 * 2**-10]]))
    kernel = kernels.Gaussian(2**-10)
    # Squares of 20,000 have a rounding of 1e-3; the squared distances are 1e-6 to 1e-5.
    expected = np.exp(-np.array([[0, 1, 9], [1, 0, 10], [9, 10, 0]]) / 2)
    np.testing.assert_allclose(kernel(rows, rows), expected, rtol=1e-6)
    for name in RADIAL:
        assert np.all(np.diag(KERNELS[name](INPUTS, INPUTS)) == 1.0)


RADIAL_LAWS = {
    "gaussian": scipy.stats.chi2(3),
    "laplace": scipy.stats.f(3, 1, scale=3),
    "matern 2.5": scipy.stats.f(3, 5, scale=3),
}


@pytest.mark.parametrize("name", RADIAL)
def test_frequencies_have_the_spectral_law(name):
    frequencies = (
        np.asarray(RADIAL[name].frequencies(12_000, DIM, key=jr.key(1)), np.float64) * 0.75
    )
    squares = np.sum(frequencies**2, axis=1)
    law = RADIAL_LAWS[name]
    assert scipy.stats.kstest(squares, law.cdf).pvalue > FALSE_ALARM
    assert scipy.stats.kstest(1.5 * squares, law.cdf).pvalue < FALSE_ALARM
    cosine = frequencies[:, 0] / np.sqrt(squares)
    # Archimedes: in three dimensions a coordinate of a uniform direction is uniform.
    assert scipy.stats.kstest(cosine, scipy.stats.uniform(-1, 2).cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("name", RADIAL)
def test_a_scale_can_be_swept_and_differentiated(name):
    def gram(scale):
        return RADIAL[name].replace(scale=scale)(INPUTS, INPUTS)

    grams = jax.jit(jax.vmap(gram))(jnp.array([0.5, 0.75]))
    np.testing.assert_allclose(grams[1], RADIAL[name](INPUTS, INPUTS), rtol=1e-6)
    slope, step = jax.jit(jax.jacfwd(gram))(0.75), 1e-5
    # They depend on distances over the scale alone.
    scaled = [0.75 / (0.75 + side) * np.float64(INPUTS) for side in (-step, step)]
    low, high = (
        np.array([[REFERENCES[name](x, y) for y in rows] for x in rows]) for rows in scaled
    )
    np.testing.assert_allclose(slope, (high - low) / (2 * step), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["laplace", "matern 2.5"])
def test_derivatives_are_finite_where_two_inputs_meet(name):
    rows = np.concatenate([INPUTS[:2], INPUTS[:1]])
    slope = jax.jit(jax.grad(lambda rows: KERNELS[name](rows, rows).sum()))(rows)
    assert np.isfinite(slope).all()


# Equispaced points integrate products of these waves exactly.
GRID = (np.arange(32) / 32)[:, None].astype(np.float32)
UNTIED = kernels.TorusKernel(np.array([0.5, 1.0, 0.25, 0.0]))


# Source: PK (1).
@pytest.mark.parametrize("kernel", [TORUS, UNTIED], ids=["power law", "untied"])
def test_eigenvalues_and_eigenfunctions_are_those_of_the_integral_operator(kernel):
    made = jax.jit(lambda x: (kernel.eigenfunctions(x), kernel(x, x), kernel.diagonal(x)))(GRID)
    waves, gram, diagonal = (np.asarray(part, np.float64) for part in made)
    np.testing.assert_allclose(waves.T @ waves / 32, np.eye(waves.shape[1]), atol=1e-6)
    operator = gram / 32
    np.testing.assert_allclose(operator @ waves, waves * kernel.eigenvalues[None], atol=1e-6)
    # Mercer: nothing else is in it.
    found = np.sort(np.linalg.eigvalsh(operator))[::-1]
    expected = np.sort(kernel.eigenvalues)[::-1]
    np.testing.assert_allclose(found[: len(expected)], expected, atol=1e-6)
    np.testing.assert_allclose(found[len(expected) :], 0, atol=1e-6)
    np.testing.assert_allclose(diagonal, np.diag(gram), rtol=1e-5)


@pytest.mark.parametrize("kernel", [TORUS, UNTIED], ids=["power law", "untied"])
def test_mercer_features_are_exact_and_within_the_bound(kernel):
    features = kernel.features(1, 1, key=jr.key(0))
    values = np.asarray(features(GRID), np.float64)
    np.testing.assert_allclose(values @ values.T, kernel(GRID, GRID), atol=1e-6)
    assert features.norm_bound == kernel.bound()
    largest = np.linalg.norm(values, axis=1).max()
    assert 0.999 * largest <= kernel.bound() * (1 + 1e-6)
    # At 0 every cosine is at its crest.
    assert largest == pytest.approx(kernel.bound(), rel=1e-6)


# Source: PK Assumption 8.
def test_a_power_law_falls_as_its_capacity_says():
    kernel = kernels.TorusKernel.power_law(7, capacity=0.5)
    expected = np.array([1, 2, 2, 4, 4, 6, 6]) ** -2.0
    np.testing.assert_allclose(kernel.eigenvalues, expected, rtol=1e-6)
