"""Parts of all commands: defaults that depend on the problem, files, progress, the answer."""

import argparse
import contextlib
import importlib
import io
import json
import math
import pathlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from jaxdp.cli.values import flag
from jaxdp.core.display.terminals import is_terminal, on_a_line
from jaxdp.core.extras import require_extra
from jaxdp.core.files import write_whole
from jaxdp.core.progress import Bar, hidden

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
            raise ValueError(f"{flag(name)} {reason}")
    for name, value in defaults.items():
        if name not in options:
            setattr(options, name, value)


def seeded_keys(options: argparse.Namespace, count: int) -> jax.Array:
    """So many independent keys of `--seed`."""
    return jax.random.split(jax.random.key(options.seed), count)


def prepared_files(options: argparse.Namespace, names: dict[str, str]) -> dict[str, pathlib.Path]:
    """The files that a command will write, once they are known to be possible, before any work.

    Args:
        options: with `out`, a folder, which is made.
        names: of the files, by what they hold.

    Raises:
        ValueError: the folder, or a file in it, cannot be written.
        ModuleNotFoundError: matplotlib, which draws the picture, is missing.
    """
    if "picture" in names:
        with require_extra("matplotlib", "plots", "the picture"):
            importlib.import_module("matplotlib")
    if options.out.exists() and not options.out.is_dir():
        raise ValueError(f"expected --out to be a folder, got the file {options.out}")
    options.out.mkdir(parents=True, exist_ok=True)
    files = {kind: options.out / name for kind, name in names.items()}
    for path in files.values():
        if path.exists() and not path.is_file():
            raise ValueError(f"expected {path} to be a file, or not to exist")
    check_writable(options.out)
    return files


def check_writable(folder: pathlib.Path) -> None:
    """Raise ValueError unless a file can be made in the folder."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(
            f"expected --out to be in a folder that can be written to, got {folder}: "
            f"{error.strerror}"
        ) from None


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


@contextlib.contextmanager
def progress_bar(name: str, *, quiet: bool = False) -> Iterator[Callable[[float], None]]:
    """A progress bar on standard error, where that is a terminal."""
    with hidden():
        if quiet or not is_terminal(sys.stderr):
            yield lambda share: None
            return
        with contextlib.closing(Bar(name, keep=False)) as bar:
            yield bar.advance
