"""Wrong files for the tests of loaders: bytes changed, and forgeries whose checksums fit."""

import collections
import contextlib
import copy
import functools
import gc
import io
import json
import multiprocessing
import os
import pathlib
import resource
import signal
import sys
import tempfile
import traceback
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest

from jaxdp.core.files import archived

# Seconds that one file may take, and bytes beyond those of the process.
_LONGEST, _MOST = 5, 2**30
JUNK = [
    *(None, True, False, -1, 0, 1, 2**31, 10**9, 2**63, 10**400, 1.5, -0.0, 1e308, 5e-324),
    *(float("nan"), float("inf"), "", "x", "array_0", "os.system", "é\ud800", "9" * 99),
    *([], {}, [[]], [1] * 99, {"array": "array_0"}, {"tuple": []}, {"class": "kernels.Gaussian"}),
]


def _sparse(path):
    with path.open("wb") as file:
        file.truncate(2**40)


# What may have a file's name and is none, or is larger than any memory.
NODES = {
    "a folder": pathlib.Path.mkdir,
    "a pipe": os.mkfifo,
    "a loop": lambda path: path.symlink_to(path.name),
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a file of holes": _sparse,
}


class HangsError(BaseException):
    """A case that took longer than any may; no `except Exception` takes it for an answer."""


@contextlib.contextmanager
def bounded():
    """End what takes too long; in a collector's callback it would not be ended, so none runs."""

    def stop(*ignored):
        raise HangsError

    gc.disable()
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, _LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()


def limit_memory():
    """What this process has now, and little more: larger claims are a MemoryError."""
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + _MOST, now + _MOST))


def arrays_of(content):
    """The arrays of a file's content."""
    with np.load(io.BytesIO(content)) as archive:
        return {name: archive[name] for name in archive.files}


def wrong_files(wholes, rng, count):
    """So many wrong files made of whole ones, each with a name for its kind."""
    kinds = [_flipped, _cut, _inserted, _spliced]
    for _ in range(count):
        whole, other = (wholes[i] for i in rng.integers(len(wholes), size=2))
        if rng.random() < 0.5:
            kind = kinds[rng.integers(len(kinds))]
            yield kind.__name__, kind(whole, other, rng)
        elif rng.random() < 0.2:
            yield "_compressed", _archive_forged(whole, rng)
        else:
            yield "_forged", _forged(arrays_of(whole), rng)


def outcomes(files, path, outcome):
    """How often each kind of wrong file ended in each way; what `outcome()` raises is a bug."""
    found = collections.Counter()
    for number, (kind, content) in enumerate(files):
        path.write_bytes(content)
        is_bomb = kind == "_compressed"
        with named(f"case {number}, {kind}"):
            try:
                if is_bomb:
                    tracemalloc.start()
                found[kind, outcome()] += 1
                if is_bomb:
                    assert tracemalloc.get_traced_memory()[1] < 20 * len(content) + 10**7
            finally:
                tracemalloc.stop()
    return found


@contextlib.contextmanager
def named(case):
    """What is raised is a bug that this case has found."""
    try:
        yield
    except BaseException as error:
        raise AssertionError(f"{case}: {type(error).__name__} {error}") from error


def assert_finds(fuzz, monkeypatch):
    """Show that a fuzzer finds the bug that is planted now."""
    monkeypatch.setattr(sys.modules[__name__], "_LONGEST", 1)
    with pytest.raises((AssertionError, HangsError)):
        fuzz()


def _place(content, rng):
    # The archive's own directory is at its end: half of the changes go there.
    near = 800 if rng.random() < 0.5 else len(content)
    return len(content) - 1 - int(rng.integers(min(near, len(content))))


def _flipped(whole, other, rng):
    changed = bytearray(whole)
    for _ in range(int(rng.integers(1, 4))):
        changed[_place(whole, rng)] ^= int(rng.integers(1, 256))
    return bytes(changed)


def _cut(whole, other, rng):
    first, last = sorted(_place(whole, rng) for _ in range(2))
    return whole[:first] if rng.random() < 0.3 else whole[:first] + whole[last:]


def _inserted(whole, other, rng):
    place = _place(whole, rng)
    added = rng.choice([b"", b"\x00", b"\xff", b"9", b"PK\x01\x02"])
    return whole[:place] + bytes(added) * int(rng.integers(1, 70)) + whole[place:]


def _spliced(whole, other, rng):
    return whole[: _place(whole, rng)] + other[_place(other, rng) :]


_SHAPES = [b"999999999", b"4294967296, 4294967296", b"-1", b"0, 999999999", b"9" * 40]
_TYPES = [b"|O", b">f4", b"|V8", b"<M8[s]", b"<c16", b"<U0", b"<f2", b"|S9"]
_NAMES = ["../../evil.npy", "/etc/passwd.npy", ".", "x" * 999 + ".npy", "a.npy\0b"]


def _archive_forged(whole, rng):
    """Members compressed, repeated, renamed, or of headers that claim more than there is."""
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    chosen, buffer = int(rng.integers(len(members))), io.BytesIO()
    name, content = members[chosen]
    change = rng.integers(5)
    if change == 0:
        content = b"0" * 2 * 10**7
    elif change == 1:
        shape = b"'shape': (" + _SHAPES[rng.integers(5)] + b", "
        content = content.replace(b"'shape': (", shape, 1)
    elif change == 2:
        content = content.replace(b"'<f4'", b"'" + _TYPES[rng.integers(8)] + b"'")
    elif change == 3:
        name = _NAMES[rng.integers(5)]
    else:
        content = content[: int(rng.integers(len(content)))]
    members[chosen] = (name, content)
    method = zipfile.ZIP_DEFLATED if change == 0 else zipfile.ZIP_STORED
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


def _forged(arrays, rng):
    """Arrays and their description changed, and written as they should be."""
    tree = json.loads(arrays.pop("header").tobytes())
    for _ in range(int(rng.integers(1, 3))):
        if arrays and rng.random() < 0.3:
            _change_array(arrays, rng)
        else:
            tree = _changed_tree(tree, rng)
    text = json.dumps(tree)
    if rng.random() < 0.05:
        text = text.replace("{", '{"place": 1, "place": 2, ', 1)
    if rng.random() < 0.02:
        text = "[" * 10**5
    return archived({"header": np.frombuffer(text.encode(), np.uint8), **arrays})


def _changed_tree(tree, rng):
    tree, junk = copy.deepcopy(tree), JUNK[rng.integers(len(JUNK))]
    places = list(_places(tree))
    holder, key = places[rng.integers(len(places))]
    change = rng.integers(4)
    if change == 0:
        del holder[key]
    elif change == 1 and isinstance(holder, dict):
        holder[str(junk)] = holder.pop(key)
    elif change == 2:
        other, there = places[rng.integers(len(places))]
        holder[key] = copy.deepcopy(other[there])
    else:
        holder[key] = junk
    return tree


def _places(tree):
    """Each part of a tree, as what holds it and where."""
    keys = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield tree, key
        yield from _places(tree[key])


_CHANGES = [
    lambda array: array * np.nan,
    lambda array: np.atleast_1d(array)[:0],
    lambda array: array[None],
    np.ravel,
    lambda array: np.asfortranarray(array.T),
    lambda array: np.zeros((10**5, 0), array.dtype),
    *(functools.partial(np.asarray, dtype=t) for t in (np.int8, np.complex64, float, bool, str)),
    np.negative,
    lambda array: array * np.float32(1e38),
]


def _change_array(arrays, rng):
    name = list(arrays)[rng.integers(len(arrays))]
    if rng.random() < 0.1:
        del arrays[name]
    elif rng.random() < 0.1:
        arrays["another"] = arrays[name]
    else:
        # Not every change is one of every type.
        with warnings.catch_warnings(), contextlib.suppress(TypeError, ValueError):
            warnings.simplefilter("ignore")
            arrays[name] = _CHANGES[rng.integers(len(_CHANGES))](arrays[name])


def found_with_little_memory(fuzz, folder, num_cases):
    """The Counter that `fuzz(folder, num_cases)` gives in a process that may take little memory."""
    ours, theirs = multiprocessing.Pipe()
    target = multiprocessing.get_context("spawn").Process(
        target=_report, args=(fuzz, folder, num_cases, theirs)
    )
    target.start()
    theirs.close()
    assert ours.poll(300)
    found = ours.recv()
    target.join(60)
    assert not isinstance(found, str), found
    return found


def _report(fuzz, folder, num_cases, connection):
    try:
        # What is imported and compiled at first use is no part of what a file costs.
        fuzz(pathlib.Path(tempfile.mkdtemp(dir=folder)), 0)
        limit_memory()
        connection.send(fuzz(folder, num_cases))
    except BaseException:
        connection.send(traceback.format_exc())
