"""The circle's kernel has the spectrum that it is given."""

import jax.random as jr
import numpy as np
import pytest
from every_map import TORUS

from jaxdp import kernels

# Equispaced points integrate products of these waves exactly.
GRID = (np.arange(32) / 32)[:, None].astype(np.float32)
UNTIED = kernels.TorusKernel(np.array([0.5, 1.0, 0.25, 0.0]))


# Source: PK (1).
@pytest.mark.parametrize("kernel", [TORUS, UNTIED], ids=["power law", "untied"])
def test_eigenvalues_and_eigenfunctions_are_those_of_the_integral_operator(kernel):
    waves = np.asarray(kernel.eigenfunctions(GRID), np.float64)
    np.testing.assert_allclose(waves.T @ waves / 32, np.eye(waves.shape[1]), atol=1e-6)
    operator = np.asarray(kernel(GRID, GRID), np.float64) / 32
    np.testing.assert_allclose(operator @ waves, waves * kernel.eigenvalues[None], atol=1e-6)
    # Mercer: nothing else is in it.
    found = np.sort(np.linalg.eigvalsh(operator))[::-1]
    expected = np.sort(kernel.eigenvalues)[::-1]
    np.testing.assert_allclose(found[: len(expected)], expected, atol=1e-6)
    np.testing.assert_allclose(found[len(expected) :], 0, atol=1e-6)
    np.testing.assert_allclose(kernel.diagonal(GRID), np.diag(32 * operator), rtol=1e-5)


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


def test_a_power_law_depends_on_the_distance_on_the_circle_alone():
    shifted = (GRID + 0.25) % 1
    np.testing.assert_allclose(TORUS(shifted, shifted), TORUS(GRID, GRID), atol=1e-6)
    np.testing.assert_allclose(TORUS(GRID + 3, GRID), TORUS(GRID, GRID), atol=1e-5)
    assert np.abs(UNTIED(shifted, shifted) - UNTIED(GRID, GRID)).max() > 0.1


def test_frequencies_are_drawn_from_the_spectrum():
    drawn = np.asarray(TORUS.frequencies(20_000, 1, key=jr.key(0)))[:, 0] / (2 * np.pi)
    counts = np.bincount(np.round(drawn).astype(int), minlength=4) / 20_000
    np.testing.assert_allclose(drawn, np.round(drawn), atol=1e-5)
    weights = np.array([1, 2 / 4, 2 / 16, 2 / 36])
    shares = weights / weights.sum()
    errors = np.sqrt(shares * (1 - shares) / 20_000)
    assert np.all(np.abs(counts - shares) < 5 * errors)
    # Each eigenvalue once instead of for cosine and sine.
    single = np.array([1, 1 / 4, 1 / 16, 1 / 36])
    assert np.abs(counts - single / single.sum()).max() > 5 * errors.max()
