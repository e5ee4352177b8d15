"""Runs that one figure saved and another draws: read only if they are of the size asked for."""

import json
import pathlib
from typing import Any

import xarray

from experiments import harness
from experiments.staleness import as_saved


def runs_of(path: pathlib.Path, config: Any) -> xarray.Dataset:
    """The saved dataset, with `runs_seconds`, which it took, and `runs_commit`, which made it.

    Raises:
        ValueError: it was made with another configuration.
    """
    saved = harness.read(path)
    if json.loads(saved.attrs["config"]) != as_saved(config):
        raise ValueError(f"{path}: made with another configuration: {saved.attrs['config']}")
    facts = {name: saved.attrs[name] for name in ("seconds", "commit") if name in saved.attrs}
    return saved.assign_attrs({f"runs_{name}": value for name, value in facts.items()})
