"""Figures on MNIST that are stopped and go on: nothing is trained twice or mixed up."""

import dataclasses
import itertools
import json

import pytest
import xarray

from experiments import made_up
from experiments.privacy_for_free import (
    fig01_mnist_width,
    fig02_mnist_samples,
    fig04_mnist_hyperparameters,
)
from experiments.privacy_for_free.kept_runs import KeptRuns
from experiments.privacy_for_free.mnist_runs import Outcome

FIGURES = [fig01_mnist_width, fig02_mnist_samples, fig04_mnist_hyperparameters]


def _numbering(first=1, last=None):
    """Training that takes no time: the n-th network has an accuracy of n in a thousand.

    After the last one it is stopped, as by Ctrl-C.
    """
    numbers = itertools.count(first)

    def outcome(optimiser, task, seed, *, microbatch_size=None):
        number = next(numbers)
        if last is not None and number > last:
            raise KeyboardInterrupt
        return Outcome(number / 1000, number / 1000, int(optimiser.num_steps))

    return outcome


@pytest.mark.parametrize("figure", [pytest.param(FIGURES[0], marks=pytest.mark.slow), *FIGURES[1:]])
def test_a_stopped_run_that_goes_on_is_the_run_that_was_not(figure, tmp_path, monkeypatch):
    made_up.digits(tmp_path)
    config, store = figure.Config.smoke(), tmp_path / "store"
    counting = KeptRuns(None)
    monkeypatch.setattr(figure, "outcome", _numbering())
    whole = figure.run(config, tmp_path, counting)
    monkeypatch.setattr(figure, "outcome", _numbering(last=3))
    with pytest.raises(KeyboardInterrupt):
        figure.run(config, tmp_path, store)
    assert len(list(store.glob("*"))) == 3
    monkeypatch.setattr(figure, "outcome", _numbering(first=4))
    kept = KeptRuns(store)
    # Two networks of one name would have one number here.
    xarray.testing.assert_equal(figure.run(config, tmp_path, kept), whole)
    assert (kept.num_read, kept.num_made) == (3, counting.num_made - 3)
    # All are kept now, and another size shares none of them.
    again = KeptRuns(store)
    xarray.testing.assert_equal(figure.run(config, tmp_path, again), whole)
    assert (again.num_read, again.num_made) == (counting.num_made, 0)
    other = KeptRuns(store)
    monkeypatch.setattr(figure, "outcome", _numbering())
    figure.run(dataclasses.replace(config, num_validation=100), tmp_path, other)
    assert (other.num_read, other.num_made) == (0, counting.num_made)


def test_a_network_that_is_kept_is_read_and_time_is_counted(tmp_path):
    found = Outcome(0.5, 0.25, 7)
    first = KeptRuns(tmp_path)
    assert first.outcome({"width": 3, "seed": 0}, lambda: found) == found
    (path,) = tmp_path.glob("*")
    assert json.loads(path.read_text())["facts"] == {"width": 3, "seed": 0}

    def never():
        raise AssertionError("trained twice")

    second = KeptRuns(tmp_path)
    # The order of the facts says nothing; another seed is another network.
    assert second.outcome({"seed": 0, "width": 3}, never) == found
    assert second.seconds == pytest.approx(first.seconds, abs=1e-9)
    with pytest.raises(AssertionError, match="trained twice"):
        second.outcome({"width": 3, "seed": 1}, never)
    assert KeptRuns(None).outcome({"width": 3}, lambda: found) == found
    assert KeptRuns.of(second) is second
