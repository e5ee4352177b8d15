"""Files that are written whole or not at all, and arrays that are read without pickles.

A file is written under a temporary name, flushed to the disk and renamed. A kill can leave a file
`.*.partial` next to it and, in a file system without hard links, an empty file in place of one that
was not to be replaced. Reading trusts nothing: no pickles, a limit on the unpacked size, and no
array longer than its entry. Checksums find damage; they do not authenticate.
"""

import contextlib
import io
import json
import math
import os
import pathlib
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

HEADER = "header"
# Most bytes that a shorter file may unpack to.
MOST_UNPACKED = 2**30
# Most bytes of a JSON text, whose value takes up to 30 times its length, and of a header, which
# may hold a user's text with six bytes for a letter.
_MOST_TEXT, _MOST_HEADER = 2**22, 2**25
# Longest axis of an empty array: walking along it takes time.
_MOST_EMPTY = 2**20
_NO_ARCHIVE = "damaged, or no archive of NumPy"


class DamagedError(ValueError):
    """A file does not hold what was written; the message is the reason, without the file's name."""


@contextlib.contextmanager
def whole_file(
    path: str | os.PathLike, *, replace: bool = True, private: bool = False
) -> Iterator[pathlib.Path]:
    """A temporary name to write to; at the end of the block its content gets the name `path`.

    A symbolic link is followed if `replace` is true; otherwise an existing file is a
    FileExistsError. A `private` file is readable for its owner alone, from its first byte on.
    OSError if the file cannot be written, or `path` is a folder, a pipe or a device.
    """
    target = pathlib.Path(os.path.realpath(path) if replace else path)
    # Renaming would put a file in place of a device, a pipe or a socket.
    if replace and target.exists() and not target.is_file():
        raise OSError(f"expected {path} to be a file, or not to exist")
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}.partial")
    try:
        partial.touch(0o600 if private else 0o666, exist_ok=False)
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        if replace:
            os.replace(partial, target)
        else:
            _name_once(partial, target)
        _flush_folder(target.parent)
    except OSError as error:
        # The caller knows only `path`.
        if error.filename == str(partial):
            raise type(error)(error.errno, error.strerror, str(path)) from None
        raise
    finally:
        partial.unlink(missing_ok=True)


def write_whole(path: str | os.PathLike, content: bytes, **options: bool) -> None:
    """Write a file whole or not at all; options and errors are those of `whole_file`."""
    with whole_file(path, **options) as partial:
        partial.write_bytes(content)


def archived(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The content of an .npz file with these arrays: equal bytes for equal arrays."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # pyright: ignore[reportArgumentType]
    return buffer.getvalue()


def read_arrays(path: str | os.PathLike, *, largest: float = math.inf) -> dict[str, np.ndarray]:
    """The arrays in an .npz file of at most `largest` bytes.

    Raises:
        DamagedError: it is not such a file, is damaged, holds pickles, is too long, or would unpack
            to more than 1 GiB and more than its own length.
        OSError: the file cannot be opened.
    """
    size = os.stat(path).st_size
    if not os.path.isfile(path):
        # Opening a pipe would wait for a writer.
        raise DamagedError(f"expected a file, got {'a folder' if os.path.isdir(path) else 'none'}")
    if size > largest:
        raise DamagedError(f"expected at most {largest} bytes, got {size}")
    try:
        with zipfile.ZipFile(os.fsdecode(path)) as archive:
            entries = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            _check_entries(archive.infolist(), len(entries), size)
            # Nothing beyond the directory's size is unpacked.
            found = (
                (name, archive.open(info).read(info.file_size)) for name, info in entries.items()
            )
            return {name: _array(name, content) for name, content in found}
    except (DamagedError, MemoryError):
        raise
    except Exception:
        # These errors have no common class, and may show content.
        raise DamagedError(_NO_ARCHIVE) from None


def as_header(value: Any) -> np.ndarray:
    """A JSON value as the array stored under `HEADER`; ValueError if it is too long."""
    text = json.dumps(value).encode()
    if len(text) > _MOST_HEADER:
        raise ValueError(f"expected a description of at most {_MOST_HEADER} bytes, got {len(text)}")
    return np.frombuffer(text, np.uint8)


def header_of(arrays: dict[str, np.ndarray]) -> Any:
    """The value of a file's header, removed from its arrays; DamagedError if there is none."""
    if HEADER not in arrays:
        raise DamagedError("it has no header: not written by this version of jaxdp")
    return plain_json(arrays.pop(HEADER).tobytes(), _MOST_HEADER)


def plain_json(text: str | bytes, most: int = _MOST_TEXT) -> Any:
    """The value of a JSON text; DamagedError if it is invalid, too long, or repeats a name."""
    if len(text) > most:
        raise DamagedError(f"its description is longer than {most} bytes")
    try:
        return json.loads(text, object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"its description is no JSON: {error}") from None


def _check_entries(entries: list[zipfile.ZipInfo], num_names: int, file_size: int) -> None:
    most = max(MOST_UNPACKED, file_size)
    if sum(entry.file_size for entry in entries) > most:
        raise DamagedError(f"more than {most / 2**30:.3g} GiB once it is unpacked")
    # NumPy uses no other methods, which unpack whole blocks, and no name twice.
    kinds = {entry.compress_type for entry in entries}
    if kinds - {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED} or num_names < len(entries):
        raise DamagedError(_NO_ARCHIVE)


def _array(name: str, content: bytes) -> np.ndarray:
    file = io.BytesIO(content)
    try:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError("a version of the format for names of fields")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    except ValueError:
        raise DamagedError(f"{name} is no array") from None
    if dtype.hasobject:
        raise DamagedError(f"pickled objects in {name}")
    # Checked before NumPy allocates, with Python's integers, which do not wrap.
    is_longer = max(shape, default=0) > len(content) + _MOST_EMPTY or not dtype.itemsize
    if is_longer or math.prod(shape) * dtype.itemsize != len(content) - file.tell():
        raise DamagedError(f"{name} is not as long as it says")
    return np.load(io.BytesIO(content), allow_pickle=False)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"an object has {name!r} twice")
        found[name] = value
    return found


def _name_once(source: pathlib.Path, target: pathlib.Path) -> None:
    """Give a file its name unless the name is taken, by a hard link if the system has them."""
    try:
        os.link(source, target)
    except OSError:
        # Only this call can create it; then it is replaced.
        os.close(os.open(os.fspath(target), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        try:
            os.replace(source, target)
        except BaseException:
            os.unlink(target)
            raise


def _flush_folder(folder: pathlib.Path) -> None:
    """Make a rename survive a power cut, if the system can open a folder."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
