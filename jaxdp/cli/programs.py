"""Compiled programs that the command line keeps from one run to the next.

Most of a short command's time is compilation. JAX finds a kept program by what it computes, by the
versions and by the processor, and runs what it finds: whoever can write into the folder runs code
as its user. So the folder is its user's alone, or nothing is kept. Importing jaxdp keeps nothing.
"""

import contextlib
import os
import pathlib
import stat
import time

VARIABLE = "JAXDP_CACHE_DIR"
# Programs of other versions and sizes are not asked for again.
_FORGOTTEN_AFTER = 30 * 24 * 3600
# A single operation is compiled in some hundredths of a second; they are many.
_SETTINGS = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    # Equinox's checks inside of diffrax's programs call Python, and JAX keeps no such program. What
    # they check, that records are in order, holds of all times that jaxdp gives.
    "EQX_ON_ERROR": "off",
}


def keep_programs() -> None:
    """Let JAX keep programs for later runs; call it before JAX is imported.

    They go to the folder of `JAXDP_CACHE_DIR`, or `jaxdp` in the user's cache. What the user's own
    environment says of JAX's cache stands.

    Raises:
        OSError: the folder cannot be made, or is not its user's alone.
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
    """The folder, made where it is missing.

    Raises:
        OSError: others can write into it, or it is not this user's.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Without links: one could be turned elsewhere later.
    folder = folder.parent.resolve() / folder.name
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not is_own or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(
            f"expected {folder}, which keeps compiled programs, to be a folder that its user alone "
            f"can write to; {VARIABLE} can name another"
        )
    return folder
