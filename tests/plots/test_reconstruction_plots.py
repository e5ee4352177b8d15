"""Pictures of an attack show each row's error, matched and up to sign where that is asked for."""

import numpy as np
import pytest

from jaxdp.plots import plot_reconstruction

TRUE = np.random.default_rng(0).standard_normal((4, 3))
# In another order, one row negated, one a little off.
FOUND = TRUE[[2, 0, 3, 1]] * np.array([[1], [-1], [1], [1]]) + np.array([[0], [0], [0.1], [0]])


def _shown(line):
    return np.asarray(line.get_data(), np.float64)


def test_errors_are_those_of_matched_rows_in_order():
    figure = plot_reconstruction(FOUND, TRUE, levels={"chance": 1.2}, allow_sign_flips=True)
    rows, entries = figure.axes
    np.testing.assert_allclose(_shown(rows.lines[0])[1], [1e-9, 1e-9, 1e-9, 0.1])
    assert [text.get_text() for text in rows.texts] == ["chance"]
    true, found = _shown(entries.lines[1])
    np.testing.assert_allclose(true, TRUE.ravel())
    np.testing.assert_allclose(np.abs(true - found).max(), 0.1)


def test_signs_count_unless_they_are_left_out():
    figure = plot_reconstruction(FOUND, TRUE)
    assert _shown(figure.axes[0].lines[0])[1, -1] > 0.5


def test_found_rows_alone_are_a_map():
    figure = plot_reconstruction(FOUND, title="four rows")
    (image,) = figure.axes[0].images
    np.testing.assert_array_equal(image.get_array(), FOUND)
    assert figure.get_suptitle() == "four rows"
    for axis in (figure.axes[0].xaxis, figure.axes[0].yaxis):
        assert all(place == round(place) for place in axis.get_ticklocs())


def test_rows_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="as many found rows as true ones"):
        plot_reconstruction(FOUND[:2], TRUE)
