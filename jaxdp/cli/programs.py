"""A folder of compiled programs, which the command line keeps from one run to the next.

Most of a short command's time is compilation. JAX runs the programs that it finds in the folder, so
only its user may write into it. Importing jaxdp keeps nothing.
"""

import contextlib
import os
import pathlib
import stat
import time

VARIABLE = "JAXDP_CACHE_DIR"
# Seconds without use after which a program is deleted.
_FORGOTTEN_AFTER = 30 * 24 * 3600
# Many small programs are compiled, each in some hundredths of a second.
_SETTINGS = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    # JAX keeps no program that calls Python, as Equinox's checks in diffrax's programs do. They
    # check that records are in order, which jaxdp ensures.
    "EQX_ON_ERROR": "off",
}


def keep_programs() -> None:
    """Let JAX keep compiled programs; to be called before JAX is imported.

    The folder is `JAXDP_CACHE_DIR`, or `jaxdp` in the user's cache; JAX's own variables take
    precedence. OSError if the folder cannot be made, or others can write into it.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    caches = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    folder = _own(pathlib.Path(os.environ.get(VARIABLE) or pathlib.Path(caches, "jaxdp")))
    for name, value in {"JAX_COMPILATION_CACHE_DIR": str(folder), **_SETTINGS}.items():
        os.environ.setdefault(name, value)
    before = time.time() - _FORGOTTEN_AFTER
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.stat().st_atime < before:
                path.unlink()


def _own(folder: pathlib.Path) -> pathlib.Path:
    """Make the folder if it is missing; OSError if others can write into it or own it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Links are resolved, because they could be changed later.
    folder = folder.parent.resolve() / folder.name
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not is_own or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(
            f"expected {folder}, for compiled programs, to be a folder that its user alone can "
            f"write to; {VARIABLE} can name another"
        )
    return folder
