"""Fingerprints see a change of a result's code, and not another machine's rounding."""

import json
import math

import numpy as np
import pytest
import xarray

from experiments import registry, smoke, staleness
from experiments.harness import fingerprint, fingerprints
from experiments.harness.fingerprints import agreed, differences


def _dataset(risk, name="a"):
    values = {"risk": ("place", np.asarray(risk, float)), "name": ("one", [name])}
    return xarray.Dataset(values, attrs={"config": json.dumps({"count": 3})})


_RISK = np.array([3.0, 1e-6, np.nan, 5.0])


@pytest.mark.parametrize(
    "changed",
    [
        _dataset(_RISK * (1 + 3e-5)),
        # The order, a small entry, what is finite, the shape, a word.
        _dataset(_RISK[[3, 1, 2, 0]]),
        _dataset(_RISK + np.array([0, 1e-9, 0, 0])),
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


def test_what_two_roundings_do_not_agree_on_is_not_compared():
    one, other = (fingerprint(_dataset(_RISK * factor)) for factor in (1, 1 + 1e-4))
    assert agreed(one, fingerprint(_dataset(_RISK * (1 + 1e-7)))) == one
    kept = agreed(one, other)
    assert set(kept["variables"]["risk"]) == {"shape", "finite"}
    assert kept["variables"]["name"] == one["variables"]["name"]
    assert differences(one, other)
    assert differences(kept, other) == []
    assert differences(kept, fingerprint(_dataset(_RISK[:3])))
    # Of one number that moves beside many that do not, the others are still compared.
    moved = fingerprint(_dataset(_RISK + np.array([0, 1e-10, 0, 0])))
    kept = agreed(one, moved)
    assert set(one["variables"]["risk"]) - set(kept["variables"]["risk"]) == {"log"}
    assert differences(kept, moved) == []
    assert differences(kept, other)


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
        ({"fingerprint": None}, "no fingerprint"),
        ({"fingerprint": json.dumps({"config": {}})}, "smoke version has changed since"),
    ],
)
def test_a_result_is_stale_without_running_it(facts, words):
    assert staleness.why_stale(_ENTRY, _result(_ENTRY)) is None
    assert words in staleness.why_stale(_ENTRY, _result(_ENTRY, **facts))


def test_a_smoke_versions_configuration_is_compared_to_rounding():
    one = {"config": {"clips": [0.1, 3], "name": "a"}, "variables": {}}
    for clips, lines in (([math.nextafter(0.1, 1), 3], 0), ([0.1 + 1e-8, 3], 1), ([0.1, 4], 1)):
        other = {"config": {"clips": clips, "name": "a"}, "variables": {}}
        assert len(differences(one, other)) == lines
    assert not fingerprints.alike([1.0], [1.0, 1.0])
    assert not fingerprints.alike({"a": 1.0}, {"b": 1.0})


@pytest.mark.slow
def test_a_process_that_rounds_differently_gives_the_fingerprint_of_this_one():
    found = fingerprints._of_a_process(_ENTRY.name, fingerprints._ROUNDINGS[1])
    assert found["variables"]["mu"].keys() >= {"mean", "square", "wave", "log"}
    assert differences(found, smoke.numbers(_ENTRY.name)) == []


def test_results_that_are_missing_or_stale_are_named(monkeypatch):
    monkeypatch.setattr(registry, "ENTRIES", (_ENTRY,))
    name, good = _ENTRY.name, _result(_ENTRY)
    assert staleness.problems({name: good}) == []
    assert staleness.problems({}) == [f"{name}: no saved result"]
    (line,) = staleness.problems({name: _result(_ENTRY, config=json.dumps({}))})
    assert "changed since" in line
    assert line.endswith("run `python -m it` from a committed tree")
    small = json.loads(good.attrs["fingerprint"])
    monkeypatch.setattr(staleness.smoke, "numbers", lambda name: small)
    assert staleness.problems({name: good}, with_numbers=True) == []
    moved = small | {"variables": {"mu": {"mean": 2.0}}}
    monkeypatch.setattr(staleness.smoke, "numbers", lambda name: moved)
    (line,) = staleness.problems({name: good}, with_numbers=True)
    assert "mu: only one of the two has it; run" in line
    # What a benchmark measures is another number each time.
    monkeypatch.setattr(registry, "BENCHMARKS", (_ENTRY,))
    monkeypatch.setattr(registry, "FIGURES", ())
    bare = _result(_ENTRY, fingerprint=None)
    assert staleness.problems({name: bare}, with_numbers=True) == []
