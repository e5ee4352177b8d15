"""What the command line does for every problem: the folder, progress, numbers, files."""

import argparse
import contextlib
import dataclasses
import importlib
import json
import math
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jaxdp.cli.files import check_writable, write_picture, write_text
from jaxdp.comparison import Comparison
from jaxdp.core.extras import require_extra
from jaxdp.core.progress import Bar
from jaxdp.core.trajectory import Trajectory

COMPARE_FILES = "compare.png", "compare.json"


def settle(options: argparse.Namespace, defaults: dict[str, Any], foreign: dict[str, str]) -> None:
    """Fill in what was not given, and refuse what belongs to something else.

    Args:
        options: as parsed; filled in.
        defaults: of the options that apply.
        foreign: options that do not apply, and why.

    Raises:
        ValueError: such an option was given.
    """
    for name, reason in foreign.items():
        if name in options:
            raise ValueError(f"--{name.replace('_', '-')} {reason}")
    for name, value in defaults.items():
        if name not in options:
            setattr(options, name, value)


def seeded_keys(options: argparse.Namespace, count: int, *names: str):
    """Keys of the simulations, after a look at the folder and matplotlib, before they cost work.

    Args:
        options: with `out` and `seed`.
        count: of the keys.
        names: of the files that will be written to the folder.
    """
    import jax

    if not 0 <= options.seed < 2**63:
        raise ValueError(f"expected 0 <= --seed < 2^63, got {options.seed}")
    prepare_folder(options.out, *names)
    return jax.random.split(jax.random.key(options.seed), count)


def prepare_folder(folder: pathlib.Path, *names: str) -> None:
    """Make the folder of a picture and its numbers, and see that they can be drawn and written.

    Args:
        folder: that of `--out`.
        names: of the files that will be written to it.
    """
    with require_extra("matplotlib", "plots", "the picture"):
        importlib.import_module("matplotlib")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"expected --out to be a folder, got the file {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    for path in (folder / name for name in names):
        if path.exists() and not path.is_file():
            raise ValueError(f"expected {path} to be a file, or not to exist")
    check_writable(folder)


def simulate_named(name: str, problem, algorithm, key, num_runs: int, simulator=None) -> Trajectory:
    """Runs under a name, with a progress bar."""
    import jaxdp

    with progress_bar(name) as progress:
        runs = jaxdp.simulate(
            problem,
            algorithm,
            key=key,
            num_runs=num_runs,
            simulator=simulator,
            progress=progress,
        )
    return dataclasses.replace(runs, label=name)


def named(column: str) -> str:
    """A column's name in a sentence."""
    return f"column {column}" if column.isdigit() else column


def write(
    options: argparse.Namespace,
    comparison: Comparison,
    cost,
    figure,
    described: dict[str, Any],
    heading: list[str],
) -> None:
    """The picture, the numbers, and the table (or one JSON object) on standard output."""
    picture, numbers = (options.out / name for name in COMPARE_FILES)
    write_picture(picture, figure)
    summary = described | _summary(options, comparison, cost)
    summary["files"] = [str(picture), str(numbers)]
    text = as_json(summary)
    write_text(numbers, text)
    if options.json:
        print(text)
        return
    print(*heading, comparison, cost, f"picture: {picture}", f"numbers: {numbers}", sep="\n")


def _summary(options, comparison: Comparison, cost) -> dict[str, Any]:
    """What the command found, as plain numbers."""
    first, *rest = comparison.predictions

    def prediction(trajectory):
        return {"final_risk": float(trajectory.final_risk), "risk": _floats(trajectory.risk)}

    return {
        "num_runs": options.num_runs,
        "seed": options.seed,
        "options": described_options(options),
        "time": _floats(comparison.time),
        "simulated": {
            "final_risk": comparison.final_mean,
            "standard_error": comparison.final_standard_error,
            "risk": _floats(comparison.mean),
            "risk_standard_error": _floats(comparison.standard_error),
        },
        "predicted": prediction(first),
        "beside": {trajectory.label: prediction(trajectory) for trajectory in rest},
        "gap": comparison.final_gap,
        "gap_in_standard_errors": comparison.final_sigmas,
        "max_gap": comparison.max_gap,
        "cost": {field.name: getattr(cost, field.name) for field in dataclasses.fields(cost)},
    }


def described_options(options: argparse.Namespace) -> dict[str, Any]:
    """The options that made a result, as text and numbers."""
    return {
        name: value.tolist() if hasattr(value, "tolist") else _text_of_path(value)
        for name, value in vars(options).items()
        if name != "command"
    }


def as_json(summary: dict[str, Any]) -> str:
    """One JSON object; NaN and infinity, which JSON does not have, as null and "inf"."""
    return json.dumps(_without_nan(summary), indent=2)


def _text_of_path(value: Any) -> Any:
    return str(value) if isinstance(value, pathlib.Path) else value


def _floats(values) -> list[float]:
    return np.asarray(values, np.float64).tolist()


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


@contextlib.contextmanager
def progress_bar(name: str, *, quiet: bool = False) -> Iterator[Callable[[float], None]]:
    """A progress bar on standard error, where that is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield lambda share: None
        return
    bar = Bar(name, keep=False)
    try:
        yield bar.advance
    finally:
        bar.close()
