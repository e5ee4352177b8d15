"""Logistic regression as described: its labels, its risk, its gradients and what is refused."""

import functools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close
from scipy.special import expit

import jaxdp
from jaxdp.problems import Samples

PROBLEM = jaxdp.LogisticRegression(3, signal=1.5)


def _samples(count):
    return jax.jit(jax.vmap(lambda index: PROBLEM.draw(None, jr.key(0), index)))(jnp.arange(count))


def test_samples_have_the_described_law():
    samples = _samples(40_000)
    inputs, labels = (np.asarray(part, np.float64) for part in (samples.inputs, samples.labels))
    assert set(np.unique(labels)) == {-1, 1}
    assert_mean_close(inputs, np.zeros(3))
    assert_mean_close(inputs**2, np.ones(3))
    chance = expit(1.5 * inputs[:, 0])
    excess = (labels > 0) - chance
    # The labels' mean given the input is the sigmoid, in size and along every axis.
    assert_mean_close(excess[:, None] * inputs, np.zeros(3))
    assert_mean_close(excess, 0)
    with pytest.raises(AssertionError):
        assert_mean_close(
            (labels > 0) * inputs[:, 0] - expit(1.65 * inputs[:, 0]) * inputs[:, 0], 0
        )


def test_the_risk_is_the_mean_loss_less_that_of_the_target():
    samples, theta = _samples(40_000), jnp.asarray([0.4, -0.7, 0.3])
    target = jnp.asarray([1.5, 0.0, 0.0])

    def losses(parameters):
        return PROBLEM.loss.value(samples.inputs @ parameters, samples.labels)

    risk = PROBLEM.risk(None, theta)
    assert_mean_close(losses(theta) - losses(target), risk, rejects=[1.2 * risk])
    assert PROBLEM.risk(None, target) == 0
    # Turning what is orthogonal to the target changes nothing.
    turned = jnp.asarray([0.4, 0.3, 0.7])
    np.testing.assert_allclose(PROBLEM.risk(None, turned), risk, rtol=1e-6)


def test_a_step_at_the_cap_does_not_expand_and_a_longer_one_does():
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Constant(1e6), 0.4, 1.0, 10)

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(0, 0, 0, None))
    def spread(inputs, first, change, cap):
        """How far two parameters are apart after a step, over how far they were."""
        sample = Samples(inputs, jnp.ones(()))
        # `cap` over the smoothness |x|^2/4 is the step: 2 is 8/|x|^2.
        given = 2 * PROBLEM.smoothness(sample) / cap, algorithm.step_size(1), jnp.zeros(3)

        def moved(theta):
            gradient = PROBLEM.gradient(theta, sample)
            return algorithm.step(theta, None, gradient, *given).parameters

        return jnp.linalg.norm(moved(first) - moved(first + change)) / jnp.linalg.norm(change)

    inputs, first, change = np.random.default_rng(0).normal(size=(3, 48, 3)).astype(np.float32)
    change *= np.resize([[1e-2], [1e-1], [1]], (48, 1)).astype(np.float32)
    widest = [spread(inputs, np.float32(0.05) * first, change, cap).max() for cap in (2.0, 4.0)]
    assert widest[0] <= 1 + 1e-4
    assert widest[1] > 1.02
