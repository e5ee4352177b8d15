"""What a user's compressed file unpacks to is bounded by its directory and by what is read."""

import gzip
import struct
import tracemalloc
import zipfile

import jax
import numpy as np
import pytest

from experiments.harness.cifar10 import read_cifar10
from experiments.harness.mnist import read_idx
from jaxdp.cli.commands.reconstruct import _read
from jaxdp.core.files import compressed_files
from jaxdp.core.files.compressed_files import gunzipped, read_arrays
from jaxdp.data.datasets import read_table
from jaxdp.explorer import open_features

ARRAYS = {
    "a": np.arange(6.0).reshape(2, 3),
    "columns": np.asfortranarray(np.arange(6, dtype=">i2").reshape(2, 3)),
    "text": np.asarray("ünicode"),
    "none": np.zeros((0, 4), np.float32),
}
MOST, MEGABYTE = 4 * 10**6, 10**6


def _npy(descr="'<f8'", shape="(1,)", content=bytes(8)):
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


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


def _zeros(num_bytes):
    return _npy(shape=f"({num_bytes // 8},)", content=bytes(num_bytes))


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_arrays_of_numpy_come_back_and_only_those_that_are_wanted(write, tmp_path):
    path = tmp_path / "a.npz"
    write(path, **ARRAYS, objects=np.array([None]))
    names, found = read_arrays(path, ARRAYS)
    assert names == [*ARRAYS, "objects"]
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
    with pytest.raises(ValueError, match="pickled objects in objects"):
        read_arrays(path)


FORGED = {
    "more numbers than the entry has": (_npy(shape="(1000000000000,)"), "not as long as it says"),
    "a product that overflows": (
        _npy(shape="(4294967296, 4294967296)", content=b""),
        "not as long",
    ),
    "no numbers, at length": (_npy(shape="(0, 1000000000000)", content=b""), "not as long"),
    "an expression": (_npy(shape="(2**70,)"), "is no array"),
    "another thing": (b"a secret", "is no array$"),
}


@pytest.mark.parametrize("forgery", FORGED)
def test_claims_of_an_array_are_checked_before_there_is_room_for_it(forgery, tmp_path):
    content, message = FORGED[forgery]
    path = _archive(tmp_path / "a.npz", {"a": content})
    tracemalloc.start()
    with pytest.raises(ValueError, match=message):
        read_arrays(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEGABYTE


BOMBS = {
    "one entry": lambda path: _archive(path, {"a": _zeros(10**7)}),
    "many entries": lambda path: _archive(path, {f"a{i}": _zeros(10**6) for i in range(5)}),
    "smaller in the directory": lambda path: _with_sizes(
        _archive(path, {"a": _zeros(10**7)}), len(_zeros(8))
    ),
    "another method": lambda path: _archive(path, {"a": _zeros(10**6)}, zipfile.ZIP_BZIP2),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_an_archive_that_unpacks_to_too_much_is_not_unpacked(bomb, tmp_path, monkeypatch):
    monkeypatch.setattr(compressed_files, "MOST_UNPACKED", MOST)
    path = BOMBS[bomb](tmp_path / "a.npz")
    assert path.stat().st_size < 10**5
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"once it is unpacked|damaged|not as long"):
        read_arrays(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEGABYTE


def test_an_archive_as_long_as_what_is_in_it_may_be_of_any_size(tmp_path, monkeypatch):
    monkeypatch.setattr(compressed_files, "MOST_UNPACKED", MOST)
    np.savez(tmp_path / "a.npz", a=np.zeros(MOST // 4))
    assert read_arrays(tmp_path / "a.npz")[1]["a"].shape == (MOST // 4,)


def test_a_gzip_file_is_unpacked_up_to_the_limit_and_no_further(monkeypatch):
    monkeypatch.setattr(compressed_files, "MOST_UNPACKED", MOST)
    assert len(gunzipped(gzip.compress(bytes(MOST)))) == MOST
    content = gzip.compress(bytes(10 * MOST))
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"more than .* GiB once it is unpacked"):
        gunzipped(content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * MOST


def test_every_reader_of_users_compressed_files_keeps_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(compressed_files, "MOST_UNPACKED", MOST)
    names = "train_features train_labels test_features test_labels images labels weights parameters"
    path = _archive(tmp_path / "bomb.npz", dict.fromkeys(names.split(), _zeros(10**7)))
    digits = tmp_path / "digits.gz"
    digits.write_bytes(gzip.compress(bytes(10**7)))
    for read, *given in (
        (open_features, path),
        (read_table, path),
        (read_cifar10, tmp_path),
        (_read, path, jax.nn.relu),
        (read_idx, digits, 3),
    ):
        with pytest.raises(ValueError, match=r"more than .* GiB once it is unpacked"):
            read(*given)


def test_a_table_is_not_unpacked_for_its_name(tmp_path):
    path = tmp_path / "table.csv.gz"
    path.write_text("a,b,y\n" + "1,2,3\n2,3,1\n" * 10)
    assert read_table(path).inputs.shape == (20, 2)


def test_other_things_are_named(tmp_path):
    np.save(tmp_path / "one.npy", np.zeros(3))
    (tmp_path / "text").write_text("a,b\n1,2\n")
    for name, message in (
        ("one.npy", "a single array"),
        ("text", "damaged, or no archive"),
        ("missing", "No such file"),
        (".", "expected a file, got a folder"),
    ):
        with pytest.raises(ValueError, match=message):
            read_arrays(tmp_path / name)
