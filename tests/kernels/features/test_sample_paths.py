"""Sample paths: functions in weight space, and exact values at given points."""

import functools

import jax
import jax.random as jr
import numpy as np
import pytest
import scipy.stats
from every_map import DIM, INPUTS, KERNELS
from helpers import FALSE_ALARM, assert_mean_close

from jaxdp import kernels
from jaxdp.kernels.evaluation import host_gram

NUM = 60_000
POINTS = np.float64(INPUTS)
GAUSSIAN = KERNELS["gaussian"]


def _paths(num_projections):
    return kernels.SamplePaths.sample(GAUSSIAN, num_projections, 16, DIM, key=jr.key(0))


# Source: PK (2).
def test_paths_are_gaussian_with_the_covariance_of_their_features():
    paths = _paths(NUM)
    columns = np.asarray(paths(INPUTS), np.float64) * np.sqrt(NUM)
    features = np.asarray(paths.base(INPUTS), np.float64)
    products = columns[:, None] * columns[None, :]
    assert_mean_close(np.moveaxis(products, -1, 0), features @ features.T, bias=1e-6)
    assert_mean_close(columns.T, 0)
    assert scipy.stats.kstest(columns[0], scipy.stats.norm.cdf).pvalue > FALSE_ALARM
    assert scipy.stats.kstest(1.2 * columns[0], scipy.stats.norm.cdf).pvalue < FALSE_ALARM


def test_squared_norms_have_mean_one_and_variance_two_over_m():
    # Lemma 7: chi-square over M, here in independent groups of M = 5 columns.
    columns = np.asarray(_paths(NUM)(INPUTS[:1]), np.float64)[0] * np.sqrt(NUM)
    squares = np.mean(columns.reshape(-1, 5) ** 2, axis=1)
    assert_mean_close(squares, 1.0)
    assert_mean_close((squares - 1) ** 2, 2 / 5)
    with pytest.raises(AssertionError, match="gap"):
        assert_mean_close((squares - 1) ** 2, 2 / 5 * 4 / 3)
    assert scipy.stats.kstest(5 * squares, scipy.stats.chi2(5).cdf).pvalue > FALSE_ALARM
    assert scipy.stats.kstest(5 * squares, scipy.stats.chi2(6).cdf).pvalue < FALSE_ALARM


def test_a_path_does_not_depend_on_how_many_there_are():
    paths, few = _paths(NUM), _paths(4)
    np.testing.assert_array_equal(paths.weights[:, :4], few.weights)
    np.testing.assert_array_equal(paths.base.frequencies, few.base.frequencies)


# Source: PK Definition 6.
def test_paths_of_the_inner_product_are_random_projections():
    paths = kernels.SamplePaths.sample(KERNELS["inner product"], 4, 1, DIM, key=jr.key(0))
    assert paths.weights.shape == (DIM, 4)
    np.testing.assert_allclose(paths(INPUTS), POINTS @ paths.weights / 2, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_the_covariance_approaches_the_kernel_like_one_over_root_l():
    points = np.random.default_rng(3).uniform(size=(300, 20)).astype(np.float32)
    kernel = kernels.Gaussian(1.0)
    gram = np.asarray(kernel(points, points), np.float64)
    double = np.asarray(kernel(2 * points, 2 * points), np.float64)
    # The variance of one frequency's cosine, averaged over the pairs.
    variance = np.mean((1 + double) / 2 - gram**2)

    @functools.partial(jax.jit, static_argnums=1)
    def error(key, num):
        values = kernels.FourierFeatures.sample(kernel, num, 20, key=key)(points)
        return values @ values.T - gram

    # From a study apart from this code, the largest error over 2,000 points. That of fewer is
    # smaller, as the root of the log of the number of pairs: by .86.
    for num, expected in {128: 0.29, 512: 0.15, 2048: 0.081}.items():
        errors = np.array([error(key, num) for key in jr.split(jr.key(num), 24)], np.float64)
        squares = np.mean(errors**2, axis=(1, 2))
        assert_mean_close(squares, variance / num)
        with pytest.raises(AssertionError, match="gap"):
            assert_mean_close(squares, 1.33 * variance / num)
        largest = np.abs(errors).max(axis=(1, 2)).mean()
        assert largest == pytest.approx(0.86 * expected, rel=0.2)


def test_exact_paths_are_a_cholesky_factor_times_normals():
    found = kernels.ExactPaths.sample(GAUSSIAN, POINTS, 8, key=jr.key(1))
    normals = np.random.default_rng(np.asarray(jr.key_data(jr.key(1)))).normal(size=(6, 8))
    squares = ((POINTS[:, None] - POINTS[None]) ** 2).sum(axis=2)
    gram = np.exp(-squares / (2 * 0.75**2)) + 1e-10 * np.eye(len(POINTS))
    expected = np.linalg.cholesky(gram) @ normals / np.sqrt(8)
    np.testing.assert_allclose(found.values, expected, atol=1e-12)
    sampled = kernels.exact_sample_paths(GAUSSIAN, POINTS, 8, key=jr.key(1))
    np.testing.assert_array_equal(sampled, found.values)
    assert sampled.dtype == np.float64


# Source: PK Definitions 4 and 5.
@pytest.mark.parametrize("name", ["gaussian", "inner product", "polynomial"])
def test_exact_paths_have_the_kernel_as_covariance(name):
    paths = kernels.exact_sample_paths(KERNELS[name], POINTS, NUM, key=jr.key(2)) * np.sqrt(NUM)
    gram = host_gram(KERNELS[name], POINTS, POINTS)
    products = np.moveaxis(paths[:, None] * paths[None, :], -1, 0)
    assert_mean_close(products, gram, bias=1e-6)
    with pytest.raises(AssertionError, match="gap"):
        assert_mean_close(products, 4 / 3 * gram)


def test_paths_that_are_continued_have_the_law_of_paths_drawn_at_once():
    begun = kernels.ExactPaths.sample(GAUSSIAN, POINTS[:3], NUM, key=jr.key(1))
    continued = begun.continued(POINTS[3:4], key=jr.key(2)).continued(POINTS[4:], key=jr.key(3))
    at_once = kernels.ExactPaths.sample(GAUSSIAN, POINTS, NUM, key=jr.key(1))
    np.testing.assert_allclose(continued.factor, at_once.factor, atol=1e-12)
    for longer in (continued, at_once):
        np.testing.assert_allclose(longer.values[:3], begun.values, rtol=1e-14)
    products = np.moveaxis(continued.normals[:, None] * continued.normals[None, :], -1, 0)
    assert_mean_close(products, np.eye(len(POINTS)))
    # A key that is used again gives the old normals.
    again = begun.continued(POINTS[3:], key=jr.key(1)).normals
    np.testing.assert_array_equal(again[3:], begun.normals)


def test_a_point_asked_for_twice_keeps_its_value():
    begun = kernels.ExactPaths.sample(GAUSSIAN, POINTS, 100, key=jr.key(1))
    values = begun.continued(POINTS[:2], key=jr.key(2)).values
    gaps = (values[6:] - values[:2]) * 10
    assert 0.5e-5 < np.sqrt(np.mean(gaps**2)) < 3e-5


def test_points_without_variance_have_value_zero():
    points = np.concatenate([POINTS, np.zeros((1, DIM))])
    paths = kernels.exact_sample_paths(KERNELS["inner product"], points, 8, key=jr.key(0))
    assert not np.any(paths[-1])
    assert np.all(paths[:-1] != 0)
