"""Fingerprints see a change of a result's code, and not another machine's rounding."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest
import xarray

from experiments import registry, rounding, smoke, staleness
from experiments.harness import differences, fingerprint


def _dataset(risk, name="a"):
    values = {"risk": ("place", np.asarray(risk, float)), "name": ("one", [name])}
    return xarray.Dataset(values, attrs={"config": json.dumps({"count": 3})})


_RISK = np.array([3.0, 1e-6, np.nan, 5.0])


@pytest.mark.parametrize(
    "changed",
    [
        _dataset(_RISK * (1 + 3e-6)),
        # The order, a small entry, what is finite, the shape, a word.
        _dataset(_RISK[[3, 1, 2, 0]]),
        _dataset(_RISK + np.array([0, 1e-10, 0, 0])),
        _dataset([3.0, 1e-6, 2.0, 5.0]),
        _dataset(_RISK[:3]),
        _dataset(_RISK, "b"),
        _dataset(_RISK).drop_vars("name"),
        _dataset(_RISK).assign_attrs(config=json.dumps({"count": 4})),
    ],
)
def test_a_fingerprint_sees_what_changes(changed):
    stored = json.loads(json.dumps(fingerprint(_dataset(_RISK))))
    assert differences(stored, fingerprint(_dataset(_RISK * (1 + 1e-8)))) == []
    assert differences(stored, fingerprint(changed))


def test_seconds_and_bytes_are_not_compared_even_with_results_that_do_not_name_their_units():
    def measured(units, factor=1.0):
        took, peak = ({"units": one} if units else {} for one in ("s", "B"))
        columns = {"took": ("run", [factor, 2.0], took), "peak": ("run", [1e9, factor], peak)}
        return fingerprint(_dataset(_RISK).assign(columns))

    for stored in (measured(True), measured(False)):
        assert differences(stored, measured(True, 3.0)) == []
    assert differences(measured(False), measured(False, 3.0))
    moved = fingerprint(_dataset(_RISK * 2))
    assert differences(measured(True), moved) == differences(fingerprint(_dataset(_RISK)), moved)


def test_numbers_that_rounding_moves_are_compared_as_far_as_it_moves_them():
    runs = [fingerprint(_dataset(_RISK * (1 + shift))) for shift in (0, 2e-5, -1e-5)]
    bounds = rounding.measured(runs)
    # The numbers lie 3e-5 apart, the mean with weights somewhat less.
    assert bounds == {"risk": dict.fromkeys(("mean", "square", "log"), 1e-3) | {"wave": 1e-4}}
    moved = fingerprint(_dataset(_RISK * (1 + 1e-4)))
    assert differences(runs[0], moved)
    assert differences(runs[0], moved, bounds) == []
    assert differences(runs[0], fingerprint(_dataset(_RISK * 1.01)), bounds)
    # A chaotic variable says nothing, nor does one of which other entries are finite.
    chaotic = [fingerprint(_dataset(_RISK * factor)) for factor in (1, 1.5)]
    assert set(rounding.measured(chaotic)["risk"].values()) == {None}
    other = fingerprint(_dataset([3.0, 1e-6, 2.0, 5.0]))
    assert rounding.measured([runs[0], other]) == {"risk": None}
    assert rounding.measured(runs[:1] * 2) == {}


_ENTRY = registry.entry("fig01_clipped_moments")


def _result(entry, **facts):
    """A result as it is saved, of today's configuration unless the facts say otherwise."""
    figure = entry.load()
    config, small = (staleness.as_saved(one) for one in (figure.Config(), figure.Config.smoke()))
    stored = {"config": small, "packages": staleness.versions(), "variables": {}}
    usual = {"config": json.dumps(config), "commit": "abc", "command": "python -m it"}
    usual["fingerprint"] = json.dumps(stored)
    attrs = {name: value for name, value in (usual | facts).items() if value is not None}
    return xarray.Dataset(attrs=attrs)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"config": json.dumps({"num_points": 3})}, "configuration has changed since: highest"),
        ({"commit": None}, "outside of a repository"),
        ({"commit": "abc-dirty"}, "modified tree of abc"),
        ({"runs_commit": "abd-dirty"}, "draws runs made from a modified tree of abd"),
        ({"fingerprint": None}, "no fingerprint"),
        ({"fingerprint": json.dumps({"config": {}})}, "smoke version has changed since"),
    ],
)
def test_a_result_is_stale_without_running_it(facts, words):
    assert staleness.why_stale(_ENTRY, _result(_ENTRY)) is None
    assert words in staleness.why_stale(_ENTRY, _result(_ENTRY, **facts))


def test_a_result_of_the_papers_size_is_the_figures_result():
    entry = registry.entry("regenerated")
    paper = entry.load().Config.paper()
    config = json.dumps(staleness.as_saved(paper))
    assert staleness.why_stale(entry, _result(entry, config=config)) is None
    other = json.dumps(staleness.as_saved(dataclasses.replace(paper, seed=paper.seed + 1)))
    assert "changed since" in staleness.why_stale(entry, _result(entry, config=other))


def test_a_fingerprint_is_of_the_cpu_wherever_the_result_is_made(monkeypatch):
    def run(words, *, env, **options):
        assert words[0] == sys.executable
        assert words[-1] == _ENTRY.name
        assert env["JAX_PLATFORMS"] == "cpu"
        return subprocess.CompletedProcess(words, 0, b'a line\n{"config": {}}\n')

    monkeypatch.setattr(smoke.jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(smoke.subprocess, "run", run)
    assert smoke.fingerprint_of(_ENTRY.name) == {"config": {}}


@pytest.mark.slow
def test_a_process_of_the_cpu_gives_the_fingerprint(monkeypatch):
    here = smoke.fingerprint_of(_ENTRY.name)
    monkeypatch.setattr(smoke.jax, "default_backend", lambda: "gpu")
    there = smoke.fingerprint_of(_ENTRY.name)
    assert smoke.changes(_ENTRY.name, there, here) == []
    assert there["config"] == here["config"]


def test_a_benchmark_has_no_fingerprint(monkeypatch):
    monkeypatch.setattr(registry, "BENCHMARKS", (_ENTRY,))
    assert staleness.why_stale(_ENTRY, _result(_ENTRY, fingerprint=None)) is None
    assert staleness.why_stale(_ENTRY, _result(_ENTRY, commit="abc-dirty"))


def test_stale_results_are_declared_and_no_others(monkeypatch):
    monkeypatch.setattr(registry, "ENTRIES", (_ENTRY,))
    name, earlier = _ENTRY.name, {}
    monkeypatch.setattr(staleness, "EARLIER", earlier)
    good, dirty = _result(_ENTRY), _result(_ENTRY, commit="abc-dirty")
    assert staleness.problems({name: good}) == []
    assert staleness.problems({}) == [f"{name}: no saved result"]
    (line,) = staleness.problems({name: dirty})
    assert "run `python -m it` from a committed tree" in line
    assert staleness.why_earlier(_ENTRY, dirty) == "made from a modified tree of abc"
    earlier[name] = ("abc-dirty", "it takes days")
    assert staleness.problems({name: dirty}) == []
    assert staleness.why_earlier(_ENTRY, dirty) == "it takes days"
    # It was run again.
    (line,) = staleness.problems({name: good})
    assert "remove it" in line


def test_numbers_make_a_result_stale_and_a_declaration_needless(monkeypatch):
    monkeypatch.setattr(registry, "ENTRIES", (_ENTRY,))
    name, earlier = _ENTRY.name, {}
    monkeypatch.setattr(staleness, "EARLIER", earlier)
    saved = {name: _result(_ENTRY)}
    assert staleness.problems(saved, lambda name, stored: []) == []
    (line,) = staleness.problems(saved, lambda name, stored: ["mu: mean 1, now 2"])
    assert "mu: mean 1, now 2; run" in line
    earlier[name] = ("abc", "its numbers have moved")
    assert staleness.problems(saved, lambda name, stored: ["mu: mean 1, now 2"]) == []
    assert "remove it" in staleness.problems(saved, lambda name, stored: [])[0]
