"""Which saved results are not of today's code.

Two things show it: the configuration of a result, and the fingerprint of its smoke version, which
today's code has to reproduce. The first is seen without running anything. The smoke versions are
run by the slow tests, and by `python -m experiments.report --check --fingerprints`.
"""

import dataclasses
import json
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import xarray

from experiments import registry, smoke
from experiments.harness.fingerprints import Fingerprint, alike, differences, versions


def why_stale(entry: registry.Entry, saved: xarray.Dataset) -> str | None:
    """Why a result is not of today's code, as far as is seen without running it; None if it is.

    Args:
        entry: entry of the registry.
        saved: its result.
    """
    figure, facts = entry.load(), saved.attrs
    changed = [_changed(json.loads(facts["config"]), size) for size in sizes(figure)]
    if all(changed):
        return f"its configuration has changed since: {changed[0]}"
    if "commit" not in facts:
        return "made outside of a repository: its code is not known"
    # A benchmark measures time.
    if entry in registry.BENCHMARKS:
        return None
    if "fingerprint" not in facts:
        return "has no fingerprint of its smoke version"
    if changed := _changed(fingerprint_in(saved)["config"], figure.Config.smoke()):
        return f"its smoke version has changed since: {changed}"
    return None


def changed_numbers(stored: Fingerprint, found: Fingerprint) -> list[str] | None:
    """Numbers that differ with today's code, a line each; None if packages have other versions.

    Args:
        stored: fingerprint saved with a result.
        found: fingerprint of its smoke version with today's code.
    """
    return differences(stored, found) if stored["packages"] == versions() else None


def problems(saved: Mapping[str, xarray.Dataset], *, with_numbers: bool = False) -> list[str]:
    """The results that are missing or not of today's code, a line each.

    Args:
        saved: the results by name.
        with_numbers: True to run the smoke versions too, which takes minutes.
    """
    lines = [f"{one.name}: no saved result" for one in registry.ENTRIES if one.name not in saved]
    for name, dataset in saved.items():
        entry = registry.entry(name)
        why = why_stale(entry, dataset)
        if why is None and with_numbers and entry in registry.FIGURES:
            found = changed_numbers(fingerprint_in(dataset), smoke.numbers(name))
            why = "its fingerprint is of other packages" if found is None else "; ".join(found)
        if why:
            lines.append(f"{name}: {why}; run `{dataset.attrs['command']}` from a committed tree")
    return lines


def sizes(figure: ModuleType) -> list[Any]:
    """The configurations that a saved result may have: the usual one, and the paper's if any."""
    paper = [figure.Config.paper()] if "paper" in vars(figure.Config) else []
    return [figure.Config(), *paper]


def fingerprint_in(saved: xarray.Dataset) -> Fingerprint:
    """The fingerprint stored with a result."""
    return json.loads(saved.attrs["fingerprint"])


def as_saved(config: Any) -> dict[str, Any]:
    """A configuration as it is read back after saving, without tuples."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def _changed(saved: dict[str, Any], config: Any) -> str:
    """The fields in which a saved configuration differs from one of today."""
    now = as_saved(config)
    names = sorted(saved.keys() | now.keys())
    return ", ".join(name for name in names if not alike(saved.get(name, ...), now.get(name, ...)))
