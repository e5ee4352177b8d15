"""What a store says about itself: the identity of its sweep, as JSON, and how another differs."""

import hashlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from jaxdp.core.files.sealed_arrays import DamagedError, plain_json
from jaxdp.core.files.whole_files import read_file

_FORMAT = 2
# The values of axes stand there as digests.
_MOST_BYTES = 2**26


def digest_of(identity: Mapping[str, Any]) -> str:
    """What a shard's file holds of its sweep's identity."""
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


def written(identity: Mapping[str, Any]) -> bytes:
    """The content of a description."""
    described = {"format": _FORMAT, **identity, "digest": digest_of(identity)}
    return (json.dumps(described, indent=2) + "\n").encode()


def read(path: pathlib.Path) -> dict[str, Any]:
    """The identity that a description holds.

    Raises:
        ValueError: it is damaged, something else, or of another version of jaxdp's.
    """
    try:
        found = plain_json(read_file(path, largest=_MOST_BYTES))
        form, digest = found.pop("format"), found.pop("digest")
    except (DamagedError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise _undescribed(path) from error
    if form != _FORMAT:
        raise ValueError(
            f"expected {path} of format {_FORMAT}, got {form}: another version of jaxdp made that "
            "sweep, and may have noted less or more of what its numbers depend on; it is left as "
            "it is: use another folder, or the version that made it"
        )
    if digest != digest_of(found):
        raise _undescribed(path)
    return found


def _undescribed(path: pathlib.Path) -> ValueError:
    return ValueError(
        f"expected {path} to describe a sweep, got something else, or damage; remove that file "
        "if the folder is a sweep's: each shard says for itself which one it belongs to"
    )


def difference(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    """The first thing in which two sweeps differ, in words."""
    for part, value in wanted.items():
        there = found.get(part)
        if there == value:
            continue
        if part == "axes" and isinstance(there, list):
            return _axes_difference(there, value)
        if part == "function" and isinstance(there, dict):
            names = [item.get("name", f"version {item.get('version')}") for item in (there, value)]
            if names[0] == names[1] and there.get("python") != value.get("python"):
                return (
                    f"its function {names[0]} was compiled by Python {there.get('python')}, not "
                    f"{value.get('python')} (give version= to stand for it)"
                )
            if names[0] == names[1]:
                return (
                    f"its function {names[0]}, or something that it reaches, has changed since "
                    "(give version= to decide that)"
                )
            return f"it was made by {names[0]}, not by {names[1]}"
        if part == "jaxdp":
            return "jaxdp itself has changed since"
        if part == "libraries" and isinstance(there, dict):
            name = next(name for name in value if there.get(name) != value[name])
            return f"it was made with {name} {there.get(name)}, not {value[name]}"
        if part == "key":
            return "it was made with another key"
        return f"it was made with {part} = {there}, not {value}"
    return "it was described differently"


def _axes_difference(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> str:
    names = [[axis["name"] for axis in axes] for axes in (found, wanted)]
    if names[0] != names[1]:
        return f"its axes are {', '.join(names[0])}, not {', '.join(names[1])}"
    there, here = next(pair for pair in zip(found, wanted, strict=True) if pair[0] != pair[1])
    if there["kind"] != here["kind"]:
        return f"its axis {here['name']} is given by {there['kind']}, not by {here['kind']}"
    if there["length"] != here["length"]:
        return f"its axis {here['name']} has {there['length']} values, not {here['length']}"
    return f"its axis {here['name']} has other values"
