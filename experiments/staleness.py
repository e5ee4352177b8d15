"""Which saved results are not of today's code.

What is seen without running anything: a configuration that has changed, a result of unknown or
modified code, a result without the fingerprint of its smoke version. That the fingerprint is still
what today's code gives is seen by running the smoke version, which the slow tests do anyway and
`python -m experiments.report --check --fingerprints` does alone.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import xarray

from experiments import registry
from experiments.earlier import EARLIER
from experiments.harness.fingerprints import Fingerprint, versions

_DIRTY = "-dirty"


def why_stale(entry: registry.Entry, saved: xarray.Dataset) -> str | None:
    """Why a result is not of today's code, as far as is seen without running it; None if it is.

    Args:
        entry: of the registry.
        saved: its result.
    """
    figure, facts = entry.load(), saved.attrs
    changed = [_changed(json.loads(facts["config"]), size) for size in sizes(figure)]
    if all(changed):
        return f"its configuration has changed since: {changed[0]}"
    if "commit" not in facts:
        return "made outside of a repository: of which code is not known"
    for made, key in (("made", "commit"), ("draws runs made", "runs_commit")):
        commit = facts.get(key, "")
        if commit.endswith(_DIRTY):
            return f"{made} from a modified tree of {commit.removesuffix(_DIRTY)}"
    # A benchmark measures time.
    if entry in registry.BENCHMARKS:
        return None
    stored = fingerprint_of(saved)
    if stored is None:
        return "has no fingerprint of its smoke version"
    if changed := _changed(stored["config"], figure.Config.smoke()):
        return f"its smoke version has changed since: {changed}"
    return None


def sizes(figure: ModuleType) -> list[Any]:
    """The configurations that a saved result may be of: the usual one, and the paper's if any."""
    paper = [figure.Config.paper()] if "paper" in vars(figure.Config) else []
    return [figure.Config(), *paper]


def fingerprint_of(saved: xarray.Dataset) -> Fingerprint | None:
    """The fingerprint stored with a result; None where there is none."""
    text = saved.attrs.get("fingerprint")
    return None if text is None else json.loads(text)


def other_packages(stored: Fingerprint) -> str | None:
    """Which packages differ from those that gave a fingerprint; None where it can be compared."""
    now = versions()
    names = [name for name, version in stored["packages"].items() if now.get(name) != version]
    found = (f"{name} {stored['packages'][name]}, now {now.get(name)}" for name in names)
    return ", ".join(found) or None


def is_earlier(name: str, saved: xarray.Dataset) -> bool:
    """Whether this very result is declared to be of earlier code."""
    return name in EARLIER and EARLIER[name][0] == str(saved.attrs.get("commit"))


def why_earlier(entry: registry.Entry, saved: xarray.Dataset) -> str | None:
    """Why the page says that a result is of earlier code; None where it does not."""
    why = why_stale(entry, saved)
    return EARLIER[entry.name][1] if is_earlier(entry.name, saved) else why


def problems(
    saved: Mapping[str, xarray.Dataset],
    numbers: Callable[[str, Fingerprint], list[str]] | None = None,
) -> list[str]:
    """What is wrong with the saved results and with the list of earlier ones, a line each.

    Args:
        saved: the results by name.
        numbers: what today's code gives otherwise than a fingerprint, by the figure's name; None
            where that is left to the tests.
    """
    lines = [f"{name}: no saved result" for name in _names() if name not in saved]
    for name, dataset in saved.items():
        entry = registry.entry(name)
        why = why_stale(entry, dataset)
        is_declared = is_earlier(name, dataset)
        stored = fingerprint_of(dataset)
        is_known = why is not None
        if numbers is not None and why is None and stored is not None:
            differences = numbers(name, stored)
            why = "; ".join(differences) or None
            is_known = other_packages(stored) is None
        if why is not None and not is_declared:
            lines.append(f"{name}: {why}; run `{dataset.attrs['command']}` from a committed tree")
        if is_declared and is_known and why is None:
            lines.append(f"{name}: not stale, but experiments/earlier.py says so: remove it")
        if name in EARLIER and not is_declared:
            lines.append(
                f"{name}: was run again since experiments/earlier.py says that it is of "
                f"{EARLIER[name][0]}: remove it there"
            )
    return lines + [
        f"{name}: in experiments/earlier.py, but no saved result"
        for name in EARLIER
        if name not in saved
    ]


def as_saved(config: Any) -> dict[str, Any]:
    """A configuration as its saved form is read, which knows no tuples."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def _names() -> list[str]:
    return [entry.name for entry in registry.ENTRIES]


def _changed(saved: dict[str, Any], config: Any) -> str:
    """The fields in which a saved configuration differs from one of today."""
    now = as_saved(config)
    names = sorted(saved.keys() | now.keys())
    return ", ".join(name for name in names if saved.get(name, ...) != now.get(name, ...))
