"""Runs every script of this folder on the inputs of its case and compares with the answers.

    python docs/papers/reference_cases/check.py

Exit status 1 if an answer is off by more than a relative 1e-10.
"""

import importlib.util
import json
import pathlib
import sys

import numpy as np

FOLDER = pathlib.Path(__file__).parent


def reproduced(case: pathlib.Path) -> dict:
    """The answers of the script next to a case's file."""
    spec = importlib.util.spec_from_file_location(case.stem, case.with_suffix(".py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.answers(json.loads(case.read_text(encoding="utf-8"))["inputs"])


def largest_gap(found, wanted) -> float:
    """The largest relative difference of two nested answers of equal names; NaN if one is NaN."""
    if isinstance(wanted, dict):
        assert sorted(found) == sorted(wanted), (sorted(found), sorted(wanted))
        return float(np.max([largest_gap(found[name], wanted[name]) for name in wanted]))
    found, wanted = np.asarray(found, float), np.asarray(wanted, float)
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    # An entry that is 0 up to rounding is compared with the largest entry.
    largest = np.abs(wanted).max() or 1.0
    scale = np.where(np.abs(wanted) < 1e-13 * largest, largest, np.abs(wanted))
    return float(np.max(np.abs(found - wanted) / scale))


def main() -> int:
    """Print the gap of every case and return the exit status."""
    gaps = {
        case.stem: largest_gap(reproduced(case), json.loads(case.read_text())["answers"])
        for case in sorted(FOLDER.glob("*.json"))
    }
    for name, gap in gaps.items():
        print(f"{name:24} {gap:.1e}")
    # A NaN gap fails: no comparison with it is true.
    return int(not np.max(list(gaps.values())) <= 1e-10)


if __name__ == "__main__":
    sys.exit(main())
