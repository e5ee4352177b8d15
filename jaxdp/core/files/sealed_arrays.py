"""Named arrays in one file that shows every damage: a NumPy archive with a digest at its end.

The archive's zip comment is the SHA-256 of all before it. The digest finds damage; it does not
authenticate, since who changes a file on purpose can write a digest that fits. So what is read is
taken to be forged: nothing is unpickled or decompressed, and no array is made of more numbers than
the file holds.
"""

import hashlib
import io
import json
import math
import os
import re
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxdp.core.files.whole_files import NotAFileError, opened

_DIGEST_BYTES = 64
# How long an array of no numbers may be.
_MOST_EMPTY = 2**20
# The first bytes of an archive, and its comment: the length and the digest.
_START, _END = b"PK\x03\x04", re.compile(rb"@\x00[0-9a-f]{64}")
# The header that NumPy writes for arrays of plain numbers and of text.
_NPY = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    rb"\{'descr': '([<|][biufcU]\d{1,9})', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,18}(?:, \d{1,18})*,?)?)\), \} *\n"
)


class DamagedError(Exception):
    """A file that is not what was written, in words."""


def sealed(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The content of a file that holds these arrays: equal bytes for equal arrays."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # pyright: ignore[reportArgumentType]
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.comment = b"0" * _DIGEST_BYTES
    body = buffer.getvalue()[:-_DIGEST_BYTES]
    return body + hashlib.sha256(body).hexdigest().encode()


def read_sealed(path: str | os.PathLike, *, largest: float = math.inf) -> bytes:
    """The content of a file, where it begins and ends as what `sealed` wrote does.

    DamagedError where it does not, is no file, or longer than `largest` bytes.
    """
    try:
        file = opened(path, largest=largest)
    except NotAFileError as error:
        raise DamagedError(str(error)) from None
    with file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(len(_START))
        file.seek(max(0, size - _DIGEST_BYTES - 2))
        end = file.read(_DIGEST_BYTES + 2)
        # First, so that nothing large is read that is something else.
        if size and not (start == _START and _END.fullmatch(end)):
            raise DamagedError("damaged, cut off, or not written by jaxdp")
        file.seek(0)
        return file.read(size)


def unsealed(content: bytes) -> dict[str, np.ndarray]:
    """The arrays of a file that `sealed` wrote; DamagedError where it did not write it so."""
    if not content:
        raise DamagedError("it is empty")
    body, digest = memoryview(content)[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise DamagedError("damaged, cut off, or not written by jaxdp: its digest does not fit")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _check_entries(archive.infolist(), len(content))
            return {
                info.filename.removesuffix(".npy"): _array(archive.read(info))
                for info in archive.infolist()
            }
    except (DamagedError, MemoryError):
        raise
    except Exception as error:
        # The errors of reading an archive have no common class.
        raise DamagedError(f"not an archive of arrays ({error})") from None


def plain_json(text: str | bytes) -> Any:
    """The value of a JSON text; DamagedError if it is no JSON, or an object has a name twice.

    The error says the place at which it is no JSON, or the name.
    """
    try:
        return json.loads(text, object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"its description is no JSON: {error}") from None


def _check_entries(entries: list[zipfile.ZipInfo], size: int) -> None:
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise DamagedError("compressed entries")
    if len({entry.filename for entry in entries}) < len(entries):
        raise DamagedError("entries of the same name")
    if any(not entry.filename.endswith(".npy") for entry in entries):
        raise DamagedError("entries that are no arrays")
    # Entries that overlap could be many times as long together as the file.
    if sum(max(entry.file_size, entry.compress_size) for entry in entries) > size:
        raise DamagedError("entries that are longer than the file")


def _array(content: bytes) -> np.ndarray:
    start = len(_NPY) + 2
    stop = start + int.from_bytes(content[len(_NPY) : start], "little")
    header = _HEADER.fullmatch(content[start:stop])
    if not content.startswith(_NPY) or header is None:
        raise DamagedError("not an archive of arrays: one is not of plain numbers")
    dtype = np.dtype(header[1].decode())
    shape = tuple(int(length) for length in re.findall(rb"\d+", header[3]))
    # An array of no numbers may be very long all the same, and walking along it without end.
    is_long = max(shape, default=0) > len(content) + _MOST_EMPTY
    # Counted in whole numbers without end: in 64 bits a product can come round to what fits.
    if is_long or not dtype.itemsize or math.prod(shape) * dtype.itemsize != len(content) - stop:
        raise DamagedError("not an archive of arrays: one is not as long as it says")
    order = "F" if header[2] == b"True" else "C"
    # A copy can be written to, and does not keep the whole file.
    return np.ndarray(shape, dtype, content, stop, order=order).copy(order="K")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for place, (name, _) in enumerate(pairs) if name in dict(pairs[:place]))
        raise ValueError(f"an object has {twice!r} twice")
    return found
