"""Sample paths: functions in weight space."""

import jax.random as jr
import numpy as np
import scipy.stats
from every_map import DIM, INPUTS, KERNELS
from helpers import FALSE_ALARM, assert_mean_close

from jaxdp import kernels

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


def test_a_path_does_not_depend_on_how_many_there_are():
    paths, few = _paths(NUM), _paths(4)
    np.testing.assert_array_equal(paths.weights[:, :4], few.weights)
    np.testing.assert_array_equal(paths.base.frequencies, few.base.frequencies)


# Source: PK Definition 6.
def test_paths_of_the_inner_product_are_random_projections():
    paths = kernels.SamplePaths.sample(KERNELS["inner product"], 4, 1, DIM, key=jr.key(0))
    assert paths.weights.shape == (DIM, 4)
    np.testing.assert_allclose(paths(INPUTS), POINTS @ paths.weights / 2, rtol=1e-5, atol=1e-6)
