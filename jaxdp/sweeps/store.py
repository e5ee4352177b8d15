"""A folder that keeps what is finished of a sweep, and the dataset that its shards make.

`sweep.json` says which sweep the folder belongs to; each shard is a file, which says which sweep
and which cells it belongs to. Files are written whole or not at all, and damage shows.
"""

import contextlib
import hashlib
import json
import math
import os
import pathlib
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdp.core.digests import digest, label, name_of, sources_of, versions_of_results
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
from jaxdp.sweeps.axes import Axes
from jaxdp.sweeps.program import Shard, Work

if TYPE_CHECKING:
    import xarray

DESCRIPTION = "sweep.json"
_FORMAT = 5


class Store:
    """The folder of one sweep, new or begun before; nothing is written before `begin`.

    ValueError if it belongs to another sweep, or has other things in it.
    """

    def __init__(self, folder: str | os.PathLike, work: Work, version: str | None):
        self.folder = pathlib.Path(folder)
        self._kept = _description(self.folder)
        self._name = name_of(work.function)
        self._sources = sources_of(work.function, work.axes.looped) if version is None else None
        self._identity = _identity(work.axes, work.key, version)
        self._require_same()

    def is_known(self) -> bool:
        """Whether the folder's function is this one, by its version or by its sources."""
        if self._kept is None:
            return False
        is_same = self._sources is not None and self._sources == self._kept["sources"]
        return is_same or self._identity["version"] is not None

    def begin(self, work: Work) -> Work:
        """Make the folder this sweep's; ValueError if it is that of other programs.

        Without a version all programs are traced; what is returned computes only these.
        """
        if self._identity["version"] is None:
            work = work.with_digests()
            # They tell nothing if the trace has changed them, by a late import perhaps.
            if self._sources != sources_of(work.function, work.axes.looped):
                self._sources = None
        self._identity["programs"] = None if work.digests is None else digest(work.digests)
        self._require_same()
        if self._kept is None:
            self._kept = {
                "format": _FORMAT,
                "function": self._name,
                "identity": self._identity,
                "sources": self._sources,
            }
            self.folder.mkdir(parents=True, exist_ok=True)
            content = json.dumps(self._kept, indent=2) + "\n"
            write_whole(self.folder / DESCRIPTION, content.encode())
        return work

    def shards(self) -> list[Shard]:
        """All whole shards; damaged files are named in a warning and put aside."""
        found: list[Shard] = []
        if self._kept is None:
            return found
        for path in _files(self.folder):
            try:
                found.append(_read(path, self._kept["identity"]))
            except DamagedError as error:
                aside = path.with_suffix(".damaged")
                os.replace(path, aside)
                warnings.warn(
                    f"the shard {path} is damaged ({error}); it is kept as {aside.name} and "
                    "computed again",
                    stacklevel=3,
                )
        return found

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

    def _require_same(self) -> None:
        """Raise ValueError unless the folder's sweep is this one, as far as it is known yet."""
        if self._kept is None:
            return
        kept = self._kept["identity"]
        for part, wanted in self._identity.items():
            # As text: to Python 1, 1.0 and True are equal, and so are dicts in another order.
            there, here = json.dumps(kept.get(part)), json.dumps(wanted)
            if there != here:
                words = f"its {part} is {label(there)}, not {label(here)}"
                if part == "programs":
                    words = "its function computes something else (version= decides that, if given)"
                raise ValueError(
                    f"{self.folder} keeps another sweep: {words}; it was made by "
                    f"{self._kept['function']}, and this is {self._name}; use another folder"
                )


def read_store(folder: str | os.PathLike) -> "xarray.Dataset":
    """The sweep that a folder keeps, as far as it is finished; nothing is computed or changed.

    Cells that are not finished, or damaged, are NaN (numbers become floats for that).

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
    kept = _description(folder) if (folder / DESCRIPTION).is_file() else None
    if kept is None:
        raise ValueError(f"expected the folder of a sweep, with {DESCRIPTION} in it, got {folder}")
    identity, shards = kept["identity"], []
    for path in _files(folder):
        # The sweep itself says so of a damaged one and computes it again, as it goes on.
        with contextlib.suppress(DamagedError, FileNotFoundError):
            shards.append(_read(path, identity))
    if not shards:
        raise ValueError(f"expected a sweep with finished cells in {folder}, got none yet")
    axes = {name: identity[f"axis {name}"] for name in identity["axes"]}
    coordinates = {name: np.asarray(axis["values"], axis["dtype"]) for name, axis in axes.items()}
    looped = {name for name, axis in axes.items() if axis["kind"] == "tuple"}
    return as_dataset(coordinates, looped, shards, {"function": kept["function"]})


def as_dataset(
    coordinates: Mapping[str, np.ndarray],
    looped: Collection[str],
    shards: Sequence[Shard],
    attrs: Mapping[str, str],
) -> "xarray.Dataset":
    """The result of a sweep, from shards that are alike; of several with a cell the last counts.

    `coordinates` has the values of each axis, and `looped` the names of those that were looped. If
    cells are missing, numbers become floats, and the missing ones are NaN.
    """
    import xarray

    # Combinations come first in a shard's numbering, then cells.
    ordered = sorted(coordinates, key=lambda name: name not in looped)
    lengths = {name: len(coordinates[name]) for name in ordered}
    combinations = math.prod(lengths[name] for name in looped)
    cells = math.prod(lengths.values()) // combinations
    done = np.zeros((combinations, cells), bool)
    for shard in shards:
        done[shard.combination, shard.start : shard.stop] = True
    variables = {}
    for variable in shards[0].variables:
        first = shards[0].arrays[variable.name]
        flat = np.zeros((combinations, cells, *first.shape[1:]), first.dtype)
        for shard in shards:
            flat[shard.combination, shard.start : shard.stop] = shard.arrays[variable.name]
        if not done.all():
            flat = flat.astype(float)
            flat[~done] = np.nan
        whole = flat.reshape(*lengths.values(), *first.shape[1:])
        made = xarray.Variable((*lengths, *variable.dims), whole, dict(variable.attrs))
        variables[variable.name] = made.transpose(*coordinates, *variable.dims)
    labelled = {
        name: xarray.Variable((name,), values, {"units": "1"} if values.dtype.kind in "iuf" else {})
        for name, values in coordinates.items()
    }
    # A Trajectory's clock is a coordinate of its records if all cells share it.
    if any(v.name == "time" and v.dims == ("record",) for v in shards[0].variables):
        first = variables["time"].isel(dict.fromkeys(coordinates, 0))
        if (variables["time"] == first).all():
            labelled["time"] = first
            del variables["time"]
    facts = {"units": "dimensionless unless a variable says otherwise", **attrs}
    # Machines may differ in these: each fact's values, with semicolons between.
    for fact in shards[0].provenance:
        facts[fact] = "; ".join(sorted({str(shard.provenance.get(fact)) for shard in shards}))
    return xarray.Dataset(variables, labelled, facts)


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
        found = plain_json(path.read_bytes())
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
        found[f"axis {name}"] = {
            "kind": kind,
            "dtype": str(values.dtype),
            "values": values.tolist(),
        }
    return found


def _mark(identity: Mapping[str, Any]) -> str:
    """The digest by which a shard's file names its sweep."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def _files(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(folder.glob("shard-*.npz"))


def _read(path: pathlib.Path, identity: Mapping[str, Any]) -> Shard:
    """The shard in a file; DamagedError if it is none, or another sweep's."""
    arrays = read_arrays(path)
    about = header_of(arrays)
    try:
        if about["name"] != path.name or about["sweep"] != _mark(identity):
            raise DamagedError("it is that of other cells, or of another sweep")
        combination, start, stop = map(int, path.stem.split("-")[1:])
        variables = tuple(
            Variable(name, tuple(dims), tuple((part, words) for part, words in attrs))
            for name, dims, attrs in about["variables"]
        )
        held = {v.name: arrays.pop(f"value_{i}") for i, v in enumerate(variables)}
        if arrays:
            raise DamagedError("it holds more than it describes")
        return Shard(combination, start, stop, held, variables, dict(about["provenance"]))
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"it does not describe a shard ({error})") from error
