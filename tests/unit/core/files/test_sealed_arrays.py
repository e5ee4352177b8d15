"""Sealed arrays come back as they were, and nothing that a header claims is believed."""

import hashlib
import io
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from jaxdp.core.files.sealed_arrays import DamagedError, plain_json, read_sealed, sealed, unsealed

ARRAYS = {
    "a": np.arange(6.0).reshape(2, 3),
    "columns": np.asfortranarray(np.arange(6, dtype=np.int8).reshape(2, 3)),
    "none": np.zeros((0, 4), np.float32),
    "number": np.asarray(1 + 2j),
    "text": np.asarray("ünicode"),
    "flags": np.array([True, False]),
}


def _archive(members, compression=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.comment = b"0" * 64
    return _signed(buffer.getvalue()[:-64])


def _signed(body):
    return body + hashlib.sha256(body).hexdigest().encode()


def _npy(descr="'<f8'", order="False", shape="(1,)", content=bytes(8), version=b"\x01\x00"):
    header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + version + struct.pack("<H", len(header)) + header + content


def test_arrays_come_back_with_their_types_and_can_be_written_to():
    found = unsealed(sealed(ARRAYS))
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
        assert found[name].flags.writeable
    assert unsealed(_archive({"a.npy": _npy()}))["a"] == 0


FORGED = {
    "a pickle": {"descr": "'|O'"},
    "fields": {"descr": "[('a', '<f8')]"},
    "another order of bytes": {"descr": "'>f8'"},
    "raw bytes": {"descr": "'|V8'"},
    "dates": {"descr": "'<M8[s]'"},
    "no such type": {"descr": "'<f7'", "content": bytes(7)},
    "nothing, many times": {"descr": "'<U0'", "shape": "(1000000000,)", "content": b""},
    "no numbers, at length": {"shape": "(0, 1000000000)", "content": b""},
    "more than the file": {"shape": "(1000000000000,)"},
    "a product that overflows": {"shape": "(4294967296, 4294967296)", "content": b""},
    "a negative length": {"shape": "(-1,)"},
    "a length of many digits": {"shape": f"({'9' * 1000},)"},
    "too many dimensions": {"shape": f"({', '.join('1' * 100)})"},
    "an expression": {"shape": "(2**70,)"},
    "a format to come": {"version": b"\x03\x00"},
    "less than the file": {"content": bytes(9)},
}


@pytest.mark.parametrize("forgery", FORGED)
def test_claims_that_the_content_does_not_bear_out_are_refused(forgery):
    content = _archive({"a.npy": _npy(**FORGED[forgery])})
    tracemalloc.start()
    with pytest.raises(DamagedError, match="not an archive of arrays"):
        unsealed(content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**6


def test_a_compressed_archive_is_not_expanded():
    content = _archive({"a.npy": bytes(10**8)}, zipfile.ZIP_DEFLATED)
    tracemalloc.start()
    with pytest.raises(DamagedError, match="compressed entries"):
        unsealed(content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**7


def test_entries_that_overlap_are_refused():
    """Many names for one place: the file would be read as many times as it has names."""
    whole = bytearray(sealed({f"array_{i}": np.zeros(1000) for i in range(50)})[:-64])
    with zipfile.ZipFile(io.BytesIO(bytes(whole) + b"0" * 64)) as archive:
        start = archive.start_dir
        longest = max(info.file_size for info in archive.infolist())
    # The first entry claims all; so do the others, each at its own place.
    position = start
    while whole[position : position + 4] == b"PK\x01\x02":
        name, extra, comment = struct.unpack("<HHH", whole[position + 28 : position + 34])
        whole[position + 20 : position + 28] = struct.pack("<II", *[40 * longest] * 2)
        position += 46 + name + extra + comment
    with pytest.raises(DamagedError, match="longer than the file"):
        unsealed(_signed(bytes(whole)))


def test_a_file_that_neither_begins_nor_ends_as_one_is_not_read(tmp_path):
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(DamagedError, match="not written by jaxdp"):
        read_sealed(path)
    path.write_bytes(sealed(ARRAYS))
    assert unsealed(read_sealed(path))["a"].shape == (2, 3)
    with pytest.raises(DamagedError, match="expected at most 9 bytes"):
        read_sealed(path, largest=9)


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 10**5, '{"a": 1, "a": 2}', "1" * 5000, b"\xff\xfe\xfa"]
)
def test_json_that_is_broken_deep_or_ambiguous_is_refused(text):
    with pytest.raises(DamagedError, match="is no JSON"):
        plain_json(text)
    assert plain_json('{"a": {"b": 1}}') == {"a": {"b": 1}}
