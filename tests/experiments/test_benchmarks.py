"""Benchmarks run and measure what they name; their times are never asserted."""

import numpy as np

from experiments.benchmarks import simulators


def test_simulators_smoke_version_measures_every_candidate(tmp_path):
    dataset = simulators.run(simulators.Config.smoke())
    assert dataset.seconds.shape == (5, 2)
    assert np.all(dataset.seconds > 0)
    assert set(simulators.claims(dataset)) == {check.claim for check in simulators.checks(dataset)}
    simulators.plot(dataset).savefig(tmp_path / "times.png")
    assert simulators.summary(dataset).count("\n|") == 7
