"""Where numbers come from: versions, device and commit; never a host's name or a path."""

import functools
import importlib.metadata
import inspect
import pathlib
import platform
import subprocess
from collections.abc import Callable, Iterable, Mapping

import jax


def provenance(function: Callable) -> dict[str, str]:
    """Versions, devices, and the commit of the function's file if it lies in a repository."""
    commit = commit_of(_folder(function))
    return versions_and_devices() | ({"git_commit": commit} if commit else {})


def versions_and_devices() -> dict[str, str]:
    """What runs here, and on what."""
    devices = jax.local_devices()
    return {
        "jaxdp": _version("jaxdp-lab"),
        "jax": jax.__version__,
        "jaxlib": _version("jaxlib"),
        "python": platform.python_version(),
        "device": f"{len(devices)} x {devices[0].device_kind} ({devices[0].platform})",
    }


@functools.cache
def commit_of(folder: pathlib.Path | None) -> str | None:
    """A folder's commit, marked where files differ from it; None outside a repository.

    As it was when this process asked first; without a folder it is the current one.
    """
    words = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip() or None


def merged(parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Provenance of several shards: each fact's different values, with semicolons between."""
    found: dict[str, dict[str, None]] = {}
    for part in parts:
        for name, value in part.items():
            found.setdefault(name, {})[value] = None
    return {name: "; ".join(sorted(values)) for name, values in found.items()}


def _folder(function: Callable) -> pathlib.Path | None:
    """The folder of the file that the function stands in; None, the current one, without a file."""
    while isinstance(function, functools.partial):
        function = function.func
    try:
        folder = pathlib.Path(inspect.getsourcefile(inspect.unwrap(function)) or "").parent
    except TypeError:
        return None
    return folder if folder.is_dir() else None


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "source tree, not installed"
