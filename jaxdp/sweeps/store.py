"""A folder that keeps what is finished: `sweep.json`, and one file per shard.

`sweep.json` says which sweep the folder belongs to. Every file is written under another name and
renamed, so that a process killed at any time leaves no half a file under a shard's name. A shard's
file says which sweep and which cells it belongs to, and shows every damage.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdp.core.digests import UnreadableError, digest, versions_of_results
from jaxdp.core.extras import require_extra
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
from jaxdp.core.trajectory import Variable
from jaxdp.sweeps.axes import Axes, is_plain
from jaxdp.sweeps.dataset import as_dataset
from jaxdp.sweeps.program import Shard
from jaxdp.sweeps.provenance import label

if TYPE_CHECKING:
    import xarray

DESCRIPTION = "sweep.json"
_FORMAT = 5
# Relative: numbers that are so near each other are one, rounded by two processors.
_SAME = 1e-9
# The most bytes of a description, and the most numbers of a dataset: 2 GiB in float64.
_MOST_BYTES, _MOST_NUMBERS = 2**26, 2**28


class Store:
    """The folder of one sweep, new or begun before; nothing is written before `begin`.

    ValueError if it belongs to another sweep, or has other things in it. `axes` are those given,
    with the folder's values where processors have rounded them differently.
    """

    def __init__(
        self, folder: str | os.PathLike, axes: Axes, key: str, version: str | None, function: str
    ):
        self.folder, self.axes, self._function = pathlib.Path(folder), axes, function
        self._kept = _description(self.folder)
        if self._kept is not None:
            self.axes = _with_values_of(self._kept["identity"], axes)
        self._identity = _identity(self.axes, key, version)
        if self._kept is not None:
            self._require_same()

    def is_known(self, sources: str | None) -> bool:
        """Whether the folder's function is this one, by its version or by these sources."""
        if self._kept is None:
            return False
        is_same = sources is not None and sources == self._kept["sources"]
        return is_same or self._identity["version"] is not None

    def begin(self, programs: tuple[str, ...] | None, sources: str | None) -> None:
        """Make the folder this sweep's; ValueError if it is that of other programs."""
        self._identity["programs"] = None if programs is None else digest(programs)
        if self._kept is not None:
            self._require_same()
            return
        self._kept = {
            "format": _FORMAT,
            "function": self._function,
            "identity": self._identity,
            "sources": sources,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        content = json.dumps(self._kept, indent=2) + "\n"
        write_whole(self.folder / DESCRIPTION, content.encode())

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
        assert self._kept is not None
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
                    f"{self._kept['function']}, and this is {self._function}; use another folder"
                )


def read_store(folder: str | os.PathLike) -> "xarray.Dataset":
    """The sweep that a folder keeps, as far as it is finished; nothing is computed or changed.

    What is not finished, or damaged, is NaN (numbers become floats for that).

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
    kept = _description(folder)
    assert kept is not None
    identity, shards = kept["identity"], []
    for path in _files(folder):
        # The sweep itself says so of a damaged one and computes it again, as it goes on.
        with contextlib.suppress(DamagedError, FileNotFoundError):
            shard = _read(path, identity)
            if shard.forms() == (shards or [shard])[0].forms():
                shards.append(shard)
    if not shards:
        raise ValueError(f"expected a sweep with finished cells in {folder}, got none yet")
    axes = {name: _values(identity[f"axis {name}"]) for name in identity["axes"]}
    total = np.prod([len(values) for values in axes.values()], dtype=float)
    total *= sum(values[0].size for values in shards[0].arrays.values())
    if total > _MOST_NUMBERS:
        raise ValueError(f"expected a sweep of at most {_MOST_NUMBERS} numbers, got {total:.0f}")
    looped = {name for name in axes if identity[f"axis {name}"]["kind"] == "tuple"}
    return as_dataset(axes, looped, shards, {"function": kept["function"]}, is_whole=False)


def _description(folder: pathlib.Path) -> dict[str, Any] | None:
    """The content of a folder's `sweep.json`; None where there is nothing yet."""
    path = folder / DESCRIPTION
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"expected store to be a folder, got the file {folder}")
    if not path.exists():
        for other in folder.glob("[!.]*"):
            raise ValueError(
                f"expected store to be an empty folder or that of a sweep, got {folder} with "
                f"{other.name} in it and no {DESCRIPTION}"
            )
        return None
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            raise DamagedError("no file, or too large")
        found = plain_json(path.read_bytes())
        is_known = found["format"] == _FORMAT
        if is_known:
            for name in found["identity"]["axes"]:
                _values(found["identity"][f"axis {name}"])
            _ = found["function"], found["sources"]
    except (DamagedError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"expected {path} to describe a sweep, got something else") from error
    if not is_known:
        raise ValueError(
            f"expected {path} of format {_FORMAT}, got {found['format']}: another version of jaxdp "
            "made that sweep; it is left as it is: use another folder, or that version"
        )
    return found


def _identity(axes: Axes, key: str, version: str | None) -> dict[str, Any]:
    """What must agree for a store to be resumed, as JSON, but for the programs."""
    # Results depend on the versions beside the program, and where a version stands for it. The
    # order of the axes decides the cells' keys.
    found = {**versions_of_results(), "key": key, "version": version, "axes": [*axes.names]}
    for name, values in axes.coordinates().items():
        kind = "tuple" if name in axes.looped else "array"
        axis = {"kind": kind, "dtype": str(values.dtype), "values": values.tolist()}
        # Without a version the programs tell such values apart.
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


def _values(axis: Mapping[str, Any]) -> np.ndarray:
    return np.asarray(axis["values"], np.dtype(axis["dtype"]))


def _with_values_of(identity: Mapping[str, Any], axes: Axes) -> Axes:
    """The axes with a folder's values, where the given ones differ from these by rounding alone.

    Processors round the last digit of a power differently, and several may share a sweep.
    """

    def values_of(name: str, given: Any) -> Any:
        if f"axis {name}" not in identity or (isinstance(given, tuple) and not is_plain(given)):
            return given
        kept, numbers = _values(identity[f"axis {name}"]), np.asarray(given)
        if kept.shape != numbers.shape or {kept.dtype.kind, numbers.dtype.kind} != {"f"}:
            return given
        same = max(_SAME, 4 * np.finfo(kept.dtype).eps, 4 * np.finfo(numbers.dtype).eps)
        if not np.allclose(kept, numbers, rtol=same, atol=0):
            return given
        if isinstance(given, tuple):
            return tuple(type(one)(other) for one, other in zip(given, kept, strict=True))
        return kept

    looped = {name: values_of(name, given) for name, given in axes.looped.items()}
    mapped = {name: values_of(name, given) for name, given in axes.mapped.items()}
    return Axes(looped, mapped, axes.names)


def _mark(identity: Mapping[str, Any]) -> str:
    """The digest by which a shard's file names its sweep."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def _files(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(folder.glob("shard-*.npz"))


def _read(path: pathlib.Path, identity: Mapping[str, Any]) -> Shard:
    """The shard in a file; DamagedError if it is none, ValueError if it is another sweep's."""
    arrays = read_arrays(path)
    about = header_of(arrays)
    try:
        combination, start, stop = map(int, path.stem.split("-")[1:])
        variables = tuple(
            Variable(name, tuple(dims), tuple((part, words) for part, words in attrs))
            for name, dims, attrs in about["variables"]
        )
        held = {v.name: arrays[f"value_{i}"] for i, v in enumerate(variables)}
        shard = Shard(combination, start, stop, held, variables, dict(about["provenance"]))
        fit = [
            len(held[v.name]) == stop - start and held[v.name].ndim == 1 + len(v.dims)
            for v in variables
        ]
        is_whole = about["name"] == path.name and all(fit) and len(held) == len(arrays)
        mark = about["sweep"]
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError("it does not describe a shard") from error
    if not is_whole:
        raise DamagedError("it does not describe a shard of this name")
    if mark != _mark(identity):
        raise ValueError(
            f"expected shards of one sweep in {path.parent}, got {path.name} of another; use an "
            "empty folder"
        )
    return shard
