"""Sample paths at given points: their law, and how they go on."""

import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close

from experiments.private_kernel_learning.published import ExactPaths, exact_sample_paths
from jaxdp import kernels
from jaxdp.kernels.evaluation import host_gram

DIM, NUM = 3, 60_000
POINTS = np.random.default_rng(0).uniform(-1.0, 1.0, (6, DIM))
GAUSSIAN = kernels.Gaussian(0.75)
KERNELS = {"gaussian": GAUSSIAN, "inner product": kernels.InnerProduct()}


def test_exact_paths_are_a_cholesky_factor_times_normals():
    found = ExactPaths.sample(GAUSSIAN, POINTS, 8, key=jr.key(1))
    normals = np.random.default_rng(np.asarray(jr.key_data(jr.key(1)))).normal(size=(6, 8))
    squares = ((POINTS[:, None] - POINTS[None]) ** 2).sum(axis=2)
    gram = np.exp(-squares / (2 * 0.75**2)) + 1e-10 * np.eye(len(POINTS))
    expected = np.linalg.cholesky(gram) @ normals / np.sqrt(8)
    np.testing.assert_allclose(found.values, expected, atol=1e-12)
    sampled = exact_sample_paths(GAUSSIAN, POINTS, 8, key=jr.key(1))
    np.testing.assert_array_equal(sampled, found.values)
    assert sampled.dtype == np.float64


# Source: PK Definitions 4 and 5.
@pytest.mark.parametrize("name", ["gaussian", "inner product"])
def test_exact_paths_have_the_kernel_as_covariance(name):
    paths = exact_sample_paths(KERNELS[name], POINTS, NUM, key=jr.key(2)) * np.sqrt(NUM)
    gram = host_gram(KERNELS[name], POINTS, POINTS)
    products = np.moveaxis(paths[:, None] * paths[None, :], -1, 0)
    assert_mean_close(products, gram, bias=1e-6)
    with pytest.raises(AssertionError, match="gap"):
        assert_mean_close(products, 4 / 3 * gram)


def test_paths_that_are_continued_have_the_law_of_paths_drawn_at_once():
    begun = ExactPaths.sample(GAUSSIAN, POINTS[:3], NUM, key=jr.key(1))
    continued = begun.continued(POINTS[3:4], key=jr.key(2)).continued(POINTS[4:], key=jr.key(3))
    at_once = ExactPaths.sample(GAUSSIAN, POINTS, NUM, key=jr.key(1))
    np.testing.assert_allclose(continued.factor, at_once.factor, atol=1e-12)
    for longer in (continued, at_once):
        np.testing.assert_allclose(longer.values[:3], begun.values, rtol=1e-14)
    products = np.moveaxis(continued.normals[:, None] * continued.normals[None, :], -1, 0)
    assert_mean_close(products, np.eye(len(POINTS)))
    # A key that is used again gives the old normals.
    again = begun.continued(POINTS[3:], key=jr.key(1)).normals
    np.testing.assert_array_equal(again[3:], begun.normals)


def test_a_point_asked_for_twice_keeps_its_value():
    begun = ExactPaths.sample(GAUSSIAN, POINTS, 100, key=jr.key(1))
    values = begun.continued(POINTS[:2], key=jr.key(2)).values
    gaps = (values[6:] - values[:2]) * 10
    assert 0.5e-5 < np.sqrt(np.mean(gaps**2)) < 3e-5
