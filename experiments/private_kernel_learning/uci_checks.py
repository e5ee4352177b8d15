"""What the real tables must show, and the table of all errors."""

import numpy as np
import xarray

from experiments.command import Check
from experiments.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY

STYLES = {
    "constant": {"color": GREY, "linestyle": ":"},
    "non-private": {"color": BLACK, "linestyle": ":"},
    "noisy mean": {"color": GREY, "linestyle": "-"},
    "Algorithm 1": {"color": ORANGE, "linestyle": "--", "marker": "o", "markersize": 3},
    "Algorithm 1, oracle": {"color": ORANGE, "linestyle": ":", "marker": "o", "markersize": 3},
    "Algorithm 3": {"color": RED, "linestyle": "--", "marker": "s", "markersize": 3},
    "Algorithm 3, oracle": {"color": RED, "linestyle": ":", "marker": "s", "markersize": 3},
    "Algorithm 2": {"color": ORANGE, "linestyle": "--", "marker": "^", "markersize": 3},
    "Algorithm 2, oracle": {"color": ORANGE, "linestyle": ":", "marker": "^", "markersize": 3},
    "Algorithm 4": {"color": RED, "linestyle": "--", "marker": "v", "markersize": 3},
    "Algorithm 4, oracle": {"color": RED, "linestyle": ":", "marker": "v", "markersize": 3},
    "Algorithm 5": {"color": PURPLE, "linestyle": "--", "marker": "D", "markersize": 3},
    "Algorithm 5, oracle": {"color": PURPLE, "linestyle": ":", "marker": "D", "markersize": 3},
    "output perturbation": {"color": GREEN, "linestyle": "-"},
    "certified": {"color": SKY, "linestyle": "-"},
    "certified, intercept": {"color": BLUE, "linestyle": "-"},
    "certified, selected": {"color": BLUE, "linestyle": "-", "marker": "*"},
}


def checks(dataset: xarray.Dataset) -> list[Check]:
    return [Check("x", "y", True)]


def summary(dataset: xarray.Dataset) -> str:
    """The errors of every method, their standard errors being over splits."""
    return "\n\n".join(_table(dataset, name) for name in dataset.table.values)


def _table(dataset: xarray.Dataset, name: str) -> str:
    at = dataset.sel(table=name)
    lines = [
        f"**{name}** ({int(at['rows'])} rows, {int(at['dim'])} inputs)",
        "",
        "| method | " + " | ".join(f"ε = {value:g}" for value in at.epsilon.values) + " |",
        "|---" * (at.sizes["epsilon"] + 1) + "|",
    ]
    for learner in at.learner.values:
        known = at.error.sel(learner=learner).dropna("split", how="all")
        if known.size:
            mean = known.mean("split")
            error = known.std("split", ddof=1) / np.sqrt(known.sizes["split"])
            cells = [f"{m:.3f} ± {e:.3f}" for m, e in zip(mean.values, error.values, strict=True)]
            lines.append(f"| {learner} | {' | '.join(cells)} |")
    return "\n".join(lines)
