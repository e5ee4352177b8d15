"""zCDP to (epsilon, delta): known values, laws, inverse, and the traced form."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxdp.privacy import epsilon_to_zcdp, gaussian_epsilon, zcdp_epsilon, zcdp_epsilon_published


# Source: AC Proposition 10.
@pytest.mark.parametrize(
    ("delta", "published", "best", "gaussian"),
    [
        (1e-5, 5.2985, 4.7284, 4.3772),
        (1e-3, 4.217, 3.537, 3.139),
        (1e-6, 5.757, 5.222, 4.887),
        (1e-8, 6.570, 6.086, 5.776),
    ],
)
def test_values_of_an_independent_study(delta, published, best, gaussian):
    # From a study apart from this code, at rho = 1.
    assert zcdp_epsilon_published(0.5, delta) == pytest.approx(published, abs=6e-4)
    assert zcdp_epsilon(0.5, delta) == pytest.approx(best, abs=6e-4)
    assert gaussian_epsilon(1.0, delta) == pytest.approx(gaussian, abs=6e-4)


@pytest.mark.parametrize(
    ("z", "delta"),
    [(1e-12, 1e-6), (1e-4, 1e-6), (0.5, 1e-5), (0.5, 0.4), (30.0, 1e-10), (1e6, 1e-14)],
)
def test_no_order_of_a_fine_grid_beats_the_minimum(z, delta):
    excess = np.geomspace(1e-6, 1e12, 1_000_001)
    tail = -np.log(delta) - np.log1p(excess)
    bounds = (1 + excess) * z + tail / excess - np.log1p(1 / excess)
    least = max(bounds.min(), 0)
    assert zcdp_epsilon(z, delta) <= least * (1 + 1e-11) + 1e-15
    assert zcdp_epsilon(z, delta) >= least * (1 - 1e-8)


# Source: AC Proposition 10.
@settings(max_examples=50)
@given(log_rho=st.floats(-3, 2), log_delta=st.floats(-12, -1))
def test_gaussian_below_zcdp_below_published(log_rho, log_delta):
    rho, delta = 10**log_rho, 10**log_delta
    exact, best = gaussian_epsilon(rho, delta), zcdp_epsilon(rho**2 / 2, delta)
    assert exact <= best * (1 + 1e-9) + 1e-9
    assert best <= zcdp_epsilon_published(rho**2 / 2, delta)


def test_limits():
    assert zcdp_epsilon(0.0, 1e-5) == zcdp_epsilon_published(0.0, 1e-5) == 0
    assert zcdp_epsilon(math.inf, 1e-5) == zcdp_epsilon_published(math.inf, 1e-5) == math.inf
    assert epsilon_to_zcdp(math.inf, 1e-5) == math.inf
    traced = jax.jit(jax.vmap(jax.value_and_grad(lambda z: zcdp_epsilon(z, 1e-5))))
    values, slopes = traced(jnp.asarray([0.0, math.inf]))
    assert values.tolist() == [0, math.inf]
    assert slopes.tolist() == [0, 0]


def test_second_derivatives_are_right():
    difference = (zcdp_epsilon(0.505, 1e-5) - 2 * zcdp_epsilon(0.5, 1e-5)) / 2.5e-5
    difference += zcdp_epsilon(0.495, 1e-5) / 2.5e-5
    slope = jax.jit(jax.grad(jax.grad(lambda z: zcdp_epsilon(z, 1e-5))))(0.5)
    assert slope == pytest.approx(difference, rel=1e-3)


@pytest.mark.parametrize("zcdp", [5e-324, 1e-200, 1e200, 1e305, 1.7e308])
@pytest.mark.parametrize("delta", [1e-300, 1e-5, 1 - 2**-53])
def test_the_largest_and_smallest_numbers_have_an_answer(zcdp, delta):
    assert 0 <= zcdp_epsilon(zcdp, delta) <= zcdp_epsilon_published(zcdp, delta) * (1 + 1e-9)
