"""Provenance of numbers: the function's name, versions and devices; no host, and no path."""

import dataclasses
import functools
import inspect
import platform
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import numpy as np

from jaxdp.core.digests import ADDRESS
from jaxdp.core.version import version_of


def versions_and_devices() -> dict[str, str]:
    """The provenance of a shard: versions, and the devices of this process."""
    devices = jax.local_devices()
    return {
        "jaxdp": version_of("jaxdp-lab"),
        "jax": jax.__version__,
        "jaxlib": version_of("jaxlib"),
        "python": platform.python_version(),
        "device": f"{len(devices)} x {devices[0].device_kind} ({devices[0].platform})",
    }


def merged(parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Provenance of several shards: each fact's different values, with semicolons between."""
    found: dict[str, set[str]] = {}
    for part in parts:
        for name, value in part.items():
            found.setdefault(name, set()).add(value)
    return {name: "; ".join(sorted(values)) for name, values in found.items()}


def name_of(function: Any) -> str:
    """The name of a function or callable, with its module, and what a partial one is given."""
    function = inspect.unwrap(function)
    if isinstance(function, functools.partial):
        # Only descriptions are named: any other argument may be somebody's secret.
        given = [_described(value) for value in function.args]
        given += [f"{name}={_described(value)}" for name, value in function.keywords.items()]
        return f"{name_of(function.func)}({', '.join(given)})"
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def label(value: Any, longest: int = 60) -> str:
    """A name of a value of at most so many letters; of a description, with its numbers."""
    if isinstance(value, (np.ndarray, np.generic, jax.Array)):
        name = f"{float(value):g}" if value.shape == () else f"array of shape {value.shape}"
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        named = ", ".join(f"{name}={label(part, longest)}" for name, part in parts.items())
        name = f"{type(value).__name__}({named})"
    else:
        name = " ".join((getattr(value, "__qualname__", None) or str(value)).split())
        name = ADDRESS.sub("", name)
    return name if len(name) <= longest else f"{name[: longest - 3]}..."


def _described(value: Any) -> str:
    return label(value, 200) if dataclasses.is_dataclass(value) else type(value).__name__
