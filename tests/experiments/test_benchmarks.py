"""Benchmarks run and measure what they name; their times are never asserted."""

import dataclasses
import sys

import numpy as np
import pytest

from experiments.benchmarks import function_space, per_sample_clipping, planning, simulators


@pytest.mark.slow
def test_simulators_smoke_version_measures_every_candidate(tmp_path):
    dataset = simulators.run(simulators.Config.smoke())
    assert dataset.seconds.shape == (11, 2)
    assert dataset.batch_seconds.shape == (2, 2)
    assert np.all(dataset.seconds > 0)
    assert np.all(dataset.batch_seconds > 0)
    simulators.plot(dataset).savefig(tmp_path / "times.png")
    assert simulators.summary(dataset).count("\n|") == 17


@pytest.mark.slow
def test_function_space_smoke_version_measures_every_candidate(tmp_path):
    dataset = function_space.run(function_space.Config.smoke())
    assert dataset.seconds.shape == (5, 3)
    assert dataset.reduced.data.tolist() == dataset.candidate.data[:3].tolist()
    assert np.all(dataset.reduction > 0)
    assert np.all(dataset.bytes.data[:4] > 0)
    # Of few steps on a busy machine the difference of two calls may be negative.
    slow = dataset.assign(seconds=0 * dataset.seconds + np.arange(1, 6)[:, None])
    assert not any(function_space.claims(slow).values())
    function_space.plot(slow).savefig(tmp_path / "times.png")
    assert function_space.summary(dataset).count("\n|") == 7


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


@pytest.mark.slow
def test_planning_smoke_version_compares_the_plan_with_every_search(tmp_path):
    dataset = planning.run(planning.Config.smoke())
    assert dataset.reported.shape == (2, 3)
    # The longer search has the shorter one's runs among its own.
    assert np.all(dataset.reported[1] <= dataset.reported[0])
    assert dataset.cell_risk.shape == (2,)
    assert np.all(dataset.validation > 0)
    assert dataset.plan_seconds > 0
    planning.plot(dataset).savefig(tmp_path / "plans.png")
    assert planning.summary(dataset).count("\n|") == 9
