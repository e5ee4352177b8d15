"""Moments of a clipped slope: against quadrature and draws, by Stein's identity, at its limits."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_loss import SCALAR
from scipy.optimize import brentq

each_loss = pytest.mark.parametrize("name", SCALAR)
FIELDS = ("mean", "square", "derivative", "clipped")
# mean, deviation, label, limit; deviations beyond 16 are for the logistic loss alone.
CASES = np.asarray(
    [
        (mean, std, label, limit)
        for mean in (-6.0, 0.3, 40.0)
        for std in (1e-3, 0.3, 1.0, 4.0, 16.0)
        for label in (-1.0, 1.0)
        for limit in (0.02, 0.4, 0.9, 3.0)
    ]
).T


@functools.cache
def _compiled(name):
    return jax.jit(lambda *arguments: SCALAR[name].loss.clipped_slope(*arguments))


def _moments(name, mean, std, label, limit, x64=True):
    """In float64, or in float32; of one shape, so that each loss is compiled once for either."""
    arguments = np.broadcast_arrays(mean, np.square(std), label, limit)
    shape, size = arguments[0].shape, arguments[0].size
    with jax.enable_x64(x64):
        arguments = (jnp.asarray(np.resize(part, CASES.shape[1]), float) for part in arguments)
        found = _compiled(name)(*arguments)
        return {field: np.asarray(getattr(found, field))[:size].reshape(shape) for field in FIELDS}


@functools.cache
def _kinks(name, label, limit):
    """Where the clipped slope has a kink: at a bend, or where it meets the limit."""
    entry = SCALAR[name]
    found = list(entry.bends)
    for level in (-limit, limit):
        ends = entry.slope(-100.0) - level, entry.slope(100.0) - level
        if ends[0] * ends[1] < 0:
            root = brentq(lambda u, level=level: entry.slope(u) - level, -100, 100, xtol=1e-14)
            found.append(root)
    return [label * u if entry.is_margin else label + u for u in found]


NODES, WEIGHTS = np.polynomial.legendre.leggauss(30)


def _integral(function, ends):
    """Over pieces between the ends, each cut into eight, by thirty nodes in each."""
    ends = np.interp(np.arange(8 * len(ends) - 7) / 8, np.arange(len(ends)), np.sort(ends))
    half = np.diff(ends)[:, None] / 2
    return np.sum(half * WEIGHTS * function(ends[:-1, None] + half * (1 + NODES)))


def _by_quadrature(name, mean, std, label, limit):
    """Mean, mean square, mean derivative (by Stein's identity) and clipped share."""

    def density(z):
        return np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)

    def slope(z):
        return SCALAR[name].slope_of(mean + std * z, label)

    def psi(z):
        return np.clip(slope(z), -limit, limit)

    # The logistic slope turns where its margin is zero.
    inner = [(at - mean) / std for at in (*_kinks(name, label, limit), -20.0, -3.0, 0.0, 3.0, 20.0)]
    ends = [-12.0, -4.0, 0.0, 4.0, 12.0, *(at for at in inner if abs(at) < 12)]
    centre = psi(0.0)
    return {
        "mean": _integral(lambda z: psi(z) * density(z), ends),
        "square": _integral(lambda z: psi(z) ** 2 * density(z), ends),
        "derivative": _integral(lambda z: (psi(z) - centre) * z * density(z), ends) / std,
        "clipped": _integral(lambda z: (np.abs(slope(z)) > limit) * density(z), ends),
    }


@each_loss
def test_moments_are_those_of_adaptive_quadrature(name):
    mean, std, label, limit = CASES
    found = _moments(name, mean, std, label, limit)
    exact = [_by_quadrature(name, *case) for case in CASES.T]
    exact = {field: np.asarray([one[field] for one in exact]) for field in FIELDS}
    bound = np.minimum(limit, float(SCALAR[name].loss.slope_bound))
    atol = np.where(std > 8, 1e-9, 1e-11)
    for field, size in (("mean", bound), ("square", bound**2), ("clipped", 1)):
        assert np.all(np.abs(found[field] - exact[field]) <= atol * size)
    # Stein's identity divides the quadrature's own error by the deviation.
    error = np.abs(found["derivative"] - exact["derivative"])
    assert np.all(error <= atol + 3e-14 * bound / std)


@each_loss
def test_single_precision_is_as_good_as_it_says(name):
    mean, std, label, limit = CASES.astype(np.float32)
    found, exact = (_moments(name, mean, std, label, limit, x64) for x64 in (False, True))
    bound = np.minimum(limit, float(SCALAR[name].loss.slope_bound))
    # A mean in float32 is off by its rounding, which the slope passes on.
    rounding = np.abs(mean) * 1.2e-7 * max(1, float(SCALAR[name].loss.curvature_bound))
    for field, size in (("mean", bound), ("square", bound**2)):
        assert found[field].dtype == np.float32
        assert np.all(np.abs(found[field] - exact[field]) <= size * 1e-6 + 2 * rounding * bound)
    for field in ("derivative", "clipped"):
        error = np.abs(found[field] - exact[field])
        assert np.all(error <= 2e-6 + rounding / std)


@each_loss
def test_without_spread_it_is_the_clip_itself(name):
    for mean in (-3.0, -0.1, 0.83, 3.0):
        found = _moments(name, mean, 0.0, 1.0, 0.4)
        slope = SCALAR[name].slope_of(mean, 1.0)
        clipped = np.clip(slope, -0.4, 0.4)
        np.testing.assert_allclose(found["mean"], clipped, rtol=1e-15)
        np.testing.assert_allclose(found["square"], clipped**2, rtol=1e-15)
        near = mean + 1e-6 * np.asarray([-1, 1])
        step = np.clip(SCALAR[name].slope_of(near, 1.0), -0.4, 0.4)
        np.testing.assert_allclose(found["derivative"], np.diff(step)[0] / 2e-6, atol=1e-9)
        assert found["clipped"] == (abs(slope) > 0.4)


@each_loss
def test_an_infinite_limit_clips_nothing_and_none_clips_all(name):
    mean, std = np.asarray([-2.0, 0.5, 4.0]), np.asarray([0.0, 1.3, 3.0])
    free = _moments(name, mean, std, 1.0, np.inf)
    large = _moments(name, mean, std, 1.0, 1e4)
    for field in FIELDS:
        np.testing.assert_allclose(free[field], large[field], rtol=1e-9, atol=1e-12)
    assert not free["clipped"].any()
    if name == "squared":
        np.testing.assert_allclose(free["mean"], 2 * (mean - 1))
        np.testing.assert_allclose(free["square"], 4 * ((mean - 1) ** 2 + std**2))
    none = _moments(name, mean, std, 1.0, 0.0)
    for field in ("mean", "square", "derivative"):
        np.testing.assert_array_equal(none[field], 0)
    if not SCALAR[name].bends:
        assert np.all(none["clipped"] == 1)


@each_loss
def test_gradients_go_through_and_are_right(name):
    """Against differences of the moments; without spread, one-sided ones in the variance."""

    def stacked(arguments):
        mean, variance, limit = arguments
        found = SCALAR[name].loss.clipped_slope(mean, variance, jnp.asarray(1.0), limit)
        return jnp.stack([getattr(found, field) for field in FIELDS])

    def moved(points, index, step):
        points = np.copy(points)
        points[:, index] += step
        found = _moments(name, points[:, 0], np.sqrt(points[:, 1]), 1.0, points[:, 2])
        return np.stack([found[field] for field in FIELDS], axis=1)

    points = np.asarray([(0.3, 0.8, 0.4), (-2.0, 9.0, 0.9), (1.7, 0.01, 0.25)])
    fixed, edges = (0.9, 0.0, 0.35), [(0.83, 0.5, 0.0), (0.83, 0.5, np.inf)]
    with jax.enable_x64():
        every = jnp.asarray(np.concatenate([points, [fixed], edges]))
        slopes = np.asarray(jax.jit(jax.vmap(jax.jacrev(stacked)))(every))
    assert np.isfinite(slopes).all()
    for index in range(3):
        step = 1e-5 * np.maximum(points[:, index], 0.1)
        differences = moved(points, index, step) - moved(points, index, -step)
        differences /= 2 * step[:, None]
        np.testing.assert_allclose(slopes[:3, :, index], differences, rtol=2e-5, atol=2e-7)
    start, after = (moved(np.asarray([fixed]), 1, variance)[0] for variance in (0.0, 1e-6))
    np.testing.assert_allclose(slopes[3, :, 1], (after - start) / 1e-6, atol=1e-4)
    # The mean's derivative in the mean is what is called the derivative.
    found = _moments(name, points[:, 0], np.sqrt(points[:, 1]), 1.0, points[:, 2])
    np.testing.assert_allclose(slopes[:3, 0, 0], found["derivative"], rtol=1e-10)


def test_wide_logits_are_as_exact_as_stated():
    """Slopes of the logistic loss turn ever more steeply against the spread."""
    for std, tolerance in ((50.0, 1e-10), (200.0, 1e-9)):
        for mean in (-20.0, 0.0, 7.0):
            for limit in (0.01, 0.5, 1.0):
                found = _moments("logistic", mean, std, 1.0, limit)
                exact = _by_quadrature("logistic", mean, std, 1.0, limit)
                for field, size in (("mean", limit), ("square", limit**2), ("derivative", limit)):
                    assert abs(found[field] - exact[field]) < tolerance * size
