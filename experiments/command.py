"""What the command of every figure does: run, save, read back, draw, judge.

`python -m experiments.<paper>.<figure> [--smoke | --paper] [--out DIR]` leaves `<figure>.nc` and
`<figure>.png`; the picture and the verdicts are made from the file that was read back, so whoever
has the file has all that the picture shows.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import NamedTuple, TypeVar

import xarray
from tqdm import tqdm

from jaxdp.sweeps.provenance import commit_of, versions_and_devices

Item = TypeVar("Item")

RESULTS = pathlib.Path("experiments", "results")
SMOKE_RESULTS = pathlib.Path("results", "smoke")
PAPER_RESULTS = pathlib.Path("results", "paper")


class Check(NamedTuple):
    """One claim of a figure, what was obtained, and whether that bears it out."""

    claim: str
    obtained: str
    holds: bool


def main(
    figure: ModuleType,
    arguments: Sequence[str] | None = None,
    *,
    folders: Mapping[str, str] | None = None,
    optional_folders: Mapping[str, str] | None = None,
) -> int:
    """Run a figure's command; the exit status is 1 when one of its claims is false.

    Args:
        figure: a module with `Config`, `run`, `claims` and `plot`; `--paper` is offered where
            its `Config` has `paper`.
        arguments: those of the process when None.
        folders: further required options, name to help; each is a folder given to `run` by that
            name. Where the folder lies is not recorded.
        optional_folders: likewise; one that is not given is None.
    """
    assert figure.__spec__ is not None
    module, folders, optional_folders = figure.__spec__.name, folders or {}, optional_folders or {}
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    places = {None: RESULTS, "smoke": SMOKE_RESULTS, "paper": PAPER_RESULTS}
    sizes = {"smoke": "a small version, in seconds", "paper": "the paper's size, in hours"}
    group = parser.add_mutually_exclusive_group()
    for size, description in sizes.items():
        if size in vars(figure.Config):
            group.add_argument(
                f"--{size}", dest="size", action="store_const", const=size, help=description
            )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        help=f"folder to write to [{RESULTS}; {SMOKE_RESULTS} or {PAPER_RESULTS} for those sizes]",
    )
    for name, description in {**folders, **optional_folders}.items():
        parser.add_argument(
            f"--{name}", type=pathlib.Path, required=name in folders, help=description
        )
    options = parser.parse_args(arguments)
    out = options.out or places[options.size]
    # Before the work, so that a folder that cannot be made costs nothing.
    out.mkdir(parents=True, exist_ok=True)
    config = getattr(figure.Config, options.size)() if options.size else figure.Config()
    started = time.perf_counter()
    given = {name: getattr(options, name) for name in (*folders, *optional_folders)}
    dataset = figure.run(config, **given)
    seconds = time.perf_counter() - started
    words = ["python", "-m", module, *([f"--{options.size}"] if options.size else [])]
    words += [
        word
        for name, folder in given.items()
        if folder is not None
        for word in (f"--{name}", name.upper())
    ]
    dataset.attrs |= {
        "module": module,
        "command": " ".join(words),
        "config": json.dumps(dataclasses.asdict(config)),
        "seconds": seconds,
        **provenance(),
    }
    path = out / f"{module.rpartition('.')[2]}.nc"
    dataset.to_netcdf(path, engine="h5netcdf")
    saved = read(path)
    figure.plot(saved).savefig(path.with_suffix(".png"), dpi=150)
    verdicts = figure.claims(saved)
    for claim, holds in verdicts.items():
        print(f"{'true ' if holds else 'FALSE'}  {claim}")
    return 0 if all(verdicts.values()) else 1


def read(path: pathlib.Path) -> xarray.Dataset:
    """A saved dataset, in memory."""
    return xarray.load_dataset(path, engine="h5netcdf")


def track(items: Sequence[Item], name: Callable[[Item], str]) -> Iterator[Item]:
    """The items one by one, with a bar on standard error, or a line each without a terminal."""
    with tqdm(items, disable=None, leave=False) as bar:
        for number, item in enumerate(items, 1):
            bar.set_description(name(item))
            if bar.disable:
                print(f"{number}/{len(items)} {name(item)}", file=sys.stderr)
            yield item
            bar.update()


def provenance() -> dict[str, str]:
    """Versions, device, platform and commit; neither the host's name nor a path of its."""
    facts = versions_and_devices()
    facts["platform"] = (
        f"{platform.system()} {platform.machine()}, {_processor()}, {os.cpu_count()} cores"
    )
    commit = commit_of(pathlib.Path(__file__).parent)
    return facts | ({"commit": commit} if commit else {})


def _processor() -> str:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(models), platform.processor() or "unnamed processor")
