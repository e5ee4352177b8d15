"""Files that are written whole or not at all, and read only where they are files.

What is written stands under another name first, is flushed to the disk and renamed, so that a full
disk, an error or a kill at any time leaves the old file, or none, but never half of one. A kill can
leave a file beside it whose name begins with a dot and ends with `.partial`. What is read is opened
without waiting: a pipe or a device under a file's name does not hang the process.
"""

import contextlib
import errno
import math
import os
import pathlib
import stat
import time
import uuid
from collections.abc import Iterator
from typing import BinaryIO

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
# Seconds to wait for another process that is giving a name, which takes a moment.
_PATIENCE = 10.0
# Files that this process has begun to write, and its claims.
_unfinished: set[pathlib.Path] = set()
# Some systems have no such flags, and need none.
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class NotAFileError(ValueError):
    """Something under a file's name is a folder, a pipe, a device, or too large."""


@contextlib.contextmanager
def whole_file(
    path: str | os.PathLike, *, replace: bool = True, private: bool = False
) -> Iterator[pathlib.Path]:
    """A name to write to; what is there at the end of the block gets the name `path`.

    A private file is for its owner alone, from its first byte on and in whatever folder.
    A symbolic link is followed. OSError where it cannot be written or `path` is something else than
    a file; FileExistsError where it exists and is not to be replaced.
    """
    target = pathlib.Path(os.path.realpath(path) if replace else path)
    # To rename over a device, a pipe or a socket would put a file in its place.
    if replace and target.exists() and not target.is_file():
        raise OSError(f"expected {path} to be a file, or not to exist")
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}.partial")
    _unfinished.add(partial)
    try:
        if private:
            os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        if replace:
            os.replace(partial, target)
        else:
            _rename_unless_taken(partial, target)
        _flush_folder(target.parent)
    except OSError as error:
        # Whoever called knows one name.
        if error.filename == str(partial):
            raise type(error)(error.errno, error.strerror, str(path)) from None
        raise
    finally:
        _remove(partial)


def write_whole(
    path: str | os.PathLike, content: bytes, *, replace: bool = True, private: bool = False
) -> None:
    """Write a file whole or not at all; arguments and errors as of `whole_file`."""
    with whole_file(path, replace=replace, private=private) as partial:
        partial.write_bytes(content)


def read_file(path: str | os.PathLike, *, largest: float = math.inf) -> bytes:
    """The content of a file; errors as of `opened`."""
    with opened(path, largest=largest) as file:
        # The file may grow meanwhile: the bytes that were there are read.
        return file.read(os.fstat(file.fileno()).st_size)


def opened(path: str | os.PathLike, *, largest: float = math.inf) -> BinaryIO:
    """A file to read from; NotAFileError if it is something else, or longer than `largest`."""
    try:
        handle = os.open(path, _READ)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        raise NotAFileError(f"expected a file, got something else: {error.strerror}") from None
    found = os.fstat(handle)
    if stat.S_ISREG(found.st_mode) and found.st_size <= largest:
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISREG(found.st_mode):
        raise NotAFileError(f"expected at most {largest} bytes, got {found.st_size}")
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
    raise NotAFileError(f"expected a file, got {kind}")


@contextlib.contextmanager
def claimed(path: str | os.PathLike) -> Iterator[None]:
    """Keep a new file's name for this process while it works on what it will write there.

    FileExistsError says in words that the file exists, or that another process works on it.
    """
    target = pathlib.Path(path)
    claim = target.with_name(f"{target.name}.claim")
    try:
        _claim(claim)
    except FileExistsError:
        raise FileExistsError(
            f"{claim} exists: another process is making {target}; if none is (one was killed), "
            "remove it"
        ) from None
    try:
        # After the claim: who had it before may have finished just now.
        if os.path.lexists(target):
            raise FileExistsError(f"{target} exists")
        yield
    finally:
        _remove(claim)


def remove_unfinished() -> None:
    """Remove the files that this process has begun: it ends before they are whole."""
    for path in list(_unfinished):
        with contextlib.suppress(OSError):
            _remove(path)


def _remove(path: pathlib.Path) -> None:
    path.unlink(missing_ok=True)
    _unfinished.discard(path)


def _claim(claim: pathlib.Path) -> None:
    handle = os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    _unfinished.add(claim)
    os.close(handle)


def _rename_unless_taken(source: pathlib.Path, target: pathlib.Path) -> None:
    """Give a whole file its name, unless there is something of that name (FileExistsError).

    A hard link is that in one step. On systems without, whoever renames holds a claim to the name
    meanwhile: of several processes that call this one succeeds, and the name is never that of an
    empty file. A file that another program makes in that moment is replaced. A kill in that moment
    leaves the claim, and later calls raise OSError until it is removed.
    """
    try:
        os.link(source, target)
        return
    except FileExistsError:
        raise
    except OSError:
        claim, until = target.with_name(f".{target.name}.partial"), time.monotonic() + _PATIENCE
    while True:
        try:
            _claim(claim)
            break
        except FileExistsError:
            _require_free(target)
            if time.monotonic() > until:
                reason = (
                    f"{claim} exists: another process is naming {target}; if none is (one was "
                    "killed), remove it"
                )
                raise OSError(errno.EBUSY, reason) from None
            time.sleep(0.01)
    try:
        _require_free(target)
        os.replace(source, target)
    finally:
        _remove(claim)


def _require_free(target: pathlib.Path) -> None:
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))


def _flush_folder(folder: pathlib.Path) -> None:
    """Make a rename last, where the system lets a folder be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
