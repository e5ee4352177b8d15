"""The scales of a table's rows, estimated from synthetic tables whose law is known."""

import numpy as np
import pytest

import jaxdp
from jaxdp.problems.streams.input_scales import estimated_scales

VALUES, WEIGHTS = np.array([0.2, 1.0, 3.0]) / 1.08, np.array([0.4, 0.4, 0.2])


def _rows(rows, dim, values=VALUES, weights=WEIGHTS, seed=0):
    rng = np.random.default_rng(seed)
    scales = rng.choice(values, size=rows, p=weights)
    return np.sqrt(scales)[:, None] * rng.normal(size=(rows, dim))


def _distribution(scales, points):
    values, weights = np.asarray(scales.values, float), np.asarray(scales.weights, float)
    return np.array([weights[values <= point].sum() for point in points])


def _whitened(inputs):
    inputs = inputs - inputs.mean(axis=0)
    values, vectors = np.linalg.eigh(inputs.T @ inputs / len(inputs))
    return inputs @ vectors / np.sqrt(values)


@pytest.mark.parametrize(("rows", "dim"), [(20_000, 8), (20_000, 60), (1000, 200)])
def test_the_law_of_the_scales_is_found(rows, dim):
    found = estimated_scales(_whitened(_rows(rows, dim)))
    assert found.values.shape == (12,)
    # Between the three values of the law; nodes lie up to a factor 1.6 off.
    np.testing.assert_allclose(_distribution(found, [0.45, 1.6]), [0.4, 0.8], atol=0.05)
    second = float(found.weights @ found.values**2)
    np.testing.assert_allclose(second, WEIGHTS @ VALUES**2, rtol=0.06)


@pytest.mark.parametrize(("rows", "dim"), [(20_000, 4), (1000, 200)])
def test_gaussian_rows_have_hardly_any_spread(rows, dim):
    found = estimated_scales(_whitened(_rows(rows, dim, [1.0], [1.0])))
    spread = float(found.weights @ (np.asarray(found.values) - 1) ** 2)
    # Their squares have a variance of 2/d.
    assert spread < 0.1 * 2 / dim
    # Of the squares as they are, without the rows' own chi-square, this would be missed.
    squares = np.sum(_whitened(_rows(rows, dim, [1.0], [1.0])) ** 2, axis=1) / dim
    assert np.var(squares) > 0.5 * 2 / dim


def test_a_surrogate_has_the_scales_when_it_is_asked_to():
    mixing = np.diag([3.0, 1.0, 0.5, 0.1])
    inputs = _rows(4000, 4) @ mixing
    labels = inputs @ np.ones(4)
    plain = jaxdp.LinearRegression.from_data(inputs, labels)
    scaled = jaxdp.LinearRegression.from_data(inputs, labels, input_scales=True)
    assert plain.input_scales is None
    np.testing.assert_array_equal(scaled.spectrum, plain.spectrum)
    np.testing.assert_array_equal(scaled.target, plain.target)
    # Not of the unequal columns, whose spread is large.
    expected = estimated_scales(_whitened(_rows(4000, 4)))
    np.testing.assert_allclose(scaled.input_scales.values, expected.values, rtol=1e-4)
    np.testing.assert_allclose(scaled.input_scales.weights, expected.weights, atol=1e-4)
    with pytest.raises(TypeError, match="input_scales to be True or False"):
        jaxdp.LinearRegression.from_data(inputs, labels, input_scales=1)


def test_a_column_without_variance_and_a_lonely_row_do_no_harm():
    inputs = _rows(500, 5)
    inputs = np.concatenate([inputs, inputs[:, :1] * 2], axis=1)
    rare = np.zeros((500, 1))
    rare[17] = 3.0
    labels = inputs @ np.ones(6)
    scaled = jaxdp.LinearRegression.from_data(
        np.concatenate([inputs, rare], axis=1), labels, input_scales=True
    )
    values = np.asarray(scaled.input_scales.values)
    assert np.all(np.isfinite(values) & (values > 0))
    without = jaxdp.LinearRegression.from_data(inputs, labels, input_scales=True)
    both = scaled.input_scales, without.input_scales
    logs = [found.weights @ np.log(found.values) for found in both]
    np.testing.assert_allclose(*logs, atol=0.1)
