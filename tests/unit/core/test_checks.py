"""Checks of arrays read each entry where it lies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.core import checks
from jaxdp.core.checks import described, given_array, require_finite, require_kind


def _accelerated(monkeypatch):
    """Arrays of JAX count as those of an accelerator, and whole ones may not be fetched."""
    monkeypatch.setattr(checks, "is_on_accelerator", lambda value: isinstance(value, jax.Array))
    fetched = []
    to_host = np.asarray

    def asarray(value, *rest, **more):
        if isinstance(value, jax.Array) and value.size > 1:
            fetched.append(value.shape)
        return to_host(value, *rest, **more)

    monkeypatch.setattr(np, "asarray", asarray)
    return fetched


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.int32])
def test_whole_arrays_stay_on_an_accelerator(monkeypatch, dtype):
    fetched = _accelerated(monkeypatch)
    require_finite("features", jnp.ones((3, 4), dtype))
    if dtype != jnp.int32:
        with pytest.raises(ValueError, match="finite features, got 2 entries that are not"):
            require_finite("features", jnp.asarray([[jnp.inf, 1.0], [jnp.nan, 0.0]], dtype))
    assert fetched == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (2**200 + 12345, "int of 201 bits"),
        (np.array([["alice", "12345"]]), "ndarray of texts of shape (1, 2)"),
        ([["alice", 12345.0]], "list of 1 items"),
        (jax.random.key(12345), "a jax.random.key"),
        ("text", "str: 'text'"),
    ],
)
def test_an_error_about_a_kind_shows_neither_records_nor_seeds(value, shown):
    with pytest.raises(TypeError) as caught:
        require_kind("value", value, dict, "a dict")
    assert str(caught.value) == f"expected value to be a dict, got {shown}"


def test_a_method_that_was_not_called_is_told_from_what_it_returns():
    class Thing:
        def release(self):
            return 1

    assert checks.described(Thing().release) == "the method release itself; call it"
    algorithm = jaxdp.DPGD(0.1, 1.0, 10, 0.5)
    assert checks.described(algorithm.release) == "the method release itself; call it"
    with pytest.raises(TypeError, match="got the method release itself; call it"):
        jaxdp.account(algorithm.release, delta=1e-5)


class _Rows:
    """A data set that gives one row for one number, and shows its rows."""

    def __init__(self, row):
        self.row = row

    def __len__(self):
        return 3

    def __getitem__(self, place):
        if not 0 <= place < 3:
            raise IndexError
        return self.row(int(place))

    def __repr__(self):
        return "<731zq>"


def _missing(place):
    raise KeyError("731zq")


class _Raising(list):
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("731zq")


def test_data_that_look_their_rows_up_are_read_or_named():
    assert given_array("rows", _Rows(lambda place: [place, 1.0])).tolist()[2] == [2.0, 1.0]
    for value, came in (
        (_Rows(lambda place: (np.zeros(3), 1.0)), "_Rows, of which NumPy makes none"),
        (_Rows(_missing), "_Rows"),
        (_Raising(), "rows of different lengths"),
        ((row for row in ()), "generator"),
        (object(), "object"),
    ):
        with pytest.raises(TypeError, match=f"expected rows to be an array.*, got {came}") as seen:
            given_array("rows", value)
        assert "731zq" not in str(seen.value)
        assert seen.value.__cause__ is None
    assert described(_Rows(_missing)) == "_Rows"
