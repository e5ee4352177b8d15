"""Figures seed by seed: what is done is not done again, and what is written is whole."""

import json

import pytest

from experiments.data_reconstruction import seed_sweep
from experiments.data_reconstruction.seed_sweep import Case


@pytest.fixture
def tiny(monkeypatch):
    cases = {
        "features": Case(num_samples=4, side=2, max_passes=100),
        "again": Case(num_samples=4, side=2, num_blocks=4, max_passes=20),
    }
    monkeypatch.setattr(seed_sweep, "CASES", cases)


@pytest.mark.slow
def test_a_folder_is_gone_on_from(tiny, tmp_path, monkeypatch):
    arguments = tmp_path, ["features"], ["ours"]
    first = seed_sweep.sweep(*arguments, 1, made_up=True)
    assert [one["seed"] for one in first] == [0]
    assert first[0]["dim"] == 12
    assert 0 <= first[0]["error_up_to_signs"] <= first[0]["error"] < 1.5
    # Someone else's unfinished file is no result.
    (tmp_path / ".features_ours_1.json.0.partial").write_text("{")
    done, computed = tmp_path / "features_ours_0.json", []
    before = done.stat().st_mtime_ns
    cell = seed_sweep.cell
    monkeypatch.setattr(
        seed_sweep, "cell", lambda *given: computed.append(given[2]) or cell(*given)
    )
    second = seed_sweep.sweep(*arguments, 2, made_up=True)
    assert computed == [1]
    assert done.stat().st_mtime_ns == before
    assert [one["seed"] for one in second] == [0, 1]
    assert json.loads(done.read_text()) == first[0]
    assert "features" in seed_sweep.summary(second)


@pytest.mark.slow
def test_every_kind_of_case_runs(tiny, monkeypatch):
    network = Case(None, num_samples=10, side=2, max_passes=20)
    monkeypatch.setitem(seed_sweep.CASES, "two layers", network)
    for name in ("again", "two layers"):
        found = seed_sweep.cell(name, "published", 0, None, True)
        assert found["passes"] <= 21
        assert 0 < found["loss"] <= 1
