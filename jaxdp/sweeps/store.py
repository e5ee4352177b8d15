"""A folder with the finished shards of a sweep.

`sweep.json` identifies the sweep. Each shard is a file that names its sweep and its cells. Files
are written whole or not at all, and damage is detected.
"""

import contextlib
import hashlib
import json
import math
import os
import pathlib
import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdp.core import digests, files
from jaxdp.core.digests import digest, label
from jaxdp.core.files import DamagedError
from jaxdp.core.packages import require_extra
from jaxdp.core.trajectory import Variable
from jaxdp.sweeps.axes import Axes, is_plain
from jaxdp.sweeps.program import Shard, Work, as_dataset

if TYPE_CHECKING:
    import xarray

DESCRIPTION = "sweep.json"
_FORMAT = 5
_SECONDS_OF_A_DAY = 86400
# Largest number of bytes in a description, which lists the axes' values, and of numbers in a
# dataset.
_MOST_BYTES, _MOST_NUMBERS = 2**26, 2**28


class Store:
    """The folder of one sweep; until `begin` nothing in it is changed.

    `shards` are those finished so far. ValueError if the folder belongs to another sweep, or has
    other files in it.
    """

    def __init__(self, folder: str | os.PathLike, work: Work, version: str | None):
        self.folder = pathlib.Path(folder)
        self._found = _description(self.folder)
        self._name = digests.name_of(work.function)
        # With a version nobody asks for the sources.
        self._sources = None if version else digests.sources_of(work.function, work.axes.looped)
        self._identity = _identity(work.axes, work.key, version)
        self._require_same()
        self.shards: list[Shard] = []
        self._damaged: dict[pathlib.Path, str] = {}
        if self._found is not None:
            self.shards, self._damaged = _read_all(self.folder, self._found["identity"])

    def is_known(self) -> bool:
        """Return True if the version or the sources show that the folder's function is this one."""
        if self._found is None or self._identity["version"] is not None:
            return self._found is not None
        return self._sources is not None and self._sources == self._found["sources"]

    def begin(self, work: Work) -> Work:
        """Claim the folder, and return the work with the digests of its programs.

        Without a version all programs are traced. ValueError if the folder belongs to other
        programs. Damaged files are put aside with a warning.
        """
        if self._identity["version"] is None:
            work = work.with_digests()
            # A trace may import modules: then sources from before it identify nothing.
            if self._sources != digests.sources_of(work.function, work.axes.looped):
                self._sources = None
        self._identity["programs"] = None if work.digests is None else digest(work.digests)
        self._require_same()
        if self._found is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            # Another process may have begun in this folder since.
            with contextlib.suppress(FileExistsError):
                self._describe(replace=False)
            self._found = _description(self.folder)
            self._require_same()
        elif self._sources not in (None, self._found["sources"]):
            # New sources of equal programs: the next call need not trace. The folder may be
            # read-only, with a finished sweep in it.
            with contextlib.suppress(OSError):
                self._describe()
        self._tidy()
        return work

    def write(self, shard: Shard) -> None:
        """Write a shard; OSError if that fails, for example on a full disk."""
        name = f"shard-{shard.combination:06d}-{shard.start:09d}-{shard.stop:09d}.npz"
        about = {
            "sweep": _mark(self._identity),
            "name": name,
            "variables": [[v.name, v.dims, v.attrs] for v in shard.variables],
            "provenance": dict(shard.provenance),
        }
        arrays = {f"value_{i}": shard.arrays[v.name] for i, v in enumerate(shard.variables)}
        content = files.archived({files.HEADER: files.as_header(about), **arrays})
        files.write_whole(self.folder / name, content)

    def _describe(self, *, replace: bool = True) -> None:
        found = {
            "format": _FORMAT,
            "function": self._name,
            "identity": self._identity,
            "sources": self._sources,
        }
        content = json.dumps(found) + "\n"
        if len(content) > _MOST_BYTES:
            raise ValueError(
                f"expected axes with values of at most {_MOST_BYTES} bytes, got {len(content)}"
            )
        files.write_whole(self.folder / DESCRIPTION, content.encode(), replace=replace)

    def _tidy(self) -> None:
        """Put damaged shards aside, and remove old temporary files of killed processes."""
        for path, reason in self._damaged.items():
            aside = path.with_suffix(".damaged")
            # Another process may have put the file aside, or have written the shard again: then it
            # is computed once more.
            with contextlib.suppress(FileNotFoundError):
                os.replace(path, aside)
            warnings.warn(
                f"the shard {path} is damaged ({reason}); it is kept as {aside.name} and "
                "computed again",
                stacklevel=4,
            )
        # Another process may be writing a file now, but not for a day.
        oldest = time.time() - _SECONDS_OF_A_DAY
        for pattern in (f".{DESCRIPTION}.*.partial", ".shard-*.npz.*.partial"):
            for path in self.folder.glob(pattern):
                with contextlib.suppress(OSError):
                    if path.stat().st_mtime < oldest:
                        path.unlink()

    def _require_same(self) -> None:
        """Raise ValueError if a part of the identity that is known by now differs."""
        if self._found is None:
            return
        there = self._found["identity"]
        for part, wanted in self._identity.items():
            # Compared as text: in Python 1, 1.0 and True are equal.
            old, new = json.dumps(there.get(part)), json.dumps(wanted)
            if old == new:
                continue
            words = f"its {part} is {label(old)}, not {label(new)}"
            if part.startswith("axis ") and label(old) == label(new):
                words = f"the values of {part} differ, though their names agree"
            if part == "programs":
                words = "its function computes something else (or give version= to decide that)"
            raise ValueError(
                f"{self.folder} keeps another sweep: {words}; it was made by "
                f"{self._found['function']}, and this is {self._name}; use another folder"
            )


def read_store(folder: str | os.PathLike) -> "xarray.Dataset":
    """Read the finished cells of a sweep from its store, without computing or changing anything.

    Args:
        folder: the `store` of `jaxdp.sweep`.

    Returns:
        The dataset of `jaxdp.sweep`. If cells are missing or damaged, they are NaN, and all
        numbers are floats.

    Raises:
        ValueError: the folder is not a store, has no finished cells, or has more than 2^28 numbers.
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
    found = _description(folder) if (folder / DESCRIPTION).is_file() else None
    if found is None:
        raise ValueError(f"expected the folder of a sweep, with {DESCRIPTION} in it, got {folder}")
    identity = found["identity"]
    # `jaxdp.sweep` reports damaged files, and computes their cells again.
    shards, _ = _read_all(folder, identity)
    shards = [shard for shard in shards if shard.forms() == shards[0].forms()]
    if not shards:
        raise ValueError(f"expected a sweep with finished cells in {folder}, got none yet")
    looped, mapped = {}, {}
    for name in identity["axes"]:
        axis = identity[f"axis {name}"]
        values = np.asarray(axis["values"], axis["dtype"])
        if axis["kind"] == "tuple":
            looped[name] = tuple(values.tolist())
        else:
            mapped[name] = values
    axes = Axes(looped, mapped, tuple(identity["axes"]))
    total = axes.num_combinations * axes.num_cells
    total *= sum(math.prod(values.shape[1:]) for values in shards[0].arrays.values())
    if total > _MOST_NUMBERS:
        raise ValueError(f"expected a sweep of at most {_MOST_NUMBERS} numbers, got {total}")
    return as_dataset(axes, shards, {"function": found["function"]})


def _description(folder: pathlib.Path) -> dict[str, Any] | None:
    """Read a folder's `sweep.json`; None if the folder is new or empty."""
    path = folder / DESCRIPTION
    if not path.is_file():
        if folder.is_file() or any(folder.glob("[!.]*")):
            raise ValueError(
                f"expected store to be an empty folder or that of a sweep, got {folder} without "
                f"{DESCRIPTION}"
            )
        return None
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES} bytes")
        found = files.plain_json(path.read_bytes(), _MOST_BYTES)
        made_with = found["format"]
        if made_with == _FORMAT:
            return {name: found[name] for name in ("function", "identity", "sources")}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"expected {path} to describe a sweep, got something else") from error
    raise ValueError(
        f"expected {path} of format {_FORMAT}, got {made_with}: another version of jaxdp made that "
        "sweep, which is left as it is; use another folder, or that version"
    )


def _identity(axes: Axes, key: str, version: str | None) -> dict[str, Any]:
    """The parts that must agree for a sweep to resume, except the programs, as JSON."""
    # Results depend on versions of libraries too. The order of the axes decides the cells' keys.
    found = {**digests.versions_of_results(), "key": key, "version": version, "axes": [*axes.names]}
    for name, values in axes.coordinates().items():
        kind = "tuple" if name in axes.looped else "array"
        axis = {"kind": kind, "dtype": str(values.dtype), "values": values.tolist()}
        # Without a version objects of equal labels differ by their programs.
        if kind == "tuple" and not is_plain(axes.looped[name]) and version is not None:
            try:
                axis["digest"] = digest(axes.looped[name])
            except digests.UnreadableError as error:
                raise ValueError(
                    f"expected values of axis {name} that a store can identify, but it cannot "
                    f"read {error}; loop over names, and let the function look the objects up, or "
                    "leave version= out"
                ) from error
        found[f"axis {name}"] = axis
    return found


def _mark(identity: Mapping[str, Any]) -> str:
    """The digest of a sweep in its shards' files."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def _read_all(
    folder: pathlib.Path, identity: Mapping[str, Any]
) -> tuple[list[Shard], dict[pathlib.Path, str]]:
    """Read the shards in a folder, and the reason for each file that is damaged."""
    shards, damaged = [], {}
    for path in sorted(folder.glob("shard-*.npz")):
        try:
            shards.append(_read(path, identity))
        except DamagedError as error:
            damaged[path] = str(error)  # the error itself would keep its file open
        except FileNotFoundError:
            pass  # another process has put it aside meanwhile
    return shards, damaged


def _read(path: pathlib.Path, identity: Mapping[str, Any]) -> Shard:
    """Read a shard; DamagedError if the file is damaged, ValueError if it is another sweep's."""
    arrays = files.read_arrays(path)
    about = files.header_of(arrays)
    try:
        mark = about["sweep"]
        if about["name"] != path.name:
            raise DamagedError("it is that of other cells")
        combination, start, stop = map(int, path.stem.split("-")[1:])
        variables = tuple(
            Variable(name, tuple(dims), tuple((part, words) for part, words in attrs))
            for name, dims, attrs in about["variables"]
        )
        held = {v.name: arrays.pop(f"value_{i}") for i, v in enumerate(variables)}
        if arrays:
            raise DamagedError("it holds more than it describes")
        for v in variables:
            if held[v.name].shape[:1] != (stop - start,) or held[v.name].ndim != 1 + len(v.dims):
                raise DamagedError("its arrays are not those of its cells")
        shard = Shard(combination, start, stop, held, variables, dict(about["provenance"]))
    except DamagedError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"it does not describe a shard ({error})") from error
    if mark != _mark(identity):
        raise ValueError(
            f"expected shards of one sweep in {path.parent}, got {path.name} of another; remove "
            "it, or use another folder"
        )
    return shard
