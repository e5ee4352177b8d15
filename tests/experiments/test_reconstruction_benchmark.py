"""The benchmark of the attack runs and measures what it names; its times are never asserted."""

import numpy as np
import pytest

from experiments.benchmarks import reconstruction


@pytest.mark.slow
def test_reconstruction_smoke_version_measures_every_candidate(tmp_path):
    config = reconstruction.Config.smoke()
    dataset = reconstruction.run(config)
    candidates = [reconstruction.DEFAULT, reconstruction.PUBLISHED, reconstruction.LONGER]
    assert dataset.candidate.data.tolist() == candidates
    assert np.all(dataset.seconds > 0)
    assert np.all(dataset.pass_seconds > 0)
    default, published, longer = dataset.seconds.data
    has_converged = dataset.loss.data <= 1e-7
    # Who has found everything may stop sooner.
    assert np.all((published >= default) | has_converged[1])
    assert np.all((longer >= config.factor * default) | has_converged[2])
    reconstruction.plot(dataset).savefig(tmp_path / "attacks.png")
    assert reconstruction.summary(dataset).count("\n|") == 10
