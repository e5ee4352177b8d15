"""DR Figures 1, 2, 4 and 8, and the attack without V: saved results, and claims that can fail."""

import json

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from figure_changes import assert_claims_hold, assert_reported, name_of, read_saved, scaled, turned

from experiments import command
from experiments.data_reconstruction import fig01_cifar_thresholds, fig04_signs, regenerated
from experiments.data_reconstruction.natural_images import (
    FOLDER,
    Images,
    frogs_and_trucks,
    made_up_images,
    match,
    stacked,
    train,
)

FIGURES = [fig01_cifar_thresholds, fig04_signs, regenerated]


@pytest.fixture(scope="module")
def saved():
    return read_saved(FIGURES)


@pytest.mark.parametrize("figure", FIGURES)
def test_every_claim_holds_of_the_saved_results(saved, figure):
    assert_claims_hold(figure, saved[name_of(figure)])


def test_report_has_a_row_for_every_claim(saved):
    assert_reported(FIGURES, saved)


def _set(name, value):
    return lambda dataset: dataset.assign({name: 0 * dataset[name] + value})


def _fact(name, value):
    return lambda dataset: dataset.assign_attrs({name: value})


_CHANGES = [
    (fig01_cifar_thresholds, "labels are fitted once", turned("train_loss", "num_features")),
    (fig01_cifar_thresholds, "labels are fitted once", _set("train_loss", 1e-5)),
    (fig01_cifar_thresholds, "between n and d n / 2", scaled("error", 0.5)),
    (fig01_cifar_thresholds, "from 3 d n on", turned("error", "num_features")),
    (fig01_cifar_thresholds, "a loss of zero", scaled("error", 0.3)),
    (fig01_cifar_thresholds, "a loss of zero", _set("converged", 0)),
    (fig01_cifar_thresholds, "the span residual falls", _set("residual", 0.3)),
    (fig01_cifar_thresholds, "the same attack on permuted", scaled("control", 0.8)),
    (fig01_cifar_thresholds, "every image", _set("gallery_errors", 0.2)),
    (fig01_cifar_thresholds, "scaled as published", _fact("published_floor", 0.0)),
    (fig04_signs, "tanh: the truth with any row", turned("negated_loss", "activation")),
    (fig04_signs, "ReLU: negating any", turned("negated_loss", "activation")),
    (fig04_signs, "ReLU + tanh: negating any", _set("negated_loss", 1e-5)),
    (fig04_signs, "tanh: where the loss", _set("signs", 1.0)),
    (fig04_signs, "tanh: where the loss", scaled("error_with_flips", 1e4)),
    (fig04_signs, "ReLU: where the loss", turned("signs", "activation")),
    (fig04_signs, "ReLU + tanh: where the loss", _set("converged", 0)),
    (regenerated, "the images are found without", _set("row_errors", 0.3)),
    (regenerated, "without V in memory", scaled("temporary", 1e3)),
]


@pytest.mark.parametrize(("figure", "claim", "change"), _CHANGES)
def test_a_claim_is_false_of_data_that_do_not_bear_it_out(saved, figure, claim, change):
    claims = figure.claims(change(saved[name_of(figure)]))
    (name,) = [name for name in claims if name.startswith(claim)]
    assert not claims[name]


def test_the_papers_size_is_offered_and_is_the_papers():
    for figure in FIGURES:
        assert figure.Config.paper().images == Images(num_samples=100, side=32)
    assert fig01_cifar_thresholds.Config.paper().control_width == 10.0
    # About d n / 2 features together: a step's block, 1.8 GB of V's 37.7.
    for figure in (fig01_cifar_thresholds, fig04_signs):
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


def test_pictures_of_found_rows_stand_beside_their_images_and_keep_their_sign():
    pictures = frogs_and_trucks(_WANTED, None)
    true, order = pictures.rows.inputs, np.array([3, 0, 5, 1, 2, 4])
    signs = np.array([1, 1, -1, 1, -1, 1])
    matched = match(pictures, (signs[:, None] * true)[order], allow_sign_flips=True)
    np.testing.assert_array_equal(matched.signs, signs)
    np.testing.assert_allclose(matched.errors, 0, atol=1e-12)
    images, found = stacked(pictures, matched.inputs).astype(int)
    np.testing.assert_array_equal(images[signs > 0], found[signs > 0])
    # A negative: darker where the image is lighter than the mean of all.
    middle = 255 * pictures.rows.mean
    assert np.all((images - middle)[signs < 0] * (found - middle)[signs < 0] <= 1)


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


def test_relu_and_tanh_is_their_sum():
    values = jnp.linspace(-2, 2, 9)
    expected = np.maximum(values, 0) + np.tanh(values)
    np.testing.assert_allclose(fig04_signs.relu_and_tanh(values), expected, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("figure", FIGURES)
def test_smoke_version_writes_its_files_and_its_claims_hold(tmp_path, figure):
    assert command.main(figure, ["--smoke", "--out", str(tmp_path)], optional_folders=FOLDER) == 0
    dataset = command.read(tmp_path / f"{name_of(figure)}.nc")
    assert dataset.attrs["command"] == f"python -m {figure.__name__} --smoke"
    assert json.loads(dataset.attrs["config"])["images"]["made_up"]
    assert figure.summary(dataset).count("\n|") > 2
    assert 10_000 < (tmp_path / f"{name_of(figure)}.png").stat().st_size < 400_000


@pytest.mark.slow
def test_without_data_there_is_one_clear_error(tmp_path):
    with pytest.raises(ValueError, match=r"data_batch_1\.bin: no such file"):
        fig04_signs.run(fig04_signs.Config(), tmp_path)
