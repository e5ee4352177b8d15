"""A folder that keeps what is finished: one file per shard, written whole or not at all.

`sweep.json` says which sweep the folder belongs to. A shard is written under another name, flushed
to the disk and renamed, so that a process killed at any time leaves no half a shard behind.
Processes that share a folder need no locks: each writes whole files, and the same shard twice is
the same file.
"""

import contextlib
import errno
import os
import pathlib
import time
import warnings
from collections.abc import Mapping
from typing import Any

from jaxdp.core.files.sealed_arrays import DamagedError, read_sealed, sealed
from jaxdp.core.files.whole_files import write_whole
from jaxdp.sweeps import description
from jaxdp.sweeps.shards import Place, Shard, packed, unpacked

# What the folder belongs to, and the values of the axes, for whoever reads it without the sweep.
DESCRIPTION, COORDINATES = "sweep.json", "axes.npz"
_DAMAGED = ".damaged"
# Files that a killed process left half written are cleared after this many seconds.
_STALE = 3600
# The folder is listed for at most this share of the time: a store has as many files as shards.
_LISTING_SHARE = 0.05


class Store:
    """A folder of finished shards that belongs to one sweep.

    Args:
        folder: made when it is absent.
        identity: what must agree for the folder to be resumed.
        coordinates: the values of each axis, which are written down; None where they are not.

    Raises:
        ValueError: the folder belongs to another sweep, or holds other things.
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        identity: Mapping[str, Any],
        coordinates: Mapping[str, Any] | None = None,
    ):
        self.folder = pathlib.Path(folder)
        self._digest = description.digest_of(identity)
        self._axes = {axis["name"] for axis in identity["axes"]}
        self._listed: set[Place] = set()
        self._list_again = 0.0
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"expected store to be a folder, got the file {self.folder}")
        self.folder.mkdir(parents=True, exist_ok=True)
        # Left over where somebody has removed the description.
        is_old = not (self.folder / DESCRIPTION).exists()
        self._claim(dict(identity))
        if coordinates is not None and (is_old or not (self.folder / COORDINATES).exists()):
            # Nothing that is computed depends on it.
            with contextlib.suppress(OSError):
                self._write(COORDINATES, sealed(coordinates))
        self._clear_stale()

    def places(self) -> set[Place]:
        """The shards that are here, by their names; those of other processes a little later."""
        began = time.monotonic()
        if began >= self._list_again:
            found = {Place.of_file(entry.name) for entry in os.scandir(self.folder)}
            self._listed = {place for place in found if place is not None}
            now = time.monotonic()
            self._list_again = now + (now - began) / _LISTING_SHARE
        return set(self._listed)

    def read(self, place: Place) -> Shard | None:
        """A shard; None, with a warning that names its file, where it is damaged.

        Raises:
            ValueError: it belongs to another sweep.
        """
        path = self.folder / place.file_name
        try:
            shard, digest = unpacked(place, read_sealed(path))
            names = {name for v in shard.variables for name in (v.name, *v.dims)}
            # Another sweep's shard is no damage, and stays where it is.
            if digest == self._digest and self._axes & names:
                raise DamagedError("it has an axis of the sweep as a variable")
        except OSError as error:
            # Another process has just put it aside, or replaced it on a network's disk.
            if error.errno in (errno.ENOENT, errno.ESTALE):
                return None
            raise
        except DamagedError as error:
            aside = _free_name(path.with_name(path.name + _DAMAGED))
            with contextlib.suppress(FileNotFoundError):
                os.rename(path, aside)
            # Last: where warnings are errors, the next call goes on.
            warnings.warn(
                f"the shard {path} is damaged ({error}); it is kept as {aside.name} and computed "
                "again",
                stacklevel=2,
            )
            return None
        if digest != self._digest:
            raise ValueError(
                f"expected shards of one sweep in {self.folder}, got {path.name} of another; "
                "use an empty folder"
            )
        return shard

    def write(self, shard: Shard) -> None:
        """Keep a shard.

        Raises:
            OSError: it could not be written (a full disk); what is in the folder stays whole.
        """
        self._write(shard.place.file_name, packed(shard, self._digest))
        self._listed.add(shard.place)

    def _write(self, name: str, content: bytes, *, replace: bool = True) -> None:
        try:
            write_whole(self.folder / name, content, replace=replace)
        except OSError as error:
            reason = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or error
            raise OSError(
                error.errno,
                f"could not write {name} to {self.folder}: {reason}; all finished shards are "
                "whole: once that is mended, call the sweep again with the same store",
            ) from error

    def _claim(self, identity: dict[str, Any]) -> None:
        path = self.folder / DESCRIPTION
        if not path.exists():
            foreign = [entry.name for entry in os.scandir(self.folder) if not _is_own(entry.name)]
            # The description may be another process's of just now.
            if foreign and not path.exists():
                raise ValueError(
                    f"expected store to be an empty folder or that of a sweep, got {self.folder} "
                    f"with {foreign[0]} in it"
                )
            # Those of another sweep shall not come under this one's description.
            for place in sorted(self.places())[:1]:
                self.read(place)
            with contextlib.suppress(FileExistsError):
                self._write(DESCRIPTION, description.written(identity), replace=False)
        found = description.read(path)
        if found != identity:
            difference = description.difference(found, identity)
            raise ValueError(f"{self.folder} keeps another sweep: {difference}; use another folder")

    def _clear_stale(self) -> None:
        for path in self.folder.glob(".*.partial"):
            # Gone already, or in a folder that may only be read.
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _STALE:
                    path.unlink()


def _is_own(name: str) -> bool:
    is_shard = Place.of_file(name.partition(_DAMAGED)[0]) is not None
    return name.startswith(".") or name == COORDINATES or is_shard


def _free_name(path: pathlib.Path) -> pathlib.Path:
    """The path, or with a number after it, so that nothing that was put aside is lost."""
    names = (path, *(path.with_name(f"{path.name}{i}") for i in range(2, 1000)))
    return next((name for name in names if not os.path.lexists(name)), names[-1])
