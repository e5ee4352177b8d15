"""`python -m experiments.report`: the experiments' README, from their saved results alone.

With `--check` nothing is written: it says which results are not of today's code.
"""

import argparse
import json
import pathlib
import sys

import xarray

from experiments import registry
from experiments.harness import RESULTS, Check, read, table
from experiments.papers import PAPERS, Paper, PaperFigure
from experiments.staleness import problems, why_stale

_PAGE = """\
# Experiments

Written by `python -m experiments.report` from the files in `results/`, where every number in the
tables below comes from. A figure's command saves its data, reads them back, draws them, judges its
claims, and ends with status 1 when one is false. `--smoke` runs a version of seconds, `--paper` the
paper's own size where there is one, `--redraw` draws what is saved, `--out` says where to write.
DATA is a folder with `uci/` (white-space tables, target last, and `adult.csv`), `mnist/` (IDX
files, plain or gzip), `yearmsd/` (the year-prediction set, or its first rows) and `cifar10/`
(binary batches, parts of them, or an .npz); where `--data` is optional, scikit-learn fetches what
is missing.

A figure's module holds its `Config`, `run`, `checks`, `summary` and `plot`; the command, files,
claims, tables and bands are those of `harness/`. `registry.py` lists all figures, `papers.py` the
papers'.

A result belongs to the code that made it. A run refuses a modified tree, except with `--smoke`; its
result names the commit, and holds the fingerprint of its smoke version: what that gave there.
`python -m experiments.report --check` says which results are of another configuration than today's,
and with `--fingerprints`, as the slow tests do, of which the smoke version gives other numbers.

Where a time names no device, it is of two processor cores. A result of a GPU or a TPU is saved by
the same command, at the usual size or, with `--paper` and `--out`, at the paper's; its time names
the device. `--code` names the commit of a tree that was copied without its repository.

`python -m experiments.accelerator` checks numbers and measures engines, clipping, sweeps and
attacks on one GPU or TPU in minutes, from a source tree, whatever optional packages are missing:
[what came back](results/accelerator/accelerator.md).

{machines}

{papers}
"""


def main(arguments: list[str] | None = None) -> int:
    """Write README.md beside the results' folder; the exit status is 1 if a claim is false.

    With `--check` it is 1 if a result is missing or not of today's code.
    """
    parser = argparse.ArgumentParser(prog="python -m experiments.report", description=__doc__)
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--check", action="store_true", help="say which results are stale")
    parser.add_argument(
        "--fingerprints", action="store_true", help="with --check: run the smoke versions (minutes)"
    )
    options = parser.parse_args(arguments)
    if options.fingerprints and not options.check:
        parser.error("expected --fingerprints beside --check")
    folder = options.results
    paths = sorted(folder.glob("*/*.nc"))
    if not paths:
        parser.error(f"{folder}: no results; run a figure's command first")
    saved = {path.stem: read(path) for path in paths}
    if options.check:
        lines = problems(saved, with_numbers=options.fingerprints)
        compared = "compared" if options.fingerprints else "left to --fingerprints"
        print("\n".join([*lines, f"{len(saved)} results; numbers of smoke versions {compared}"]))
        return 1 if lines else 0
    text, holds = page(saved, folder.name)
    (folder.parent / "README.md").write_text(text)
    return 0 if holds else 1


def page(saved: dict[str, xarray.Dataset], folder: str) -> tuple[str, bool]:
    """The page, and whether every claim on it holds.

    Args:
        saved: the dataset of each figure by its name in the registry.
        folder: where the results lie, relative to the page.
    """
    checks = {name: registry.entry(name).load().checks(saved[name]) for name in saved}
    parts = [_paper(paper, saved, checks, folder) for paper in PAPERS]
    # A line for each machine and set of versions, with the figures that ran there.
    names: dict[str, list[str]] = {}
    for name, dataset in saved.items():
        line = "{platform}; {device}; jax {jax}".format_map(dataset.attrs)
        names.setdefault(line, []).append(name)
    machines = "\n".join(f"Run on {line}: {', '.join(which)}." for line, which in names.items())
    text = _PAGE.format(machines=machines, papers="\n\n".join(parts))
    return text, all(check.holds for found in checks.values() for check in found)


def _paper(
    paper: str, saved: dict[str, xarray.Dataset], checks: dict[str, list[Check]], folder: str
) -> str:
    """The section of a paper: its figures, ours, their claims, and each with its picture."""
    entries = [entry for entry in registry.ENTRIES if entry.paper == paper]
    shown = [entry for entry in entries if entry.name in saved]
    parts = [f"## {PAPERS[paper].title}", _figures(PAPERS[paper], saved, checks)]
    rows = [[entry.name, entry.shows, entry.paper_size or ""] for entry in entries]
    parts.append(table(["module", "what it shows", "`--paper`"], rows))
    if shown:
        parts.append(_claims(shown, saved, checks))
    for entry in shown:
        dataset, name = saved[entry.name], entry.name
        picture = f"![{name}]({folder}/{entry.paper}/{name}.png)"
        parts += [f"### {name}", picture, entry.load().summary(dataset)]
    return "\n\n".join(part for part in parts if part)


def _figures(paper: Paper, saved: dict[str, xarray.Dataset], checks: dict[str, list[Check]]) -> str:
    """Every figure of a paper as a table, where it is made and what came out; "" of no paper."""
    rows = [
        [
            f"{paper.key} Figure {one.number}",
            f"[{one.module}](#{one.module})" if one.module in saved else one.module,
            _size(one, saved[one.module]) if one.module in saved else "not run",
            one.paper_size,
            _verdict(one, checks.get(one.module, [])),
        ]
        for one in paper.figures
    ]
    head = ["figure of the paper", "here", "size here", "size in the paper", "verdict"]
    return table(head, rows) if rows else ""


def _size(figure: PaperFigure, saved: xarray.Dataset) -> str:
    """The size of the saved result: its configuration in the words of the table."""
    config = json.loads(saved.attrs["config"])
    lists = {name: _Listed(value) for name, value in config.items() if isinstance(value, list)}
    return figure.size.format(**config | lists)


class _Listed(list):
    """A list that is written as a sentence has it, and read as a list."""

    @property
    def last(self) -> object:
        return self[-1]

    def __str__(self) -> str:
        return ", ".join(map(str, self))


def _verdict(figure: PaperFigure, checks: list[Check]) -> str:
    held = sum(bool(check.holds) for check in checks)
    return f"{figure.verdict}; {held} of {len(checks)} claims hold" if checks else figure.verdict


def _claims(
    shown: list[registry.Entry],
    saved: dict[str, xarray.Dataset],
    checks: dict[str, list[Check]],
) -> str:
    """A row for each claim, with the command under which it was judged."""
    rows = []
    for entry in shown:
        name, facts = entry.name, saved[entry.name].attrs
        # What was trained in earlier stretches took its time too.
        seconds = max(facts["seconds"], facts.get("training_seconds", 0))
        time = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
        time += "" if facts["device"].endswith("(cpu)") else f" on {facts['device']}"
        is_old = why_stale(entry, saved[name]) is not None
        code = "**from earlier code**" if is_old else facts["commit"]
        first = [f"[{name}](#{name})", f"`{facts['command']}`", time, code]
        for check in checks[name]:
            texts = (text.replace("|", "\\|") for text in (check.claim, check.obtained))
            rows.append([*first, *texts, "true" if check.holds else "**false**"])
            first = [""] * len(first)
    return table(["figure", "command", "time", "code", "expected", "obtained", "verdict"], rows)


if __name__ == "__main__":
    sys.exit(main())
