"""Gradient descent without noise: its step, its path, its end, and the closed-form last layer."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from experiments.networks.gradient_descent import DescentStatus, gradient_descent
from experiments.networks.last_layer import TwoLayerNetwork, fit_last_layer


def _task(num_records=4, dim=6, width=16, num_outputs=2):
    random = np.random.default_rng(1)
    inputs = random.normal(size=(num_records, dim))
    labels = random.normal(size=(num_records, num_outputs))
    return TwoLayerNetwork(dim, width, num_outputs, key=jr.key(2)), inputs, labels


def _loss(model, inputs, labels):
    outputs = jax.vmap(model)(jnp.asarray(inputs, jnp.float32))
    return float(np.mean((np.asarray(outputs, np.float64) - labels) ** 2))


def _weights(model):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(model)])


@pytest.fixture(scope="module")
def trained():
    model, inputs, labels = _task()
    return gradient_descent(model, inputs, labels)


def test_the_loss_reached_is_the_tolerance_and_is_the_models(trained):
    _, inputs, labels = _task()
    assert trained.status is DescentStatus.CONVERGED
    assert trained.loss <= 1e-7
    assert trained.loss == pytest.approx(_loss(trained.model, inputs, labels), rel=0.02)
    # It stops there: one step changes the loss by a few per cent.
    assert trained.loss > 0.5e-7


def test_the_path_is_that_of_many_tiny_steps():
    """The steps of DR, hundreds of times smaller, end at the same weights."""
    # So wide that no direction of the residuals is next to flat, whatever the seed.
    model, inputs, labels = _task(width=64)
    rows, wanted = jnp.asarray(inputs, jnp.float32), jnp.asarray(labels, jnp.float32)

    @jax.jit
    def descend(model, rate):
        def loss(model):
            return jnp.mean((jax.vmap(model)(rows) - wanted) ** 2)

        def step(state):
            model, count = state
            slope = jax.grad(loss)(model)
            moved = jax.tree.map(lambda weight, move: weight - rate * move, model, slope)
            return moved, count + 1

        def is_far(state):
            return (loss(state[0]) > 8e-8) & (state[1] < 1_000_000)

        return jax.lax.while_loop(is_far, step, (model, 0))[0]

    shares = 0.2, 0.05
    ends = [gradient_descent(model, inputs, labels, share=share) for share in shares]
    flow = descend(model, ends[0].learning_rate / 200)
    assert _loss(flow, inputs, labels) < 1e-7
    moved = np.linalg.norm(_weights(flow) - _weights(model))
    gaps = [np.linalg.norm(_weights(end.model) - _weights(flow)) / moved for end in ends]
    for share, gap in zip(shares, gaps, strict=True):
        assert gap < 0.5 * share
    # The same check tells another path.
    other = eqx.tree_at(lambda m: m.last, model, 1.1 * model.last)
    ended = gradient_descent(other, inputs, labels, share=0.05).model
    assert np.linalg.norm(_weights(ended) - _weights(flow)) / moved > 0.5 * 0.05


def test_the_step_is_a_share_of_the_largest_stable_one():
    """For a linear model the curvature is that of X^T X."""

    class Linear(eqx.Module):
        weights: jax.Array

        def __call__(self, input):
            return self.weights @ input

    random = np.random.default_rng(3)
    inputs, labels = random.normal(size=(8, 5)), random.normal(size=(8, 2))
    model = Linear(jnp.zeros((2, 5)))
    limit = labels.size / np.linalg.eigvalsh(inputs.T @ inputs)[-1]
    for share in (0.5, 0.25):
        found = gradient_descent(model, inputs, labels, max_steps=40, share=share)
        assert found.learning_rate == pytest.approx(share * limit, rel=0.02)
        assert found.status is DescentStatus.MAX_STEPS
        assert found.num_steps == 40
    short, weights = gradient_descent(model, inputs, labels, max_steps=3), np.zeros((2, 5))
    for _ in range(3):
        gradient = 2 / labels.size * (inputs @ weights.T - labels).T @ inputs
        weights = weights - short.learning_rate * gradient
    np.testing.assert_allclose(short.model.weights, weights, rtol=1e-4, atol=1e-6)
    least = inputs @ np.linalg.lstsq(inputs, labels)[0] - labels
    ended = gradient_descent(model, inputs, labels, max_steps=2000)
    assert ended.loss == pytest.approx(np.mean(least**2), rel=1e-4)
    assert ended.status is not DescentStatus.CONVERGED


def test_a_dead_network_is_given_up():
    model, inputs, labels = _task()
    dead = jax.tree.map(jnp.zeros_like, model)
    ended = gradient_descent(dead, inputs, labels)
    assert ended.status is DescentStatus.STALLED
    assert ended.num_steps == 0
    with pytest.raises(RuntimeError, match="stalled after 0 steps"):
        ended.check()


def test_the_fitted_last_layer_is_the_nearest_that_fits():
    model, inputs, labels = _task()
    fitted = fit_last_layer(model, inputs, labels)
    np.testing.assert_array_equal(fitted.hidden, model.hidden)
    assert _loss(fitted, inputs, labels) < 1e-10
    features = np.maximum(inputs @ np.asarray(model.hidden, np.float64).T, 0)
    change = np.asarray(fitted.last, np.float64) - np.asarray(model.last, np.float64)
    # In the span of the rows' features, and so of least norm.
    outside = change - change @ np.linalg.pinv(features) @ features
    assert np.linalg.norm(outside) < 1e-5 * np.linalg.norm(change)
    full = gradient_descent(model, inputs, labels).model
    moved = np.asarray(full.last, np.float64) - np.asarray(model.last, np.float64)
    outside = moved - moved @ np.linalg.pinv(features) @ features
    assert np.linalg.norm(outside) > 0.01 * np.linalg.norm(moved)
