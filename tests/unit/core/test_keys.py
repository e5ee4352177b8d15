"""Keys: by run, by purpose, by stream and by step, all apart."""

import ast
import pathlib

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import jaxdp
from jaxdp.core import keys
from jaxdp.core.keys import numbered_key, purpose_key, run_keys, stream_key
from jaxdp.privacy import FixedSizeBatches, PoissonSampler, ShuffledEpochs

PACKAGE = pathlib.Path(jaxdp.__file__).parent
MANY = 100_000


def _words(some_keys):
    """One number a key."""
    words = np.asarray(jr.key_data(some_keys), np.uint64).reshape(-1, 2)
    return words[:, 0] << np.uint64(32) | words[:, 1]


def test_a_runs_key_does_not_depend_on_how_many_runs_there_are():
    key = jr.key(3)
    few, many = run_keys(key, 2), run_keys(key, 5)
    assert (jr.key_data(few) == jr.key_data(many)[:2]).all()


def test_streams_are_apart_from_all_numbers_and_from_each_other():
    numbers = list(keys._STREAMS.values())
    assert len(set(numbers)) == len(numbers)
    # Numbers of runs and steps are below 2^31, purposes are among them.
    assert all(2**31 <= 2**32 - 2**16 <= number < 2**32 for number in numbers)


@pytest.mark.parametrize("seed", [0, 1])
def test_no_stream_of_a_key_is_one_of_its_runs(seed):
    key = jr.key(seed)
    runs = _words(run_keys(key, MANY))
    streams = np.concatenate([_words(stream_key(key, name)) for name in keys._STREAMS])
    assert len(np.unique(runs)) == MANY
    assert not np.isin(streams, runs).any()
    # Their runs and those runs' purposes are apart as well.
    below = np.concatenate(
        [
            *(_words(run_keys(stream_key(key, name), 1000)) for name in keys._STREAMS),
            *(
                _words(jax.vmap(lambda run, p=purpose: purpose_key(run, p))(run_keys(key, 1000)))
                for purpose in keys._PURPOSES
            ),
        ]
    )
    assert not np.isin(below, runs).any()
    assert len(np.unique(below)) == len(below)
    # The number that HomogenizedSDE once had: the check sees it.
    assert np.isin(_words(jr.fold_in(key, 0x5DE)), runs).all()


def test_nobody_else_folds_numbers_into_keys():
    folding = [path for path in PACKAGE.rglob("*.py") if "fold_in" in path.read_text()]
    assert folding == [PACKAGE / "core" / "keys.py"], "use a function of jaxdp.core.keys"


def test_names_and_numbers_are_used_as_they_are_meant():
    """Streams and purposes by names of the registry, numbers never by a constant."""
    used = {"stream_key": set(), "purpose_key": set(), "numbered_key": set()}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) in used:
                assert isinstance(node.func, ast.Name)
                known = isinstance(node.args[1], ast.Constant)
                used[node.func.id].add(node.args[1].value if known else None)
    assert used["numbered_key"] == {None}
    assert used["stream_key"] == set(keys._STREAMS)
    assert used["purpose_key"] - {None} <= set(keys._PURPOSES)


def _ways_of_splitting(function):
    """The functions by which each name in a function's body is split."""
    ways = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Name):
            way = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
            way = "numbered_key" if way == "run_keys" else way
            if way in ("numbered_key", "purpose_key", "split"):
                ways.setdefault(node.args[0].id, set()).add(way)
    return ways


def test_no_key_is_split_in_two_ways():
    """A purpose is a number, and so is the place in what `split` gives."""
    key = jr.key(0)
    purposes = [_words(purpose_key(key, purpose)) for purpose in keys._PURPOSES]
    np.testing.assert_array_equal(_words(run_keys(key, 4)), np.concatenate(purposes))
    np.testing.assert_array_equal(_words(run_keys(key, 4)), _words(jr.split(key, 4)))
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                for name, ways in _ways_of_splitting(node).items():
                    assert len(ways) == 1, f"{path.name}, {node.name}: {name} by {ways}"
    both = ast.parse("def f(key):\n    a, b = jr.split(key)\n    return purpose_key(key, 'data')")
    assert _ways_of_splitting(both) == {"key": {"split", "purpose_key"}}


def _drawn_from(sampler, steps, monkeypatch):
    """The keys that a sampler's batches of one key are drawn from."""
    seen = []
    for name in ("bits", "permutation"):
        draw = getattr(jr, name)
        monkeypatch.setattr(
            jr, name, lambda key, *rest, draw=draw: seen.append(jr.clone(key)) or draw(key, *rest)
        )
    for step in range(steps):
        sampler.sample(step, key=jr.key(0))
    monkeypatch.undo()
    return _words(jnp.stack(seen))


@pytest.mark.parametrize(
    "sampler", [PoissonSampler(6, 0.5), ShuffledEpochs(6, 3), FixedSizeBatches(6, 3)]
)
def test_batches_and_noise_of_one_key_are_apart(sampler, monkeypatch):
    key = jr.key(0)
    drawn = _drawn_from(sampler, 8, monkeypatch)
    others = [_words(purpose_key(key, purpose)) for purpose in keys._PURPOSES]
    others += [_words(numbered_key(purpose_key(key, "noise"), step)) for step in range(8)]
    assert len(drawn) == 8
    assert not np.isin(drawn, np.concatenate(others)).any()
