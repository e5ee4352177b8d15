"""Released functions as files: arrays, a header in JSON, a digest over every byte; no code.

A file is a NumPy .npz archive. Its header tells, field by field, which class each part is
(`model_parts`); whatever else is found there is refused. The last bytes are a SHA-256 of all those
before them: it finds damage of any kind. It does not authenticate: who changes a file on purpose
can write a digest that fits.
"""

import hashlib
import io
import json
import os
import pathlib
import tempfile
import zipfile
from typing import Any

import equinox as eqx
import numpy as np

from jaxdp.kernels.model_parts import Refused, check, decoded, encoded

_FORMAT, _VERSION = "jaxdp released function", 1
_HEADER = "header"
_DIGEST_BYTES = 64
# Of zipfile and NumPy. Encryption and unknown methods are RuntimeErrors, and a header may claim an
# array larger than any memory.
_UNREADABLE = (
    ValueError,
    OSError,
    EOFError,
    KeyError,
    RuntimeError,
    MemoryError,
    zipfile.BadZipFile,
)


def written(path: str | os.PathLike, function: eqx.Module) -> None:
    """Write a released function to a file; whole, or not at all.

    Raises:
        TypeError: a part of it has no written form.
        OSError: the file cannot be written.
    """
    arrays: dict[str, np.ndarray] = {}
    header = {"format": _FORMAT, "version": _VERSION, "function": encoded(function, arrays)}
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
    except Refused as reason:
        raise ValueError(f"{os.fspath(path)}: {reason}") from None


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
        raise Refused("not a file of a released function")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise Refused("damaged, cut off, or not written by jaxdp: its digest does not fit")
    arrays = _entries(content)
    try:
        header = json.loads(arrays.pop(_HEADER).tobytes())
        kind, version, parts = header["format"], header["version"], header["function"]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise Refused("not a file of a released function: it has no header") from None
    if kind != _FORMAT:
        raise Refused(f"not a file of a released function, but of {kind!r}")
    if type(version) is not int or version != _VERSION:
        raise Refused(f"expected version {_VERSION} of the format, got {version!r}")
    try:
        function = decoded(parts, arrays)
    except RecursionError:
        raise Refused("parts within parts without end") from None
    if arrays:
        raise Refused(f"entries that belong to nothing: {', '.join(sorted(arrays))}")
    check(function)
    return function


def _entries(content: bytes) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            infos = archive.infolist()
            if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
                raise Refused("compressed entries")
            if len({info.filename for info in infos}) < len(infos):
                raise Refused("entries of the same name")
            if any(not info.filename.endswith(".npy") for info in infos):
                raise Refused("entries that are no arrays")
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except _UNREADABLE as error:
        raise Refused(f"not an archive of arrays ({error})") from None


def _replace(path: pathlib.Path, content: bytes) -> None:
    """Flushed under another name and renamed: a reader sees the old file or the whole new one."""
    # To rename over a device, a pipe or a socket would put a file in its place.
    if path.exists() and not path.is_file():
        raise OSError(f"expected {path} to be a file, or not to exist")
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
