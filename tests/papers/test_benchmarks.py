"""Benchmarks run and measure what they name; their times are never asserted."""

import dataclasses
import sys

import numpy as np
import pytest

from experiments import registry
from experiments.benchmarks import per_sample_clipping, reconstruction


def _simulators(dataset):
    assert dataset.seconds.shape == (11, 2)
    assert dataset.batch_seconds.shape == (2, 2)
    assert np.all(dataset.seconds > 0)
    assert np.all(dataset.batch_seconds > 0)


def _ode_grid(dataset):
    assert np.all(dataset.seconds.min("repeat") > 0)
    exact = dataset.sel(candidate=[name for name in dataset.candidate.data if "32" not in name])
    assert np.all(exact.error <= 1e-6)
    assert np.all(dataset.error < 1e-4)


def _private_kernel_ridge(dataset):
    assert dataset.candidate.data.tolist() == ["jaxdp", "NumPy, float64"]
    assert np.all(dataset.seconds > 0)
    assert np.all(dataset.bytes > 1e7)
    # As PK's audit has them at M = 10, 100, 1000.
    expected = [[17.5, 7.9], [6.5, 4.8], [4.3, 3.9]]
    np.testing.assert_allclose(dataset.noise_ratio, expected, atol=0.05)


def _reconstruction(dataset):
    candidates = [reconstruction.DEFAULT, reconstruction.PUBLISHED, reconstruction.LONGER]
    assert dataset.candidate.data.tolist() == candidates
    assert np.all(dataset.seconds > 0)
    assert np.all(dataset.pass_seconds > 0)
    default, published, longer = dataset.seconds.data
    has_converged = dataset.loss.data <= 1e-7
    # Who has found everything may stop sooner.
    assert np.all((published >= default) | has_converged[1])
    factor = reconstruction.Config.smoke().factor
    assert np.all((longer >= factor * default) | has_converged[2])


def _planning(dataset):
    assert dataset.reported.shape == (2, 3)
    # The longer search has the shorter one's runs among its own.
    assert np.all(dataset.reported[1] <= dataset.reported[0])
    assert dataset.cell_risk.shape == (2,)
    assert np.all(dataset.validation > 0)
    assert dataset.plan_seconds > 0


def _secret_noise(dataset):
    assert dataset.draw.shape == (4, 2, 3)
    assert np.all(dataset.draw.median("round") > 0)
    assert np.all(dataset.step.median("round") > 0)
    assert dataset.weights.data.tolist() == [4 * 785 + 50]


# What each measures, which is then drawn, and the lines of its tables.
MEASURED = {
    "simulators": (_simulators, 17),
    "ode_grid": (_ode_grid, 8),
    "private_kernel_ridge": (_private_kernel_ridge, 10),
    "reconstruction": (_reconstruction, 10),
    "planning": (_planning, 9),
    "secret_noise": (_secret_noise, 9),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MEASURED)
def test_a_smoke_version_measures_every_candidate(name, tmp_path):
    benchmark, (measured, num_lines) = registry.entry(name).load(), MEASURED[name]
    dataset = benchmark.run(benchmark.Config.smoke())
    measured(dataset)
    benchmark.plot(dataset).savefig(tmp_path / "measured.png")
    assert benchmark.summary(dataset).count("\n|") == num_lines


@pytest.mark.slow
def test_per_sample_clipping_measures_what_agrees_and_names_what_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax_privacy.clipping", None)
    unclipped = per_sample_clipping.CANDIDATES["non-private"]
    monkeypatch.setitem(per_sample_clipping.CANDIDATES, "unclipped", unclipped)
    candidates = ("non-private", "jaxdp", "vmap(grad)", "jax_privacy", "unclipped")
    smoke = dataclasses.replace(
        per_sample_clipping.Config.smoke(),
        candidates=candidates,
        cnn_batches=(),
        attention_batches=(),
        recurrent_batches=(),
    )
    dataset = per_sample_clipping.run(smoke)
    measured = dataset.sel(candidate=list(candidates[:3]))
    assert np.all(measured.seconds > 0)
    assert np.all(measured.disagreement < 1e-5)
    assert np.all(measured.temporary_bytes > 0)
    *notes, wrong = dataset.note.data[0].tolist()
    assert notes == ["", "", "", "not installed"]
    assert wrong.startswith("wrong by")
    assert np.all(np.isnan(dataset.seconds.data[0, 3:]))
    per_sample_clipping.plot(dataset).savefig(tmp_path / "ratios.png")
    assert per_sample_clipping.summary(dataset).count("\n|") == 7
