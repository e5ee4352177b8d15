"""Runs that one figure saved and another draws: read only if they are of the size asked for."""

import dataclasses
import json
import pathlib
from typing import Any

import xarray

from experiments import harness


def runs_of(path: pathlib.Path, config: Any) -> xarray.Dataset:
    """The saved dataset, with `runs_seconds`, which it took, and `runs_commit`, which made it.

    Raises:
        ValueError: it was made with another configuration.
    """
    saved = harness.read(path)
    # As JSON has it, which knows no tuples.
    wanted = json.loads(json.dumps(dataclasses.asdict(config)))
    if json.loads(saved.attrs["config"]) != wanted:
        raise ValueError(f"{path}: made with another configuration: {saved.attrs['config']}")
    facts = {name: saved.attrs[name] for name in ("seconds", "commit") if name in saved.attrs}
    return saved.assign_attrs({f"runs_{name}": value for name, value in facts.items()})
