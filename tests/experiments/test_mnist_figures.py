"""The figures on MNIST: smoke versions on made-up digits, and claims that can be false."""

import json
import sys

import numpy as np
import pytest

from experiments import command
from experiments.privacy_for_free import (
    fig01_mnist_width,
    fig02_mnist_samples,
    fig04_mnist_hyperparameters,
)
from experiments.privacy_for_free.mnist_runs import FOLDER, Budget, exact, poisson, published
from jaxdp.privacy import gaussian_mu

FIGURES = [fig01_mnist_width, fig02_mnist_samples, fig04_mnist_hyperparameters]


def test_noise_is_calibrated_as_each_name_says():
    budget = Budget(2.0, 1000, 0.5)
    assert budget.num_steps(0.006) == 24
    assert published(budget, 24).noise_multiplier == pytest.approx(
        2 * np.sqrt(24) * np.sqrt(8 * np.log(1000)) / 2.0
    )
    least = exact(budget, 24)
    assert least.noise_multiplier == pytest.approx(2 * np.sqrt(24) / gaussian_mu(2.0, 1e-3))
    # A record is in a tenth of the batches; the noise on their sum is not a tenth, but less.
    assert poisson(budget, 24, 0.1).noise_multiplier < 0.5 * least.noise_multiplier


def test_two_kinds_of_neighbours_are_not_mixed_without_labels():
    dataset = command.read(command.RESULTS / "fig01_mnist_width.nc")
    (header,) = (
        line for line in fig01_mnist_width.summary(dataset).splitlines() if "| width" in line
    )
    legend = [text.get_text() for text in fig01_mnist_width.plot(dataset).legends[0].get_texts()]
    for cells, private in ((header.split("|"), "ε = "), (legend, "DP-GD")):
        assert all("replace-one" in cell for cell in cells if private in cell and "Poi" not in cell)
        assert all("zero-out-one" in cell for cell in cells if "Poisson" in cell)
        assert sum("zero-out-one" in cell for cell in cells) == 1


def test_the_papers_size_is_offered_and_is_the_papers(capsys):
    with pytest.raises(SystemExit):
        command.main(fig01_mnist_width, ["--help"], optional_folders=FOLDER)
    assert "--paper" in capsys.readouterr().out
    for figure in FIGURES:
        config = figure.Config.paper()
        assert np.max(config.num_train) == 50_000
        assert config.learning_rate == 0.1


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder like the real one: a pattern for each digit, in noise that lights few pixels."""
    folder = tmp_path_factory.mktemp("data") / "mnist"
    folder.mkdir()
    random = np.random.default_rng(5)
    patterns = random.random((10, 28, 28)) < 0.06
    for part, count in (("train", 1200), ("t10k", 500)):
        digits = (np.arange(count) % 10).astype(np.uint8)
        kept = random.random((count, 28, 28)) < 0.6
        stray = random.random((count, 28, 28)) < 0.03
        images = (200 * (patterns[digits] & kept | stray)).astype(np.uint8)
        for kind, values in (("images-idx3", images), ("labels-idx1", digits)):
            head = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">i4").tobytes()
            (folder / f"{part}-{kind}-ubyte").write_bytes(head + values.tobytes())
    return folder.parent


@pytest.fixture(scope="module")
def results(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("results")
    arguments = ["--smoke", "--out", str(folder), "--data", str(data)]
    for figure in FIGURES:
        command.main(figure, arguments, optional_folders=FOLDER)
    return folder


def _dataset(results, figure):
    return command.read(results / f"{figure.__name__.rpartition('.')[2]}.nc")


@pytest.mark.slow
@pytest.mark.parametrize("figure", FIGURES)
def test_every_claim_of_the_smoke_version_holds(results, data, figure):
    dataset = _dataset(results, figure)
    claims = figure.claims(dataset)
    assert claims
    assert all(claims.values()), claims
    assert dataset.attrs["command"] == f"python -m {figure.__name__} --smoke --data DATA"
    assert json.loads(dataset.attrs["config"])
    assert str(data) not in str(dataset.attrs)
    assert figure.summary(dataset).count("\n|") > 3
    picture = results / f"{figure.__name__.rpartition('.')[2]}.png"
    assert 10_000 < picture.stat().st_size < 300_000


@pytest.mark.slow
def test_without_data_there_is_one_clear_error(tmp_path, monkeypatch):
    arguments = ["--smoke", "--out", str(tmp_path)]
    with pytest.raises(ValueError, match="train-images-idx3-ubyte: no such file"):
        command.main(
            fig01_mnist_width, [*arguments, "--data", str(tmp_path)], optional_folders=FOLDER
        )
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match="needs scikit-learn"):
        command.main(fig01_mnist_width, arguments, optional_folders=FOLDER)


def _scaled(name, factor):
    return lambda dataset: dataset.assign({name: dataset[name] * factor})


def _reversed(name, axis):
    return lambda dataset: dataset.assign(
        {name: dataset[name].copy(data=dataset[name].isel({axis: slice(None, None, -1)}).values)}
    )


def _at(name, factor, **where):
    """The variable times a factor, at one place along its axes."""

    def change(dataset):
        values = dataset[name].copy(deep=True)
        values[where] = factor * values[where]
        return dataset.assign({name: values})

    return change


def _constant(name, axis):
    return lambda dataset: dataset.assign(
        {name: dataset[name].mean(axis).broadcast_like(dataset[name])}
    )


_CHANGES = [
    (fig01_mnist_width, "above every private", _scaled("gd", 0.5)),
    (fig01_mnist_width, "larger epsilon", _reversed("accuracy", "epsilon")),
    (fig01_mnist_width, "more parameters help", _reversed("accuracy", "width")),
    (fig01_mnist_width, "width is free", _at("accuracy", 0.5, width=-1)),
    (fig01_mnist_width, "exact calibration", _reversed("accuracy", "calibration")),
    (fig01_mnist_width, "Poisson", _scaled("poisson", 0.5)),
    (fig02_mnist_samples, "dead pixels", _constant("gd", "scaling")),
    (fig02_mnist_samples, "no more than the share", _scaled("lit_share", 0)),
    (fig02_mnist_samples, "less and less", _at("accuracy", 0.2, num_train=-1)),
    (fig02_mnist_samples, "more samples", _constant("accuracy", "num_train")),
    (fig02_mnist_samples, "larger epsilon", _reversed("accuracy", "epsilon")),
    (fig02_mnist_samples, "both scalings agree", _at("gd", 0.9, scaling=0)),
    (fig04_mnist_hyperparameters, "minimum in between", _constant("error", "time")),
    (fig04_mnist_hyperparameters, "every other", _at("error", 20, time=1, curve=0)),
    (fig04_mnist_hyperparameters, "exact calibration", _at("error", 3, curve=-1)),
    (fig04_mnist_hyperparameters, "range of clip norms", _at("heat", 10, clip_norm=1)),
    (fig04_mnist_hyperparameters, "is constant", _reversed("heat", "heat_time")),
    (fig04_mnist_hyperparameters, "far above", _at("heat", 0, clip_norm=-1)),
    (fig04_mnist_hyperparameters, "have not learnt", _at("heat", 0, clip_norm=0, heat_time=0)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("figure", "claim", "change"), _CHANGES)
def test_a_claim_is_false_of_data_that_do_not_bear_it_out(results, figure, claim, change):
    claims = figure.claims(change(_dataset(results, figure)))
    (name,) = [name for name in claims if claim in name]
    assert not claims[name]
