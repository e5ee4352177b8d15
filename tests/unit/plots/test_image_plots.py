"""Pictures of what was found: images in their places."""

import numpy as np
import pytest

from jaxdp.plots import plot_images

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


@pytest.mark.parametrize(
    ("stacks", "options", "message"),
    [
        ((TRUTH, TRUTH[1:]), {}, r"as many images each, got \[7, 6\]"),
        ((TRUTH[..., :2],), {}, "3 colours"),
        ((TRUTH * np.nan,), {}, "NaN or infinite"),
        ((TRUTH,), {"captions": [["a"]]}, "captions of 7 images, got 1"),
    ],
)
def test_what_cannot_be_drawn_ends_with_one_line(stacks, options, message):
    with pytest.raises(ValueError, match=message):
        plot_images(*stacks, **options)
