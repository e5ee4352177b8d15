"""The code that made a result: its commit, and the files that differ from that commit."""

import functools
import pathlib
import subprocess
from typing import NamedTuple

# Files that runs and reports write: of many figures that are run in a row each changes them.
_WRITTEN = ("experiments/results/**", "experiments/README.md", "experiments/*/README.md")


class Sources(NamedTuple):
    """The code at hand.

    Attributes:
        commit: commit of the tree, with "-dirty" if files differ; None outside a repository.
        modified: the files that differ, or that are neither committed nor ignored.
    """

    commit: str | None
    modified: tuple[str, ...]


@functools.cache
def sources(folder: pathlib.Path = pathlib.Path(__file__).parent) -> Sources:
    """Commit and modified files of the repository around a folder, as this process found them.

    Saved results and the report, which runs write, are no code and do not count.

    Args:
        folder: this one by default.
    """
    top = _git(folder, "rev-parse", "--show-toplevel")
    commit = _git(folder, "rev-parse", "--short=12", "HEAD")
    if not top or not commit:
        return Sources(None, ())
    others = [f":(top,glob,exclude){path}" for path in _WRITTEN]
    words = ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", ":/"]
    found = _git(folder, *words, *others) or ""
    # Two letters and a space come before each name.
    modified = tuple(line[3:] for line in found.split("\0") if line.strip())
    return Sources(f"{commit}-dirty" if modified else commit, modified)


def _git(folder: pathlib.Path, *words: str) -> str | None:
    """Output of git; None without git, a repository or a commit."""
    try:
        done = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    # Not `strip`: a line of the status begins with a space.
    return done.stdout.rstrip("\n")
