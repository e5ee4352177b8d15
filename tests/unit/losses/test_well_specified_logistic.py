"""Moments of the clipped slope and the excess risk where labels follow the logistic model."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, log_expit

from jaxdp.losses.gaussian.well_specified_logistic import (
    sigmoid_moments,
    well_specified_risk,
    well_specified_slope,
)

NAMES = ("along", "derivative", "square", "clipped")
# Overlap, remainder, signal and limit: strong and weak clips, near the target, against it, far.
POINTS = np.asarray(
    [
        (0.5, 0.3, 2.0, 0.3),
        (1.9, 1e-4, 2.0, 0.1),
        (1.99, 1e-6, 2.0, 0.6),
        (-1.0, 0.5, 2.0, 0.45),
        (9.0, 4.0, 10.0, 0.02),
        (0.01, 1e-4, 2.0, 0.3),
        (0.3, 40.0, 1.0, 0.1),
        (1e-3, 1e-6, 3.0, 0.7),
        (2.0, 400.0, 2.0, 0.05),
        (0.1, 0.02, 0.1, 2.0),
        (1.5, 0.0, 2.0, 0.2),
    ]
)


def _panels(edges, nodes=16):
    """Nodes and weights for the normal density, by Gauss and Legendre between the edges."""
    edges = np.unique(edges)
    half = np.diff(edges)[:, None] / 2
    place, weights = np.polynomial.legendre.leggauss(nodes)
    place = (edges[:-1, None] + half * (1 + place)).ravel()
    return place, (half * weights).ravel() * np.exp(-(place**2) / 2) / np.sqrt(2 * np.pi)


def _reference(overlap, remainder, signal, limit):
    """The four moments and the risk as sums over prediction, signal and label, in NumPy."""
    length = np.hypot(overlap, np.sqrt(remainder))
    kink = abs(np.log(1 / limit - 1)) / length if limit < 1 else 10
    graded = np.geomspace(1e-3, 9, 16)
    kinks = [kink, -kink] if kink < 9 else []
    g, outer = _panels(np.concatenate([graded, -graded, [0], kinks]))
    h, inner = _panels(np.linspace(-9, 9, 40))
    z = (overlap * g[:, None] + np.sqrt(remainder) * h) / length
    f, weights = length * g[:, None], outer[:, None] * inner
    total = np.zeros(5)
    for label in (1, -1):
        chance = weights * expit(label * signal * z)
        size = expit(-label * f)
        slope = -label * np.minimum(size, limit)
        bend = np.where(size > limit, 0, size * (1 - size))
        excess = log_expit(label * signal * z) - log_expit(label * f)
        parts = (slope * z, bend + 0 * z, slope**2 + 0 * z, (size > limit) + 0 * z, excess)
        total += [np.sum(chance * part) for part in parts]
    return total


@functools.cache
def _references():
    return np.asarray([_reference(*point) for point in POINTS])


@functools.cache
def _found(dtype):
    overlap, remainder, signal, limit = jnp.asarray(POINTS.T, dtype)
    slope = jax.jit(well_specified_slope)(overlap, remainder, signal, limit)
    risk = jax.jit(well_specified_risk)(overlap, remainder, signal)
    return np.stack([*(getattr(slope, name) for name in NAMES), risk], axis=1)


def test_moments_and_risk_are_those_of_a_quadrature_in_two_dimensions():
    with jax.enable_x64():
        found = _found(jnp.float64)
    np.testing.assert_allclose(found, _references(), atol=1e-10, rtol=1e-9)
    # A sign of x.theta* in place of a random label would be another number.
    assert np.abs(found[0, 0] + 0.1604) < 1e-3


def test_float32_keeps_its_digits():
    found = _found(jnp.float32)
    assert found.dtype == np.float32
    # Near the target the moment along it is a difference of two that do not vanish.
    scale = np.abs(_references())
    scale[:, 0] += POINTS[:, 0] * _references()[:, 1]
    assert np.all(np.abs(found - _references()) <= 1e-5 * scale)


def test_without_a_clip_the_mean_gradient_is_that_of_the_risk():
    def total(overlap, remainder, signal):
        return well_specified_risk(overlap, remainder, signal).sum()

    with jax.enable_x64():
        overlap, remainder, signal, _ = jnp.asarray(POINTS.T)
        limit = jnp.full_like(signal, jnp.inf)
        slope = jax.jit(well_specified_slope)(overlap, remainder, signal, limit)
        gradient = jax.jit(jax.grad(total, argnums=(0, 1)))(overlap, remainder, signal)
        found = np.stack([slope.along, slope.derivative, slope.clipped])
    in_overlap, in_remainder = (np.asarray(part) for part in gradient)
    np.testing.assert_allclose(found[0], in_overlap, atol=1e-10)
    np.testing.assert_allclose(found[1], 2 * in_remainder, atol=1e-10)
    assert np.all(found[2] == 0)


def test_the_risk_is_zero_at_the_target_and_keeps_its_digits_beside_it():
    @jax.jit
    def risk(overlap, remainder):
        return well_specified_risk(overlap, remainder, jnp.asarray(2.0))

    assert risk(2.0, 0.0) == 0
    # E[sigma'(2 g) g^2] and E[sigma'(2 g)] / 2, from a quadrature.
    g, weights = _panels(np.linspace(-12, 12, 60))
    steepness = expit(2 * g) * expit(-2 * g) * weights
    bend, turn = steepness @ g**2, steepness.sum() / 2
    # 2 + 2^-10 is exact in float32.
    np.testing.assert_allclose(risk(2.0 + 2.0**-10, 0.0), bend * 2.0**-20 / 2, rtol=1e-3)
    np.testing.assert_allclose(risk(2.0, 1e-9), turn * 1e-9, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("argument", range(4))
def test_derivatives_are_finite_differences(argument):
    points = POINTS[[0, 3, 6, 8]]

    def moments(values):
        slope = well_specified_slope(*values)
        return jnp.stack([getattr(slope, name) for name in NAMES])

    step = np.zeros((4, 1))
    step[argument] = 1e-5
    with jax.enable_x64():
        values, moments = jnp.asarray(points.T), jax.jit(moments)
        direction = jnp.zeros_like(values).at[argument].set(1)
        found = np.asarray(jax.jvp(moments, (values,), (direction,))[1])
        difference = np.asarray((moments(values + step) - moments(values - step)) / 2e-5)
    np.testing.assert_allclose(found, difference, rtol=1e-6, atol=1e-8)


def test_a_mixture_without_variance_is_the_sigmoid_and_its_derivative():
    logits = np.linspace(-60, 60, 4001)
    with jax.enable_x64():
        found = sigmoid_moments(jnp.asarray(logits), jnp.zeros(1))
    np.testing.assert_allclose(found[0], expit(logits), atol=3e-11, rtol=0)
    np.testing.assert_allclose(found[1], expit(logits) * expit(-logits), atol=3e-11, rtol=0)
