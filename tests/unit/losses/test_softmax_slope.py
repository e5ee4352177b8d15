"""Clipped slopes of Gaussian logits: against other quadratures and draws, by laws, at limits."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_mean_close
from scipy.special import softmax

from jaxdp import losses
from jaxdp.losses import gaussian

FINE = 4000
FULL = ("second_moment", "derivative")


@functools.cache
def _compiled(num_classes, is_isotropic, num_nodes):
    loss: Any = losses.Softmax(num_classes)
    slope = loss.clipped_slope if is_isotropic else loss.clipped_slope_correlated
    return jax.jit(functools.partial(slope, num_nodes=num_nodes))


def _found(mean, variance, label, limit, num_nodes=FINE, x64=True):
    """In float64, or in float32, as NumPy arrays."""
    mean, variance = np.asarray(mean, float), np.asarray(variance, float)
    with jax.enable_x64(x64):
        arguments = (jnp.asarray(part, float) for part in (mean, variance, limit))
        mean, variance, limit = arguments
        compiled = _compiled(mean.shape[-1], variance.ndim < mean.ndim, num_nodes)
        found = compiled(mean, variance, jnp.asarray(label), limit)
    return jax.tree.map(np.asarray, found)


def _problem(num_classes, count, seed, spread=1.0):
    """Means, covariances, labels and limits; every third covariance is singular."""
    generator = np.random.default_rng([num_classes, seed])
    mean = 1.5 * generator.standard_normal((count, num_classes))
    roots = spread * generator.standard_normal((count, num_classes, num_classes))
    roots[::3, :, 1:] = 0
    covariance = roots @ roots.transpose(0, 2, 1) / num_classes
    limits = generator.choice([0.1, 0.4, 0.8, 1.1, np.inf], count)
    return mean, covariance, generator.integers(0, num_classes, count), limits


def _by_points(points, weights, label, limit):
    """Means over points (nodes, k), without jaxdp."""
    shares = softmax(points, axis=1)
    slopes = shares - np.eye(points.shape[1])[label]
    norms = np.linalg.norm(slopes, axis=1, keepdims=True)
    scales = np.minimum(1, limit / norms)
    bends = shares[:, :, None] * (np.eye(points.shape[1]) - shares[:, None, :])
    units = np.where(norms > limit, slopes / norms, 0)
    turned = bends - units[:, :, None] * np.einsum("na,nab->nb", units, bends)[:, None]
    clipped = slopes * scales
    return {
        "mean": weights @ clipped,
        "second_moment": np.einsum("n,na,nb->ab", weights, clipped, clipped),
        "derivative": np.einsum("n,nab->ab", weights, scales[:, :, None] * turned),
        "clipped": weights @ (norms[:, 0] > limit),
    }


def _on_grid(mean, covariance, label, limit):
    """Over the two differences of three logits, by the trapezoid rule on a grid of deviations."""
    line = np.linspace(-6, 6, 361)
    nodes = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    nodes = nodes[np.sum(nodes**2, axis=1) < 36]
    weights = np.exp(-np.sum(nodes**2, axis=1) / 2)
    differences = np.asarray([[-1.0, 1, 0], [-1, 0, 1]])
    values, vectors = np.linalg.eigh(differences @ covariance @ differences.T)
    moved = nodes @ (vectors * np.sqrt(np.maximum(values, 0))).T
    points = np.concatenate([np.zeros((len(nodes), 1)), moved + differences @ mean], axis=1)
    return _by_points(points, weights / weights.sum(), label, limit)


def test_two_classes_are_the_logistic_loss_of_their_difference():
    """The slope is (-1, 1) times the logistic one: its limit is the root of two as large."""
    mean, covariance, label, limit = _problem(2, 30, 0)
    difference = np.asarray([-1.0, 1.0])
    sign = 2.0 * label - 1
    variance = np.linspace(0, 3, 30)
    loss: Any = losses.Logistic()
    logistic = jax.jit(lambda *arguments: loss.clipped_slope(*arguments))
    for spread in (variance, covariance):
        is_isotropic = spread.ndim == 1
        total = 2 * variance if is_isotropic else difference @ covariance @ difference
        with jax.enable_x64():
            expected = logistic(mean @ difference, total, sign, limit / np.sqrt(2))
        expected = jax.tree.map(np.asarray, expected)
        found = _found(mean, spread, label, limit)
        size = np.minimum(limit, 1)
        error = found.mean - expected.mean[:, None] * difference
        assert np.all(np.abs(error).max(axis=1) <= 1e-5 * size)
        np.testing.assert_allclose(found.clipped, expected.clipped, atol=1e-3)
        outer = np.outer(difference, difference)
        if is_isotropic:
            assert np.all(np.abs(found.square - expected.square) <= 1e-5 * size**2)
            np.testing.assert_allclose(found.derivative, expected.derivative, rtol=2e-3, atol=1e-5)
        else:
            error = found.second_moment - expected.square[:, None, None] * outer
            assert np.all(np.abs(error).max(axis=(1, 2)) <= 1e-5 * size**2)
            error = found.derivative - expected.derivative[:, None, None] * outer
            assert np.abs(error).max() < 1e-3
        wrong = _found(mean, spread, 1 - label, limit)
        assert np.abs(wrong.mean - expected.mean[:, None] * difference).max() > 0.3


def test_three_classes_are_those_of_a_grid():
    mean, covariance, label, limit = _problem(3, 20, 0)
    found = _found(mean, covariance, label, limit)
    found = jax.tree.map(lambda part: part[:6], found)
    cases = (part[:6] for part in (mean, covariance, label, limit))
    exact = [_on_grid(*case) for case in zip(*cases, strict=True)]
    exact = {field: np.stack([one[field] for one in exact]) for field in exact[0]}
    size = np.minimum(limit[:6], 1)[:, None]
    assert np.all(np.abs(found.mean - exact["mean"]) <= 1e-3 * size)
    moment = exact["second_moment"]
    assert np.all(np.abs(found.second_moment - moment) <= 1e-3 * size[:, :, None] ** 2)
    np.testing.assert_allclose(found.derivative, exact["derivative"], atol=5e-3)
    np.testing.assert_allclose(found.clipped, exact["clipped"], atol=0.02)
    # The square of the mean in place of the mean square.
    wrong = exact["mean"][:, :, None] * exact["mean"][:, None]
    assert np.any(np.abs(wrong - moment) > 1e-2 * size[:, :, None] ** 2)


def test_independent_logits_are_correlated_ones_without_correlation():
    mean, _, label, limit = _problem(3, 20, 1)
    variance = np.linspace(0, 2, 20)
    found = _found(mean, variance, label, limit)
    full = _found(mean, variance[:, None, None] * np.eye(3), label, limit)
    np.testing.assert_allclose(found.mean, full.mean, atol=2e-3)
    square = np.trace(full.second_moment, axis1=1, axis2=2) / 3
    np.testing.assert_allclose(found.square, square, atol=1e-3)
    derivative = np.trace(full.derivative, axis1=1, axis2=2) / 3
    np.testing.assert_allclose(found.derivative, derivative, atol=3e-3)
    np.testing.assert_allclose(found.clipped, full.clipped, atol=0.01)


@pytest.mark.slow
def test_ten_classes_are_those_of_many_draws():
    generator = np.random.default_rng(5)
    mean, covariance, label, _ = (part[1] for part in _problem(10, 2, 2))
    normals = generator.standard_normal((200_000, 10))
    limit = 0.7
    for variance, root in ((1.4, np.sqrt(1.4) * np.eye(10)), (covariance, None)):
        root = np.linalg.cholesky(covariance) if root is None else root
        slopes = softmax(mean + normals @ root.T, axis=1) - np.eye(10)[label]
        norms = np.linalg.norm(slopes, axis=1)
        slopes *= np.minimum(1, limit / norms)[:, None]
        found = _found(mean[None], np.asarray(variance)[None], label[None], limit, 1000)
        bias = 4e-3 * limit
        assert_mean_close(slopes, found.mean[0], bias=bias)
        assert_mean_close(norms > limit, found.clipped[0], bias=0.02)
        squares = np.sum(slopes**2, axis=1)
        if np.ndim(variance):
            total = np.trace(found.second_moment[0])
        else:
            total = 10 * found.square[0]
            # By Stein's identity: of the draws too.
            steps = np.sum(slopes * normals, axis=1) / (10 * np.sqrt(variance))
            assert_mean_close(steps, found.derivative[0], bias=2e-3)
        assert_mean_close(squares, total, bias=bias * limit, rejects=[np.sum(found.mean[0] ** 2)])


def test_without_spread_it_is_the_clip_itself():
    mean, _, label, limit = _problem(5, 20, 4)
    cases = zip(mean[:, None], [np.ones(1)] * 20, label, limit, strict=True)
    exact = [_by_points(*case) for case in cases]
    exact = {field: np.stack([one[field] for one in exact]) for field in exact[0]}
    traces = {field: np.trace(exact[field], axis1=1, axis2=2) / 5 for field in FULL}
    for x64, atol in ((True, 1e-9), (False, 2e-5)):
        isotropic = _found(mean, np.zeros(20), label, limit, 40, x64=x64)
        full = _found(mean, np.full((20, 5, 5), 7.0), label, limit, 40, x64=x64)
        for found in (isotropic, full):
            np.testing.assert_allclose(found.mean, exact["mean"], atol=atol)
            np.testing.assert_array_equal(found.clipped, exact["clipped"])
        for field in FULL:
            np.testing.assert_allclose(getattr(full, field), exact[field], atol=atol)
        np.testing.assert_allclose(isotropic.square, traces["second_moment"], atol=atol)
        allowed = 1e-7 if x64 else 5e-5
        np.testing.assert_allclose(isotropic.derivative, traces["derivative"], atol=allowed)


def test_an_infinite_limit_clips_nothing_and_none_clips_all():
    mean, covariance, label, _ = _problem(5, 20, 5)
    for variance in (np.linspace(0, 2, 20), covariance):
        free = _found(mean, variance, label, np.full(20, np.inf), 40)
        enough = _found(mean, variance, label, np.full(20, np.sqrt(2)), 40)
        for one, other in zip(jax.tree.leaves(free), jax.tree.leaves(enough), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)
        assert not free.clipped.any()
        none = _found(mean, variance, label, np.zeros(20), 40)
        *moments, clipped = jax.tree.leaves(none)
        assert all(np.all(part == 0) for part in moments)
        assert np.all(clipped == 1)


def test_a_shift_of_all_logits_changes_nothing_and_slopes_sum_to_zero():
    mean, covariance, label, limit = _problem(5, 20, 5)
    # Whole numbers, which a shift rounds nowhere.
    mean, covariance = np.round(4 * mean) / 4, np.round(256 * covariance) / 256
    covariance += np.eye(5)
    for x64 in (True, False):
        found = _found(mean, covariance, label, limit, 40, x64)
        shifted = _found(mean + 8, covariance + 64, label, limit, 40, x64)
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(shifted), strict=True):
            np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(found.mean.sum(axis=1), 0, atol=1e-6)
    np.testing.assert_allclose(found.derivative.sum(axis=2), 0, atol=1e-6)
    np.testing.assert_allclose(found.derivative.sum(axis=1), 0, atol=1e-6)


def test_single_precision_is_double_precision_to_rounding():
    mean, covariance, label, limit = _problem(5, 20, 5)
    for variance in (np.linspace(0, 2, 20), covariance):
        single, double = (_found(mean, variance, label, limit, 40, x64) for x64 in (False, True))
        is_isotropic = variance.ndim == 1
        # A node of forty may lie on the other side of the kink, where the curvature of 1/2 is cut.
        bounds = (2e-5, 2e-5, 2e-4 if is_isotropic else 0.5 / 40)
        leaves = jax.tree.leaves(single)[:3], jax.tree.leaves(double)[:3]
        for bound, one, other in zip(bounds, *leaves, strict=True):
            assert one.dtype == np.float32
            np.testing.assert_allclose(one, other, atol=bound)


def test_derivatives_are_those_of_differences_and_finite_without_spread():
    mean, covariance, label, limit = (part[:4] for part in _problem(3, 4, 6))
    loss: Any = losses.Softmax(3)
    turned = np.random.default_rng(0).standard_normal((3, 3))
    full = covariance + 0.5 * np.eye(3), (turned + turned.T)[None]
    for method, variance, tangent in (
        (loss.clipped_slope, np.linspace(0.5, 2, 4), np.ones(4)),
        (loss.clipped_slope_correlated, *full),
    ):

        def moments(step, scale, method=method, variance=variance, tangent=tangent):
            moved = scale * variance + step * tangent
            found = method(mean + step, moved, label, limit, num_nodes=40)
            return jnp.concatenate([part.ravel() for part in jax.tree.leaves(found)[:2]])

        with jax.enable_x64():
            both = jax.jit(lambda *at, of=moments: (of(*at), jax.jvp(of, at, (1.0, 0.0))[1]))
            (above, _), (below, _) = (both(step, 1.0) for step in (1e-5, -1e-5))
            slope = both(0.0, 1.0)[1]
            np.testing.assert_allclose(slope, (above - below) / 2e-5, rtol=1e-5, atol=1e-6)
            assert np.isfinite(both(0.0, 0.0)[1]).all()


def test_a_label_that_is_no_class_gives_nan():
    for variance in (np.ones(20), np.zeros((20, 5, 5)) + np.eye(5)):
        found = _found(np.zeros((20, 5)), variance, np.full(20, 5), np.ones(20), 40)
        assert all(np.isnan(part).all() for part in jax.tree.leaves(found))
    with pytest.raises(ValueError, match=r"covariance of shape \(..., 5, 5\), got \(20, 4, 4\)"):
        _found(np.zeros((20, 5)), np.zeros((20, 4, 4)), np.zeros(20), np.ones(20), 40)


@pytest.mark.parametrize(
    ("method", "moments"),
    [
        ("clipped_slope", ("square", "derivative", "clipped")),
        ("clipped_slope_correlated", ("second_moment", "derivative", "clipped")),
    ],
)
def test_rows_that_share_the_nodes_out_agree_in_their_means_and_not_one_by_one(method, moments):
    mean, covariance, label, limit = _problem(10, 3000, seed=5)
    variance = covariance if method.endswith("correlated") else np.full(3000, 0.5)
    whole, shared = (
        jax.jit(getattr(losses.Softmax(10, nodes_per_row=one), method))(
            mean, variance, label, limit
        )
        for one in (None, 2)
    )
    for name in moments:
        all_nodes, few = (np.asarray(getattr(one, name)) for one in (whole, shared))
        largest = np.abs(all_nodes.mean(axis=0)).max()
        atol = (0.03 if all_nodes.ndim == 3 else 0.01) * largest
        np.testing.assert_allclose(few.mean(axis=0), all_nodes.mean(axis=0), atol=atol)
        assert np.abs(few - all_nodes).max() > 0.1 * largest
    np.testing.assert_allclose(shared.mean.mean(axis=0), whole.mean.mean(axis=0), atol=2e-3)
    with pytest.raises(ValueError, match="expected an even nodes_per_row, got 3"):
        losses.Softmax(10, nodes_per_row=3)


@pytest.mark.parametrize("method", ["clipped_slope", "clipped_slope_correlated"])
@pytest.mark.slow
def test_blocks_of_rows_are_as_one_row_after_the_other(method):
    mean, covariance, label, limit = _problem(4, 700, seed=6)
    variance = covariance if method.endswith("correlated") else covariance[:, 0, 0]
    loss: Any = losses.Softmax(4)
    slope = getattr(loss, method)
    # More than one block, whose last rows are added to fill it up.
    assert mean.size * 54 > 4 * gaussian.softmax._BLOCK
    whole = slope(mean, variance, label, limit)
    part = slope(*(one[650:] for one in (mean, variance, label, limit)))
    for found, expected in zip(jax.tree.leaves(whole), jax.tree.leaves(part), strict=True):
        np.testing.assert_allclose(found[650:], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_few_nodes_are_as_good_as_stated():
    """By default, at a deviation of one: largest errors of the mean as shares of the limit."""
    for num_classes, bound in ((2, 0.003), (3, 0.01), (10, 0.03)):
        mean, _, label, limit = _problem(num_classes, 60, 3)
        variance, size = np.ones(60), np.minimum(limit, np.sqrt(2))
        few, many = (_found(mean, variance, label, limit, count) for count in (54, FINE))
        error = np.linalg.norm(few.mean - many.mean, axis=1) / size
        assert error.max() < bound
        # Errors have either sign: their mean over samples is smaller.
        assert np.abs(np.mean((few.square - many.square) / size**2)) < bound / num_classes
