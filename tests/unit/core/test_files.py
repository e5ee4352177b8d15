"""Files are written whole or not at all, and nothing that an archive claims is believed."""

import errno
import multiprocessing
import os
import resource
import signal
import struct
import tracemalloc
import zipfile

import jax
import numpy as np
import pytest

from experiments.harness.cifar10 import read_cifar10
from jaxdp.cli.commands.reconstruct import _read
from jaxdp.core import files
from jaxdp.core.files import (
    DamagedError,
    archived,
    plain_json,
    read_arrays,
    whole_file,
    write_whole,
)
from jaxdp.data.datasets import read_table
from jaxdp.explorer import open_features
from jaxdp.kernels import load

ARRAYS = {
    "a": np.arange(6.0).reshape(2, 3),
    "columns": np.asfortranarray(np.arange(6, dtype=">i2").reshape(2, 3)),
    "text": np.asarray("ünicode"),
    "none": np.zeros((0, 4), np.float32),
    "number": np.asarray(1 + 2j),
}
MOST, MEGABYTE = 4 * 10**6, 10**6


def _names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_file_is_replaced_by_a_whole_one_or_stays_as_it_is(tmp_path, error):
    path = tmp_path / "file"

    def stopped():
        with whole_file(path) as partial:
            partial.write_bytes(b"half")
            raise error

    for content in (b"old", b"new"):
        write_whole(path, content)
        with pytest.raises(error):
            stopped()
        assert (path.read_bytes(), _names(tmp_path)) == (content, ["file"])


def _write_much(path):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    try:
        write_whole(path, bytes(5000))
    except OSError as error:
        os._exit(error.errno)
    os._exit(0)


def test_a_disk_that_takes_no_more_leaves_no_half_a_file(tmp_path):
    process = multiprocessing.get_context("forkserver").Process(
        target=_write_much, args=(tmp_path / "file",)
    )
    process.start()
    process.join(60)
    assert process.exitcode == errno.EFBIG
    assert _names(tmp_path) == []


def _no_links(*names):
    raise OSError(errno.EPERM, "Operation not permitted")


def test_a_file_that_is_not_to_be_replaced_stays(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_whole(path, b"first", replace=False)
    for link in (os.link, _no_links):
        monkeypatch.setattr(os, "link", link)
        with pytest.raises(FileExistsError) as taken:
            write_whole(path, b"second", replace=False)
        assert (taken.value.filename, taken.value.filename2) == (str(path), None)
        write_whole(tmp_path / link.__name__, b"other", replace=False)
    assert path.read_bytes() == b"first"
    assert _names(tmp_path) == ["_no_links", "file", "link"]


def test_a_link_stays_a_link_to_what_is_written(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_whole(tmp_path / "link", b"content")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"content"


def test_what_is_no_file_is_neither_read_nor_written(tmp_path):
    # To open the pipe in the usual way would wait for a writer.
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "pipe", tmp_path / "folder", "/dev/zero"):
        with pytest.raises(DamagedError, match="expected a file, got"):
            read_arrays(path)
        with pytest.raises(OSError, match="to be a file, or not to exist"):
            write_whole(path, b"")
    assert (tmp_path / "pipe").is_fifo()


def test_a_private_file_is_its_owners_alone_from_its_first_byte_on(tmp_path):
    before = os.umask(0)
    try:
        with whole_file(tmp_path / "file", private=True) as partial:
            assert partial.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_arrays_come_back_with_their_types_and_can_be_written_to(write, tmp_path):
    path = tmp_path / "a.npz"
    write(path, **ARRAYS)
    found = read_arrays(path)
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
        assert found[name].flags.writeable
    assert archived(ARRAYS) == archived(found)


def test_every_flipped_byte_and_every_cut_is_noticed_or_changes_nothing(tmp_path):
    path, content = tmp_path / "a.npz", archived(ARRAYS)
    numbers = content.index(ARRAYS["a"].tobytes())
    for place in range(0, len(content), 7):
        path.write_bytes(content[:place])
        with pytest.raises(DamagedError):
            read_arrays(path)
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            found = read_arrays(path)
        except DamagedError:
            continue
        assert not numbers <= place < numbers + 48
        # A name that is changed in both its places would be another file's.
        assert archived(found) == content or found.keys() != ARRAYS.keys()


def _npy(descr="'<f8'", shape="(1,)", content=bytes(8), version=b"\x01\x00"):
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + version + struct.pack("<H", len(header)) + header + content


def _zeros(num_bytes):
    return _npy(shape=f"({num_bytes // 8},)", content=bytes(num_bytes))


def _archive(path, members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def _with_sizes(path, size):
    """The file with other sizes in its directory."""
    whole = bytearray(path.read_bytes())
    place = -1
    while (place := whole.find(b"PK\x01\x02", place + 1)) >= 0:
        whole[place + 24 : place + 28] = struct.pack("<I", size)
    path.write_bytes(whole)
    return path


FORGED = {
    "a pickle": (_npy(descr="'|O'"), "pickled objects in a"),
    "more numbers than the entry has": (_npy(shape="(1000000000000,)"), "not as long as it says"),
    "less than the entry has": (_npy(content=bytes(9)), "not as long"),
    "a product that overflows": (_npy(shape="(4294967296, 4294967296)", content=b""), "as long"),
    "no numbers, at length": (_npy(shape="(0, 1000000000000)", content=b""), "not as long"),
    "nothing, many times": (_npy("'<U0'", "(1000000000,)", b""), "not as long"),
    "negative lengths": (_npy(shape="(-1, -1)"), "damaged"),
    "an expression": (_npy(shape="(2**70,)"), "is no array"),
    "no such type": (_npy(descr="'<f7'"), "is no array"),
    "a format to come": (_npy(version=b"\x03\x00"), "is no array"),
    "another thing": (b"a secret", "is no array$"),
}


def _refused_in_little_memory(path, message):
    tracemalloc.start()
    with pytest.raises(DamagedError, match=message):
        read_arrays(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEGABYTE


@pytest.mark.parametrize("forgery", FORGED)
def test_claims_of_an_array_are_checked_before_there_is_room_for_it(forgery, tmp_path):
    content, message = FORGED[forgery]
    _refused_in_little_memory(_archive(tmp_path / "a.npz", {"a": content}), message)


def _overlapping(path):
    """An archive whose entries all lie at the place of the first, which is long."""
    _archive(path, {f"a{i}": _zeros(MEGABYTE if i == 0 else 8) for i in range(9)}, 0)
    return _with_sizes(path, MEGABYTE)


BOMBS = {
    "one entry": lambda path: _archive(path, {"a": _zeros(10**7)}),
    "many entries": lambda path: _archive(path, {f"a{i}": _zeros(10**6) for i in range(5)}),
    "smaller in the directory": lambda path: _with_sizes(
        _archive(path, {"a": _zeros(10**7)}), len(_zeros(8))
    ),
    "another method": lambda path: _archive(path, {"a": _zeros(10**6)}, zipfile.ZIP_BZIP2),
    "entries that overlap": _overlapping,
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_an_archive_that_unpacks_to_too_much_is_not_unpacked(bomb, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_UNPACKED", MOST)
    said = "once it is unpacked|damaged|is no array|not as long"
    _refused_in_little_memory(BOMBS[bomb](tmp_path / "a.npz"), said)


def test_an_archive_as_long_as_its_arrays_may_be_of_any_size_up_to_the_limit_given(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(files, "MOST_UNPACKED", MOST)
    np.savez(tmp_path / "a.npz", a=np.zeros(MOST // 4))
    assert read_arrays(tmp_path / "a.npz")["a"].shape == (MOST // 4,)
    with pytest.raises(DamagedError, match="expected at most 9 bytes"):
        read_arrays(tmp_path / "a.npz", largest=9)


def test_every_reader_of_users_archives_keeps_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_UNPACKED", MOST)
    names = "train_features train_labels test_features test_labels images labels weights parameters"
    path = _archive(tmp_path / "bomb.npz", dict.fromkeys(names.split(), _zeros(10**7)))
    for read, *given in (
        (open_features, path),
        (read_table, path),
        (read_cifar10, tmp_path),
        (_read, path, jax.nn.relu),
        (load, path),
    ):
        with pytest.raises(ValueError, match=r"more than .* GiB once it is unpacked"):
            read(*given)


def test_other_things_are_no_archive(tmp_path):
    np.save(tmp_path / "one.npy", np.zeros(3))
    (tmp_path / "text").write_text("a,b\n1,2\n")
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(2**40)
    twice = _archive(tmp_path / "twice", {"a": _npy(), "b": _npy()})
    twice.write_bytes(twice.read_bytes().replace(b"b.npy", b"a.npy"))
    for name in ("one.npy", "text", "holes", "twice"):
        with pytest.raises(DamagedError, match="damaged, or no archive"):
            read_arrays(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        read_arrays(tmp_path / "missing")


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 10**5, '{"a": 1, "a": 2}', "1" * 5000, b"\xff\xfe\xfa"]
)
def test_json_that_is_broken_deep_or_ambiguous_is_refused(text):
    with pytest.raises(DamagedError, match="is no JSON"):
        plain_json(text)
    assert plain_json('{"a": {"b": 1}}') == {"a": {"b": 1}}
