"""Images as rows on the sphere, and back."""

import numpy as np
import pytest

from experiments.harness.cifar10 import Cifar10
from experiments.harness.images import first_of_classes, on_sphere, pooled

RANDOM = np.random.default_rng(3)
# Of different brightness and contrast.
IMAGES = RANDOM.uniform(20, 60, (9, 1, 1, 3)) + RANDOM.normal(size=(9, 8, 8, 3)) * np.arange(
    4, 13
).reshape(9, 1, 1, 1)


def test_rows_lie_on_the_sphere_and_make_the_images_again():
    rows = on_sphere(IMAGES)
    np.testing.assert_allclose(np.linalg.norm(rows.inputs, axis=1), np.sqrt(192), rtol=1e-12)
    np.testing.assert_allclose(rows.images_of(rows.inputs), IMAGES, rtol=1e-12)
    assert rows.mean == pytest.approx(IMAGES.mean())


def test_a_picture_of_a_row_borrows_the_contrast_of_its_image_and_nothing_else():
    rows = on_sphere(IMAGES)
    others = on_sphere(RANDOM.normal(size=IMAGES.shape)).inputs
    seen = rows.images_of(others).reshape(len(IMAGES), -1)
    np.testing.assert_allclose((seen - rows.mean) / rows.contrasts[:, None], others, atol=1e-12)
    with pytest.raises(ValueError, match=r"expected rows of shape \(9, 192\), got \(8, 192\)"):
        rows.images_of(others[1:])


def test_pooling_averages_squares_of_pixels():
    image = np.arange(4 * 4 * 3).reshape(1, 4, 4, 3)
    small = pooled(image, 2)
    assert small.shape == (1, 2, 2, 3)
    assert small[0, 0, 1, 2] == np.mean(
        [image[0, row, column, 2] for row in (0, 1) for column in (2, 3)]
    )
    np.testing.assert_array_equal(pooled(image, 4), image)
    for side, reason in ((3, "a side that divides 4"), (0, "side >= 1")):
        with pytest.raises(ValueError, match=reason):
            pooled(image, side)
    with pytest.raises(ValueError, match="images x side x side"):
        pooled(image[:, 1:], 2)


def test_first_of_classes_keeps_the_order_within_each_class():
    labels = np.array([6, 9, 1, 6, 9, 9, 6])
    images = np.arange(7, dtype=np.uint8).reshape(7, 1, 1, 1) * np.ones((1, 32, 32, 3), np.uint8)
    chosen = first_of_classes(Cifar10(images, labels), (6, 9), 2)
    np.testing.assert_array_equal(chosen.images[:, 0, 0, 0], [0, 3, 1, 4])
    np.testing.assert_array_equal(chosen.labels, [6, 6, 9, 9])
    with pytest.raises(ValueError, match="expected 2 images of class 1, got 1"):
        first_of_classes(Cifar10(images, labels), (6, 1), 2)
    with pytest.raises(ValueError, match="different classes"):
        first_of_classes(Cifar10(images, labels), (6, 6), 2)


@pytest.mark.parametrize("colour", [(40.0, 40.0, 40.0), (10.0, 90.0, 20.0)])
def test_an_image_of_a_single_colour_is_refused_by_its_number(colour):
    images = IMAGES.copy()
    images[4] = colour
    with pytest.raises(ValueError, match=r"got 1 of a single colour \(number 4\)"):
        on_sphere(images)


def test_images_of_another_shape_or_not_finite_are_refused():
    with pytest.raises(ValueError, match="images x side x side x colours"):
        on_sphere(IMAGES[0])
    with pytest.raises(ValueError, match="got NaN or infinite"):
        on_sphere(np.where(np.arange(9).reshape(9, 1, 1, 1) == 2, np.nan, IMAGES))
