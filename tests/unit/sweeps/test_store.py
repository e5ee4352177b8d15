"""A store detects every damage, refuses what is not its own, and loses nothing to a full disk."""

import contextlib
import errno
import importlib
import os
import pathlib
import shutil
import sys
import warnings

import fuzzing
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import workload
import xarray

import jaxdp
from jaxdp.core import digests
from jaxdp.core.files import archived, as_header, header_of, read_arrays
from jaxdp.core.numerics.precision import x64
from jaxdp.sweeps import program, read_store
from jaxdp.sweeps.axes import as_axes
from jaxdp.sweeps.program import Work
from jaxdp.sweeps.store import Store

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


@contextlib.contextmanager
def _refused(folder, message):
    """The block is refused in these words, and leaves the folder as it is."""
    before = workload.contents(folder)
    with pytest.raises(ValueError, match=message):
        yield
    assert workload.contents(folder) == before


def _shards(store):
    return sorted(store.glob("shard-*.npz"))


@pytest.fixture
def shard(tmp_path):
    """A file of a small sweep's store, its arrays, and what it says of them."""
    workload.run(workload.noisy, tmp_path, axes=workload.SMALL)
    arrays = read_arrays(_shards(tmp_path)[0])
    return _shards(tmp_path)[0], arrays, header_of(arrays)


@pytest.fixture
def traces(monkeypatch):
    """The combinations that are traced."""
    found, init = [], program.CellProgram.__init__

    def counted(self, function, axes, combination, key):
        found.append(combination)
        init(self, function, axes, combination, key)

    monkeypatch.setattr(program.CellProgram, "__init__", counted)
    return found


def _is_damaged(path, content):
    """Whether a store takes a file of this content for a damaged shard."""
    path.write_bytes(content)
    found = read_store(path.parent)["number"]
    return not bool(np.isfinite(found[:2]).any())


def test_every_cut_and_every_flipped_byte_of_numbers_is_detected(tmp_path):
    workload.run(workload.noisy, tmp_path, axes=workload.SMALL)
    path, sound = _shards(tmp_path)
    content = path.read_bytes()
    assert not _is_damaged(path, content)
    for length in range(0, len(content), 29):
        assert _is_damaged(path, content[:length])
    assert _is_damaged(path, content[:-1])
    path.write_bytes(content)
    first = read_store(tmp_path)
    for position in range(0, len(content), 23):
        flipped = bytes([content[position] ^ 1 << position % 8])
        if not _is_damaged(path, content[:position] + flipped + content[position + 1 :]):
            # A date, or an attribute of a file in the archive.
            assert read_store(tmp_path).identical(first)
    # A whole file under the name of other cells.
    assert _is_damaged(path, sound.read_bytes())


@pytest.mark.parametrize(
    "change",
    [
        *({"name": "shard-000000-000000000-000000009.npz"}, {"provenance": 3}),
        *({"variables": wrong} for wrong in (3, [3], [[]], [["a", 1, []]], [["b", ["d"], []]])),
    ],
)
def test_a_shard_that_is_described_as_something_else_is_damaged(shard, change):
    path, arrays, about = shard
    assert not _is_damaged(path, archived(arrays | {"header": as_header(about)}))
    assert _is_damaged(path, archived(arrays | {"header": as_header(about | change)}))


def test_a_shard_of_one_row_for_all_its_cells_is_damaged(shard):
    path, arrays, about = shard
    assert len(arrays["value_0"]) > 1
    one_row = {"value_0": arrays["value_0"][:1], "header": as_header(about)}
    assert _is_damaged(path, archived(arrays | one_row))


def test_a_shard_of_another_sweep_is_refused_and_stays(shard, tmp_path):
    path, arrays, about = shard
    path.write_bytes(archived(arrays | {"header": as_header(about | {"sweep": "0"})}))
    for read in (
        read_store,
        lambda folder: workload.run(workload.noisy, folder, axes=workload.SMALL),
    ):
        with pytest.raises(ValueError, match="expected shards of one sweep"):
            read(tmp_path)
    assert path.exists()


def test_of_two_sweeps_that_begin_in_one_folder_the_later_is_refused(tmp_path):
    work = [
        Work.of(function, as_axes(workload.SMALL), jr.key(0))
        for function in (workload.noisy, lambda key, **cell: {"number": jnp.ones(())})
    ]
    first, second = (Store(tmp_path, one, None) for one in work)
    first.begin(work[0])
    with pytest.raises(ValueError, match="keeps another sweep"):
        second.begin(work[1])


def test_with_a_version_objects_of_one_label_are_told_apart(tmp_path):
    problems = [jaxdp.LinearRegression.isotropic(10, label_noise=noise) for noise in (0.1, 0.9)]
    given = {"key": jr.key(0), "version": "1", "store": tmp_path, "quiet": True}

    def noise(key, problem):
        return {"noise": problem.label_noise}

    jaxdp.sweep(noise, {"problem": (problems[0],)}, **given)
    with pytest.raises(ValueError, match="another sweep: the values of axis problem"):
        jaxdp.sweep(noise, {"problem": (problems[1],)}, **given)


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
        assert path.with_suffix(".damaged").exists()
    assert again.identical(finished[1])
    assert {path: path.stat().st_mtime_ns for path in sound} == untouched
    # What a finished sweep writes does not depend on what it went through.
    own = {path.name for path in _shards(finished[0])}
    now = workload.contents(store)
    assert {name: now[name] for name in own} == {
        name: digest for name, digest in workload.contents(finished[0]).items() if name in own
    }


@pytest.mark.parametrize("content", ["", "[1, 2]", '{"format": 5, "identity": {}}', "[" * 9999])
def test_a_description_that_is_something_else_is_refused(store, content):
    (store / "sweep.json").write_text(content)
    with _refused(store, r"sweep\.json to describe a sweep"):
        workload.run(workload.noisy, store)


def _untraceable(key, **values):
    raise AssertionError("a finished sweep was traced")


def _by_gain(key, gain, power, shift):
    return {"vector": gain}


GIVEN = {**{"axes": AXES, "key": KEY, "version": "tests", "function": _untraceable, "quiet": True}}
# What the error says, and how the call differs from the one that made the store.
REFUSED = {
    "its axis gain is ": {"axes": AXES | {"gain": AXES["gain"] + 1e-8}},
    "its axis shift is .*array.*, not .*tuple": {"axes": AXES | {"shift": (0, 1, 2, 3)}},
    'its axes is ."gain", "power", "shift"., not ."power", "gain", "shift".': {
        "axes": {name: AXES[name] for name in ("power", "gain", "shift")}
    },
    "its key is .*, not ": {"key": jr.key(4)},
    'its version is "tests", not null.* made by .*noisy, and this is .*_by_gain': {
        "version": None,
        "function": _by_gain,
    },
    'its jax_enable_x64 is "False", not "True"': {},
}


@pytest.mark.parametrize("message", REFUSED)
def test_another_sweeps_store_is_refused_and_left_as_it_is(store, message):
    with x64("x64" in message), _refused(store, message):
        jaxdp.sweep(**(GIVEN | REFUSED[message]), store=store)


def test_a_function_that_has_changed_is_refused(tmp_path):
    def scaled_by(scale):
        return lambda key, gain: {"value": scale * gain}

    axes = {"gain": np.arange(3.0)}
    jaxdp.sweep(scaled_by(2.0), axes, key=KEY, store=tmp_path, quiet=True)
    # Nor is a damaged file renamed by a call that is not for this folder.
    _shards(tmp_path)[0].write_bytes(b"")
    with _refused(tmp_path, r"its function computes something else .*scaled_by"):
        jaxdp.sweep(scaled_by(3.0), axes, key=KEY, store=tmp_path, quiet=True)


def test_the_store_of_another_library_is_refused(store, monkeypatch):
    monkeypatch.setattr(digests, "version_of", lambda name: "0.0")
    with _refused(store, r"its jaxlib is .*, not .0\.0"):
        workload.run(_untraceable, store)


def test_a_store_of_an_older_format_is_refused_and_left_as_it_is(store):
    path = store / "sweep.json"
    path.write_text('{"format": 2, "function": {"version": "tests"}, "digest": "0"}')
    with _refused(store, r"another version of jaxdp made that sweep.*left as it is"):
        workload.run(_untraceable, store)


def test_a_finished_sweep_is_read_without_tracing(tmp_path, traces):
    first = workload.run(workload.noisy, tmp_path, version=None)
    assert traces == [0, 1]
    assert workload.run(workload.noisy, tmp_path, version=None).identical(first)
    assert traces == [0, 1]
    # What is missing is computed only by the same programs.
    _shards(tmp_path)[0].unlink()
    assert workload.run(workload.noisy, tmp_path, version=None).identical(first)
    assert traces == [0, 1, 0, 1]


MODULE = """
from helper import factor

RATE = {rate}


def scaled(key, gain):
    return {{"value": RATE * factor() * gain}}
"""


def test_an_edit_anywhere_is_seen_before_a_finished_sweep_is_read(tmp_path, monkeypatch, traces):
    monkeypatch.syspath_prepend(tmp_path)

    def swept(rate=2.0, factor="3.0", **changes):
        (tmp_path / "scaling.py").write_text(MODULE.format(rate=rate))
        (tmp_path / "helper.py").write_text(f"def factor():\n    return {factor}\n")
        for name in ("scaling", "helper"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        module = importlib.import_module("scaling")
        for name, value in changes.items():
            setattr(module, name, value)
        traces.clear()
        axes = {"gain": np.arange(3.0)}
        given = {"key": KEY, "store": tmp_path / "store", "quiet": True}
        return jaxdp.sweep(module.scaled, axes, **given)

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    first = swept()
    assert swept().identical(first)
    assert traces == []
    for change in ({"rate": 2.5}, {"factor": "3.5"}, {"RATE": 2.5}):
        with _refused(tmp_path / "store", "its function computes something else"):
            swept(**change)
    # An edit that changes nothing that is computed makes no other sweep, and costs one trace.
    for traced in ([0], []):
        assert swept(factor="1.5 * 2").identical(first)
        assert traces == traced
    sys.modules.pop("scaling")
    sys.modules.pop("helper")


def test_what_killed_processes_left_is_removed_when_it_is_old(finished, store):
    shard = _shards(store)[0]
    shard.unlink()
    old, new, other = (
        store / name for name in (f".{shard.name}.a.partial", ".sweep.json.b.partial", ".c.partial")
    )
    for path in (old, new, other):
        path.write_text("begun")
    for path in (old, other):
        os.utime(path, (0, 0))
    assert workload.run(workload.noisy, store).identical(finished[1])
    assert [path.exists() for path in (old, new, other)] == [False, True, True]


def test_a_file_and_a_folder_of_other_things_are_refused(tmp_path):
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("mine")
    folder.mkdir()
    (folder / "thesis.tex").write_text("mine")
    with pytest.raises(ValueError, match=f"to be an empty folder .* got {file} without"):
        workload.run(_untraceable, file)
    with pytest.raises(ValueError, match=f"got {folder} without sweep"):
        workload.run(_untraceable, folder)
    assert file.read_text() == "mine"
    assert [path.name for path in folder.iterdir()] == ["thesis.tex"]


def test_a_finished_store_may_be_read_only(finished, monkeypatch):
    def refused(*arguments, **options):
        raise OSError(errno.EROFS, "Read-only file system")

    for name in ("unlink", "link", "replace", "fsync", "mkdir"):
        monkeypatch.setattr(os, name, refused)
    assert workload.run(_untraceable, finished[0]).equals(finished[1])


def test_a_failed_write_is_an_error_and_finished_shards_are_kept(finished, tmp_path):
    folder, fsync, left = tmp_path / "store", os.fsync, [8]

    def failing(handle):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left")
        fsync(handle)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(OSError, match="No space left"):
            workload.run(workload.noisy, folder)
    names = {path.name for path in folder.iterdir()}
    assert 2 <= len(names) < 16
    assert not any(name.endswith(".partial") for name in names)
    kept = workload.files(folder)
    assert workload.run(workload.noisy, folder).identical(finished[1])
    assert workload.files(folder).items() >= kept.items()


def test_a_finished_store_is_what_the_sweep_returned(finished):
    xarray.testing.assert_equal(read_store(finished[0]), finished[1])


@pytest.mark.parametrize("kind", sorted(fuzzing.NODES.keys() - {"a loop"}))
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


def test_a_description_that_is_no_file_is_refused_without_waiting(tmp_path):
    for kind in fuzzing.NODES.keys() - {"a file of holes"}:
        fuzzing.NODES[kind](tmp_path / "sweep.json")
        with pytest.raises(ValueError, match=r"sweep\.json"), fuzzing.bounded():
            workload.run(workload.noisy, tmp_path)
        other = tmp_path / "sweep.json"
        other.rmdir() if other.is_dir() else other.unlink()
