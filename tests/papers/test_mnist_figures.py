"""The figures on MNIST: calibrations, neighbours, the paper's size, runs that are stopped."""

import itertools

import numpy as np
import pytest
import xarray

from experiments import harness, made_up
from experiments.privacy_for_free import (
    fig01_mnist_width,
    fig02_mnist_samples,
    fig04_mnist_hyperparameters,
    mnist_runs,
)
from experiments.privacy_for_free.mnist_runs import Budget, Outcome, exact, poisson, published
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


def test_the_papers_size_is_offered_and_is_the_papers(capsys):
    with pytest.raises(SystemExit):
        harness.command(fig01_mnist_width, ["--help"])
    assert "--paper" in capsys.readouterr().out
    for figure in FIGURES:
        config = figure.Config.paper()
        assert np.max(config.num_train) == 50_000
        assert config.learning_rate == 0.1


def _numbering(first=1, last=None):
    """Training that takes no time: the n-th network has an accuracy of n in a thousand."""
    numbers = itertools.count(first)

    def outcome(optimiser, task, seed, *, microbatch_size=None):
        number = next(numbers)
        if last is not None and number > last:
            raise KeyboardInterrupt
        return Outcome(number / 1000, number / 1000, int(optimiser.num_steps))

    return outcome


@pytest.mark.parametrize("figure", FIGURES[1:])
def test_a_stopped_run_that_goes_on_is_the_run_that_was_not(figure, tmp_path, monkeypatch):
    made_up.digits(tmp_path)
    config, store = figure.Config.smoke(), tmp_path / "store"
    monkeypatch.setattr(mnist_runs, "outcome", _numbering())
    whole = figure.run(config, tmp_path).drop_attrs()
    monkeypatch.setattr(mnist_runs, "outcome", _numbering(last=3))
    with pytest.raises(KeyboardInterrupt):
        figure.run(config, tmp_path, store)
    assert len(list(store.glob("*"))) == 3
    # Two networks of one name would have one number here.
    monkeypatch.setattr(mnist_runs, "outcome", _numbering(first=4))
    xarray.testing.assert_equal(figure.run(config, tmp_path, store), whole)
    # All are kept now, with the time that training them took.
    monkeypatch.setattr(mnist_runs, "outcome", _numbering(last=0))
    again = figure.run(config, tmp_path, store)
    xarray.testing.assert_equal(again, whole)
    assert again.attrs["training_seconds"] >= 0
