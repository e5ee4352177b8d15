"""zCDP to (epsilon, delta): known values, laws, inverse, and the traced form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxdp.privacy import (
    epsilon_to_zcdp,
    gaussian_epsilon,
    zcdp_epsilon,
    zcdp_epsilon_published,
)


@pytest.mark.parametrize(
    ("delta", "published", "best", "gaussian"),
    [
        (1e-5, 5.2985, 4.7284, 4.3772),
        (1e-3, 4.217, 3.537, 3.139),
        (1e-6, 5.757, 5.222, 4.887),
        (1e-8, 6.570, 6.086, 5.776),
    ],
)
def test_values_of_the_notes(delta, published, best, gaussian):
    # Notes to AC, section 8, at rho = 1.
    assert zcdp_epsilon_published(0.5, delta) == pytest.approx(published, abs=6e-4)
    assert zcdp_epsilon(0.5, delta) == pytest.approx(best, abs=6e-4)
    assert gaussian_epsilon(1.0, delta) == pytest.approx(gaussian, abs=6e-4)


def test_no_order_of_a_fine_grid_beats_the_minimum():
    for z, delta in [(1e-4, 1e-6), (0.5, 1e-5), (30.0, 1e-10)]:
        excess = np.geomspace(1e-4, 1e8, 400_001)
        tail = -np.log(delta) - np.log1p(excess)
        grid = (1 + excess) * z + tail / excess + np.log(excess) - np.log1p(excess)
        assert zcdp_epsilon(z, delta) <= grid.min() * (1 + 1e-9)
        assert zcdp_epsilon(z, delta) >= grid.min() * (1 - 1e-6)


@settings(max_examples=50, deadline=None)
@given(log_rho=st.floats(-3, 2), log_delta=st.floats(-12, -1))
def test_gaussian_below_zcdp_below_published(log_rho, log_delta):
    rho, delta = 10**log_rho, 10**log_delta
    exact, best = gaussian_epsilon(rho, delta), zcdp_epsilon(rho**2 / 2, delta)
    assert exact <= best * (1 + 1e-9) + 1e-9
    assert best <= zcdp_epsilon_published(rho**2 / 2, delta)


@settings(max_examples=50, deadline=None)
@given(log_epsilon=st.floats(-2, 2), log_delta=st.floats(-12, -2))
def test_inverse_is_never_less_private(log_epsilon, log_delta):
    epsilon, delta = 10**log_epsilon, 10**log_delta
    z = epsilon_to_zcdp(epsilon, delta)
    assert zcdp_epsilon(z, delta) <= epsilon
    assert zcdp_epsilon(z * (1 + 1e-6), delta) > epsilon * (1 - 1e-9)


def test_traced_equals_concrete_and_is_differentiable():
    z = jnp.asarray([1e-3, 0.5, 20.0])
    traced = jax.jit(jax.vmap(lambda z: zcdp_epsilon(z, 1e-5)))(z)
    np.testing.assert_allclose(traced, [zcdp_epsilon(float(v), 1e-5) for v in z], rtol=1e-4)
    inverse = jax.jit(jax.vmap(lambda e: epsilon_to_zcdp(e, 1e-5)))(traced)
    np.testing.assert_allclose(inverse, z, rtol=1e-3)
    slope = jax.grad(lambda z: zcdp_epsilon(z, 1e-5))(0.5)
    difference = (zcdp_epsilon(0.5005, 1e-5) - zcdp_epsilon(0.4995, 1e-5)) / 1e-3
    assert slope == pytest.approx(difference, rel=1e-3)


def test_limits():
    assert zcdp_epsilon(0.0, 1e-5) == 0
    assert zcdp_epsilon(float("inf"), 1e-5) == float("inf")


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, float("nan")])
def test_bad_deltas_are_refused(delta):
    for function in (zcdp_epsilon, zcdp_epsilon_published, epsilon_to_zcdp):
        with pytest.raises(ValueError, match="0 < delta < 1"):
            function(0.5, delta)
