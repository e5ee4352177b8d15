"""Which updates are recorded."""

import jax
import numpy as np
import pytest

from jaxdp.core.recording import record_steps


@pytest.mark.parametrize("num_steps", [1, 7, 100, 101, 10_000, 2**31 - 1])
def test_records_are_floors(num_steps):
    steps = record_steps(num_steps, 100)
    assert list(steps) == [j * num_steps // 100 for j in range(101)]
    assert steps[0] == 0
    assert steps[-1] == num_steps


@pytest.mark.parametrize("records", [1, 2, 7])
def test_there_is_one_state_more_than_records_and_the_first_is_the_start(records):
    steps = record_steps(14, records)
    assert list(steps) == [j * 14 // records for j in range(records + 1)]


@pytest.mark.parametrize("num_steps", [1, 7, 101, 10_000, 2**31 - 1])
def test_traced_length_gives_the_same_records_without_overflow(num_steps):
    traced = jax.jit(lambda n: record_steps(n, 100))(num_steps)
    np.testing.assert_array_equal(traced, record_steps(num_steps, 100))
