"""What a function's digest depends on, in this process and in others, and what cannot be read."""

import collections
import datetime
import decimal
import functools
import importlib
import json
import os
import shutil
import subprocess
import sys
import threading
import weakref

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from sweeps import edits, workload

import jaxdp
from jaxdp.sweeps.axes.axes import as_axes
from jaxdp.sweeps.identity import identity_of
from jaxdp.sweeps.source import owners
from jaxdp.sweeps.source.digests import digest
from jaxdp.sweeps.source.outside import UnreadableError

HANDLE = open(os.devnull)  # noqa: SIM115
LOCK, CACHE, SEEN_COUNT = threading.Lock(), {}, 0


@pytest.fixture(scope="module")
def after(tmp_path_factory):
    """The function's digest after each edit."""
    return edits.digests(tmp_path_factory.mktemp("edits"), {**edits.SEEN, **edits.UNSEEN})


@pytest.mark.parametrize("edit", edits.SEEN)
def test_an_edit_of_what_a_function_reaches_is_seen(after, edit):
    assert after[edit] != after["nothing"]


def test_different_edits_have_different_digests(after):
    assert len({after[edit] for edit in edits.SEEN}) == len(edits.SEEN)


@pytest.mark.parametrize("edit", edits.UNSEEN)
def test_an_edit_of_what_it_does_not_reach_is_not_seen(after, edit):
    assert after[edit] == after["nothing"]


def test_another_process_repeats_a_digest_whatever_its_hash_seed(after):
    environment = workload.environment() | {"PYTHONHASHSEED": "1234"}
    done = subprocess.run(
        [sys.executable, edits.__file__],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == {"nothing": after["nothing"]}


def _cells(*sources):
    """What a notebook has after these cells were executed one after the other."""
    scope = {"__name__": "__main__"}
    for number, source in enumerate(sources):
        exec(compile(source, f"<ipython-input-{number}>", "exec"), scope)
    return scope["risk"]


def test_functions_of_notebooks_and_of_exec_are_read_like_others():
    helper, cell = "def scaled(c): return RATE * c", "def risk(key, c): return {'x': scaled(c)}"
    first = digest(_cells("RATE = 2.0", helper, cell))
    assert digest(_cells("import math", helper, cell, "RATE = 2.0")) == first
    assert digest(_cells("RATE = 2.0", helper, "# again\n\n" + cell)) == first
    assert digest(_cells("RATE = 2.5", helper, cell)) != first
    assert digest(_cells("RATE = 2.0", helper.replace("*", "+"), cell)) != first


def test_a_file_that_was_edited_after_its_import_does_not_count(tmp_path, monkeypatch):
    path = tmp_path / "edited_later.py"
    path.write_text("def risk(key, c): return {'x': c}\n")
    monkeypatch.syspath_prepend(tmp_path)
    import edited_later  # pyright: ignore[reportMissingImports]

    before = digest(edited_later.risk)
    path.write_text("def risk(key, c): return {'x': 2 * c}\n")
    assert digest(edited_later.risk) == before


def test_calls_leave_the_digest_of_a_function_as_it_was():
    class Holder:
        @functools.cached_property
        def table(self):
            return [1.0]

    def plain(c):
        return 2.0 * c

    @functools.singledispatch
    def dispatched(c):
        return c

    dispatched.register(float, plain)
    holder = Holder()
    functions = [
        jax.jit(plain),
        jax.vmap(plain),
        jax.checkpoint(plain),
        eqx.filter_jit(plain),
        eqx.filter_vmap(plain),
        jnp.vectorize(plain),
        functools.lru_cache(plain),
        dispatched,
        jax.tree_util.Partial(plain),
        lambda c: c * holder.table[0],
    ]
    before = [digest(function) for function in functions]
    for function in functions:
        function(np.float32(1.0) if hasattr(function, "cache_info") else jnp.ones(2))
    assert [digest(function) for function in functions] == before
    assert len(set(before)) == len(functions)


def test_functions_of_libraries_differ_by_what_they_hold():
    def function(c):
        return c**2

    made = [
        function,
        jax.grad(function),
        jax.value_and_grad(function),
        jax.vmap(function),
        jax.vmap(function, in_axes=1),
        eqx.filter_vmap(function),
        eqx.filter_grad(function),
        optax.sgd(0.1),
        optax.sgd(0.2),
        optax.chain(optax.clip(1.0), optax.sgd(0.1)),
        optax.chain(optax.clip(2.0), optax.sgd(0.1)),
        jaxdp.Polynomial(3.0, 0.5),
        jaxdp.Polynomial(3.0, 1.0),
        jnp.sin,
        jnp.cos,
        np.add,
        np.multiply,
    ]
    assert len({digest(each) for each in made}) == len(made)
    assert digest(optax.sgd(0.1)) == digest(optax.sgd(0.1))


def test_values_by_kind_and_content():
    class Sub(dict):
        pass

    made = [
        jnp.asarray(1.0),
        jnp.asarray(np.float32(1.0)),
        np.float32(1.0),
        np.ones(1, ">f4"),
        np.ones(1, "<f4"),
        np.array([1, "a"], object),
        np.array([1, "b"], object),
        0.0,
        -0.0,
        10**5000,
        {"a": 1, "b": 2},
        {"b": 2, "a": 1},
        Sub(a=1, b=2),
        collections.OrderedDict(a=1, b=2),
        {1, 2},
        frozenset({1, 2}),
        {1, 3},
        [1, 2],
        "\ud800",
        range(3),
        slice(3),
        Sub,
        os.path,
        jax.tree.structure((1, 2)),
        jax.tree.structure([1, 2]),
        weakref.WeakKeyDictionary(),
    ]
    assert len({digest(each) for each in made}) == len(made)


class _Quantity(np.ndarray):
    unit = ""


class _Number(np.float64):
    __slots__ = ("unit",)


class _Moment(datetime.datetime):
    pass


class _Counts(collections.Counter):
    pass


class _Exact(decimal.Decimal):
    pass


@pytest.mark.parametrize(
    "made",
    [
        lambda: np.ones(3).view(_Quantity),
        lambda: _Number(1.0),
        lambda: _Moment(2020, 1, 1),
        lambda: _Counts(a=1),
        lambda: _Exact("1"),
    ],
)
def test_attributes_that_pickle_does_not_see_count(made):
    found = set()
    for unit in ("m", "km"):
        value = made()
        value.unit = unit
        found.add(digest(value))
        again = made()
        again.unit = unit
        assert digest(again) in found
    assert len(found) == 2
    assert digest(made()) not in found


def test_a_class_derived_from_numpys_is_not_numpys():
    assert digest(np.ones(3).view(_Quantity)) != digest(np.ones(3))
    assert digest(_Number(1.0)) != digest(np.float64(1.0))
    assert digest(np.ma.masked_array([1.0, 2.0], [0, 1])) != digest(np.array([1.0, 2.0]))
    plain, named = np.zeros(1), np.zeros(1, np.dtype(float, metadata={"unit": "m"}))
    assert digest(named) != digest(plain)


def test_what_contains_itself_is_read():
    items = [1]
    items.append(items)
    other = [2]
    other.append(other)
    assert digest(items) == digest(items) != digest(other)

    class Registered:
        known: set

        def reach(self):
            return Registered.known

    Registered.known = {Registered}
    assert digest(Registered) == digest(Registered)
    chain = []
    for _ in range(5000):
        chain = [chain]
    assert len(digest(chain)) == 64


def _plain(key, c):
    return {"x": c}


def _reads_a_file(key, c):
    return {"x": c, "y": HANDLE.read()}


def _takes_a_lock(key, c):
    with LOCK:
        return {"x": c}


def _looks_up(key, c):
    return {"x": globals()["LOCK"] * c}


def _evaluates(key, c):
    return {"x": eval("c")}


def _remembers(key, c):
    if "x" not in CACHE:
        CACHE["x"] = 1.0
    return {"x": CACHE["x"] * c}


def _counts(key, c):
    global SEEN_COUNT
    SEEN_COUNT = SEEN_COUNT + 1
    return {"x": SEEN_COUNT * c}


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (_reads_a_file, "_reads_a_file.HANDLE, of the type _io.TextIOWrapper"),
        (_takes_a_lock, "_takes_a_lock.LOCK, of the type _thread.lock"),
        (_looks_up, "what _looks_up looks up by globals"),
        (_evaluates, "what _evaluates looks up by eval"),
        (_remembers, "CACHE, in _remembers, which is both used and changed"),
        (_counts, "SEEN_COUNT, in _counts, which is both used and changed"),
        (functools.partial(_plain, key=(i for i in "ab")), "of the type builtins.generator"),
    ],
)
def test_what_cannot_be_read_is_named_and_needs_a_version(function, named, tmp_path):
    axes = {"c": np.arange(2.0)}
    with pytest.raises(ValueError, match=r"give version=") as caught:
        jaxdp.sweep(function, axes, key=jr.key(0), store=tmp_path / "store", quiet=True)
    assert named in str(caught.value)
    assert not (tmp_path / "store").exists()
    assert identity_of(function, as_axes(axes), jr.key(0), "1")["function"]["version"] == "1"


def test_a_value_of_an_axis_that_cannot_be_read_is_named():
    with pytest.raises(
        ValueError, match=r"expected values of axis of .* cannot read of, of the type"
    ):
        identity_of(edits.digests, as_axes({"of": (HANDLE, 1)}), jr.key(0), "1")


def test_traced_values_and_deleted_arrays_cannot_be_read():
    with pytest.raises(UnreadableError, match="which is traced"):
        jax.jit(lambda c: digest(c))(1.0)
    array = jnp.ones(3) + 1
    array.delete()
    with pytest.raises(UnreadableError, match="deleted"):
        digest(array)


def test_a_change_of_the_sources_of_jaxdp_is_another_sweep(tmp_path, monkeypatch):
    def source_digest(**files):
        owners.source_digest.cache_clear()
        for name, content in files.items():
            (tmp_path / "package" / f"{name}.py").write_bytes(content)
        return owners.source_digest()

    def function(key, c):
        return {"x": c}

    before = identity_of(function, as_axes({"c": np.arange(2.0)}), jr.key(0), "1")
    (tmp_path / "package").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(owners, "source_folder", lambda: tmp_path)
        found = [
            source_digest(a=b"RATE = 1\n"),
            source_digest(a=b"RATE = 2\n"),
            source_digest(b=b""),
        ]
        assert len(set(found)) == 3
        assert source_digest(a=b"RATE = 2\r\n") == found[-1]
        after = identity_of(function, as_axes({"c": np.arange(2.0)}), jr.key(0), "1")
    owners.source_digest.cache_clear()
    assert [part for part in before if before[part] != after[part]] == ["jaxdp"]
    assert identity_of(function, as_axes({"c": np.arange(2.0)}), jr.key(0), "1") == before


def test_versions_and_matmul_precision_are_part_of_a_sweep(monkeypatch):
    axes = as_axes({"c": np.arange(2.0)})
    before = identity_of(_takes_a_lock, axes, jr.key(0), "1")
    assert before["libraries"]["jax"] == jax.__version__
    assert {"jaxlib", "numpy", "equinox", "diffrax", "optax"} < set(before["libraries"])
    with jax.default_matmul_precision("highest"):
        assert identity_of(_takes_a_lock, axes, jr.key(0), "1") != before


def test_modules_have_the_owners_that_they_should():
    own = {
        None: "USER",
        "__main__": "USER",
        __name__: "USER",
        "jaxdp.sweeps": "JAXDP",
        "numpy.linalg": "INSTALLED",
        "jaxlib": "INSTALLED",
        "os.path": "PYTHON",
        "itertools": "PYTHON",
    }
    assert {name: owners.owner_of(name).name for name in own} == own


def test_a_file_of_the_users_that_hides_a_module_of_python_is_read(tmp_path, monkeypatch):
    name = next(name for name in ("profile", "cProfile", "trace") if name not in sys.modules)
    assert owners.owner_of(name).name == "PYTHON"
    monkeypatch.syspath_prepend(tmp_path)
    found = set()
    for rate in (1.0, 2.0):
        (tmp_path / f"{name}.py").write_text(f"def risk(c):\n    return {rate} * c\n")
        module = importlib.import_module(name)
        try:
            found.add(digest(lambda key, c, module=module: module.risk(c)))
        finally:
            del sys.modules[name]
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        importlib.invalidate_caches()
    assert len(found) == 2


class _AnswersForEveryName:
    def __getattr__(self, name):
        raise RuntimeError(name)


class _ReducesToNothing:
    def __reduce_ex__(self, protocol):
        return 5


def test_odd_objects_are_read_or_named():
    assert digest(_AnswersForEveryName()) == digest(_AnswersForEveryName())
    with pytest.raises(UnreadableError, match="_ReducesToNothing"):
        digest(_ReducesToNothing())
