"""The published scaling of images: the error that it leaves, and its floor as printed."""

import json
import pathlib

import numpy as np
import pytest

from experiments.harness.images import on_sphere
from experiments.statements.data_reconstruction.published_scaling import (
    distance_from_sphere,
    published_scaling,
)
from jaxdp.attacks import reconstruction_error

RANDOM = np.random.default_rng(3)
# Of different brightness and contrast.
IMAGES = RANDOM.uniform(20, 60, (9, 1, 1, 3)) + RANDOM.normal(size=(9, 8, 8, 3)) * np.arange(
    4, 13
).reshape(9, 1, 1, 1)


@pytest.mark.parametrize("per_channel", [False, True])
def test_the_published_scaling_leaves_the_error_that_is_claimed_to_a_perfect_attack(per_channel):
    rows = published_scaling(IMAGES, per_channel=per_channel)
    assert np.mean(rows**2) == pytest.approx(1)
    directions = rows * np.sqrt(192) / np.linalg.norm(rows, axis=1, keepdims=True)
    floor = distance_from_sphere(rows)
    assert reconstruction_error(rows, directions) == pytest.approx(floor)
    # Nearby points of the sphere are farther off.
    moved = on_sphere((directions + 0.3 * RANDOM.normal(size=rows.shape)).reshape(9, 8, 8, 3))
    assert reconstruction_error(rows, moved.inputs) > 1.05 * floor
    assert distance_from_sphere(directions) == pytest.approx(0, abs=1e-12)


def _photographs():
    """Chequered images whose means and contrasts are those of fifty frogs and fifty trucks."""
    path = pathlib.Path(__file__).with_name("frogs_and_trucks.json")
    known = json.loads(path.read_text())
    means = np.array(known["sums"]) / 3072
    contrasts = np.sqrt(np.array(known["sums_of_squares"]) / 3072 - means**2)
    assert len(means) == 100
    signs = np.where(np.indices((32, 32, 3)).sum(axis=0) % 2, 1.0, -1.0)
    return means.reshape(-1, 1, 1, 1) + contrasts.reshape(-1, 1, 1, 1) * signs


def test_the_published_floor_of_fifty_frogs_and_fifty_trucks_is_188():
    # The norm of a scaled row asks of an image for nothing but its mean and its contrast.
    images = _photographs()
    assert distance_from_sphere(published_scaling(images)) == pytest.approx(0.188, abs=5e-4)
    assert distance_from_sphere(on_sphere(images).inputs) < 1e-12
    # Half of the images have another floor.
    assert distance_from_sphere(published_scaling(images[::2])) != pytest.approx(0.188, abs=5e-4)
