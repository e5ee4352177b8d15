"""A folder that keeps what is finished of a sweep.

`sweep.json` says which sweep the folder belongs to; each shard is a file, which says which sweep
and which cells it belongs to. Files are written whole or not at all, and damage shows.
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

from jaxdp.core.digests import (
    UnreadableError,
    digest,
    label,
    name_of,
    sources_of,
    versions_of_results,
)
from jaxdp.core.files import (
    HEADER,
    DamagedError,
    archived,
    as_header,
    header_of,
    plain_json,
    read_arrays,
    write_whole,
)
from jaxdp.core.packages import require_extra
from jaxdp.core.trajectory import Variable
from jaxdp.sweeps.axes import Axes, is_plain
from jaxdp.sweeps.program import Shard, Work, as_dataset

if TYPE_CHECKING:
    import xarray

DESCRIPTION = "sweep.json"
_FORMAT = 5
_SECONDS_OF_A_DAY = 86400
# The most bytes of a description, which lists an axis's values, and numbers of a dataset.
_MOST_BYTES, _MOST_NUMBERS = 2**26, 2**28


class Store:
    """The folder of one sweep, new or begun before; nothing in it is changed before `begin`.

    ValueError if it belongs to another sweep, or has other things in it.
    """

    def __init__(self, folder: str | os.PathLike, work: Work, version: str | None):
        self.folder = pathlib.Path(folder)
        self._found = _description(self.folder)
        self._damaged: dict[pathlib.Path, str] = {}
        self._name = name_of(work.function)
        self._sources = sources_of(work.function, work.axes.looped) if version is None else None
        self._identity = _identity(work.axes, work.key, version)
        self._require_same()

    def is_known(self) -> bool:
        """Whether the folder's function is this one, by its version or by its sources."""
        if self._found is None:
            return False
        is_same = self._sources is not None and self._sources == self._found["sources"]
        return is_same or self._identity["version"] is not None

    def shards(self) -> list[Shard]:
        """All whole shards; `begin` puts aside the files that are damaged."""
        if self._found is None:
            return []
        shards, self._damaged = _read_all(self.folder, self._found["identity"])
        return shards

    def begin(self, work: Work) -> Work:
        """Make the folder this sweep's; ValueError if it is that of other programs.

        Without a version all programs are traced; what is returned computes only these. Damaged
        files are named in a warning and put aside.
        """
        if self._identity["version"] is None:
            work = work.with_digests()
            # They tell nothing if the trace has changed them, by a late import perhaps.
            if self._sources != sources_of(work.function, work.axes.looped):
                self._sources = None
        # The rest of the identity was compared before, since only this part costs a trace.
        self._identity["programs"] = None if work.digests is None else digest(work.digests)
        self._require_same()
        if self._found is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                self._describe(replace=False)
            except FileExistsError:
                # Another process has begun in this folder since.
                self._found = _description(self.folder)
                self._require_same()
        elif self._sources not in (None, self._found["sources"]):
            # Other sources of equal programs: known by them, the next call need not trace. A folder
            # that cannot be written may still hold a finished sweep.
            with contextlib.suppress(OSError):
                self._describe()
        self._put_aside()
        self._remove_unfinished()
        return work

    def write(self, shard: Shard) -> None:
        """Keep a shard; OSError if it cannot be written, as on a full disk."""
        name = f"shard-{shard.combination:06d}-{shard.start:09d}-{shard.stop:09d}.npz"
        about = {
            "sweep": _mark(self._identity),
            "name": name,
            "variables": [[v.name, v.dims, v.attrs] for v in shard.variables],
            "provenance": dict(shard.provenance),
        }
        arrays = {f"value_{i}": shard.arrays[v.name] for i, v in enumerate(shard.variables)}
        write_whole(self.folder / name, archived({HEADER: as_header(about), **arrays}))

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
                f"expected axes that {_MOST_BYTES} bytes list, got {len(content)}: use fewer values"
            )
        write_whole(self.folder / DESCRIPTION, content.encode(), replace=replace)
        self._found = found

    def _put_aside(self) -> None:
        """Rename the damaged files, and name them in a warning."""
        for path, reason in self._damaged.items():
            aside = path.with_suffix(".damaged")
            # Another process may have done so, and may even have written the shard again: to put
            # a whole one aside costs only the time to compute it once more.
            with contextlib.suppress(FileNotFoundError):
                os.replace(path, aside)
            warnings.warn(
                f"the shard {path} is damaged ({reason}); it is kept as {aside.name} and "
                "computed again",
                stacklevel=4,
            )

    def _remove_unfinished(self) -> None:
        """Remove the temporary files that killed processes have left."""
        # Another process may be writing a file at this moment, but for no day, and the clocks of
        # machines that share a folder differ by less.
        oldest = time.time() - _SECONDS_OF_A_DAY
        for pattern in (f".{DESCRIPTION}.*.partial", ".shard-*.npz.*.partial"):
            for path in self.folder.glob(pattern):
                with contextlib.suppress(OSError):
                    if path.stat().st_mtime < oldest:
                        path.unlink()

    def _require_same(self) -> None:
        """Raise ValueError unless the folder's sweep is this one, as far as it is known yet."""
        if self._found is None:
            return
        there = self._found["identity"]
        for part, wanted in self._identity.items():
            # As text: to Python 1, 1.0 and True are equal, and so are dicts in another order.
            old, new = json.dumps(there.get(part)), json.dumps(wanted)
            if old != new:
                words = f"its {part} is {label(old)}, not {label(new)}"
                if part.startswith("axis ") and label(old) == label(new):
                    words = f"the values of {part} are others, of the same names"
                if part == "programs":
                    words = "its function computes something else (version= decides that, if given)"
                raise ValueError(
                    f"{self.folder} keeps another sweep: {words}; it was made by "
                    f"{self._found['function']}, and this is {self._name}; use another folder"
                )


def read_store(folder: str | os.PathLike) -> "xarray.Dataset":
    """The sweep that a folder keeps, as far as it is finished; nothing is computed or changed.

    Cells that are not finished, or damaged, are NaN (numbers become floats for that). A sweep of
    more than 2^28 numbers is not read.

    Args:
        folder: that was given to `jaxdp.sweep` as `store`.

    Returns:
        The results so far, as `jaxdp.sweep` would return them.

    Raises:
        ValueError: it is no store, or nothing in it is finished.
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
    # The sweep itself names damaged files, and computes their cells again, as it goes on.
    shards, _ = _read_all(folder, identity)
    shards = [shard for shard in shards if shard.forms() == shards[0].forms()]
    if not shards:
        raise ValueError(f"expected a sweep with finished cells in {folder}, got none yet")
    axes = {name: identity[f"axis {name}"] for name in identity["axes"]}
    coordinates = {name: np.asarray(axis["values"], axis["dtype"]) for name, axis in axes.items()}
    total = math.prod(map(len, coordinates.values()))
    total *= sum(math.prod(values.shape[1:]) for values in shards[0].arrays.values())
    if total > _MOST_NUMBERS:
        raise ValueError(f"expected a sweep of at most {_MOST_NUMBERS} numbers, got {total}")
    looped = {name for name, axis in axes.items() if axis["kind"] == "tuple"}
    return as_dataset(coordinates, looped, shards, {"function": found["function"]})


def _description(folder: pathlib.Path) -> dict[str, Any] | None:
    """The content of a folder's `sweep.json`; None if there is nothing yet."""
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
        found = plain_json(path.read_bytes(), _MOST_BYTES)
        made_with = found["format"]
        if made_with == _FORMAT:
            return {name: found[name] for name in ("function", "identity", "sources")}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"expected {path} to describe a sweep, got something else") from error
    raise ValueError(
        f"expected {path} of format {_FORMAT}, got {made_with}: another version of jaxdp made that "
        "sweep; it is left as it is: use another folder, or that version"
    )


def _identity(axes: Axes, key: str, version: str | None) -> dict[str, Any]:
    """What must agree for a store to be resumed, as JSON, but for the programs."""
    # Results depend on the versions beside the program, also if a version stands for it. The
    # order of the axes decides the cells' keys.
    found = {**versions_of_results(), "key": key, "version": version, "axes": [*axes.names]}
    for name, values in axes.coordinates().items():
        kind = "tuple" if name in axes.looped else "array"
        axis = {"kind": kind, "dtype": str(values.dtype), "values": values.tolist()}
        # Without a version the programs tell objects of one label apart.
        if kind == "tuple" and not is_plain(axes.looped[name]) and version is not None:
            try:
                axis["digest"] = digest(axes.looped[name])
            except UnreadableError as error:
                raise ValueError(
                    f"expected values of axis {name} that a store can tell from others, but it "
                    f"cannot read {error}; loop over names, and let the function look the objects "
                    "up, or leave version= out"
                ) from error
        found[f"axis {name}"] = axis
    return found


def _mark(identity: Mapping[str, Any]) -> str:
    """The digest by which a shard's file names its sweep."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def _read_all(
    folder: pathlib.Path, identity: Mapping[str, Any]
) -> tuple[list[Shard], dict[pathlib.Path, str]]:
    """The whole shards in a folder, and why each of its other files is damaged."""
    shards, damaged = [], {}
    for path in sorted(folder.glob("shard-*.npz")):
        try:
            shards.append(_read(path, identity))
        except DamagedError as error:
            # An error that is kept would keep its file open.
            damaged[path] = str(error)
        except FileNotFoundError:
            pass  # another process has just put it aside
    return shards, damaged


def _read(path: pathlib.Path, identity: Mapping[str, Any]) -> Shard:
    """The shard in a file; DamagedError if it is none, ValueError if it is another sweep's."""
    arrays = read_arrays(path)
    about = header_of(arrays)
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
