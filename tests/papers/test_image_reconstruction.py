"""DR Figures 1, 2, 4 and 8, and the attack without V: the paper's size, images and victims."""

import jax
import jax.random as jr
import numpy as np
import pytest

from experiments.data_reconstruction import fig01_cifar_thresholds, fig04_signs
from experiments.data_reconstruction.natural_images import (
    Images,
    frogs_and_trucks,
    made_up_images,
    train,
)

FIGURES = [fig01_cifar_thresholds, fig04_signs]


def test_a_block_at_the_papers_size_is_about_the_equations():
    # About d n / 2 features together: a step's block, 1.8 GB of V's 37.7.
    for figure in FIGURES:
        assert figure.Config.paper().block_size == pytest.approx(3072 * 100 / 2, rel=0.03)


_WANTED = Images(num_samples=6, side=4, made_up=True)


def test_labels_go_with_the_classes_and_frogs_come_first():
    pictures = frogs_and_trucks(_WANTED, None)
    np.testing.assert_array_equal(pictures.labels, [-1, -1, -1, 1, 1, 1])
    stored = made_up_images(6)
    np.testing.assert_array_equal(stored.labels, [6, 9] * 3)
    first = stored.images[2].reshape(4, 8, 4, 8, 3).mean((1, 3)) / 255
    np.testing.assert_allclose(pictures.rows.images_of(pictures.rows.inputs)[1], first)
    with pytest.raises(ValueError, match="an even number of images, got 5"):
        frogs_and_trucks(Images(5, made_up=True), None)


# About p = n, where least squares are solved otherwise, and beyond.
@pytest.mark.parametrize(
    ("num_features", "block_size"), [(9, 4), pytest.param(40, 16, marks=pytest.mark.slow)]
)
def test_a_victim_of_regenerated_weights_is_that_of_the_same_weights_in_memory(
    num_features, block_size
):
    pictures = frogs_and_trucks(_WANTED, None)
    model = train(pictures, num_features, jax.nn.relu, key=jr.key(2), block_size=block_size)
    weights = np.asarray(model.target.weights.materialise(), np.float64)
    features = np.maximum(pictures.inputs @ weights.T, 0)
    expected = np.linalg.pinv(features) @ pictures.labels
    np.testing.assert_allclose(model.target.parameters, expected, atol=2e-5)
    gaps = features @ expected - pictures.labels
    assert model.train_loss == pytest.approx(np.mean(gaps**2), abs=1e-9)
