"""Smoke versions of the figures, on made-up data where they read data, and what they give."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import jax

from experiments import made_up, registry
from experiments.harness import command, differences, fingerprint, read
from experiments.harness.fingerprints import ROUNDING, Fingerprint

_ON_THE_CPU = (
    "import json, sys; from experiments import smoke;"
    "print(json.dumps(smoke.fingerprint_of(sys.argv[1])))"
)


def run(entry: registry.Entry, folder: pathlib.Path) -> int:
    """Run a smoke version; the exit status is its command's.

    Args:
        entry: of the registry.
        folder: where its files go, and those of another figure whose runs it draws.
    """
    words: list[str] = []
    with tempfile.TemporaryDirectory() as made:
        if entry.name in made_up.DATA:
            made_up.DATA[entry.name](pathlib.Path(made))
            words = ["--data", made]
        elif entry.name in made_up.RUNS:
            option, other = made_up.RUNS[entry.name]
            if not (folder / f"{other}.nc").exists():
                run(registry.entry(other), folder)
            words = [f"--{option}", str(folder)]
        return command(entry.load(), ["--smoke", "--out", str(folder), *words])


def fingerprint_of(name: str) -> Fingerprint | None:
    """The fingerprint of a figure with the code as it is; None of a benchmark, which measures time.

    It is of the code, not of a device: an accelerator's process leaves it to one of the CPU.

    Args:
        name: in the registry; what is not in it has no fingerprint.
    """
    entry = next((one for one in registry.FIGURES if one.name == name), None)
    if entry is None:
        return None
    if jax.default_backend() != "cpu":
        environment = os.environ | {"JAX_PLATFORMS": "cpu"}
        words = [sys.executable, "-c", _ON_THE_CPU, name]
        done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout.splitlines()[-1])
    # Its verdicts are not those of the run that asked.
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        run(entry, pathlib.Path(folder))
        return fingerprint(read(pathlib.Path(folder, f"{name}.nc")))


def changes(name: str, stored: Fingerprint, found: Fingerprint) -> list[str]:
    """What the code of today gives otherwise than the code of a saved result, a line each.

    Args:
        name: of the figure.
        stored: with the result.
        found: today, by the same packages.
    """
    return differences(stored, found, json.loads(ROUNDING.read_text()).get(name, {}))
