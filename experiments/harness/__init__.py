"""Shared by all figures, so that a figure holds only its Config, run, checks and plot.

Colours, axes and bands are in `experiments.harness.drawing`.
"""

from experiments.harness.command import command, main, track
from experiments.harness.datasets import (
    dataset,
    empty,
    in_units,
    over_runs,
    standard_error,
)
from experiments.harness.figures import Check, claims_of, listed, size, span, table
from experiments.harness.fingerprints import fingerprint
from experiments.harness.processes import spread
from experiments.harness.results import RESULTS, provenance, read, save

__all__ = [
    "RESULTS",
    "Check",
    "claims_of",
    "command",
    "dataset",
    "empty",
    "fingerprint",
    "in_units",
    "listed",
    "main",
    "over_runs",
    "provenance",
    "read",
    "save",
    "size",
    "span",
    "spread",
    "standard_error",
    "table",
    "track",
]
