"""Names, values and numbering of a sweep's axes."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import jaxdp
from jaxdp.sweeps import cell_key
from jaxdp.sweeps.axes import as_axes


def test_a_cells_key_depends_on_its_own_indices_alone():
    key = jr.key(3)
    expected = jr.fold_in(jr.fold_in(key, 1), 4)
    assert jnp.array_equal(jr.key_data(cell_key(key, 1, 4)), jr.key_data(expected))
    assert not jnp.array_equal(jr.key_data(cell_key(key, 4, 1)), jr.key_data(expected))


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ((1, 2.5), [1, 2.5]),
        (("a", "b"), ["a", "b"]),
        ((True, False), [True, False]),
        ((None, 3), ["None", "3"]),
        ((jnp.tanh, np.tanh), ["tanh [0]", "tanh [1]"]),
        ((jaxdp.Polynomial(3.0, 0.5), None), ["Polynomial(peak=3.0, power=0.5)", "None"]),
    ],
)
def test_looped_values_are_labelled_by_themselves_or_by_name(values, labels):
    assert as_axes({"a": values}).coordinates()["a"].tolist() == labels


@pytest.mark.parametrize(
    ("axes", "kind", "message"),
    [
        ({"c": [1.0, 2.0]}, TypeError, "array .vmapped. or a tuple .looped"),
        ({"c": jr.split(jr.key(0))}, TypeError, "real numbers, got .* of key<"),
        ({"c": np.ma.array([1.0, 2.0], mask=[True, False])}, TypeError, "got MaskedArray"),
        ({}, ValueError, "at least one axis"),
        ({"c": np.ones((2, 2))}, ValueError, "got .2, 2."),
        ({"c": np.array([1.0, np.nan])}, ValueError, "without NaN, got 1"),
        ({"key": np.ones(2)}, ValueError, 'none called "key"'),
        ({"n": np.array([2**40])}, ValueError, "int32 can hold, got 1099511627776"),
        ({"c": np.array([1.0, 2.0, 1.0 + 1e-9])}, ValueError, "axis c that differ in float32"),
        ({"c": (1, 2, 1.0)}, ValueError, "axis c that differ"),
    ],
)
def test_wrong_axes_are_refused(axes, kind, message):
    with pytest.raises(kind, match=message):
        as_axes(axes)


def test_values_that_differ_in_kind_or_in_what_they_hold_are_two():
    for values in ((True, 1), ("1", 1), (None, 0), (jnp.tanh, np.tanh), (1.0, 1.0 + 1e-15)):
        assert as_axes({"c": values}).num_combinations == 2
    with jax.enable_x64(True):
        axes = as_axes({"n": np.array([2**40]), "c": np.array([1.0, 1.0 + 1e-9])})
        assert (axes.num_cells, axes.mapped_values(np.array([0]))["n"][0]) == (2, 2**40)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((jr.PRNGKey(0), 1), TypeError, "of the old kind"),
        ((jr.key(0), 1, 1.0), TypeError, "index 1 to be a Python int, got float: 1.0"),
        ((jr.key(0), -1), ValueError, "index 0 >= 0, got -1"),
    ],
)
def test_wrong_indices_of_a_cell_are_refused(arguments, kind, message):
    with pytest.raises(kind, match=message):
        cell_key(*arguments)
