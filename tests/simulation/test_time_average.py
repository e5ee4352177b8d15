"""Averages over the time so far."""

import jax.numpy as jnp
import numpy as np

from jaxdp.simulation.time_average import average_so_far


def test_the_average_of_a_line_is_half_way_and_zero_at_the_start():
    times = jnp.asarray([0.0, 0.1, 0.4, 1.0])
    values = jnp.stack([2 + 3 * times, times])
    expected = np.stack([2 + 1.5 * times, times / 2])
    expected[:, 0] = 0
    np.testing.assert_allclose(average_so_far(values, times), expected, rtol=1e-6)
    # As a plain mean of the records would not be.
    assert not np.allclose(values.mean(axis=1), expected[:, -1], rtol=0.01)
