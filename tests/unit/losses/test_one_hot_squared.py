"""Least squares on one-hot labels: formulas, and moments of the jointly clipped slope."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp import losses


def _problem(num_classes, count=12):
    """Predictions, variances, labels and limits; some residuals or variances are zero."""
    rng = np.random.default_rng(num_classes)
    label = rng.integers(0, num_classes, count)
    lengths = rng.choice([0, 0.1, 1, 2], count)
    residual = rng.standard_normal((count, num_classes))
    residual *= (lengths / np.linalg.norm(residual, axis=1))[:, None]
    variance = 10 ** rng.uniform(-3, 1, count) / num_classes
    limit = 10 ** rng.uniform(-1, 0.5, count)
    limit[0] = np.inf
    return residual + np.eye(num_classes)[label], variance, label, limit


def _reference(residual, variance, limit):
    """A sum over the part along the mean residual and the length of the rest, in float64."""
    k, mean = len(residual), np.linalg.norm(residual)
    along = (np.arange(700) + 0.5) / 700 * 14 - 7
    ends = max(0, np.sqrt(k - 1) - 6), np.sqrt(k - 1) + 6
    rest = ends[0] + (np.arange(500) + 0.5) / 500 * (ends[1] - ends[0])
    power = rest ** (k - 2) * np.exp((k - 1 - rest**2) / 2) / (k - 1) ** (k / 2 - 1)
    weights = np.exp(-(along**2) / 2)[:, None] * power
    weights /= weights.sum()
    parallel = mean + np.sqrt(variance) * along[:, None]
    norm = np.sqrt(parallel**2 + variance * rest**2)
    scale = np.minimum(1, limit / norm)
    trace = np.where(norm > limit, (k - 1) * scale, k)
    unit = residual / mean if mean else residual
    total, forward = ((weights * scale**2 * part**2).sum() for part in (norm, parallel))
    across = (total - forward) / (k - 1)
    second = across * np.eye(k) + (forward - across) * np.outer(unit, unit)
    moved = (weights * scale * parallel).sum() * unit
    return moved, total / k, (weights * trace).sum() / k, weights[norm > limit].sum(), second


@pytest.mark.parametrize("num_classes", [2, 10])
def test_moments_are_those_of_a_dense_sum_with_a_joint_clip(num_classes):
    mean, variance, label, limit = _problem(num_classes)
    loss: Any = losses.OneHotSquared(num_classes)
    residual = mean - np.eye(num_classes)[label]
    exact = [_reference(*case) for case in zip(residual, variance, limit, strict=True)]
    *exact, second = (np.stack(part) for part in zip(*exact, strict=True))
    scale = np.minimum(limit, np.linalg.norm(residual, axis=1) + np.sqrt(num_classes * variance))
    units = scale[:, None], scale**2 / num_classes, 1, 1
    covariance = variance[:, None, None] * np.eye(num_classes)
    given = mean.astype(np.float32), variance, label, limit
    found = jax.jit(loss.clipped_slope)(*given)
    full = jax.jit(loss.clipped_slope_correlated)(given[0], covariance, *given[2:])
    assert found.mean.dtype == full.second_moment.dtype == np.float32
    fields = "mean", "square", "derivative", "clipped"
    for field, right, unit in zip(fields, exact, units, strict=True):
        error = np.abs(np.asarray(getattr(found, field)) - right) / unit
        assert error.max() < 1.2e-3, field
    np.testing.assert_allclose(full.mean, found.mean, rtol=1e-6)
    error = np.abs(full.second_moment - second).max(axis=(1, 2)) / scale**2
    assert error.max() < 1e-3
    trace = np.trace(full.derivative, axis1=1, axis2=2) / num_classes
    np.testing.assert_allclose(trace, found.derivative, atol=5e-4)
    # Clipping each entry is another loss.
    entries = jax.jit(losses.HalfSquared().clipped_slope)(
        residual, variance[:, None], np.zeros_like(residual), limit[:, None]
    )
    assert (np.abs(entries.mean - exact[0]) / units[0]).max() > 0.05


def test_values_slopes_and_mean_losses_are_the_formulas():
    mean, variance, label, _ = _problem(3)
    loss: Any = losses.OneHotSquared(3)
    residual = mean - np.eye(3)[label]
    with jax.enable_x64():
        for xp in (jnp, np):
            given = xp.asarray(mean), xp.asarray(label)
            value, slope = loss.value(*given, xp=xp), loss.slope(*given, xp=xp)
            np.testing.assert_allclose(value, (residual**2).sum(axis=1) / 2, rtol=1e-13)
            np.testing.assert_allclose(slope, residual, atol=1e-14)
        covariance = variance[:, None, None] * (np.eye(3) + 0.5)
        for spread, trace in ((variance, 3 * variance), (covariance, 4.5 * variance)):
            found = loss.expected_value(*map(jnp.asarray, (mean, spread, label)))
            np.testing.assert_allclose(found, ((residual**2).sum(axis=1) + trace) / 2, rtol=1e-13)
    np.testing.assert_array_equal(loss.slope_changes(mean, label)(residual), residual)
    assert np.isnan(loss.slope(mean, np.full(12, 3), xp=np)).all()
    # It is no square of one output, whose theories would read bias and variance.
    assert loss.square_curvature is None


def test_a_covariance_without_clipping_is_kept():
    mean, _, label, _ = _problem(4)
    loss: Any = losses.OneHotSquared(4)
    roots = np.random.default_rng(0).standard_normal((12, 4, 4))
    covariance, residual = roots @ roots.transpose(0, 2, 1), mean - np.eye(4)[label]
    with jax.enable_x64():
        found = jax.jit(loss.clipped_slope_correlated)(mean, covariance, label, np.full(12, np.inf))
    outer = residual[:, :, None] * residual[:, None, :]
    np.testing.assert_allclose(found.second_moment, outer + covariance, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.derivative, np.eye(4) + np.zeros((12, 1, 1)), atol=1e-12)
    np.testing.assert_allclose(found.clipped, 0, atol=1e-12)


@pytest.mark.slow
def test_derivatives_are_those_of_differences_and_finite_at_limits():
    loss: Any = losses.OneHotSquared(3)
    label = jnp.asarray([0, 1])

    def total(mean, variance, limit):
        covariance = variance[:, None, None] * jnp.eye(3)[None]
        both = (
            loss.clipped_slope(mean, variance, label, limit),
            loss.clipped_slope_correlated(mean, covariance, label, limit),
        )
        return sum(jnp.sum(jnp.sin(part)) for part in jax.tree.leaves(both))

    with jax.enable_x64():
        gradient = jax.jit(jax.value_and_grad(total, (0, 1, 2)))
        at = jnp.asarray([[0.3, 0.2, -0.5], [1, 0.4, 2]]), jnp.asarray([0.2, 0.5]), jnp.ones(2)
        steps = jnp.asarray([[1, -0.5, 0.2], [0.3, 1, 1]]), jnp.ones(2), jnp.asarray([0.5, -1])
        above, below = (
            gradient(*(x + h * d for x, d in zip(at, steps, strict=True)))[0] for h in (1e-5, -1e-5)
        )
        slope = sum(jnp.sum(g * d) for g, d in zip(gradient(*at)[1], steps, strict=True))
        np.testing.assert_allclose(slope, (above - below) / 2e-5, rtol=1e-5)
        exact = jnp.eye(3)[label]
        for mean in (exact, exact + 1, 1e3 * exact):
            for variance in (0.0, 1.0):
                for limit in (0.0, 1.0, np.inf):
                    found = gradient(mean, jnp.full(2, variance), jnp.full(2, limit))
                    assert all(np.isfinite(part).all() for part in jax.tree.leaves(found))


def test_centred_labels_sum_to_zero():
    mean, variance, label, limit = _problem(3)
    plain: Any = losses.OneHotSquared
    loss, centred = plain(3), plain(3, is_centred=True)
    np.testing.assert_allclose(centred.slope(np.zeros(3), 1), [1 / 3, -2 / 3, 1 / 3], rtol=1e-6)
    found = centred.clipped_slope(mean - 1 / 3, variance, label, limit)
    expected = loss.clipped_slope(mean, variance, label, limit)
    for one, other in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    with pytest.raises(TypeError, match="is_centred"):
        plain(3, is_centred=2)
