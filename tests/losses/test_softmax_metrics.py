"""The mean loss and the accuracy of Gaussian logits: by quadrature, by draws, at limits."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_mean_close
from scipy.special import logsumexp, ndtr
from scipy.stats import chi

from jaxdp import losses
from jaxdp.losses.gaussian.softmax_metrics import _beyond


@functools.cache
def _compiled(num_classes, num_nodes):
    """The mean loss and the probability of being right, and their derivatives in the mean."""
    loss = losses.Softmax(num_classes)

    def metrics(mean, variance, label):
        value = loss.expected_value(mean, variance, label, num_nodes=num_nodes)
        return value, loss.correct_probability(mean, variance, label, num_nodes=num_nodes)

    def both(mean, variance, label):
        step = jnp.zeros_like(mean).at[..., 0].set(1)
        return jax.jvp(lambda mean: metrics(mean, variance, label), (mean,), (step,))

    return jax.jit(both)


def _found(mean, variance, label, num_nodes=2000, x64=True):
    with jax.enable_x64(x64):
        mean, variance = (jnp.asarray(np.asarray(part), float) for part in (mean, variance))
        found = _compiled(mean.shape[-1], num_nodes)(mean, variance, jnp.asarray(label))
    return jax.tree.map(np.asarray, found)


def _problem(num_classes, count, seed=0):
    generator = np.random.default_rng([num_classes, seed])
    mean = generator.standard_normal((count, num_classes))
    roots = generator.standard_normal((count, num_classes, num_classes))
    covariance = roots @ roots.transpose(0, 2, 1) / num_classes
    return mean, covariance, generator.integers(0, num_classes, count)


def test_two_classes_are_the_logistic_loss_of_their_difference():
    mean, covariance, label = _problem(2, 20)
    difference, sign = mean[:, 1] - mean[:, 0], 2.0 * label - 1
    variance = np.linspace(0, 4, 20)
    totals = 2 * variance, np.asarray([1.0, -1]) @ covariance @ np.asarray([1.0, -1])
    for spread, total in zip((variance, covariance), totals, strict=True):
        (value, probability), (_, rise) = _found(mean, spread, label)
        with jax.enable_x64():
            expected = jax.jit(losses.Logistic().expected_value)(difference, total, sign)
            expected = np.asarray(expected)
        np.testing.assert_allclose(value, expected, rtol=1e-4)
        std = np.sqrt(np.maximum(total, 1e-30))
        np.testing.assert_allclose(probability, ndtr(sign * difference / std), atol=2e-10)
        density = np.exp(-((difference / std) ** 2) / 2) / np.sqrt(2 * np.pi) / std
        np.testing.assert_allclose(rise, -sign * density, rtol=1e-5, atol=1e-8)
        wrong = _found(mean, spread, 1 - label)[0]
        assert np.abs(wrong[0] - expected).max() > 0.5
        assert np.abs(wrong[1] - probability).max() > 0.5


def test_metrics_of_ten_classes_are_those_of_many_draws():
    mean, covariance, label = (part[0] for part in _problem(10, 1))
    normals = np.random.default_rng(1).standard_normal((100_000, 10))
    for variance, root in ((1.7, np.sqrt(1.7) * np.eye(10)), (covariance, None)):
        root = np.linalg.cholesky(covariance) if root is None else root
        logits = mean + normals @ root.T
        values = logsumexp(logits, axis=1) - logits[:, label]
        is_right = np.argmax(logits, axis=1) == label
        found, _ = _found(mean[None], np.asarray(variance)[None], label[None])
        assert_mean_close(values, found[0][0], bias=2e-3)
        assert_mean_close(is_right, found[1][0], bias=0 if np.ndim(variance) == 0 else 3e-3)
        with pytest.raises(AssertionError):
            assert_mean_close(
                is_right, _found(mean[None], np.asarray(4.0)[None], label[None])[0][1]
            )


def test_both_forms_agree_and_few_nodes_are_as_good_as_stated():
    mean, _, label = _problem(10, 40)
    variance = np.linspace(0.01, 4, 40)
    (value, probability), _ = _found(mean, variance, label)
    (full, share), _ = _found(mean, variance[:, None, None] * np.eye(10), label)
    np.testing.assert_allclose(full, value, rtol=2e-3)
    np.testing.assert_allclose(share, probability, atol=0.01)
    total = sum(_found(mean, variance, np.full(40, index))[0][1] for index in range(10))
    np.testing.assert_allclose(total, 1, atol=1e-9)
    (few, few_share), _ = _found(mean, variance[:, None, None] * np.eye(10), label, 256, x64=False)
    assert few.dtype == few_share.dtype == np.float32
    np.testing.assert_allclose(few, value, rtol=0.01)
    np.testing.assert_allclose(few_share, probability, atol=0.03)
    assert abs(np.mean(few_share - probability)) < 3e-3


def test_without_spread_they_are_the_loss_and_the_share_and_ties_are_shared():
    loss = losses.Softmax(3)
    mean = np.asarray([[0.0, 0, 0], [1, 1, 0], [1, 1, 0], [2, 0, 1], [2, 0, 1]])
    label = np.asarray([1, 0, 2, 0, 1])
    shares = [1 / 3, 1 / 2, 0, 1, 0]
    np.testing.assert_allclose(loss.correct_share(jnp.asarray(mean), label), shares, rtol=1e-6)
    for variance in (np.zeros(5), np.zeros((5, 3, 3)), np.full((5, 3, 3), 2.0)):
        (value, probability), slopes = _found(mean, variance, label)
        np.testing.assert_allclose(probability, shares, rtol=1e-14)
        exact = logsumexp(mean, axis=1) - mean[np.arange(5), label]
        np.testing.assert_allclose(value, exact, rtol=1e-9)
        assert all(np.isfinite(part).all() for part in slopes)


def test_a_small_spread_decides_a_tie_and_nothing_else():
    mean = np.asarray([[0.0, 0, 0], [1, 1, 0], [2, 0, 1]])
    for variance in (np.full(3, 1e-8), 1e-8 * np.eye(3) + np.zeros((3, 3, 3))):
        (_, probability), _ = _found(mean, variance, np.asarray([1, 0, 0]))
        np.testing.assert_allclose(probability, [1 / 3, 1 / 2, 1], atol=1e-3)


def test_the_chi_distribution_is_that_of_scipy():
    distances = np.asarray([0.0, 0.1, 1.0, 3.0, 7.0, 14.0, 40.0])
    for degrees in (1, 2, 3, 4, 9, 99, 300):
        exact = chi.sf(distances, degrees)
        found = _beyond(jnp.asarray(distances, jnp.float32), degrees)
        np.testing.assert_allclose(found, exact, atol=1e-5)


def test_a_label_that_is_no_class_gives_nan():
    for variance in (np.ones(5), np.eye(3) + np.zeros((5, 3, 3))):
        (value, probability), _ = _found(np.zeros((5, 3)), variance, np.full(5, 3))
        assert np.isnan(value).all()
        assert np.isnan(probability).all()
    assert np.isnan(losses.Softmax(3).correct_share(jnp.zeros(3), -1))
