"""The command of every figure: run, save, read back, draw, judge.

`python -m experiments.<paper>.<figure> [--smoke | --paper] [--out DIR]` leaves `<figure>.nc` and
`<figure>.png`; the picture and the verdicts are made from the file that was read back, so the file
holds all that the picture shows. `--redraw` draws and judges an existing file.

A result belongs to the code that made it: a run refuses a modified tree, and saves the fingerprint
of the figure's smoke version with its numbers. `--smoke` does neither.
"""

import argparse
import dataclasses
import inspect
import json
import pathlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import TypeVar

import xarray

from experiments.harness.fingerprints import fingerprint_of
from experiments.harness.results import RESULTS, read, save
from experiments.harness.sources import sources
from jaxdp.core.pictures import letter_panels

Item = TypeVar("Item")

# Those of the usual size lie in a folder for each paper.
_PLACES = {
    None: RESULTS,
    "smoke": pathlib.Path("results", "smoke"),
    "paper": pathlib.Path("results", "paper"),
}
_SIZES = {"smoke": "a small version, in seconds", "paper": "the paper's size, in hours"}


def main(name: str) -> None:
    """Run the command of the module whose last line this is, if it is run and not imported.

    Args:
        name: the module's `__name__`.
    """
    if name == "__main__":
        sys.exit(command(sys.modules[name]))


def command(figure: ModuleType, arguments: Sequence[str] | None = None) -> int:
    """Run a figure's command; the exit status is 1 if one of its claims is false.

    Args:
        figure: a module with `Config`, `run`, `claims` and `plot`. `--paper` is offered if its
            `Config` has `paper`. Each argument of `run` after the first is an option that names a
            folder, required if it has no default, with the help that the module's `FOLDERS` has
            for it. Where a folder lies is not recorded.
        arguments: command line; None for that of the process.
    """
    assert figure.__spec__ is not None
    module = figure.__spec__.name
    parser, folders = _parser(figure, module)
    options = parser.parse_args(arguments)
    _, paper, name = module.split(".")
    out = options.out or (_PLACES[options.size] / ("" if options.size else paper))
    path = out / f"{name}.nc"
    if options.redraw:
        return _shown(figure, read(path), path)
    # Asked now: files may be edited while the figure runs.
    found = sources()
    if options.size != "smoke" and found.modified:
        parser.error(
            "expected a tree as committed, because a saved result names the code that made it; "
            f"got {len(found.modified)} modified files ({', '.join(found.modified[:5])}): commit "
            "them (what git ignores does not count), or run the small version with --smoke"
        )
    missing = [folder for folder, needed in folders.items() if needed and not vars(options)[folder]]
    if missing:
        parser.error(f"expected --{missing[0]}: {figure.FOLDERS[missing[0]]}")
    # Before the work, so that a folder that cannot be made costs nothing.
    out.mkdir(parents=True, exist_ok=True)
    smoke = None if options.size == "smoke" else fingerprint_of(name)
    numbers = {"fingerprint": json.dumps(smoke)} if smoke else {}
    code = {"commit": options.code} if options.code and found.commit is None else {}
    config = getattr(figure.Config, options.size)() if options.size else figure.Config()
    given = {name: getattr(options, name) for name in folders}
    started = time.perf_counter()
    dataset = figure.run(config, **given)
    seconds = time.perf_counter() - started
    words = ["python", "-m", module, *([f"--{options.size}"] if options.size else [])]
    words += [word for name in folders if given[name] for word in (f"--{name}", name.upper())]
    facts = {
        "module": module,
        "command": " ".join(words),
        "config": json.dumps(dataclasses.asdict(config)),
        "seconds": seconds,
    }
    return _shown(figure, save(dataset, path, facts | numbers | code), path)


def _shown(figure: ModuleType, saved: xarray.Dataset, path: pathlib.Path) -> int:
    """Draw a saved result next to its file and judge it; 1 if one of its claims is false."""
    drawn = figure.plot(saved)
    # Twins share their place, and a colour bar is no panel.
    panels = {
        (id(axes.figure), axes.get_position().bounds): axes
        for axes in reversed(drawn.axes)
        if axes.get_label() != "<colorbar>"
    }
    letter_panels([*reversed(panels.values())])
    drawn.savefig(path.with_suffix(".png"), dpi=150)
    verdicts = figure.claims(saved)
    for claim, holds in verdicts.items():
        print(f"{'true ' if holds else 'FALSE'}  {claim}")
    return 0 if all(verdicts.values()) else 1


def _parser(figure: ModuleType, module: str) -> tuple[argparse.ArgumentParser, dict[str, bool]]:
    """The figure's options, and its folders: True for those that it needs."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    group = parser.add_mutually_exclusive_group()
    for size, description in _SIZES.items():
        if size in vars(figure.Config):
            group.add_argument(
                f"--{size}", dest="size", action="store_const", const=size, help=description
            )
    group.add_argument(
        "--redraw", action="store_true", help="draw and judge the saved result, and run nothing"
    )
    smoke, paper = _PLACES["smoke"], _PLACES["paper"]
    usual = RESULTS / module.split(".")[1]
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        help=f"folder to write to [{usual}; {smoke} or {paper} for those sizes]",
    )
    parser.add_argument("--code", help="commit of a tree that was copied without its repository")
    _, *folders = inspect.signature(figure.run).parameters.values()
    for folder in folders:
        parser.add_argument(
            f"--{folder.name}",
            type=pathlib.Path,
            help=figure.FOLDERS[folder.name],
        )
    return parser, {folder.name: folder.default is folder.empty for folder in folders}


def track(items: Sequence[Item], name: Callable[[Item], str]) -> Iterator[Item]:
    """The items one by one, each named by a line on standard error."""
    for number, item in enumerate(items, 1):
        print(f"{number}/{len(items)} {name(item)}", file=sys.stderr)
        yield item
