"""Parts of all commands: defaults that depend on the problem, names, sizes, files, the answer."""

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

_MOST_NAMED = 12


def settle(
    options: argparse.Namespace, defaults: dict[str, Any], foreign: dict[str, str] | None = None
) -> None:
    """Fill in what was not given, and refuse what belongs to something else.

    Args:
        options: as parsed; filled in.
        defaults: of the options that apply.
        foreign: options that do not apply, and why.

    Raises:
        ValueError: an option that does not apply was given.
    """
    for name, reason in (foreign or {}).items():
        if name in options:
            raise ValueError(f"--{name.replace('_', '-')} {reason}")
    for name, value in defaults.items():
        if name not in options:
            setattr(options, name, value)


def prepared_files(options: argparse.Namespace, names: dict[str, str]) -> dict[str, pathlib.Path]:
    """The files that a command will write, once they are known to be possible, before any work.

    Args:
        options: with `out`, a folder, which is made.
        names: of the files, by what they hold.

    Raises:
        OSError: the folder cannot be written.
        ValueError: a file cannot.
        ModuleNotFoundError: matplotlib, which draws the picture, is missing.
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
    """Raise ValueError unless the path is a file that can be read."""
    if not path.is_file():
        raise ValueError(f"{path}: {'not a file' if path.exists() else 'no such file'}")


def check_out(out: pathlib.Path, read: Sequence[pathlib.Path]) -> None:
    """Raise ValueError unless `out` is a file, or may be one, and none of those that are read."""
    if (out.exists() and not out.is_file()) or not out.parent.is_dir():
        raise ValueError(f"expected --out to be a file in a folder that exists, got {out}")
    for path in read:
        # Links of either kind are followed: it is the content that would be lost.
        if out.exists() and path.exists() and out.samefile(path):
            raise ValueError(f"expected --out to be another file than {path}, got {out}")


def write_picture(path: pathlib.Path, figure) -> None:
    """A figure as a PNG, whole or not at all."""
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=160, format="png")
    write_whole(path, drawn.getvalue())


def finish(
    options: argparse.Namespace,
    files: dict[str, pathlib.Path],
    summary: dict[str, Any],
    lines: Sequence[Any],
) -> None:
    """Write the numbers; print them, or the lines and what each file holds."""
    text = as_json(summary | {"files": [str(path) for path in files.values()]})
    write_whole(files["numbers"], f"{text}\n".encode())
    if options.json:
        print(text)
    else:
        print(*lines, *(f"{kind}: {path}" for kind, path in files.items()), sep="\n")


def as_json(summary: dict[str, Any]) -> str:
    """One JSON object; NaN and infinity, which JSON does not have, as null and "inf"."""
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
    """The options that made a result, as text and numbers."""
    return {
        name: str(value) if isinstance(value, pathlib.Path) else value
        for name, value in vars(options).items()
        if name != "command"
    }


def listed(columns: Sequence[str]) -> str:
    """The names of the first columns, and how many more there are."""
    more = len(columns) - _MOST_NAMED
    return ", ".join(map(on_a_line, columns[:_MOST_NAMED])) + (
        f" and {more} more" if more > 0 else ""
    )


def listed_names(text: str) -> list[str]:
    """Names with commas between; one with a comma in it stands in quotes, as in a CSV."""
    rows = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True, strict=True)
    try:
        return [name.strip() for row in rows for name in row if name.strip()]
    except csv.Error:
        raise ValueError(f"expected names with commas between, got {text!r}") from None


def check_sizes(**sizes: tuple[int, ...]) -> None:
    """Raise ValueError where an array would have 2^31 numbers, which can only be a slip.

    Args:
        sizes: shape of each array that will be made; the keyword's words tell what it holds.
    """
    for name, shape in sizes.items():
        if math.prod(shape) >= 2**31:
            raise ValueError(
                f"expected fewer than 2^31 numbers in {name.replace('_', ' ')}, got "
                f"{' * '.join(map(str, shape))}"
            )
