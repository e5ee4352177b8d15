"""Hermite coefficients against closed forms, at kinks, jumps and sharp bends."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from jaxdp.core.numerics.hermite import hermite_coefficients, host_function, scaled_coefficients


def _coefficients(activation, num_orders=8, scale=1.0):
    """In float64, with the second moment."""
    values, squares = scaled_coefficients(host_function(activation), np.array([scale]), num_orders)
    return values[0], squares[0]


# Source: PF Assumption 2; DR Assumption 2.
def test_relu_and_tanh_have_their_known_coefficients():
    relu, square = _coefficients(jax.nn.relu)
    root = math.sqrt(math.pi)
    expected = [1 / math.sqrt(2) / root, 0.5, 0.5 / root, 0.0, -1 / root / math.sqrt(48)]
    np.testing.assert_allclose(relu[:5], expected, atol=1e-12)
    assert square == pytest.approx(0.5, abs=1e-12)
    tanh, square = _coefficients(jnp.tanh)
    np.testing.assert_allclose(tanh[1:6:2], [0.605705510, -0.148437191, 0.062547524], atol=1e-9)
    np.testing.assert_allclose(tanh[0:6:2], 0.0, atol=1e-14)
    assert square == pytest.approx(0.394294490, abs=1e-9)


@pytest.mark.parametrize("place", [-1.7, 0.0, 0.25, 1 / 3])
@pytest.mark.parametrize("scale", [0.6, 1.0])
def test_a_jump_anywhere_is_exact(place, scale):
    values, square = _coefficients(lambda x: x > place, 3, scale)
    edge = place / scale
    expected = norm.sf(edge), norm.pdf(edge), edge * norm.pdf(edge) / math.sqrt(2)
    np.testing.assert_allclose(values, expected, atol=1e-13)
    assert square == pytest.approx(norm.sf(edge), abs=1e-13)


@pytest.mark.parametrize("slope", [1.0, 30.0, 1e3, 1e6])
def test_sharp_bends_are_resolved(slope):
    values, _ = _coefficients(lambda x: jax.scipy.special.erf(slope * x), 4)
    exact = 2 * slope / math.sqrt(math.pi * (1 + 2 * slope**2))
    third = -exact * 2 * slope**2 / (1 + 2 * slope**2) / math.sqrt(6)
    np.testing.assert_allclose(values, [0, exact, 0, third], atol=1e-12)


def test_scales_are_those_of_the_gaussian():
    scales = np.array([1.1, 0.7])
    values, squares = scaled_coefficients(host_function(jnp.cos), scales, 7)
    for row, scale in enumerate(scales):
        expected = np.exp(-(scale**2) / 2) * np.array(
            [(-1) ** (k // 2) * scale**k / math.sqrt(math.factorial(k)) for k in range(7)]
        )
        expected[1::2] = 0
        np.testing.assert_allclose(values[row], expected, atol=1e-14)
        assert squares[row] == pytest.approx((1 + math.exp(-2 * scale**2)) / 2, abs=1e-14)


def test_high_orders_add_up_to_the_second_moment():
    values, square = _coefficients(jnp.tanh, 400)
    assert (values**2).sum() == pytest.approx(square, abs=1e-14)
    values, square = _coefficients(jnp.abs, 3000)
    # a_k^2 of |x| is 2 / (pi^{3/2} sqrt(2)) k^{-5/2} for even k, to leading order.
    tail = math.sqrt(2) * 2 / 3 / math.pi**1.5 / 2 * 2 / 3000**1.5
    assert square - (values**2).sum() == pytest.approx(tail, rel=0.01)


def test_result_takes_the_precision_of_jax_and_works_under_jit():
    assert hermite_coefficients(jnp.tanh, 3).dtype == jnp.float32
    with jax.enable_x64(True):
        wide = hermite_coefficients(jnp.tanh, 0)
        assert wide.dtype == jnp.float64
        assert wide.shape == (1,)
    traced = jax.jit(lambda x: x * hermite_coefficients(jax.nn.relu, 1))(2.0)
    np.testing.assert_allclose(traced, [2 / math.sqrt(2 * math.pi), 1.0], rtol=1e-6)


@pytest.mark.parametrize(
    ("activation", "error", "message"),
    [
        (3.0, TypeError, "callable"),
        (lambda x: jnp.sum(x), ValueError, "shape"),
        (jax.nn.softmax, ValueError, "elementwise"),
        (jnp.log, ValueError, "finite activation"),
        (lambda x: jnp.exp(x**2), ValueError, "grows too fast"),
        (lambda x: jnp.tanh(x.astype(jnp.float32)), ValueError, "smooth in float64"),
    ],
)
def test_bad_activations_are_refused(activation, error, message):
    with pytest.raises(error, match=message):
        hermite_coefficients(activation, 3)
