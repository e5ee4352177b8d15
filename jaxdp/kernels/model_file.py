"""Released functions as files: arrays, a header in JSON, a digest over every byte; no code.

A file is a NumPy .npz archive. Its header tells, field by field, which class of `_CLASSES` each
part is; whatever else is found there is refused. The last bytes are a SHA-256 of all those before
them: it finds damage of any kind. It does not authenticate: who changes a file on purpose can
write a digest that fits.
"""

import hashlib
import importlib
import io
import json
import os
import pathlib
import tempfile
import zipfile
from dataclasses import fields
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

_FORMAT, _VERSION = "jaxdp released function", 1
_HEADER = "header"
_DIGEST_BYTES = 64
_KERNELS, _PRIVACY = "jaxdp.kernels", "jaxdp.privacy"
# Written name: where the class is. A name never changes its meaning; new classes are added.
_CLASSES = {
    "ReleasedFunction": (_KERNELS, "ReleasedFunction"),
    **{
        f"kernels.{name}": (_KERNELS, name)
        for name in (
            "ArcCosine",
            "ArcCosineFeatures",
            "ClippedFeatures",
            "Columns",
            "CosineFeatures",
            "FourierFeatures",
            "Gaussian",
            "IdentityFeatures",
            "InnerProduct",
            "Laplace",
            "Matern",
            "MercerFeatures",
            "NormScaling",
            "NystromFeatures",
            "OrthogonalFeatures",
            "PathwiseFeatures",
            "Polynomial",
            "ProductFeatures",
            "RangeScaling",
            "RangedKernel",
            "SamplePaths",
            "TorusKernel",
        )
    },
    **{
        f"privacy.{name}": (_PRIVACY, name)
        for name in (
            "Composition",
            "Gaussian",
            "ObjectivePerturbation",
            "Release",
            "StatedBudget",
            "Unproved",
            "ZeroConcentrated",
        )
    },
}


def written(path: str | os.PathLike, function: eqx.Module) -> None:
    """Write a released function to a file; whole, or not at all.

    Raises:
        TypeError: a part of it has no written form.
        OSError: the file cannot be written.
    """
    arrays: dict[str, np.ndarray] = {}
    header = {"format": _FORMAT, "version": _VERSION, "function": _encoded(function, arrays)}
    arrays[_HEADER] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    _replace(pathlib.Path(path), _packed(arrays))


def load(path: str | os.PathLike) -> Any:
    """The released function that `save` wrote: its predictions are the same, bit by bit.

    Raises:
        ValueError: the file is damaged, not one that `save` wrote, of another version, or needs
            x64; the message names the file and the reason.
        OSError: the file cannot be read.
    """
    content = pathlib.Path(path).read_bytes()
    try:
        return _unpacked(content)
    except _Refused as reason:
        raise ValueError(f"{os.fspath(path)}: {reason}") from None


class _Refused(Exception):
    """Why a file is not loaded, in words."""


def _packed(arrays: dict[str, np.ndarray]) -> bytes:
    """An archive whose comment, at its very end, is the digest of all that stands before it."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # pyright: ignore[reportArgumentType]
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.comment = b"0" * _DIGEST_BYTES
    body = buffer.getvalue()[:-_DIGEST_BYTES]
    return body + hashlib.sha256(body).hexdigest().encode()


def _unpacked(content: bytes) -> eqx.Module:
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if not content.startswith(b"PK"):
        raise _Refused("not a file of a released function")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise _Refused("damaged, cut off, or not written by jaxdp: its digest does not fit")
    arrays = _entries(content)
    try:
        header = json.loads(arrays.pop(_HEADER).tobytes())
        kind, version, encoded = header["format"], header["version"], header["function"]
    except (KeyError, TypeError, ValueError):
        raise _Refused("not a file of a released function: it has no header") from None
    if kind != _FORMAT:
        raise _Refused(f"not a file of a released function, but of {kind!r}")
    if version != _VERSION:
        raise _Refused(f"expected version {_VERSION} of the format, got {version!r}")
    try:
        function = _decoded(encoded, arrays)
    except RecursionError:
        raise _Refused("parts within parts without end") from None
    if arrays:
        raise _Refused(f"entries that belong to nothing: {', '.join(sorted(arrays))}")
    _check(function)
    return function


def _entries(content: bytes) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            infos = archive.infolist()
            if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
                raise _Refused("compressed entries")
            if len({info.filename for info in infos}) < len(infos):
                raise _Refused("entries of the same name")
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise _Refused(f"not an archive of arrays ({error})") from None


def _encoded(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """JSON for a value; its arrays are put aside under names of their own."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, tuple):
        return {"tuple": [_encoded(item, arrays) for item in value]}
    if isinstance(value, (jax.Array, np.ndarray, np.generic)):
        name = f"array_{len(arrays)}"
        arrays[name] = np.asarray(value)
        return {"array": name}
    known = {cls: name for name, cls in _importable().items()}
    if type(value) not in known:
        raise TypeError(f"a {type(value).__name__} has no written form, so this cannot be saved")
    parts = {field.name: _encoded(getattr(value, field.name), arrays) for field in fields(value)}
    return {"class": known[type(value)], "fields": parts}


def _decoded(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if not isinstance(value, dict):
        return value
    kind, *others = value or [None]
    if kind == "tuple" and not others and isinstance(value[kind], list):
        return tuple(_decoded(item, arrays) for item in value[kind])
    if kind == "array" and not others:
        return _array(value[kind], arrays)
    if kind != "class" or others != ["fields"] or not isinstance(value["fields"], dict):
        raise _Refused(f"an unknown kind of part, {kind!r}")
    cls = _importable().get(value["class"]) if isinstance(value["class"], str) else None
    if cls is None:
        raise _Refused(f"an unknown class, {value['class']!r}")
    parts = value["fields"]
    if list(parts) != [field.name for field in fields(cls)]:
        raise _Refused(f"expected the fields of {value['class']}, got {', '.join(parts)}")
    # As flattening and unflattening a pytree does: constructors that draw or compute are not run.
    module = object.__new__(cls)
    for name, part in parts.items():
        object.__setattr__(module, name, _decoded(part, arrays))
    return module


def _array(name: Any, arrays: dict[str, np.ndarray]) -> jax.Array:
    found = arrays.pop(name, None) if isinstance(name, str) else None
    if found is None:
        raise _Refused(f"no array {name!r}")
    if found.dtype.kind not in "fiu":
        raise _Refused(f"expected {name} to hold numbers, got {found.dtype}")
    if not np.isfinite(found).all():
        raise _Refused(f"{name} is not finite")
    array = jnp.asarray(found)
    if array.dtype != found.dtype:
        raise _Refused(f"{name} is {found.dtype}: enable x64 (JAX_ENABLE_X64=1) to load it")
    return array


def _check(function: Any) -> None:
    """That all parts are of the right shapes and types, without computing anything."""
    if type(function) is not _importable()["ReleasedFunction"]:
        raise _Refused("what it holds is not a released function")
    try:
        for part in _modules(function):
            for cls in reversed(type(part).__mro__):
                if "__check_init__" in vars(cls):
                    cls.__check_init__(part)
        row = jax.ShapeDtypeStruct((1, function.features.dim), jnp.float32)
        shape = eqx.filter_eval_shape(function, row).shape
        repr(function)
    except Exception as error:
        # Whatever a part that was written wrongly may raise.
        raise _Refused(f"its parts do not fit together ({error})") from None
    if shape != (1,):
        raise _Refused(f"its parts do not fit together: one input gives {shape}")


def _modules(part: Any) -> list[Any]:
    """A module and all those in its fields."""
    if isinstance(part, tuple):
        return [module for item in part for module in _modules(item)]
    if not isinstance(part, eqx.Module):
        return []
    inner = [_modules(getattr(part, field.name)) for field in fields(part)]
    return [part, *(module for modules in inner for module in modules)]


def _importable() -> dict[str, type]:
    """The classes of the table by their written names."""
    return {
        name: getattr(importlib.import_module(module), attribute)
        for name, (module, attribute) in _CLASSES.items()
    }


def _replace(path: pathlib.Path, content: bytes) -> None:
    """Flushed under another name and renamed: a reader sees the old file or the whole new one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        pathlib.Path(name).unlink(missing_ok=True)
        raise
