"""Parts of all commands: defaults that depend on the problem, files, sizes and results."""

import argparse
import csv
import importlib
import io
import json
import math
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

from jaxdp.core.files import write_whole
from jaxdp.core.packages import require_extra
from jaxdp.core.terminals import on_a_line
from jaxdp.privacy import AbstractBudget

_MOST_NAMED = 12


def settle(
    options: argparse.Namespace, defaults: dict[str, Any], foreign: dict[str, str] | None = None
) -> None:
    """Set defaults of options; ValueError if an option that does not apply was given.

    Args:
        options: parsed options, which are changed.
        defaults: values of options by name.
        foreign: reasons by name, for options that do not apply.
    """
    for name, reason in (foreign or {}).items():
        if name in options:
            raise ValueError(f"--{name.replace('_', '-')} {reason}")
    for name, value in defaults.items():
        if name not in options:
            setattr(options, name, value)


def asked_budget(options: argparse.Namespace) -> dict[str, Any]:
    """Return epsilon and delta as keywords; without delta if --budget stands for both."""
    if isinstance(options.epsilon, AbstractBudget):
        return {"epsilon": options.epsilon}
    return {"epsilon": options.epsilon, "delta": options.delta}


def prepared_files(options: argparse.Namespace, names: dict[str, str]) -> dict[str, pathlib.Path]:
    """Make the folder `options.out`, and return the paths of the files to write in it.

    Checked before any work: the folder and the files can be written, and matplotlib is installed
    if there is a "picture". `names` has the files' names by content.
    """
    if "picture" in names:
        with require_extra("matplotlib", "plots", "the picture"):
            importlib.import_module("matplotlib")
    options.out.mkdir(parents=True, exist_ok=True)
    files = {kind: options.out / name for kind, name in names.items()}
    for path in files.values():
        if path.exists() and not path.is_file():
            raise ValueError(f"expected {path} to be a file, or not to exist")
    tempfile.TemporaryFile(dir=options.out).close()
    return files


def check_file(path: pathlib.Path) -> None:
    """Raise ValueError unless the path is a file."""
    if not path.is_file():
        raise ValueError(f"{path}: {'not a file' if path.exists() else 'no such file'}")


def check_out(out: pathlib.Path, read: Sequence[pathlib.Path]) -> None:
    """Raise ValueError unless `out` can be a file and is none of the files that are read."""
    if (out.exists() and not out.is_file()) or not out.parent.is_dir():
        raise ValueError(f"expected --out to be a file in a folder that exists, got {out}")
    for path in read:
        # Symbolic and hard links are followed: the content would be lost.
        if out.exists() and path.exists() and out.samefile(path):
            raise ValueError(f"expected --out to be another file than {path}, got {out}")


def write_picture(path: pathlib.Path, figure) -> None:
    """Write a figure as a PNG, whole or not at all."""
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=160, format="png")
    write_whole(path, drawn.getvalue())


def finish(
    options: argparse.Namespace,
    files: dict[str, pathlib.Path],
    summary: dict[str, Any],
    lines: Sequence[Any],
) -> None:
    """Write the numbers to a file, and print them or the lines with the names of the files."""
    text = as_json(summary | {"files": [str(path) for path in files.values()]})
    write_whole(files["numbers"], f"{text}\n".encode())
    if options.json:
        print(text)
    else:
        print(*lines, *(f"{kind}: {path}" for kind, path in files.items()), sep="\n")


def as_json(summary: dict[str, Any]) -> str:
    """Return a JSON object, with NaN as null and infinity as "inf"."""
    return json.dumps(_without_nan(summary), indent=2)


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def described_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of a command as texts and numbers, for a result's file."""
    given = vars(options)
    budget = {name: repr(one) for name, one in given.items() if isinstance(one, AbstractBudget)}
    return {
        name: str(value) if isinstance(value, pathlib.Path) else value
        for name, value in (given | budget).items()
        if name != "command"
    }


def listed(columns: Sequence[str]) -> str:
    """Join the names of the first columns, with the number of further ones."""
    more = len(columns) - _MOST_NAMED
    return ", ".join(map(on_a_line, columns[:_MOST_NAMED])) + (
        f" and {more} more" if more > 0 else ""
    )


def listed_names(text: str) -> list[str]:
    """Read names separated by commas, with quotes around a name that has a comma, as in a CSV."""
    rows = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True, strict=True)
    try:
        return [name.strip() for row in rows for name in row if name.strip()]
    except csv.Error:
        raise ValueError(f"expected names with commas between, got {text!r}") from None


def check_sizes(**sizes: tuple[int, ...]) -> None:
    """Raise ValueError if an array, given by name and shape, would have 2^31 numbers or more."""
    for name, shape in sizes.items():
        if math.prod(shape) >= 2**31:
            raise ValueError(
                f"expected fewer than 2^31 numbers in {name.replace('_', ' ')}, got "
                f"{' * '.join(map(str, shape))}"
            )
