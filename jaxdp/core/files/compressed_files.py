"""Compressed files that users name, unpacked to a limited size.

A file of a megabyte can unpack to gigabytes of zeros (a "decompression bomb"), and a header of a
hundred bytes can claim an array of any size. So sizes are read before anything is unpacked, no more
than they say is unpacked, and nothing is unpickled.
"""

import gzip
import io
import math
import os
import zipfile
from collections.abc import Collection, Iterable

import numpy as np

from jaxdp.core.files.whole_files import opened

# Number of bytes that a compressed file may unpack to, unless it is longer itself.
MOST_UNPACKED = 2**30
# How long an axis of an array without numbers may be.
_MOST_EMPTY = 2**20
_ONE_ARRAY = b"\x93NUMPY"
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_arrays(
    path: str | os.PathLike, wanted: Collection[str] | None = None
) -> tuple[list[str], dict[str, np.ndarray]]:
    """The names in an .npz file of NumPy, and the arrays of those that are wanted and there.

    Args:
        path: the file.
        wanted: names of the arrays to read; None for all, the default.

    Raises:
        ValueError: the file cannot be read, is damaged, holds pickled objects, or would unpack to
            more than 1 GiB and more than its own length; the message is the reason alone.
    """
    try:
        with opened(path) as file:
            if file.read(len(_ONE_ARRAY)) == _ONE_ARRAY:
                raise ValueError("a single array")
            with zipfile.ZipFile(file) as archive:
                entries = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
                chosen = {
                    name: info for name, info in entries.items() if wanted is None or name in wanted
                }
                _check_sizes(chosen.values(), os.fstat(file.fileno()).st_size)
                return list(entries), {
                    name: _array(name, archive, info) for name, info in chosen.items()
                }
    except (MemoryError, ValueError):
        raise
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from None
    except Exception:
        # The errors of reading an archive have no common class.
        raise ValueError("damaged, or no archive of NumPy") from None


def gunzipped(content: bytes) -> bytes:
    """The bytes of a gzip file; ValueError if they are more than 1 GiB, and gzip's errors."""
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        unpacked = file.read(MOST_UNPACKED + 1)
    if len(unpacked) > MOST_UNPACKED:
        raise ValueError(_too_large(MOST_UNPACKED))
    return unpacked


def _check_sizes(entries: Iterable[zipfile.ZipInfo], file_size: int) -> None:
    most = max(MOST_UNPACKED, file_size)
    if sum(info.file_size for info in entries) > most:
        raise ValueError(f"{_too_large(most)}; numpy.savez writes arrays of any size uncompressed")
    # Other methods unpack a whole block at once; NumPy writes none of them.
    if any(
        info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for info in entries
    ):
        raise ValueError("damaged, or no archive of NumPy")


def _array(name: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(info) as entry:
        try:
            shape, _, dtype = _HEADERS[np.lib.format.read_magic(entry)](entry)
        except (ValueError, KeyError):
            # NumPy's words show what stands there.
            raise ValueError(f"{name} is no array") from None
        length = info.file_size - entry.tell()
    if dtype.hasobject:
        raise ValueError(f"pickled objects in {name}")
    # Counted in whole numbers without end: in 64 bits a product can come round to what fits.
    is_long = max(shape, default=0) > info.file_size + _MOST_EMPTY
    if is_long or math.prod(shape) * dtype.itemsize != length:
        raise ValueError(f"{name} is not as long as it says")
    # No more comes out than the entry's size says: the rest is not unpacked.
    with archive.open(info) as entry:
        return np.lib.format.read_array(entry, allow_pickle=False)


def _too_large(most: int) -> str:
    return f"more than {most / 2**30:.3g} GiB once it is unpacked"
