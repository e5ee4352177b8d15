"""Which updates are recorded."""

import jax
import numpy as np
import pytest

from jaxdp.core.trajectory import record_steps


@pytest.mark.parametrize("records", [1, 7])
@pytest.mark.parametrize("num_steps", [1, 101, 2**31 - 1])
def test_records_are_floors_of_shares_from_the_start_to_the_end(num_steps, records):
    steps = record_steps(num_steps, records)
    assert list(steps) == [j * num_steps // records for j in range(records + 1)]


@pytest.mark.parametrize("num_steps", [1, 101, 2**31 - 1])
def test_traced_length_gives_the_same_records_without_overflow(num_steps):
    traced = jax.jit(lambda n: record_steps(n, 100))(num_steps)
    np.testing.assert_array_equal(traced, record_steps(num_steps, 100))
