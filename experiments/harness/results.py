"""A figure's result as a file, with all that says how it was made."""

import os
import pathlib
import platform
from typing import Any

import xarray

from experiments.harness.sources import sources
from jaxdp.sweeps.program import versions_and_devices

RESULTS = pathlib.Path("experiments", "results")


def save(dataset: xarray.Dataset, path: pathlib.Path, facts: dict[str, Any]) -> xarray.Dataset:
    """Write a dataset with how it was made, and return it as read from the file.

    Args:
        dataset: result of a figure's `run`.
        path: the file to write.
        facts: further attributes; versions, device, platform and commit are added.
    """
    dataset.attrs |= {**facts, **provenance()}
    dataset.to_netcdf(path, engine="h5netcdf")
    return read(path)


def read(path: pathlib.Path) -> xarray.Dataset:
    """A saved dataset, in memory."""
    return xarray.load_dataset(path, engine="h5netcdf")


def provenance() -> dict[str, str]:
    """Versions, device, platform and commit; without the host's name or paths."""
    facts = versions_and_devices()
    facts["platform"] = (
        f"{platform.system()} {platform.machine()}, {_processor()}, {os.cpu_count()} cores"
    )
    commit = sources().commit
    return facts | ({"commit": commit} if commit else {})


def _processor() -> str:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(models), platform.processor() or "unnamed processor")
