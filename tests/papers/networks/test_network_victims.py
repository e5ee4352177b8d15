"""Trained networks as targets: what the attacker is given, and what it gives away."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from experiments.networks.last_layer import (
    TwoLayerNetwork,
    fit_last_layer,
    network_target,
    two_layer_target,
)
from jaxdp.attacks.objective import checked_loss


def _sphere(count, dim, seed=1):
    rows = np.random.default_rng(seed).normal(size=(count, dim))
    return np.sqrt(dim) * rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def victim():
    """A network before and after its last layer was trained, and its rows."""
    inputs = _sphere(3, 6)
    start = TwoLayerNetwork(6, 20, 2, key=jr.key(2))
    labels = np.random.default_rng(3).normal(size=(3, 2))
    return start, fit_last_layer(start, inputs, labels), inputs


def test_both_targets_of_a_two_layer_network_are_the_same(victim):
    start, trained, inputs = victim
    rows = jnp.asarray(inputs, jnp.float32)
    by_neurons, by_network = (
        make(trained, start.last) for make in (two_layer_target, network_target)
    )
    assert by_neurons.num_features == by_network.num_features == 20
    assert by_neurons.num_outputs == by_network.num_outputs == 2
    assert by_neurons.dim == by_network.dim == 6
    expected = np.maximum(inputs @ np.asarray(start.hidden, np.float64).T, 0)
    for target in (by_neurons, by_network):
        np.testing.assert_allclose(target.features(rows), expected, rtol=1e-5, atol=1e-6)


def test_the_last_layers_change_lies_in_the_span_of_the_true_features(victim):
    start, trained, inputs = victim
    target = two_layer_target(trained, start.last)
    assert checked_loss(target, jnp.asarray(inputs)) < 1e-10
    # The layer itself does not: the attacker needs where it began.
    whole = two_layer_target(trained, jnp.zeros_like(start.last))
    assert checked_loss(whole, jnp.asarray(inputs)) > 1e-2
