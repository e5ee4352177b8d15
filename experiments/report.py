"""`python -m experiments.report`: the experiments' README, from their saved results alone."""

import argparse
import pathlib
import sys

import xarray

from experiments import registry
from experiments.harness import RESULTS, read, table

_PAGE = """\
# Experiments

Written by `python -m experiments.report` from the files in `results/`, where every number in the
tables below comes from. A figure's command saves its data, reads them back, draws them, judges its
claims, and ends with status 1 when one is false. `--smoke` runs a version of seconds, `--paper` the
paper's own size where there is one, `--out` says where to write. DATA is a folder with `uci/`
(white-space tables, target last, and `adult.csv`), `mnist/` (IDX files, plain or gzip), `yearmsd/`
(the year-prediction set, or its first rows) and `cifar10/` (binary batches, parts of them, or an
.npz); where `--data` is optional, scikit-learn fetches what is missing.

A figure's module holds its `Config`, `run`, `checks`, `summary` and `plot`; the command, files,
claims, tables and bands are those of `harness/`. `registry.py` lists all figures:

{figures}

{machines}

{claims}

{sections}
"""


def main(arguments: list[str] | None = None) -> int:
    """Write README.md beside the results' folder; the exit status is 1 if a claim is false."""
    parser = argparse.ArgumentParser(prog="python -m experiments.report", description=__doc__)
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    folder = parser.parse_args(arguments).results
    paths = sorted(folder.glob("*.nc"))
    if not paths:
        parser.error(f"{folder}: no results; run a figure's command first")
    saved = {path.stem: read(path) for path in paths}
    text, holds = page(saved, folder.name)
    (folder.parent / "README.md").write_text(text)
    return 0 if holds else 1


def page(saved: dict[str, xarray.Dataset], folder: str) -> tuple[str, bool]:
    """The page, and whether every claim on it holds.

    Args:
        saved: the dataset of each figure by its name in the registry.
        folder: where the pictures lie, relative to the page.
    """
    rows, sections, verdicts = [], [], []
    for name, dataset in saved.items():
        figure = registry.entry(name).load()
        checks = figure.checks(dataset)
        verdicts += [check.holds for check in checks]
        first = [f"[{name}](#{name})", f"`{dataset.attrs['command']}`", _duration(dataset)]
        for check in checks:
            texts = (text.replace("|", "\\|") for text in (check.claim, check.obtained))
            rows.append([*first, *texts, "true" if check.holds else "**false**"])
            first = ["", "", ""]
        picture = f"![{name}]({folder}/{name}.png)"
        sections.append(f"## {name}\n\n{picture}\n\n{figure.summary(dataset)}")
    head = ["figure", "command", "time", "expected", "obtained", "verdict"]
    text = _PAGE.format(
        figures=_figures(),
        machines=_machines(saved),
        claims=table(head, rows),
        sections="\n\n".join(sections),
    )
    return text, all(verdicts)


def _figures() -> str:
    """The registry as a table."""
    rows = [
        [entry.paper, entry.name, entry.shows, entry.paper_size or ""] for entry in registry.ENTRIES
    ]
    return table(["folder", "module", "what it shows", "`--paper`"], rows)


def _machines(saved: dict[str, xarray.Dataset]) -> str:
    """A line for each machine and set of versions, with the figures that ran there."""
    names: dict[str, list[str]] = {}
    for name, dataset in saved.items():
        facts = dataset.attrs
        line = f"{facts['platform']}; {facts['device']}; jax {facts['jax']}"
        names.setdefault(line, []).append(name)
    return "\n".join(f"Run on {line}: {', '.join(which)}." for line, which in names.items())


def _duration(dataset: xarray.Dataset) -> str:
    seconds = dataset.attrs["seconds"]
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


if __name__ == "__main__":
    sys.exit(main())
