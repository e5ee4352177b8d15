"""`python -m experiments.benchmarks.first_answer`: seconds to the first answer, and where they go.

A short command's time is mostly that of tracing and compiling. Each command runs in new processes:
cold, with an empty folder for its compiled programs, and warm, with what the cold run has left
there. Each block of code of the README and the how-to pages runs twice in one new process, which
keeps no programs on disk. With `--tree` other source trees take turns with this one, round by
round; what is told is the median of the rounds. On a machine that others use too, processor seconds
and the number of programs are what can be compared.
"""

import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from experiments import harness
from experiments.benchmarks.first_answer_process import BLOCKS

_HERE = pathlib.Path(__file__).parent
_PROCESS = _HERE / "first_answer_process.py"
# As `make demo` and the front page's table have them.
_COMMANDS = (
    "jaxdp compare",
    "jaxdp plan --dim 200 --num-samples 20000 --epsilon 2 --label-noise .3",
    "jaxdp account one-pass --rho 1",
)
_CASES = (*_COMMANDS, *BLOCKS)
_STATES = "cold", "warm"
_COLUMNS = {
    "programs": "{:.0f}",
    "compiled": "{:.0f}",
    "importing": "{:.2f}",
    "tracing": "{:.2f}",
    "compiling": "{:.2f}",
    "running": "{:.2f}",
    "seconds": "{:.2f}",
    "processor": "{:.2f}",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Time this tree, and those that are named, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m experiments.benchmarks.first_answer")
    parser.add_argument(
        "--tree",
        action="append",
        default=[],
        type=pathlib.Path,
        metavar="PATH",
        help="another source tree, whose jaxdp takes turns with this one's; may be repeated",
    )
    parser.add_argument("--rounds", type=int, default=5, help="[5]")
    parser.add_argument("--only", choices=_CASES, metavar="CASE", help=f"one of {list(_CASES)}")
    options = parser.parse_args(arguments)
    cases = _CASES if options.only is None else (options.only,)
    trees = {"this": _HERE.parents[1]} | {tree.name: tree.resolve() for tree in options.tree}
    found: dict[tuple[str, str, str], list[dict[str, float]]] = {}
    for number, case, (name, tree) in itertools.product(
        range(options.rounds), cases, trees.items()
    ):
        print(f"round {number + 1}, {case}, {name}", file=sys.stderr)
        for state, seconds in zip(_STATES, seconds_of(case, tree), strict=True):
            found.setdefault((case, state, name), []).append(seconds)
    facts = harness.provenance()
    print(f"{facts['platform']}; medians of {options.rounds} rounds; in seconds\n")
    print(table(found))
    return 0


def seconds_of(case: str, tree: pathlib.Path) -> list[dict[str, float]]:
    """What a case takes cold and warm, with the jaxdp of a tree.

    Args:
        case: a command as it is typed, or the name of a block.
        tree: the folder in which `jaxdp` lies.
    """
    with tempfile.TemporaryDirectory() as folder:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("JAX_COMPILATION_CACHE", "JAX_PERSISTENT_CACHE"))
        }
        kept |= {"PYTHONPATH": str(tree), "JAXDP_CACHE_DIR": os.path.join(folder, "programs")}
        command = [sys.executable, "-P", str(_PROCESS), case]

        def once() -> list[dict[str, float]]:
            ran = subprocess.run(
                command, env=kept, cwd=folder, stdout=subprocess.PIPE, text=True, check=True
            )
            return json.loads(ran.stdout)

        return once() if case in BLOCKS else once() + once()


def table(found: dict[tuple[str, str, str], list[dict[str, float]]]) -> str:
    """A line for each case, state and tree, with the medians of its rounds.

    Args:
        found: by case, state and tree, what each round took.
    """
    rows = []
    for key in sorted(found, key=lambda key: (_CASES.index(key[0]), _STATES.index(key[1]))):
        medians = (statistics.median(each[name] for each in found[key]) for name in _COLUMNS)
        cells = (text.format(value) for text, value in zip(_COLUMNS.values(), medians, strict=True))
        rows.append([*key, *cells])
    return harness.table(["case", "state", "tree", *_COLUMNS], rows)


if __name__ == "__main__":
    sys.exit(main())
