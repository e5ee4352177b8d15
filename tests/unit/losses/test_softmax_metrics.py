"""The mean loss and the accuracy of Gaussian logits: by quadrature, by draws, at limits."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_mean_close
from scipy.special import logsumexp, ndtr

from jaxdp import losses


@functools.cache
def _compiled(num_classes, num_nodes):
    """The mean loss, the probability of being right, and the share of the mean itself."""
    loss: Any = losses.Softmax(num_classes)

    def metrics(mean, variance, label):
        value = loss.expected_value(mean, variance, label, num_nodes=num_nodes)
        probability = loss.correct_probability(mean, variance, label, num_nodes=num_nodes)
        return value, probability, loss.correct_share(mean, label)

    return jax.jit(metrics)


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
    loss: Any = losses.Logistic()
    logistic = jax.jit(lambda *arguments: loss.expected_value(*arguments))
    for spread, total in zip((variance, covariance), totals, strict=True):
        value, probability, _ = _found(mean, spread, label)
        with jax.enable_x64():
            expected = np.asarray(logistic(difference, total, sign))
        np.testing.assert_allclose(value, expected, rtol=1e-4)
        std = np.sqrt(np.maximum(total, 1e-30))
        np.testing.assert_allclose(probability, ndtr(sign * difference / std), atol=2e-10)
        wrong = _found(mean, spread, 1 - label)
        assert np.abs(wrong[0] - expected).max() > 0.5
        assert np.abs(wrong[1] - probability).max() > 0.5


@pytest.mark.slow
def test_metrics_of_ten_classes_are_those_of_many_draws():
    mean, covariance, label = (part[0] for part in _problem(10, 1))
    normals = np.random.default_rng(1).standard_normal((100_000, 10))
    for variance, root in ((1.7, np.sqrt(1.7) * np.eye(10)), (covariance, None)):
        root = np.linalg.cholesky(covariance) if root is None else root
        logits = mean + normals @ root.T
        values = logsumexp(logits, axis=1) - logits[:, label]
        is_right = np.argmax(logits, axis=1) == label
        value, probability, _ = _found(mean[None], np.asarray(variance)[None], label[None])
        bias = 3e-3 if np.ndim(variance) else 0
        assert_mean_close(values, value[0], bias=2e-3)
        assert_mean_close(is_right, probability[0], bias=bias)
        wider = _found(mean[None], 2 * np.asarray(variance)[None], label[None])
        for draws, wrong in zip((values, is_right), wider, strict=False):
            with pytest.raises(AssertionError):
                assert_mean_close(draws, wrong[0], bias=bias)


@pytest.mark.slow
def test_both_forms_agree_and_few_nodes_are_as_good_as_stated():
    mean, _, label = _problem(10, 40)
    variance = np.linspace(0.01, 4, 40)
    value, probability, _ = _found(mean, variance, label)
    full, share, _ = _found(mean, variance[:, None, None] * np.eye(10), label)
    np.testing.assert_allclose(full, value, rtol=2e-3)
    np.testing.assert_allclose(share, probability, atol=0.01)
    total = sum(_found(mean, variance, np.full(40, index))[1] for index in range(10))
    np.testing.assert_allclose(total, 1, atol=1e-9)
    wide = variance[:, None, None] * np.eye(10)
    few, few_share, _ = _found(mean, wide, label, 256, x64=False)
    assert few.dtype == few_share.dtype == np.float32
    np.testing.assert_allclose(few, value, rtol=0.01)
    np.testing.assert_allclose(few_share, probability, atol=0.03)
    assert abs(np.mean(few_share - probability)) < 3e-3


def test_without_spread_they_are_the_loss_and_the_share_and_ties_are_shared():
    mean = np.asarray([[0.0, 0, 0], [1, 1, 0], [1, 1, 0], [2, 0, 1], [2, 0, 1]])
    label = np.asarray([1, 0, 2, 0, 1])
    exact = logsumexp(mean, axis=1) - mean[np.arange(5), label]
    for variance in (np.zeros(5), np.zeros((5, 3, 3)), np.full((5, 3, 3), 2.0)):
        value, probability, share = _found(mean, variance, label)
        np.testing.assert_allclose(share, [1 / 3, 1 / 2, 0, 1, 0], rtol=1e-14)
        np.testing.assert_array_equal(probability, share)
        np.testing.assert_allclose(value, exact, rtol=1e-9)
    # A small spread decides ties and nothing else.
    for variance in (np.full(5, 1e-8), 1e-8 * np.eye(3) + np.zeros((5, 3, 3))):
        _, probability, share = _found(mean, variance, label)
        np.testing.assert_allclose(probability, share, atol=1e-3)


def test_derivatives_are_those_of_differences_and_finite_without_spread():
    mean, covariance, label = _problem(3, 6)
    loss: Any = losses.Softmax(3)

    def metrics(step, scale):
        law = mean + step * np.asarray([[1.0, -0.5, 0.2]]), (scale + step) * covariance, label
        return jnp.stack(
            [loss.expected_value(*law, num_nodes=40), loss.correct_probability(*law, num_nodes=40)]
        )

    with jax.enable_x64():
        both = jax.jit(lambda *at: (metrics(*at), jax.jvp(metrics, at, (1.0, 0.0))[1]))
        (above, _), (below, _), (_, slope) = (both(step, 1.0) for step in (1e-5, -1e-5, 0.0))
        np.testing.assert_allclose(slope, (above - below) / 2e-5, rtol=1e-5, atol=1e-6)
        assert np.median(np.abs(slope)) > 0.1
        assert np.isfinite(both(0.0, 0.0)[1]).all()


def test_a_label_that_is_no_class_gives_nan():
    for variance in (np.ones(5), np.eye(3) + np.zeros((5, 3, 3))):
        found = _found(np.zeros((5, 3)), variance, np.full(5, 3))
        assert all(np.isnan(part).all() for part in found)
