"""What tells one sweep from another, and what does not."""

import functools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import jaxdp
from jaxdp.sweeps.axes.axes import as_axes
from jaxdp.sweeps.identity import digest, identity_of, name_of

FACTOR = 2.0


def _scaled(key, c):
    return {"x": FACTOR * c}


def _through_a_helper(key, c):
    return _scaled(key, c)


def _identity(function, *, values=(1.0, 2.0), key=0, version=None):
    return identity_of(function, as_axes({"c": np.array(values)}), jr.key(key), version)


def _made(factor):
    def function(key, c):
        return {"x": factor * c}

    return function


def test_equal_sweeps_have_equal_identities():
    assert _identity(_scaled) == _identity(_scaled)


@pytest.mark.parametrize(
    "other",
    [{"values": (1.0, 3.0)}, {"key": 1}, {"version": "1"}],
    ids=lambda other: next(iter(other)),
)
def test_other_axes_keys_and_versions_are_other_sweeps(other):
    assert _identity(_scaled) != _identity(_scaled, **other)


def test_the_order_of_the_axes_is_part_of_the_sweep():
    axes = {"a": np.arange(2.0), "b": np.arange(2.0)}
    swapped = dict(reversed(axes.items()))
    first, second = (identity_of(_scaled, as_axes(a), jr.key(0), "1") for a in (axes, swapped))
    assert first != second


def test_a_constant_of_the_module_that_a_function_names_is_seen(monkeypatch):
    before = digest(_scaled), digest(_through_a_helper)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    after = digest(_scaled), digest(_through_a_helper)
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_closures_defaults_and_partial_arguments_are_seen():
    assert digest(_made(1.0)) == digest(_made(1.0)) != digest(_made(2.0))
    partials = [functools.partial(_scaled, c=c) for c in (1.0, 2.0, 1.0)]
    assert digest(partials[0]) == digest(partials[2]) != digest(partials[1])

    def with_default(key, c, power=1):
        return {"x": c**power}

    before = digest(with_default)
    with_default.__defaults__ = (2,)
    assert digest(with_default) != before


def test_an_object_that_can_be_called_is_seen_with_what_it_holds():
    class Scaled:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, key, c):
            return {"x": self.factor * c}

    class Renamed(Scaled):
        def __call__(self, key, c):
            return {"y": self.factor * c}

    Renamed.__qualname__, Renamed.__module__ = Scaled.__qualname__, Scaled.__module__
    digests = [_identity(made)["function"]["digest"] for made in (Scaled(1), Scaled(2), Renamed(1))]
    assert len(set(digests)) == 3
    assert digests[0] == _identity(Scaled(1))["function"]["digest"]
    assert (
        _identity(jax.jit(_scaled)) == _identity(jax.jit(_scaled)) != _identity(_through_a_helper)
    )


def test_a_record_that_the_function_keeps_is_not_part_of_it():
    calls, count = [], 0

    def function(key, c):
        nonlocal count
        count += 1
        calls.append(c)
        return {"x": c}

    before = digest(function)
    function(None, 1.0)
    assert count == 1
    assert digest(function) == before


def test_descriptions_differ_in_their_numbers():
    schedules = [jaxdp.Polynomial(3.0, power) for power in (0.5, 1.0, 0.5)]
    assert digest(schedules[0]) == digest(schedules[2]) != digest(schedules[1])
    assert digest((jaxdp.Iterates(),)) != digest((jaxdp.HomogenizedSDE(),))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (1, 1.0),
        (1, True),
        ("1", 1),
        ((1, (2,)), ((1, 2),)),
        (jnp.ones(2), jnp.ones((2, 1))),
        (jr.key(0), jr.key_data(jr.key(0))),
        ({"a": 1}, {"a": 2}),
    ],
)
def test_values_that_differ_have_other_digests(first, second):
    assert digest(first) == digest(first)
    assert digest(first) != digest(second)


def test_names_say_where_a_function_stands():
    assert name_of(_scaled).endswith("test_identity._scaled")
    assert name_of(functools.partial(_scaled, c=1)).startswith("partial of ")
