"""The figures on MNIST: calibrations, neighbours, the paper's size, missing data."""

import sys

import numpy as np
import pytest

from experiments import harness, registry
from experiments.privacy_for_free import (
    fig01_mnist_width,
    fig02_mnist_samples,
    fig04_mnist_hyperparameters,
)
from experiments.privacy_for_free.mnist_runs import Budget, exact, poisson, published
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
    dataset = harness.read(harness.RESULTS / registry.entry("fig01_mnist_width").file)
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
        harness.command(fig01_mnist_width, ["--help"])
    assert "--paper" in capsys.readouterr().out
    for figure in FIGURES:
        config = figure.Config.paper()
        assert np.max(config.num_train) == 50_000
        assert config.learning_rate == 0.1


def test_to_fetch_the_digits_needs_scikit_learn(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match="needs scikit-learn"):
        harness.command(fig01_mnist_width, ["--smoke", "--out", str(tmp_path)])
