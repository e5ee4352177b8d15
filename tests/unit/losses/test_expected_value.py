"""Mean losses of Gaussian predictions: against quadrature, at their limits, and by derivatives."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_loss import SCALAR
from scipy.special import ndtr

from jaxdp import losses

each_loss = pytest.mark.parametrize("name", SCALAR)
MEANS = (-60.0, -6.0, -0.2, 0.0, 0.625, 5.0, 30.0, 60.0)
STDS = (1e-3, 0.3, 1.0, 2.5, 7.7, 20.0, 200.0)
CASES = np.asarray([(mean, std, label) for mean in MEANS for std in STDS for label in (-1, 1.0)]).T


@functools.cache
def _compiled(name):
    """The mean loss and its derivatives in mean and variance."""
    loss = SCALAR[name].loss
    both = jax.vmap(jax.value_and_grad(loss.expected_value, argnums=(0, 1)))
    return jax.jit(lambda *arguments: jax.tree.leaves(both(*arguments)))


def _found(name, mean, variance, label, x64=True):
    """Of one shape, so that each loss is compiled once for either precision."""
    arguments = np.broadcast_arrays(mean, variance, label)
    with jax.enable_x64(x64):
        arguments = (jnp.asarray(np.resize(part, CASES.shape[1]), float) for part in arguments)
        found = _compiled(name)(*arguments)
    return [np.asarray(part)[: np.size(mean)] for part in found]


def _bends(name, label):
    entry = SCALAR[name]
    if name == "logistic":
        return -30.0, -8.0, 0.0, 8.0, 30.0
    return tuple(label * u if entry.is_margin else label + u for u in entry.bends)


def _rounding(name, mean, std):
    """What is left where a hinge is flat: that of the numbers that the mean is made of."""
    return (np.abs(mean) + std + 1) * (name == "hinge")


NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)


def _exact(name, mean, std, label):
    """By forty nodes in each of many pieces, cut where the loss bends or most of the mean lies."""
    margin = max(label * mean, 0) if name == "logistic" else 0
    peak = -label * min(margin / std, std)
    bends = ((bend - mean) / std for bend in _bends(name, label))
    cuts = [*(peak + np.linspace(-12, 12, 13)), *bends]
    ends = np.unique(np.clip(cuts, peak - 12, peak + 12))
    half = np.diff(ends)[:, None] / 2
    z = ends[:-1, None] + half * (1 + NODES)
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return np.sum(half * WEIGHTS * density * SCALAR[name].value_of(mean + std * z, label))


@each_loss
def test_mean_losses_are_those_of_quadrature_and_not_of_the_other_label(name):
    mean, std, label = CASES
    exact = np.asarray([_exact(name, *case) for case in CASES.T])
    found = _found(name, mean, std**2, label)[0]
    assert np.all(np.abs(found - exact) <= 1e-9 * exact + 1e-15 * _rounding(name, mean, std))
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(_found(name, mean, std**2, -label)[0], exact, rtol=1e-9)


@each_loss
def test_single_precision_keeps_its_digits(name):
    mean, label = CASES[[0, 2]].astype(np.float32)
    variance = np.square(CASES[1]).astype(np.float32)
    single, double = (_found(name, mean, variance, label, x64) for x64 in (False, True))
    assert single[0].dtype == np.float32
    rtol = np.where(double[0] < 1e-10, 2e-6, 1e-6)
    # A residual in float32 is off by its rounding, which the slope passes on.
    rounding = 0 if name == "logistic" else 1.2e-7 * np.abs(mean) * np.abs(double[1])
    rounding = rounding + 1.2e-7 * _rounding(name, mean, CASES[1])
    assert np.all(np.abs(single[0] - double[0]) <= rtol * double[0] + rounding)


@each_loss
def test_derivatives_are_those_of_differences(name):
    points = np.asarray([(0.3, 0.8), (-2.0, 9.0), (1.7, 0.01), (40.0, 300.0)]).T
    mean, variance = points
    for index, slope in enumerate(_found(name, mean, variance, 1.0)[1:]):
        step = np.zeros_like(points)
        step[index] = 1e-5 * np.maximum(np.abs(points[index]), 0.1)
        above, below = (_found(name, *(points + sign * step), 1.0)[0] for sign in (1, -1))
        np.testing.assert_allclose(slope, (above - below) / (2 * step[index]), rtol=2e-6)


@each_loss
def test_without_spread_it_is_the_loss_and_derivatives_are_finite(name):
    mean = np.asarray([-3.0, 0.2, 0.9, 1.3, 50.0])
    at_zero, near = (_found(name, mean, variance, 1.0) for variance in (0.0, 1e-12))
    np.testing.assert_allclose(at_zero[0], SCALAR[name].value_of(mean, 1.0), rtol=1e-14, atol=1e-14)
    for fixed, moved in zip(at_zero, near, strict=True):
        assert np.isfinite(fixed).all()
        np.testing.assert_allclose(moved, fixed, rtol=1e-9, atol=1e-11)


def test_huber_loss_of_any_width_and_its_derivative_in_the_width():
    """Wide, it is half the square; narrow, its width times the mean size; between, in between."""
    with jax.enable_x64():
        mean, variance = jnp.asarray([0.0, 0.7, -40.0]), jnp.asarray([1.0, 4.0, 9.0])

        @jax.jit
        def value(width):
            return losses.Huber(width).expected_value(mean, variance, 0.0)

        wide, narrow = value(1e4), value(1e-7)
        np.testing.assert_allclose(wide, (mean**2 + variance) / 2, rtol=1e-14)
        level = np.asarray(mean / np.sqrt(variance))
        sizes = np.sqrt(2 * variance / np.pi) * np.exp(-(level**2) / 2)
        sizes += mean * (1 - 2 * ndtr(-level))
        np.testing.assert_allclose(narrow, 1e-7 * sizes, rtol=1e-6)
        # Both forms meet where the width is half the deviation.
        for width in (0.5, 1.0):
            below, above = value(width * (1 - 1e-9)), value(width * (1 + 1e-9))
            np.testing.assert_allclose(above, below, rtol=4e-9)
        slope = jax.jit(jax.jacfwd(value))(0.8)
        differences = (value(0.8 + 1e-6) - value(0.8 - 1e-6)) / 2e-6
        np.testing.assert_allclose(slope, differences, rtol=1e-8)


def test_a_sign_is_right_as_often_as_the_normal_law_says():
    loss: Any = losses.Logistic()
    mean, variance = np.asarray([1.5, -0.3, 2.0, -2.0, 0.0, 0.0]), np.asarray([4, 1, 0, 0, 0, 1.0])
    with jax.enable_x64():
        probability = jax.jit(loss.correct_probability)
        found, other = (np.asarray(probability(mean, variance, label)) for label in (1.0, -1.0))
        slope = jax.jit(jax.grad(loss.correct_probability, argnums=1))(0.5, 0.0, 1.0)
    np.testing.assert_allclose(found, [*ndtr([0.75, -0.3]), 1, 0, 0.5, 0.5], rtol=1e-14)
    np.testing.assert_allclose(other, 1 - found, rtol=1e-14)
    assert np.isfinite(slope)
    np.testing.assert_array_equal(loss.correct_share(jnp.asarray([2, -2, 0.0]), -1.0), [0, 1, 0.5])
