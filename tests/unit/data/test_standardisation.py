"""Columns scaled one by one: dead ones stay dead."""

import numpy as np

from jaxdp.data.standardisation import column_scaling

RANDOM = np.random.default_rng(0)
# Two ordinary columns, one that hardly varies and one that is dead.
ROWS = np.stack(
    [RANDOM.normal(3, 2, 200), RANDOM.normal(0, 1, 200), np.eye(200)[0] * 1e-3, np.full(200, 0.1)],
    axis=1,
).astype(np.float32)
NEW = np.array([[1.0, 1.0, 1.0, 1.0]], np.float32)


def test_columns_that_vary_get_mean_zero_and_variance_one():
    scaled = column_scaling(ROWS)(ROWS)
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(scaled[:, :2].std(axis=0), 1, rtol=1e-5)


def test_dead_columns_stay_zero_and_none_is_enlarged_without_bound():
    scale = column_scaling(ROWS)
    np.testing.assert_array_equal(scale(ROWS)[:, 3], 0)
    np.testing.assert_array_equal(scale(NEW)[:, 3], 0)
    divisor = 0.1 * np.sqrt(np.mean(ROWS.std(axis=0) ** 2))
    np.testing.assert_allclose(scale.factors[2], 1 / divisor, rtol=1e-5)
    unbounded = column_scaling(ROWS, floor=0.0)
    np.testing.assert_allclose(unbounded(ROWS)[:, 2].std(), 1, rtol=1e-4)
    np.testing.assert_array_equal(unbounded(NEW)[:, 3], 0)


def test_units_do_not_matter():
    np.testing.assert_allclose(
        column_scaling(255.0 * ROWS)(255.0 * ROWS), column_scaling(ROWS)(ROWS), atol=1e-5
    )
