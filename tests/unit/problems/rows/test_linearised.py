"""Networks as problems: their tangent, which weights are trained, and what is refused."""

import functools

import equinox as eqx
import jax
import numpy as np
import pytest
from small_networks import network, only


def test_the_tangent_touches_the_network_at_its_start_and_is_straight():
    problem = network(3)
    row, start = problem.inputs[0], problem.weights
    moved = jax.tree.map(lambda leaf: leaf + 0.1, start)
    half = jax.tree.map(lambda a, b: (a + b) / 2, start, moved)
    at = [problem.tangent_prediction(weights, row) for weights in (start, half, moved)]
    np.testing.assert_allclose(at[0], problem.prediction(start, row), rtol=1e-6)
    np.testing.assert_allclose(at[1], (at[0] + at[2]) / 2, rtol=1e-4, atol=1e-5)


def test_frozen_weights_are_no_weights():
    biases = only(network(), lambda model: [layer.bias for layer in model.layers])
    assert biases.num_weights == 32 + 32 + 1
    head = only(network(), lambda model: model.layers[-1].weight)
    assert [leaf.shape for leaf in jax.tree.leaves(head.weights)] == [(1, 32)]


class Noisy(eqx.Module):
    layer: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __call__(self, row):
        return self.dropout(self.layer(row))


def _with(**changes):
    return lambda problem: problem.replace(**changes)


def _with_model(made):
    return lambda problem: problem.replace(model=made())


@functools.cache
def _linear(outputs=1):
    return eqx.nn.Linear(5, outputs, key=jax.random.key(0))


@pytest.mark.parametrize(
    ("change", "error", "expected"),
    [
        (_with_model(lambda: Noisy(_linear(), eqx.nn.Dropout(0.5))), ValueError, "draws numbers"),
        (_with_model(lambda: eqx.nn.BatchNorm(5, "batch", mode="ema")), ValueError, "mixes rows"),
        (_with(model="a network"), TypeError, "expected model to be an Equinox model"),
        (_with(trainable=lambda model: []), TypeError, "of one leaf .*which raised ValueError"),
        (_with(trainable="biases"), TypeError, "None, a tree of True and False.* got str"),
        (_with_model(lambda: _linear(2)), ValueError, "one number"),
        (_with(inputs=np.full((300, 5), np.nan)), ValueError, "inputs"),
    ],
)
def test_what_is_no_network_of_single_rows_is_refused(change, error, expected):
    with pytest.raises(error, match=expected):
        change(network())
