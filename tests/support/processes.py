"""The environment of a process that a test starts, which imports jaxdp and this folder."""

import os
import pathlib

SUPPORT = pathlib.Path(__file__).resolve().parent
ROOT = SUPPORT.parents[1]


def environment(**values: str) -> dict[str, str]:
    """This process's environment with these values, and the paths of the tests' processes."""
    paths = [str(ROOT), str(SUPPORT), os.environ.get("PYTHONPATH")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **values}
