"""DR Figures 5 and 6: smoke versions on made-up images, and claims that can be false."""

import json

import numpy as np
import pytest
from figure_changes import assert_false, name_of, scaled, turned

from experiments import command
from experiments.data_reconstruction import fig05_networks, fig06_multiclass_images
from experiments.data_reconstruction.natural_images import FOLDER
from experiments.data_reconstruction.trained_networks import Task, photographs

FIGURES = [fig05_networks, fig06_multiclass_images]


def test_photographs_are_rows_on_the_sphere_with_their_labels():
    wanted = Task(2, is_binary=True, is_grey=True, made_up=True)
    pictures = photographs(wanted, None)
    assert pictures.rows.inputs.shape == (wanted.num_samples, wanted.dim) == (4, 64)
    np.testing.assert_allclose(np.linalg.norm(pictures.rows.inputs, axis=1), 8)
    np.testing.assert_array_equal(pictures.labels, [[-1], [-1], [1], [1]])
    wanted = Task(2, is_binary=False, side=4, made_up=True)
    pictures = photographs(wanted, None)
    assert pictures.rows.inputs.shape == (wanted.num_samples, wanted.dim) == (20, 48)
    np.testing.assert_array_equal(pictures.labels.argmax(axis=1), np.arange(20) // 2)
    np.testing.assert_array_equal(pictures.labels.sum(axis=1), 1)


def test_the_papers_size_is_offered_and_is_the_papers():
    config = fig05_networks.Config.paper()
    assert (config.two_layer.num_samples, config.residual.num_samples) == (10, 10)
    assert config.two_layer.dim == config.residual.dim == 3072
    assert config.num_seeds == 10
    config = fig06_multiclass_images.Config.paper()
    assert (config.images.num_samples, config.images.dim, config.width) == (100, 3072, 4.0)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    for figure in FIGURES:
        command.main(figure, ["--smoke", "--out", str(folder)], optional_folders=FOLDER)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("figure", FIGURES)
def test_every_claim_of_the_smoke_version_holds(results, figure):
    dataset = command.read(results / f"{name_of(figure)}.nc")
    claims = figure.claims(dataset)
    assert claims
    assert all(claims.values()), claims
    assert dataset.attrs["command"] == f"python -m {figure.__name__} --smoke"
    assert json.loads(dataset.attrs["config"])
    assert figure.summary(dataset).count("\n|") > 3
    assert 10_000 < (results / f"{name_of(figure)}.png").stat().st_size < 300_000


_ALONE, _FULL = ["last layer"], ["all layers"]
_CHANGES = [
    (fig05_networks, "fits its labels", scaled("train_loss", 100)),
    (fig05_networks, "two-layer: nothing is found", turned("error", "width")),
    (fig05_networks, "residual: nothing is found", turned("error", "width")),
    (fig05_networks, "two-layer, last layer trained alone", turned("error", "width")),
    (fig05_networks, "residual, last layer trained alone", turned("error", "width")),
    (fig05_networks, "two-layer, all layers trained", turned("true_loss", "training")),
    (fig05_networks, "residual, all layers trained", scaled("true_loss", 1e-7)),
    (fig05_networks, "below half of chance", scaled("error", 20, training=_FULL)),
    (fig05_networks, "below half of chance", turned("true_loss", "width")),
    (fig05_networks, "falls with the error", turned("residual", "width")),
    (fig06_multiclass_images, "fit the labels", scaled("train_loss", 100)),
    (fig06_multiclass_images, "gives every image away", scaled("errors", 1e5, training=_ALONE)),
    (fig06_multiclass_images, "not exactly", scaled("errors", 100, training=_FULL)),
    (fig06_multiclass_images, "not exactly", scaled("errors", 0, training=_FULL)),
    (fig06_multiclass_images, "is not zero", scaled("true_loss", 1e-9)),
    (fig06_multiclass_images, "is not zero", scaled("loss", 1e-9)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("figure", "claim", "change"), _CHANGES)
def test_a_claim_is_false_of_data_that_do_not_bear_it_out(results, figure, claim, change):
    changed = change(command.read(results / f"{name_of(figure)}.nc"))
    assert_false(figure, changed, claim)
