"""Quasi-Newton descents of many functions at once."""

import numpy as np
import pytest

from jaxdp.planning.streams.fit import descend


def _valleys(points):
    """Rosenbrock's valley and a round bowl, row by row."""
    first, second = points.T
    steep = np.where(np.arange(len(points)) % 2 == 0, 100.0, 1.0)
    bend = np.where(np.arange(len(points)) % 2 == 0, 1.0, 0.0)
    gap = second - bend * first**2
    values = steep * gap**2 + (1 - first) ** 2
    slopes = [-4 * steep * gap * bend * first - 2 * (1 - first), 2 * steep * gap]
    return values, np.stack(slopes, axis=1)


def test_every_row_finds_its_own_minimum():
    starts = np.array([[-1.2, 1.0], [4.0, 3.0], [0.0, 2.0], [1.0, 0.0]])
    points, values = descend(_valleys, starts)
    np.testing.assert_allclose(points[:, 0], 1, atol=1e-4)
    np.testing.assert_allclose(points[:, 1], [1, 0, 1, 0], atol=1e-4)
    assert np.all(values < 1e-8)


def test_a_row_that_begins_where_nothing_is_finite_stays_and_does_not_stop_the_others():
    def evaluate(points):
        values, slopes = _valleys(points)
        return np.where(points[:, 0] > 5, np.nan, values), slopes

    points, values = descend(evaluate, np.array([[9.0, 1.0], [3.0, 3.0]]))
    assert np.isinf(values[0])
    np.testing.assert_array_equal(points[0], [9.0, 1.0])
    np.testing.assert_allclose(points[1], [1, 0], atol=1e-4)


@pytest.mark.parametrize("most_steps", [0, 1])
def test_a_descent_ends_after_its_steps(most_steps):
    _, values = descend(_valleys, np.array([[-1.2, 1.0]]), most_steps=most_steps)
    assert values[0] > 1
