"""`python -m experiments.report`: the experiments' README, from their saved results alone."""

import argparse
import importlib
import pathlib
import sys

import xarray

from experiments import command

_PAGE = """\
# Experiments

Written by `python -m experiments.report` from the files in `results/`, where every number in the
tables below comes from. A figure's command saves its data, reads them back, draws them, judges its
claims, and ends with status 1 when one is false. `--smoke` runs a version of seconds, `--paper` the
paper's own size where there is one, `--out` says where to write. DATA is a folder with `uci/`
(white-space tables, target last, and `adult.csv`), `mnist/` (IDX files, plain or gzip), `yearmsd/`
(the year-prediction set, or its first rows) and `cifar10/` (binary batches, parts of them, or an
.npz); where `--data` is optional, scikit-learn fetches what is missing.

{machines}

| figure | command | time | expected | obtained | verdict |
|---|---|---|---|---|---|
{rows}

{sections}
"""


def main(arguments: list[str] | None = None) -> int:
    """Write README.md beside the results' folder; the exit status is 1 if a claim is false."""
    parser = argparse.ArgumentParser(prog="python -m experiments.report", description=__doc__)
    parser.add_argument("--results", type=pathlib.Path, default=command.RESULTS)
    folder = parser.parse_args(arguments).results
    paths = sorted(folder.glob("*.nc"))
    if not paths:
        parser.error(f"{folder}: no results; run a figure's command first")
    saved = {path.stem: command.read(path) for path in paths}
    text, holds = page(saved, folder.name)
    (folder.parent / "README.md").write_text(text)
    return 0 if holds else 1


def page(saved: dict[str, xarray.Dataset], folder: str) -> tuple[str, bool]:
    """The page, and whether every claim on it holds.

    Args:
        saved: each figure's dataset by the name of its file.
        folder: where the pictures lie, relative to the page.
    """
    rows, sections, verdicts = [], [], []
    for name, dataset in saved.items():
        figure = importlib.import_module(dataset.attrs["module"])
        checks = figure.checks(dataset)
        verdicts += [check.holds for check in checks]
        head = f"[{name}](#{name}) | `{dataset.attrs['command']}` | {_duration(dataset)}"
        for check in checks:
            verdict = "true" if check.holds else "**false**"
            cells = (_cell(text) for text in (check.claim, check.obtained))
            rows.append(f"| {head} | {' | '.join(cells)} | {verdict} |")
            head = " | | "
        picture = f"![{name}]({folder}/{name}.png)"
        sections.append(f"## {name}\n\n{picture}\n\n{figure.summary(dataset)}")
    text = _PAGE.format(
        machines=_machines(saved), rows="\n".join(rows), sections="\n\n".join(sections)
    )
    return text, all(verdicts)


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


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
