"""A folder that keeps what is finished: one file per shard, written whole or not at all.

`sweep.json` says which sweep the folder belongs to, `axes.npz` holds the axes' values for whoever
reads the folder without the sweep. Every file is written under another name, flushed to the disk
and renamed, so that a process killed at any time leaves no half a file behind. A shard's file says
which sweep and which cells it belongs to, and shows every damage. Processes that share a folder
need no locks: each writes whole files, and the same shard twice is the same file.
"""

import contextlib
import dataclasses
import errno
import hashlib
import json
import os
import pathlib
import re
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdp.core.digests import digest, versions_of_results
from jaxdp.core.extras import require_extra
from jaxdp.core.files.sealed_arrays import DamagedError, plain_json, read_sealed, sealed, unsealed
from jaxdp.core.files.whole_files import read_file, write_whole
from jaxdp.sweeps.axes import Axes
from jaxdp.sweeps.results import Place, Shard, Variable, as_dataset, counts

if TYPE_CHECKING:
    import xarray

DESCRIPTION, COORDINATES = "sweep.json", "axes.npz"
_FORMAT = 3
_SHARD = re.compile(r"shard-(\d+)-(\d+)-(\d+)\.npz")
_DAMAGED = ".damaged"
# Files that a killed process left half written are cleared after this many seconds.
_STALE = 3600
# The folder is listed for at most this share of the time: a store has as many files as shards.
_LISTING_SHARE = 0.05
# Relative: numbers that are so near each other are one, rounded by two processors.
_SAME = 1e-9
# The most bytes of a description, and the most numbers of a dataset: 2 GiB in float64.
_MOST_BYTES, _MOST_NUMBERS = 2**26, 2**28


def identity_of(
    axes: Mapping[str, Any], key: Any, version: str | None, programs: Sequence[str]
) -> dict[str, Any]:
    """The facts that must agree for a store to be resumed, as JSON.

    `axes` has kind, length and digest of each. `version` stands for the function, and for what is
    no part of a traced program; None where the digests of its programs do.
    """
    return {
        # Results depend on these beside the program, and where a version stands for it.
        **versions_of_results(),
        # A list: their order decides the cells' keys.
        "axes": [*axes],
        **{f"axis {name}": [*axis] for name, axis in axes.items()},
        "key": digest(key),
        "version": version,
        "programs": digest(tuple(programs)),
    }


def _difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """The first thing in which two sweeps differ, in words."""
    part = next(part for part in {**wanted, **found} if found.get(part) != wanted.get(part))
    there, here = (
        ", ".join(map(str, each)) if isinstance(each, list) else each
        for each in (found.get(part), wanted.get(part))
    )
    if part == "programs":
        return "its function computes something else (give version= to decide that yourself)"
    return f"its {part} {'are' if part == 'axes' else 'is'} {there}, not {here}"


class Store:
    """A folder of finished shards that belongs to one sweep; made when it is absent.

    ValueError where it is another sweep's, or something else's. The function's name and the axes'
    values are kept for errors, and for who reads the folder.
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        identity: Mapping[str, Any],
        function: str,
        coordinates: Mapping[str, np.ndarray],
    ):
        self.folder = pathlib.Path(folder)
        self._digest, self._counts = _digest_of(identity), counts(axes_of(identity))
        self._listed: set[Place] = set()
        self._list_again = 0.0
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"expected store to be a folder, got the file {self.folder}")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except NotADirectoryError as error:
            file = next(one for one in self.folder.parents if one.is_file())
            raise ValueError(f"expected store to be in a folder, got the file {file}") from error
        is_new = not (self.folder / DESCRIPTION).exists()
        self._claim(dict(identity), function)
        # The values that are there may be another sweep's, whose description somebody has removed.
        if is_new or not (self.folder / COORDINATES).exists():
            # Nothing that is computed depends on it.
            with contextlib.suppress(OSError):
                self._write(COORDINATES, sealed(coordinates))
        for path in self.folder.glob(".*.partial"):
            # The file may be gone already, or in a folder that may only be read.
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _STALE:
                    path.unlink()

    def places(self) -> set[Place]:
        """The shards that are here, by their names; those of other processes a little later."""
        began = time.monotonic()
        if began >= self._list_again:
            self._listed = set(_places(self.folder, self._counts))
            now = time.monotonic()
            self._list_again = now + (now - began) / _LISTING_SHARE
        return set(self._listed)

    def read(self, place: Place) -> Shard | None:
        """A shard; None, with a warning that names its file, where it is damaged."""
        path = self.folder / file_name(place)
        try:
            shard, digest = unpacked(place, read_sealed(path))
        except OSError as error:
            # Another process has just put it aside, or replaced it on a network's disk.
            if error.errno in (errno.ENOENT, errno.ESTALE):
                return None
            raise
        except DamagedError as error:
            # Under a free name, so that nothing that was put aside is lost.
            names = (f"{path}{_DAMAGED}{number or ''}" for number in range(1000))
            aside = next(name for name in names if not os.path.lexists(name))
            with contextlib.suppress(FileNotFoundError):
                os.rename(path, aside)
            # Last: where warnings are errors, the next call goes on.
            warnings.warn(
                f"the shard {path} is damaged ({error}); it is kept as {os.path.basename(aside)} "
                "and computed again",
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
        """Keep a shard; OSError where it cannot be written, as on a full disk."""
        self._write(file_name(shard.place), packed(shard, self._digest))
        self._listed.add(shard.place)

    def _write(self, name: str, content: bytes, *, replace: bool = True) -> None:
        try:
            write_whole(self.folder / name, content, replace=replace)
        except OSError as error:
            raise OSError(
                error.errno,
                f"could not write {name} to {self.folder}: {error.strerror or error}; all finished "
                "shards are whole: once that is mended, call the sweep again with the same store",
            ) from error

    def _claim(self, identity: dict[str, Any], function: str) -> None:
        path = self.folder / DESCRIPTION
        if not path.exists():
            foreign = [entry.name for entry in os.scandir(self.folder) if not _is_own(entry.name)]
            # The description may be another process's of just now.
            if foreign and not path.exists():
                raise ValueError(
                    f"expected store to be an empty folder or that of a sweep, got {self.folder} "
                    f"with {foreign[0]} in it"
                )
            # Shards of another sweep shall not come under this one's description.
            for place in sorted(_places(self.folder))[:1]:
                self.read(place)
            with contextlib.suppress(FileExistsError):
                self._write(DESCRIPTION, _description(identity, function), replace=False)
        found, name = read_description(path)
        if found != identity:
            raise ValueError(
                f"{self.folder} keeps another sweep: {_difference(found, identity)}; it was made "
                f"by {name}, and this is {function}; use another folder"
            )


def with_kept_values(folder: str | os.PathLike, axes: Axes) -> Axes:
    """The axes with the values that a store keeps, if the given ones differ by rounding alone.

    Processors round the last digit of a power differently, and several may share a sweep. A folder
    that cannot be read changes nothing here: opening it as a `Store` raises the error.
    """
    folder = pathlib.Path(folder)
    try:
        described = axes_of(read_description(folder / DESCRIPTION)[0])
        kept = unsealed(read_sealed(folder / COORDINATES))
    except (DamagedError, ValueError, KeyError, TypeError, OSError):
        return axes

    def values_of(name: str, given: Any) -> Any:
        if isinstance(given, tuple) and not all(isinstance(one, (int, float)) for one in given):
            return given
        known, numbers = np.asarray(kept.get(name)), np.asarray(given)
        if known.shape != numbers.shape or {known.dtype.kind, numbers.dtype.kind} != {"f"}:
            return given
        is_same = _is_rounding(known, numbers)
        if isinstance(given, tuple):
            known = tuple(type(one)(other) for one, other in zip(given, known, strict=True))
        # The digest says that these are the sweep's own.
        return known if is_same and [digest(known)] == described.get(name, [])[2:] else given

    looped = {name: values_of(name, given) for name, given in axes.looped.items()}
    mapped = {name: values_of(name, given) for name, given in axes.mapped.items()}
    return Axes(looped, mapped, axes.names)


def _is_rounding(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether floats differ by no more than a library's last digits."""
    precision = max(np.finfo(one.dtype).eps, np.finfo(other.dtype).eps)
    return np.allclose(one, other, rtol=max(_SAME, 4 * precision), atol=0)


def read_store(folder: str | os.PathLike) -> "xarray.Dataset":
    """The sweep that a folder keeps, as far as it is finished; nothing is computed or changed.

    What is not finished, or damaged, is NaN (numbers become floats for that). An axis has its
    values, or its indices where the file that holds them is missing.

    Args:
        folder: that was given to `jaxdp.sweep` as `store`.

    Returns:
        The results so far, as `jaxdp.sweep` would return them.

    Raises:
        ValueError: it is no store, nothing in it is finished, or it is too large for memory.
        ModuleNotFoundError: xarray is not installed.

    Example:
        >>> import tempfile
        >>> import jax, jaxdp, numpy as np
        >>> def square(x, key):
        ...     return {"square": x**2}
        >>> axes, key = {"x": np.array([1.0, 2.0, 3.0])}, jax.random.key(0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = jaxdp.sweep(square, axes, key=key, store=folder, quiet=True)
        ...     jaxdp.sweeps.read_store(folder).square.values.tolist()
        [1.0, 4.0, 9.0]
    """
    with require_extra("xarray", "sweeps", "jaxdp.sweeps.read_store"):
        import xarray  # noqa: F401
    folder = pathlib.Path(folder)
    if not (folder / DESCRIPTION).is_file():
        raise ValueError(f"expected the folder of a sweep, with {DESCRIPTION} in it, got {folder}")
    identity, function = read_description(folder / DESCRIPTION)
    axes, shards = axes_of(identity), []
    for place in sorted(_places(folder, counts(axes))):
        # The sweep itself says so of a damaged one and computes it again, as it goes on.
        with contextlib.suppress(DamagedError, FileNotFoundError):
            shard, digest = unpacked(place, read_sealed(folder / file_name(place)))
            if digest == _digest_of(identity) and shard.forms() == (shards or [shard])[0].forms():
                shards.append(shard)
    if not shards:
        raise ValueError(f"expected a sweep with finished cells in {folder}, got none yet")
    cells = np.prod(counts(axes), dtype=float)
    total = cells * sum(values[0].size for values in shards[0].arrays.values())
    if total > _MOST_NUMBERS:
        raise ValueError(f"expected a sweep of at most {_MOST_NUMBERS} numbers, got {total:.0f}")
    values = {}
    with contextlib.suppress(DamagedError, FileNotFoundError):
        values = unsealed(read_sealed(folder / COORDINATES))
    coordinates = {}
    for name, (_, length, _) in axes.items():
        fits = name in values and values[name].shape == (length,)
        coordinates[name] = values[name] if fits else np.arange(length)
    attrs = {"function": function}
    return as_dataset(axes, coordinates, shards, attrs, is_whole=False)


def read_description(path: pathlib.Path) -> tuple[dict[str, Any], str]:
    """The identity of a folder's sweep, and its function's name; ValueError for all else."""
    found: Any = {}
    form, is_whole = None, False
    with contextlib.suppress(DamagedError, ValueError, KeyError, TypeError):
        content = read_file(path, largest=_MOST_BYTES)
        found = plain_json(content)
        form = found["format"]
        is_whole = content == _description(found["identity"], found["function"])
    if type(form) is int and form != _FORMAT:
        raise ValueError(
            f"expected {path} of format {_FORMAT}, got {form}: another version of jaxdp made that "
            "sweep; it is left as it is: use another folder, or the version that made it"
        )
    if not is_whole:
        raise ValueError(
            f"expected {path} to describe a sweep, got something else, or damage; remove that file "
            "if the folder is a sweep's: each shard says for itself which one it belongs to"
        )
    return found["identity"], found["function"]


def axes_of(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Kind, length and digest of each axis of a sweep."""
    return {name: identity[f"axis {name}"] for name in identity["axes"]}


def file_name(place: Place) -> str:
    """The name of the file in which a store keeps a shard."""
    return f"shard-{place.combination:06d}-{place.start:09d}-{place.stop:09d}.npz"


def place_of(name: str) -> Place | None:
    """The place whose shard a file of this name is; None for other files."""
    match = _SHARD.fullmatch(name)
    place = Place(*map(int, match.groups())) if match else None
    return place if place and place.start < place.stop and file_name(place) == name else None


def packed(shard: Shard, sweep: str) -> bytes:
    """The content of a shard's file; `sweep` is the digest of what the shard belongs to."""
    arrays = {f"value_{i}": shard.arrays[v.name] for i, v in enumerate(shard.variables)}
    return sealed({"about": np.asarray(_about(shard, sweep)), **arrays})


def unpacked(place: Place, content: bytes) -> tuple[Shard, str]:
    """The shard in a file of this place's name, and the digest of the sweep that it belongs to."""
    arrays = unsealed(content)
    text = str(arrays.pop("about", ""))
    about = plain_json(text)
    try:
        variables = tuple(
            Variable(name, tuple(dims), tuple((part, words) for part, words in attrs))
            for name, dims, attrs in about["variables"]
        )
        held = {v.name: arrays[f"value_{i}"] for i, v in enumerate(variables)}
        shard, sweep = Shard(place, held, variables, about["provenance"]), about["sweep"]
        # A description that is written again as it stands has only the kinds that are written.
        is_whole = _about(shard, sweep) == text and len(held) == len(arrays)
    except (KeyError, TypeError, ValueError, AttributeError):
        is_whole = False
    if not is_whole:
        raise DamagedError("it does not describe a shard of this name")
    for variable in variables:
        array = held[variable.name]
        if array.ndim != 1 + len(variable.dims) or len(array) != place.stop - place.start:
            raise DamagedError("its arrays are not those that it describes")
    return shard, sweep


def _about(shard: Shard, sweep: str) -> str:
    """The JSON text beside a shard's arrays: its sweep, place, variables and provenance."""
    variables = [
        [str(v.name), [*map(str, v.dims)], [[*map(str, attr)] for attr in v.attrs]]
        for v in shard.variables
    ]
    about = {
        "sweep": str(sweep),
        "place": dataclasses.astuple(shard.place),
        "variables": variables,
        "provenance": {name: str(words) for name, words in shard.provenance.items()},
    }
    return json.dumps(about)


def _description(identity: Mapping[str, Any], function: str) -> bytes:
    digest = hashlib.sha256(json.dumps([identity, function]).encode()).hexdigest()
    described = {"format": _FORMAT, "function": function, "identity": identity, "digest": digest}
    return (json.dumps(described, indent=2) + "\n").encode()


def _digest_of(identity: Mapping[str, Any]) -> str:
    """The digest by which a shard's file names its sweep."""
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


def _places(folder: pathlib.Path, counts: tuple[int, int] | None = None) -> Iterator[Place]:
    """The shards in a folder by their names, those alone that lie in a sweep of these counts."""
    for entry in os.scandir(folder):
        place = place_of(entry.name)
        if place is not None and (
            counts is None or (place.combination < counts[0] and place.stop <= counts[1])
        ):
            yield place


def _is_own(name: str) -> bool:
    is_shard = place_of(name.partition(_DAMAGED)[0]) is not None
    return name.startswith(".") or name == COORDINATES or is_shard
