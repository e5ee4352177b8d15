"""Images as rows on the sphere, and back."""

import numpy as np
import pytest

from experiments.harness.images import on_sphere

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


@pytest.mark.parametrize("colour", [(40.0, 40.0, 40.0), (10.0, 90.0, 20.0)])
def test_an_image_of_a_single_colour_is_refused_by_its_number(colour):
    images = IMAGES.copy()
    images[4] = colour
    with pytest.raises(ValueError, match=r"got 1 of a single colour \(number 4\)"):
        on_sphere(images)
