"""The benchmark of secret noise runs and measures what it names."""

import numpy as np
import pytest

from experiments.benchmarks import secret_noise


@pytest.mark.slow
def test_the_smoke_version_measures_every_candidate(tmp_path):
    dataset = secret_noise.run(secret_noise.Config.smoke())
    assert dataset.draw.shape == (4, 2, 3)
    assert np.all(dataset.draw.median("round") > 0)
    assert np.all(dataset.step.median("round") > 0)
    assert dataset.weights.data.tolist() == [4 * 785 + 50]
    secret_noise.plot(dataset).savefig(tmp_path / "times.png")
    assert secret_noise.summary(dataset).count("\n|") == 9
