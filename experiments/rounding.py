"""`python -m experiments.rounding [FIGURE ...]`: how far rounding alone moves a smoke version.

Runs smoke versions as processors and compilers round that differ: with the instructions of this
machine, with older ones and a single thread, and without most of the compiler's optimisations.
Where the numbers of a fingerprint move by a tenth of `RTOL` or more, `rounding.json` gets ten times
the distance, rounded up to a power of ten: by so much a number may differ on another machine. What
would have to differ by more than a tenth to be seen is not compared, nor is a variable of which
entries become finite or another word: an attack of a thousand steps is chaotic, and a seed's secret
noise is hashed with what it hides, so that one rounding changes all of it. What such numbers say is
judged by the figure's claims alone.
"""

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence

from experiments import registry, smoke
from experiments.harness.fingerprints import ROUNDING, RTOL, Fingerprint, Rounding, alike, distances

_MARGIN, _LOOSEST = 10, 0.1
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_SETTINGS = {
    "this machine's": {},
    "older instructions": {
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        **_ONE_THREAD,
    },
    "unoptimised": {
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false",
    },
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the figures named, or all, and write what was found into `rounding.json`."""
    parser = argparse.ArgumentParser(prog="python -m experiments.rounding")
    names = [entry.name for entry in registry.FIGURES]
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help="[all]")
    parser.add_argument(
        "--print", action="store_true", help="a fingerprint, as this process rounds"
    )
    options = parser.parse_args(arguments)
    if wrong := set(options.figures) - set(names):
        parser.error(f"expected figures of {names}, got {sorted(wrong)}")
    if options.print:
        print(json.dumps([smoke.fingerprint_of(name) for name in options.figures]))
        return 0
    found = json.loads(ROUNDING.read_text()) if ROUNDING.exists() else {}
    for name in options.figures or names:
        found[name] = measured([_under(setting, name) for setting in _SETTINGS.values()])
        print(f"{name}: {len(found[name])} variables move", file=sys.stderr)
        write(found)
    return 0


def write(found: dict[str, Rounding]) -> None:
    """The file, in the registry's order; figures that do not move are left out."""
    ordered = {one.name: found[one.name] for one in registry.FIGURES if found.get(one.name)}
    ROUNDING.write_text(json.dumps(ordered, indent=1, sort_keys=False) + "\n")


def measured(fingerprints: Sequence[Fingerprint]) -> Rounding:
    """By how much the numbers of fingerprints of the same code may differ, where that is much."""
    bounds: dict[str, dict[str, float | None] | None] = {}
    for first, second in itertools.combinations([one["variables"] for one in fingerprints], 2):
        for name in first:
            if not alike(first[name], second[name]):
                bounds[name] = None
            if (known := bounds.get(name, {})) is None:
                continue
            for statistic, distance in distances(first[name], second[name]).items():
                bound, before = _bound(distance), known.get(statistic, RTOL)
                if before is None or bound is None or bound > before:
                    known[statistic] = None if None in (before, bound) else bound
            if known:
                bounds[name] = known
    return bounds


def _bound(distance: float) -> float | None:
    """Ten times the distance, rounded up to a power of ten; None where that is too much."""
    if not math.isfinite(distance):
        return None
    wide = _MARGIN * distance
    bound = RTOL if wide <= RTOL else float(f"1e{math.ceil(math.log10(wide))}")
    return bound if bound <= _LOOSEST else None


def _under(setting: dict[str, str], name: str) -> Fingerprint:
    """The fingerprint of a figure in a process of that environment."""
    words = [sys.executable, "-m", "experiments.rounding", "--print", name]
    done = subprocess.run(
        words, env=os.environ | setting, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])[0]


if __name__ == "__main__":
    sys.exit(main())
