"""Smoke versions of the figures; those that read data get made-up data.

`python -m experiments.smoke FIGURE` prints the numbers of one, as this process rounds.
"""

import contextlib
import io
import json
import pathlib
import sys
import tempfile

from experiments import made_up, registry
from experiments.harness import command, fingerprint, read
from experiments.harness.fingerprints import Fingerprint


def run(entry: registry.Entry, folder: pathlib.Path) -> int:
    """Run a smoke version; the exit status is its command's.

    Args:
        entry: entry of the registry.
        folder: folder for its files.
    """
    words: list[str] = []
    with tempfile.TemporaryDirectory() as made:
        if entry.name in made_up.DATA:
            made_up.DATA[entry.name](pathlib.Path(made))
            words = ["--data", made]
        return command(entry.load(), ["--smoke", "--out", str(folder), *words])


def numbers(name: str) -> Fingerprint:
    """The fingerprint of a figure's smoke version, which this process runs.

    Args:
        name: name of the figure.
    """
    # Its verdicts do not belong to the run that asked.
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        run(registry.entry(name), pathlib.Path(folder))
        return fingerprint(read(pathlib.Path(folder, f"{name}.nc")))


if __name__ == "__main__":
    print(json.dumps(numbers(sys.argv[1])))
