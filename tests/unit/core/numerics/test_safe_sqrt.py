"""The root of what may be zero."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp.core.numerics.precision import safe_sqrt


def test_values_and_derivatives_are_those_of_the_root_and_zero_below_it():
    squares = jnp.asarray([4.0, 0.0, -1e-9])
    np.testing.assert_array_equal(safe_sqrt(squares), [2, 0, 0])
    np.testing.assert_allclose(jax.vmap(jax.grad(safe_sqrt))(squares), [0.25, 0, 0])
    assert np.isnan(safe_sqrt(jnp.nan))
    assert np.isinf(jax.grad(jnp.sqrt)(0.0))
