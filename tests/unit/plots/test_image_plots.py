"""Pictures of what was found: images in their places, and each row's error, matched."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from jaxdp.plots import plot_images, plot_reconstruction

RANDOM = np.random.default_rng(4)
TRUTH = RANDOM.uniform(size=(7, 4, 4, 3))


def _placed(figure):
    """The images by their column and height from the top."""
    (axes,) = figure.axes
    shown = sorted(axes.images, key=lambda one: (one.get_extent()[3], one.get_extent()[0]))
    return [np.asarray(one.get_array()) for one in shown]


def test_found_images_stand_below_the_true_ones():
    found = RANDOM.uniform(size=TRUTH.shape)
    shown = _placed(plot_images(TRUTH, found, columns=5))
    expected = [*TRUTH[:5], *found[:5], *TRUTH[5:], *found[5:]]
    assert len(shown) == len(expected)
    for one, other in zip(shown, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_bytes_and_fractions_show_the_same_and_what_is_beyond_is_cut():
    (whole,) = {image.shape for image in _placed(plot_images((TRUTH * 255).astype(np.uint8)))}
    assert whole == (4, 4, 3)
    as_bytes = _placed(plot_images(np.round(TRUTH * 255).astype(np.uint8)))
    np.testing.assert_allclose(as_bytes, TRUTH, atol=0.5 / 255 + 1e-9)
    beyond = _placed(plot_images(3 * TRUTH - 1))
    np.testing.assert_array_equal(beyond, np.clip(3 * TRUTH - 1, 0, 1))


def test_grey_images_are_grey():
    (shown,) = _placed(plot_images(TRUTH[:1, ..., 0]))
    np.testing.assert_array_equal(shown, np.repeat(TRUTH[0, ..., :1], 3, axis=-1))


def test_captions_labels_and_the_title_are_written(tmp_path):
    captions = [[], [f"{number:.3f}" for number in range(7)]]
    figure = plot_images(
        TRUTH, TRUTH, labels=["truth", "found"], captions=captions, columns=4, title="a title"
    )
    (axes,) = figure.axes
    written = [text.get_text() for text in axes.texts]
    assert sorted(written) == sorted([*captions[1], *["truth", "found"] * 2])
    assert axes.get_title(loc="left") == "a title"
    assert not axes.axison
    figure.savefig(tmp_path / "images.png")
    assert (tmp_path / "images.png").stat().st_size > 3000


def test_part_of_a_figure_can_be_drawn_into():
    part, other = Figure().subfigures(1, 2)
    assert plot_images(TRUTH, figure=part) is part
    assert len(part.axes) == 1
    assert not other.axes


@pytest.mark.parametrize(
    ("stacks", "options", "message"),
    [
        ((TRUTH, TRUTH[1:]), {}, r"as many images each, got \[7, 6\]"),
        ((), {}, "as many images each"),
        ((TRUTH[:0],), {}, "as many images each"),
        ((TRUTH[0, 0],), {}, r"images x height x width.*got \(4, 3\)"),
        ((TRUTH[..., :2],), {}, "3 colours"),
        ((TRUTH * np.nan,), {}, "NaN or infinite"),
        ((TRUTH,), {"labels": ["a", "b"]}, "labels for 1 stacks, got 2"),
        ((TRUTH,), {"captions": [["a"]]}, "captions of 7 images, got 1"),
    ],
)
def test_what_cannot_be_drawn_ends_with_one_line(stacks, options, message):
    with pytest.raises(ValueError, match=message):
        plot_images(*stacks, **options)


def test_axes_can_be_drawn_into():
    figure = Figure()
    axes, other = figure.subplots(2)
    assert plot_images(TRUTH, ax=axes) is figure
    assert len(axes.images) == len(TRUTH)
    assert not other.images
    with pytest.raises(ValueError, match="figure or ax, got both"):
        plot_images(TRUTH, figure=figure, ax=axes)


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


def test_names_of_levels_stand_beside_the_points():
    levels = {"chance": 1.2, "predicted": 1.1}
    figure = plot_reconstruction(FOUND, TRUE, levels=levels, allow_sign_flips=True)
    figure.draw_without_rendering()
    panel = figure.axes[0]
    chance, predicted = (text.get_window_extent() for text in panel.texts)
    assert min(chance.x0, predicted.x0) > panel.get_window_extent().x1
    assert not chance.overlaps(predicted)


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
