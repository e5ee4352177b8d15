"""The benchmark of the attack runs and measures what it names; its times are never asserted."""

import numpy as np
import pytest

from experiments.benchmarks import reconstruction


@pytest.mark.slow
def test_reconstruction_smoke_version_measures_every_candidate(tmp_path):
    config = reconstruction.Config.smoke()
    dataset = reconstruction.run(config)
    assert dataset.candidate.data.tolist() == [reconstruction.DEFAULT, reconstruction.PUBLISHED]
    assert np.all(dataset.seconds > 0)
    assert np.all(dataset.pass_seconds > 0)
    default, published = dataset.passes.data
    # The verb's own look in float64 is another pass.
    assert np.all(published <= config.factor * default + 1)
    reconstruction.plot(dataset).savefig(tmp_path / "attacks.png")
    assert reconstruction.summary(dataset).count("\n|") == 9
