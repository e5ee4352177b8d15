"""ReLU classifiers: their form, their first weights, their loss and their accuracy."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close, assert_variance

from experiments.networks.classifiers import accuracy, relu_network


def _weights(model):
    return [np.asarray(layer.weight, np.float64) for layer in model.layers]


@pytest.mark.parametrize("num_hidden", [1, 2])
def test_a_network_is_products_and_positive_parts(num_hidden):
    model = relu_network(6, 5, 3, num_hidden=num_hidden, key=jr.key(0))
    weights = _weights(model)
    assert [weight.shape for weight in weights] == [(5, 6), *[(5, 5)] * (num_hidden - 1), (3, 5)]
    x = np.linspace(-1, 1, 6)
    hidden = x
    for weight in weights[:-1]:
        hidden = np.maximum(weight @ hidden, 0)
    np.testing.assert_allclose(model(jnp.asarray(x)), weights[-1] @ hidden, rtol=1e-5, atol=1e-6)


def test_the_first_weights_have_the_variance_of_he_initialisation():
    model = relu_network(100, 60, 50, num_hidden=2, key=jr.key(1))
    for weight in _weights(model):
        assert_variance(weight.ravel(), 2 / weight.shape[1])
        assert_mean_close(weight.ravel(), 0.0)
        with pytest.raises(AssertionError):
            assert_variance(weight.ravel(), 2 / weight.shape[1] / 1.33)
    first, second, last = (weight.ravel()[:3000] for weight in _weights(model))
    for pair in ((first, second), (first, last), (second, last)):
        assert abs(np.corrcoef(*pair)[0, 1]) < 5 / np.sqrt(3000)
    other = relu_network(100, 60, 50, num_hidden=2, key=jr.key(2))
    correlation = np.corrcoef(_weights(model)[0].ravel(), _weights(other)[0].ravel())[0, 1]
    assert abs(correlation) < 5 / np.sqrt(6000)


def test_accuracy_counts_right_labels_over_batches():
    class Identity(eqx.Module):
        def __call__(self, logits):
            return logits

    # More than one batch, and a last one that is not full.
    logits = np.random.default_rng(4).normal(size=(2503, 5)).astype(np.float32)
    labels = np.random.default_rng(5).integers(0, 5, 2503)
    expected = np.mean(logits.argmax(axis=1) == labels)
    assert float(accuracy(Identity(), logits, labels)) == pytest.approx(expected, abs=1e-6)
    logits[:, 0] = np.nan
    assert float(accuracy(Identity(), logits, np.zeros(2503, int))) == 0
