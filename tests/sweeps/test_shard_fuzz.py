"""Whatever lies in a store under a shard's name, it is a shard of it, or put aside by its name."""

import collections
import os
import pathlib
import warnings

import fuzzing
import jax.random as jr
import numpy as np
import pytest
from sweeps import workload

from jaxdp.core.files import sealed_arrays
from jaxdp.sweeps import store
from jaxdp.sweeps.axes import as_axes
from jaxdp.sweeps.identity import identity_of
from jaxdp.sweeps.results import Place, Shard, Variable, as_dataset, require_alike
from jaxdp.sweeps.store import Store, file_name, packed, unpacked

SLOW_CASES, QUICK_CASES = 2000, 100
AXES = as_axes({"gain": np.arange(10.0)})
FIRST, SECOND = Place(0, 0, 5), Place(0, 5, 10)


def _shard(place):
    numbers = np.arange(15, dtype=np.float32).reshape(5, 3) + place.start
    arrays = {"vector": numbers, "count": np.arange(5), "risk": numbers[:, 0] > 1}
    variables = (
        Variable("vector", ("place",), (("units", "1"),)),
        Variable("count", ()),
        Variable("risk", ()),
    )
    return Shard(place, arrays, variables, {"jax": "0.6", "device": "cpu"})


def _outcome(kept, path):
    """How a shard's file ends, where that is one of the ways that are allowed."""
    with warnings.catch_warnings(record=True) as caught, fuzzing.bounded():
        warnings.simplefilter("always")
        try:
            found = kept.read(FIRST)
        except ValueError as error:
            assert path.name in str(error)  # noqa: PT017
            return "another sweep's"
    if found is None:
        [warning] = caught
        assert str(path) in str(warning.message)
        assert not os.path.lexists(path)
        return "put aside"
    assert not caught
    again = unpacked(FIRST, packed(found, "x"))[0]
    assert list(again.arrays) == list(found.arrays)
    try:
        require_alike(_shard(SECOND), found, {})
    except ValueError:
        return "unlike the others"
    # What is like the others makes a whole dataset with them.
    axes = AXES.described(by_program=False)
    as_dataset(axes, AXES.coordinates(), [found, _shard(SECOND)], {})
    return "read"


def _fuzz(folder, count, seed=0):
    folder = pathlib.Path(folder)
    identity = identity_of(AXES.described(by_program=False), jr.key(0), "tests", ())
    kept = Store(folder / "store", identity, "a function", AXES.coordinates())
    kept.write(_shard(FIRST))
    path = kept.folder / file_name(FIRST)
    whole = path.read_bytes()
    other = packed(_shard(FIRST), "another sweep")
    assert _outcome(kept, path) == "read"
    rng = np.random.default_rng(seed)
    files = fuzzing.wrong_files([whole, whole, other], ("about", True), rng, count)

    def outcome():
        ended = _outcome(kept, path)
        path.unlink(missing_ok=True)
        for aside in kept.folder.glob("*.damaged*"):
            aside.unlink()
        return ended

    path.unlink()
    found = fuzzing.outcomes(files, path, outcome)
    for make in fuzzing.NODES.values():
        make(path)
        assert _outcome(kept, path) == "put aside"
    return found


def test_wrong_shards_are_put_aside_by_name_or_are_shards(tmp_path):
    found = _fuzz(tmp_path, QUICK_CASES)
    assert sum(found.values()) == QUICK_CASES


@pytest.mark.slow
def test_thousands_of_wrong_shards_neither_hang_nor_take_memory(tmp_path):
    found = fuzzing.found_with_little_memory(_fuzz, tmp_path, SLOW_CASES)
    outcomes = collections.Counter(outcome for _, outcome in found.elements())
    assert sum(outcomes.values()) == SLOW_CASES
    # Forgeries that are shards show that the others are refused for what was changed.
    assert outcomes["read"] > 50
    assert outcomes["another sweep's"] > 50
    assert outcomes["put aside"] > SLOW_CASES / 4


BUGS = {
    "compressed entries are read": (sealed_arrays, "_check_entries", lambda *given: None),
    "what is damaged is not put aside": (store.os, "rename", lambda *given: None),
}


@pytest.mark.parametrize("bug", BUGS)
def test_the_fuzzer_finds_planted_bugs(bug, tmp_path, monkeypatch):
    monkeypatch.setattr(*BUGS[bug])
    fuzzing.assert_finds(lambda: _fuzz(tmp_path, 300), monkeypatch)


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
