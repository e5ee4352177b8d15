"""The benchmark of private kernel ridge runs and measures what it names."""

import numpy as np
import pytest

from experiments.benchmarks import kernel_ridge_calls, private_kernel_ridge


@pytest.mark.slow
def test_private_kernel_ridge_smoke_version_measures_every_candidate(tmp_path):
    config = private_kernel_ridge.Config.smoke()
    dataset = private_kernel_ridge.run(config)
    assert dataset.candidate.data.tolist() == ["jaxdp", "NumPy, float64"]
    assert np.all(dataset.seconds > 0)
    assert np.all(dataset.bytes > 1e7)
    # As PK's audit has them at M = 10, 100, 1000.
    expected = [[17.5, 7.9], [6.5, 4.8], [4.3, 3.9]]
    np.testing.assert_allclose(dataset.noise_ratio, expected, atol=0.05)
    private_kernel_ridge.plot(dataset).savefig(tmp_path / "times.png")
    assert private_kernel_ridge.summary(dataset).count("\n|") == 10


@pytest.mark.slow
def test_the_numpy_candidate_learns_what_the_certified_learner_does():
    inputs, labels = kernel_ridge_calls.table(3000, 3)
    errors = []
    for name in (kernel_ridge_calls.JAXDP, kernel_ridge_calls.NUMPY):
        function = kernel_ridge_calls.FITS[name](inputs, labels, 20, 64)
        errors.append(np.mean((np.asarray(function(inputs)) - labels) ** 2))
    assert max(errors) < 0.2 * labels.var()
