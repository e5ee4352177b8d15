"""A store detects every damage, refuses what is not its own, and loses nothing to a full disk."""

import contextlib
import errno
import json
import os
import pathlib
import shutil
import tracemalloc
import warnings

import fuzzing
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import xarray
from sweeps import workload

import jaxdp
from jaxdp.core import digests
from jaxdp.core.files.sealed_arrays import DamagedError, sealed
from jaxdp.core.numerics.precision import x64
from jaxdp.sweeps import read_store
from jaxdp.sweeps.axes import as_axes
from jaxdp.sweeps.results import Place, Shard, Variable
from jaxdp.sweeps.store import Store, identity_of, place_of, read_description, unpacked

AXES, KEY = workload.AXES, jr.key(workload.SEED)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished store, which no test may change, and its sweep's result."""
    folder = tmp_path_factory.mktemp("finished")
    return folder, workload.run(workload.noisy, folder)


@pytest.fixture
def store(finished, tmp_path):
    """A copy of the finished store."""
    return pathlib.Path(shutil.copytree(finished[0], tmp_path / "store"))


def _store(folder, *, axes=AXES, key=KEY):
    """A store as `jaxdp.sweep` opens it."""
    checked = as_axes(axes)
    described = checked.described(by_program=False)
    own = identity_of(described, key, "tests", ())
    return Store(folder, own, "a function", checked.coordinates())


@contextlib.contextmanager
def _refused(folder, message):
    """The block is refused in these words, and leaves the folder as it is."""
    before = workload.contents(folder)
    with pytest.raises(ValueError, match=message):
        yield
    assert workload.contents(folder) == before


def _shards(store):
    return sorted(store.glob("shard-*.npz"))


def test_every_flipped_byte_and_every_other_length_of_a_shard_is_detected(finished):
    path = _shards(finished[0])[0]
    place, content = place_of(path.name), path.read_bytes()
    assert unpacked(place, content)[0].place == place
    wrong = [content + b"0", *(content[:length] for length in range(len(content)))]
    for position, byte in enumerate(content):
        wrong.append(content[:position] + bytes([byte ^ 1]) + content[position + 1 :])
    for damaged in wrong:
        with pytest.raises(DamagedError):
            unpacked(place, damaged)


ABOUT = {"sweep": "x", "place": [0, 0, 5], "variables": [["a", [], []]], "provenance": {}}


@pytest.mark.parametrize(
    "change",
    [
        *({"place": [0, 5, 10]}, {"sweep": 3}, {"provenance": []}, {"provenance": {"jax": 1}}),
        *({"variables": wrong} for wrong in (3, [3], [[]], [["a", 1, []]], [["b", ["d"], []]])),
        *({"variables": [["a", [], []]] * 2}, {"more": 1}),
    ],
)
def test_a_shard_that_is_described_as_something_else_is_damaged(change):
    def content(about):
        return sealed({"about": np.asarray(json.dumps(about)), "value_0": np.zeros(5)})

    assert unpacked(Place(0, 0, 5), content(ABOUT))[1] == "x"
    with pytest.raises(DamagedError):
        unpacked(Place(0, 0, 5), content(ABOUT | change))


def test_damaged_shards_are_named_put_aside_and_computed_again(finished, store):
    flipped, short, empty, text, first, second, *sound = _shards(store)
    untouched = {path: path.stat().st_mtime_ns for path in sound}
    content = bytearray(flipped.read_bytes())
    content[len(content) // 2] ^= 255
    flipped.write_bytes(content)
    short.write_bytes(short.read_bytes()[:-1000])
    empty.write_bytes(b"")
    text.write_text("not a shard")
    # Their names swapped: whole files of equal shapes, with the numbers of other cells.
    first.rename(store / "other")
    second.rename(first)
    (store / "other").rename(second)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        again = workload.run(workload.noisy, store)
    damaged = [flipped, short, empty, text, first, second]
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == len(damaged)
    for path in damaged:
        assert any(str(path) in message for message in messages)
        assert path.with_name(f"{path.name}.damaged").exists()
    assert again.identical(finished[1])
    assert {path: path.stat().st_mtime_ns for path in sound} == untouched
    # What a finished sweep writes does not depend on what it went through.
    own = {path.name for path in _shards(finished[0])}
    now = workload.contents(store)
    assert {name: now[name] for name in own} == {
        name: digest for name, digest in workload.contents(finished[0]).items() if name in own
    }


def test_flipped_bytes_of_the_description_are_detected(finished, tmp_path):
    content = (finished[0] / "sweep.json").read_bytes()
    path = tmp_path / "sweep.json"
    path.write_bytes(content)
    assert read_description(path)[0]["axes"] == [*AXES]
    # Every seventh, each in another of its bits.
    for position in range(0, len(content), 7):
        flipped = bytearray(content)
        flipped[position] ^= 1 << position % 8
        path.write_bytes(flipped)
        with pytest.raises(ValueError, match=r"sweep\.json"):
            read_description(path)


@pytest.mark.parametrize(
    "content", ["", "3", "[1, 2]", '"format"', "{}", '{"format": 3, "identity": {}}', "[" * 9999]
)
def test_a_description_that_is_something_else_is_refused(store, content):
    (store / "sweep.json").write_text(content)
    with _refused(store, r"sweep\.json to describe a sweep"):
        workload.run(workload.noisy, store)


def _untraceable(key, **values):
    raise AssertionError("a finished sweep was traced")


def test_a_damaged_description_can_be_removed(finished, store):
    (store / "sweep.json").unlink()
    # As an earlier damage leaves it.
    (store / "shard-000000-000000000-000000005.npz.damaged").write_bytes(b"")
    assert workload.run(_untraceable, store).equals(finished[1])


def _by_gain(key, gain, power, shift):
    return {"vector": gain}


# What the error says, and how the call differs from the one that made the store.
REFUSED = {
    "its axis gain is array, 10, .*, not array, 10, ": {
        "axes": AXES | {"gain": AXES["gain"] + 1e-8}
    },
    "its axis gain is array, 10, .*, not array, 11, ": {
        "axes": AXES | {"gain": np.linspace(0.5, 2.0, 11)}
    },
    "its axis shift is array, 4, .*, not tuple, 4, ": {"axes": AXES | {"shift": (0, 1, 2, 3)}},
    "its axes are gain, power, shift, not power, gain, shift": {
        "axes": {name: AXES[name] for name in ("power", "gain", "shift")}
    },
    "its axes are gain, power, shift, not gain, power": {
        "axes": {name: AXES[name] for name in ("gain", "power")}
    },
    "its key is .*, not ": {"key": jr.key(4)},
    "its version is tests, not other": {"version": "other"},
    "its version is tests, not None.* made by .*noisy, and this is .*_by_gain": {
        "version": None,
        "function": _by_gain,
    },
    "its jax_enable_x64 is False, not True": {},
}


@pytest.mark.parametrize("message", REFUSED)
def test_another_sweeps_store_is_refused_and_left_as_it_is(store, message):
    given = {"axes": AXES, "key": KEY, "version": "tests", "function": _untraceable}
    with x64("x64" in message), _refused(store, message):
        jaxdp.sweep(**(given | REFUSED[message]), store=store, quiet=True)


def test_a_function_that_has_changed_is_refused(tmp_path):
    def scaled_by(scale):
        return lambda key, gain: {"value": scale * gain}

    axes = {"gain": np.arange(3.0)}
    jaxdp.sweep(scaled_by(2.0), axes, key=KEY, store=tmp_path, quiet=True)
    with _refused(tmp_path, r"its function computes something else .*scaled_by"):
        jaxdp.sweep(scaled_by(3.0), axes, key=KEY, store=tmp_path, quiet=True)


@pytest.mark.parametrize("name", ["jaxdp", "jaxlib"])
def test_the_store_of_another_jaxdp_or_library_is_refused(store, monkeypatch, name):
    version_of = digests.version_of
    monkeypatch.setattr(
        digests, "version_of", lambda each: "0.0" if name in each else version_of(each)
    )
    with _refused(store, rf"its {name} is .*, not 0\.0"):
        workload.run(_untraceable, store)


def test_a_store_of_an_older_format_is_refused_and_left_as_it_is(store):
    path = store / "sweep.json"
    path.write_text('{"format": 2, "function": {"version": "tests"}, "digest": "0"}')
    with _refused(store, r"another version of jaxdp made that sweep.*left as it is"):
        workload.run(_untraceable, store)


def test_shards_without_a_description_do_not_come_under_another_sweeps(store):
    (store / "sweep.json").unlink()
    # Also where their variables are called as the other sweep's axes: that is no damage.
    for axes in (AXES | {"gain": AXES["gain"] + 1}, {"vector": AXES["gain"]}):
        with _refused(store, "expected shards of one sweep"):
            workload.run(_untraceable, store, axes=axes)


def test_another_sweeps_shard_is_refused(store, tmp_path):
    path = _shards(store)[3]
    place = place_of(path.name)
    shard, _ = unpacked(place, path.read_bytes())
    _store(tmp_path / "other", key=jr.key(4)).write(shard)
    shutil.copy(tmp_path / "other" / path.name, path)
    with _refused(store, f"shards of one sweep .* got {path.name} of another"):
        workload.run(_untraceable, store)


def test_a_file_and_a_folder_of_other_things_are_refused(tmp_path):
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("mine")
    folder.mkdir()
    (folder / "thesis.tex").write_text("mine")
    with pytest.raises(ValueError, match=f"to be a folder, got the file {file}"):
        workload.run(_untraceable, file)
    with pytest.raises(ValueError, match=f"got {folder} with thesis.tex in it"):
        workload.run(_untraceable, folder)
    assert file.read_text() == "mine"
    assert [path.name for path in folder.iterdir()] == ["thesis.tex"]
    with pytest.raises(ValueError, match=f"to be in a folder, got the file {file}"):
        workload.run(_untraceable, file / "inner")


def test_a_finished_store_may_be_read_only(finished, store, monkeypatch):
    partial = store / ".shard.partial"
    partial.write_bytes(b"half")
    os.utime(partial, (0, 0))

    def refused(*arguments, **options):
        raise OSError(errno.EROFS, "Read-only file system")

    for name in ("unlink", "link", "replace", "fsync"):
        monkeypatch.setattr(os, name, refused)
    assert workload.run(_untraceable, store).equals(finished[1])
    assert partial.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(PermissionError, match=f"could not write sweep.json to {tmp_path}"):
        workload.run(_untraceable, tmp_path)
    tmp_path.chmod(0o755)


def test_half_written_files_of_long_ago_are_cleared_and_new_ones_kept(store):
    old, new = store / ".old.partial", store / ".new.partial"
    old.write_bytes(b"")
    new.write_bytes(b"")
    os.utime(old, (0, 0))
    workload.run(_untraceable, store)
    assert not old.exists()
    assert new.exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("writes", [0, 3])
def test_a_failed_write_is_an_error_that_names_the_store(finished, tmp_path, number, writes):
    folder = tmp_path / "store"
    shard, _ = unpacked(Place(0, 0, 5), _shards(finished[0])[0].read_bytes())
    fsync, left = os.fsync, [2 * writes]

    def failing(handle):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(number, os.strerror(number))
        fsync(handle)

    def write():
        kept = _store(folder)
        for start in range(0, 40, 5):
            kept.write(Shard(Place(0, start, start + 5), shard.arrays, shard.variables, {}))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(OSError, match=f"to {folder}: ") as caught:
            write()
    assert caught.value.errno == number
    assert "call the sweep again with the same store" in str(caught.value)
    names = {path.name for path in folder.iterdir()}
    assert len(names) == writes
    assert not any(name.endswith(".partial") for name in names)
    write()
    assert len(_shards(folder)) == 8


def test_a_finished_sweep_is_read_once_in_memory_proportional_to_it(tmp_path, monkeypatch):
    shards, cells, width = 64, 2, 10_000
    axes = {"gain": np.arange(float(shards * cells))}
    kept = _store(tmp_path, axes=axes)
    values = np.arange(shards * cells * width, dtype=np.float32).reshape(-1, width)
    variables = (Variable("value", ("place",)),)
    for start in range(0, shards * cells, cells):
        place = Place(0, start, start + cells)
        kept.write(Shard(place, {"value": values[start : start + cells]}, variables, {}))
    reads, read = [], Store.read
    monkeypatch.setattr(Store, "read", lambda self, place: reads.append(place) or read(self, place))
    tracemalloc.start()
    found = jaxdp.sweep(_untraceable, axes, key=KEY, store=tmp_path, version="tests", quiet=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(found["value"], values)
    assert len(reads) == len(set(reads)) == shards
    # The shards, and the whole that they are put into.
    assert values.nbytes < peak < 2.2 * values.nbytes


def _cells(x, kind, key):
    return {"value": x * {"one": 1.0, "ten": 10.0}[kind] + jnp.arange(2.0), "count": jnp.int32(3)}


@pytest.fixture
def swept(tmp_path):
    axes = {"x": jnp.asarray([0.5, 1.5, 4.0]), "kind": ("one", "ten")}
    settings = {"key": jax.random.key(0), "version": "1", "shard_size": 2, "quiet": True}
    return jaxdp.sweep(_cells, axes, store=tmp_path, **settings), tmp_path


def test_a_store_is_what_the_sweep_returned(swept):
    dataset, folder = swept
    found = read_store(folder)
    assert found.value.dims == dataset.value.dims
    xarray.testing.assert_equal(found, dataset.astype(float))
    assert found.kind.data.tolist() == ["one", "ten"]


def test_what_is_damaged_or_missing_is_nan_and_stays_as_it_is(swept):
    dataset, folder = swept
    *_, damaged, missing = sorted(folder.glob("shard-*.npz"))
    damaged.write_bytes(damaged.read_bytes()[:-70])
    missing.unlink()
    found = read_store(folder)
    known = np.isfinite(found["count"])
    assert int(known.sum()) == 3
    np.testing.assert_array_equal(found.value.data[known], dataset.value.data[known])
    assert damaged.exists()


def test_without_their_values_axes_have_indices(swept):
    _, folder = swept
    (folder / "axes.npz").unlink()
    assert read_store(folder).x.data.tolist() == [0, 1, 2]


def test_a_sweep_goes_on_with_a_store_that_has_no_values_of_its_axes(swept):
    dataset, folder = swept
    (folder / "axes.npz").write_bytes(b"")
    (folder / "sweep.json").unlink()
    axes = {"x": jnp.asarray([0.5, 1.5, 4.0]), "kind": ("one", "ten")}
    settings = {"key": jax.random.key(0), "version": "1", "quiet": True}
    again = jaxdp.sweep(_cells, axes, store=folder, **settings)
    xarray.testing.assert_equal(again, dataset)
    assert read_store(folder).x.data.tolist() == [0.5, 1.5, 4.0]


def test_what_is_no_store_is_refused(tmp_path):
    with pytest.raises(ValueError, match="folder of a sweep"):
        read_store(tmp_path)


@pytest.mark.parametrize("kind", fuzzing.NODES)
def test_a_sweep_goes_on_past_what_is_no_file(kind, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = workload.run(workload.noisy, tmp_path, axes=workload.ONE_PROGRAM)
        path = sorted(tmp_path.glob("shard-*.npz"))[0]
        for _ in range(2):
            path.unlink()
            fuzzing.NODES[kind](path)
            with fuzzing.bounded():
                again = workload.run(workload.noisy, tmp_path, axes=workload.ONE_PROGRAM)
            assert again.identical(whole)
    # What was put aside first is not lost to what came after.
    assert len([*tmp_path.glob("*.damaged*")]) == 2


def test_a_description_that_is_no_file_is_refused_without_waiting(tmp_path):
    for make in fuzzing.NODES.values():
        make(tmp_path / "sweep.json")
        with pytest.raises(ValueError, match=r"sweep\.json"), fuzzing.bounded():
            workload.run(workload.noisy, tmp_path)
        other = tmp_path / "sweep.json"
        other.rmdir() if other.is_dir() else other.unlink()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_axes_that_another_processor_rounds_are_those_of_the_store(tmp_path, dtype):
    gain = np.geomspace(0.1, 3.0, 4).astype(dtype)
    axes = {"gain": gain, "power": (0.1, 0.7), "shift": np.arange(2)}
    rounded = np.nextafter(gain, np.inf, dtype=dtype)
    powers = tuple(np.nextafter(axes["power"], 0.0).tolist())
    calls = []

    def counted(key, gain, power, shift):
        calls.append(power)
        return {"number": gain**power + shift}

    first = workload.run(counted, tmp_path, axes=axes)
    again = workload.run(counted, tmp_path, axes=axes | {"gain": rounded, "power": powers})
    assert len(calls) == 2
    xarray.testing.assert_identical(again.drop_attrs(), first.drop_attrs())
    for other in ({"gain": (gain * (1 + 1e-6)).astype(dtype)}, {"power": (0.1, 0.7 + 1e-8)}):
        with _refused(tmp_path, "keeps another sweep"):
            workload.run(counted, tmp_path, axes=axes | other)
