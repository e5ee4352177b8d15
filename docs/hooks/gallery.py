"""The gallery: every figure with its verdict and the command that makes it.

Written from `experiments/README.md`, which `python -m experiments.report` writes from the saved
results, and from the registry of figures: nothing here is a second copy.
"""

import dataclasses
import pathlib
import re

from experiments import registry
from experiments.papers import PAPERS

ROOT = pathlib.Path(__file__).resolve().parents[2]
REPORT = ROOT / "experiments" / "README.md"
# What a reader wants to do: a sentence, the page that tells how, and the figures that show it.
USES = (
    (
        *("Choose clip, rate and schedule", "how_to/plan.md"),
        "fig03_clip_and_rate fig04_schedules constant_clip fig04_mnist_hyperparameters planning",
    ),
    (
        *("Predict a run before it is made", "concepts/everyday_dp_sgd.md"),
        "mnist_classification fig02_risk_curves steps_batches_clip fig03_random_features "
        "real_tables fig01_clipped_moments",
    ),
    (
        *("Choose batches, passes, width and noise", "concepts/everyday_dp_sgd.md"),
        "multi_pass correlated_noise fig01_mnist_width fig02_mnist_samples",
    ),
    ("Know in advance what fine-tuning gives", "how_to/forecast.md", "stand_ins"),
    ("Learn from a table privately", "how_to/private_tables.md", "leaderboard uci_tables"),
    ("Train a network privately", "how_to/train_a_network.md", "published_digits"),
    (
        *("Release a function", "how_to/release_a_function.md"),
        "fig01_synthetic fig03_year_prediction basis_selection private_kernel_ridge",
    ),
    (
        *("Find what leaks", "how_to/attack.md"),
        "private_images under_privacy fig01_cifar_thresholds fig03_sphere_thresholds fig04_signs "
        "fig05_networks fig06_multiclass_images known_rows reconstruction",
    ),
    (
        *("Know how the risk falls with samples and budget", "concepts/parts.md"),
        "small_gamma power_law_spectra excess_risk theorem_rates rates",
    ),
    ("See which statements hold", "coverage.md", "lemmas"),
    (
        *("Know how long it takes", "how_to/train_a_network.md"),
        "simulators ode_grid per_sample_clipping secret_noise",
    ),
)
_CELL = re.compile(r"(?<!\\)\|")


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure as the report has it.

    Attributes:
        folder: of its module, one for each paper.
        name: of its module.
        shows: in words.
        command: that makes it.
        time: that this took.
        code: the commit that made the result, or that it is from earlier code.
        verdicts: for each claim, whether it holds.
    """

    folder: str
    name: str
    shows: str
    command: str
    time: str
    code: str
    verdicts: tuple[bool, ...]


def figures(report: str | None = None) -> list[Figure]:
    """The figures that have saved results, in the registry's order.

    Args:
        report: the text of `experiments/README.md`, unless it is to be read.
    """
    text = REPORT.read_text(encoding="utf-8") if report is None else report
    commands: dict[str, tuple[str, str, str]] = {}
    verdicts: dict[str, list[bool]] = {}
    name = ""
    for line in text.splitlines():
        cells = [cell.strip() for cell in _CELL.split(line)[1:-1]]
        if len(cells) != 7 or cells[6].strip("*") not in ("true", "false"):
            continue
        # A figure's further claims stand in rows of their own, under its first.
        if cells[0]:
            name = cells[0][1:].partition("]")[0]
            commands[name] = cells[1].strip("`"), cells[2], cells[3].strip("*")
        verdicts.setdefault(name, []).append(cells[6] == "true")
    return [
        Figure(
            entry.paper, entry.name, entry.shows, *commands[entry.name], (*verdicts[entry.name],)
        )
        for entry in registry.ENTRIES
        if entry.name in commands
    ]


def page() -> str:
    """Markdown of the gallery."""
    lines = [
        "# Gallery",
        "",
        "The figures of the papers and of what goes beyond them, as this repository makes them. A "
        "figure states claims before it is run and judges them by its saved data; what was "
        "expected and what came out, number by number, is on [the page of claims](claims.md), with "
        "every figure of every paper; [here](by_use.md) they are by use. "
        "Each command writes data and picture; `--smoke` runs a version of seconds.",
    ]
    folder = ""
    for figure in figures():
        if figure.folder != folder:
            folder = figure.folder
            lines += ["", f"## {PAPERS[folder].title}"]
        lines += ["", *_entry(figure)]
    return "\n".join(lines) + "\n"


def page_by_use() -> str:
    """Markdown of the gallery by use: small pictures that lead to those of the gallery."""
    lines = ["# Gallery by use", "", "The same figures as [by paper](index.md), by what you want."]
    found = {figure.name: figure for figure in figures()}
    for use, how, named in USES:
        lines += ["", f"## {use}", "", f"[How it is done](../{how})", "", "<div class='uses'>"]
        for name in named.split():
            figure = found[name]
            lines += [
                f'<a href="../#{name}"><img alt="" loading="lazy" '
                f'src="../{figure.folder}/{name}.png">{figure.shows}</a>'
            ]
        lines += ["</div>"]
    return "\n".join(lines) + "\n"


def _entry(figure: Figure) -> list[str]:
    held, number = sum(figure.verdicts), len(figure.verdicts)
    earlier = " The result is from earlier code." if figure.code == "from earlier code" else ""
    return [
        f"### {figure.name}",
        "",
        f"{figure.shows[0].upper()}{figure.shows[1:]}. "
        f"[{held} of {number} claims hold](claims.md#{figure.name}); it ran for {figure.time}."
        f"{earlier}",
        "",
        f"[![{figure.name}]({figure.folder}/{figure.name}.png)](claims.md#{figure.name})",
        "",
        "```bash",
        figure.command,
        "```",
    ]
