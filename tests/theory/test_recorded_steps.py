"""The time loop of the theories, against the same steps one by one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp.core.recording import longest_stretch, record_steps
from jaxdp.theory.recorded_steps import recorded


def _recorded(factor, num_steps, records, first=0):
    def step(state, index):
        return {"value": factor * state["value"] + index + first}

    def read(state):
        return state["value"] ** 2, {"value": state["value"]}

    at_record = jnp.asarray(record_steps(num_steps, records))
    start = {"value": jnp.ones(2)}
    return recorded(step, start, read, at_record, longest_stretch(num_steps, records))


def _one_by_one(num_steps, records):
    """The states at the records with the factor 1/2, and their derivatives in it."""
    value, slope, states = 1.0, 0.0, [(1.0, 0.0)]
    for index in range(num_steps):
        value, slope = value / 2 + index, slope / 2 + value
        states.append((value, slope))
    return np.asarray([states[step] for step in record_steps(num_steps, records)]).T


# Stretches of 2 and 3 steps; and fewer steps than records.
@pytest.mark.parametrize(("num_steps", "records"), [(7, 3), (3, 4)])
def test_records_are_the_states_after_their_steps(num_steps, records):
    expected, _ = _one_by_one(num_steps, records)
    squares, found = _recorded(0.5, num_steps, records)
    np.testing.assert_allclose(found["value"], np.stack([expected] * 2, 1), rtol=1e-6)
    np.testing.assert_allclose(squares, np.stack([expected**2] * 2, 1), rtol=1e-6)
    # Steps that are numbered from 1 are others.
    _, wrong = _recorded(0.5, num_steps, records, first=1)
    assert not np.allclose(wrong["value"], found["value"], rtol=1e-2)


def test_a_traced_length_gives_the_same():
    traced = jax.jit(lambda steps: _recorded(0.5, steps, 3))(7)
    np.testing.assert_array_equal(traced[0], _recorded(0.5, 7, 3)[0])


def test_gradients_are_those_of_the_steps_and_keep_one_stretch_at_a_time():
    def last(factor):
        return _recorded(factor, 60, 6)[1]["value"][-1, 0]

    _, slopes = _one_by_one(60, 6)
    np.testing.assert_allclose(jax.grad(last)(0.5), slopes[-1], rtol=1e-6)
    # No array of what is kept has an axis of all 60 steps.
    _, pull = jax.vjp(last, 0.5)
    shapes = [leaf.shape for leaf in jax.tree.leaves(pull) if hasattr(leaf, "shape")]
    assert any(6 in shape for shape in shapes)
    assert not any(10 in shape or 60 in shape for shape in shapes)
