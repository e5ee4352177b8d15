"""What `explain` says of a weight is what the clipped sum does with it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from clipping_models import FAMILIES, targets

from jaxdp.clipping import explain


def _explained(family):
    loss, model, inputs, _ = FAMILIES[family]
    record = jax.tree.map(lambda leaf: leaf[0], (inputs(jr.key(0)), targets(jr.key(1))))
    return explain(loss, model, *record)


@pytest.mark.parametrize(
    "family", ["attention", "backwards in time", "frozen layer with trained factors"]
)
def test_the_weights_that_fall_back_are_named_and_frozen_parts_are_no_weights(family):
    _, model, _, fall_back = FAMILIES[family]
    paths = jax.tree_util.tree_leaves_with_path(eqx.filter(model, eqx.is_inexact_array))
    names = [jax.tree_util.keystr(path).lstrip(".") for path, _ in paths]
    found = _explained(family)
    assert [weight.name for weight in found.weights] == names
    assert found.falls_back == tuple(names[at] for at in sorted(fall_back))


def test_products_of_each_form_have_their_closed_form():
    layer = eqx.nn.Linear(5, 3, key=jr.key(0))
    kernel = eqx.nn.Conv1d(4, 6, 3, groups=2, key=jr.key(0))

    def costs(function, model, inputs):
        loss = lambda model, x, y: jnp.sum(jnp.sin(function(model)(x)))  # noqa: E731
        first = explain(loss, model, inputs, jnp.zeros(())).weights[0]
        return first.form, first.gradient, first.added

    assert costs(lambda m: m, layer, jnp.ones(5)) == ("product of norms", 15, 5 + 2 * 3)
    assert costs(jax.vmap, layer, jnp.ones((7, 5))) == ("formed", 7 * 15, 2 * 15)
    # Each of 6 outputs at 8 positions reads 3 places of 2 of the channels.
    assert costs(lambda m: m, kernel, jnp.ones((4, 10))) == ("formed", 6 * 8 * 3 * 2, 2 * 36)
    table = jnp.ones((9, 4))
    found = costs(lambda m: lambda x: m[x], table, jnp.array([1, 2, 1]))
    assert found == ("summed by row", 0, 2 * 3 * 4)

    def over_steps(layer):
        cell = lambda state, x: (jnp.tanh(layer(x) + state), None)  # noqa: E731
        return lambda x: jax.lax.scan(cell, jnp.zeros(3), x)[0]

    assert costs(over_steps, layer, jnp.ones((7, 5))) == ("formed", 7 * 15, 2 * 15)


def test_a_weight_that_the_loss_does_not_read_is_said_to_be_so():
    loss = lambda weights, x, y: weights[0] @ x  # noqa: E731
    found = explain(loss, (jnp.ones(2), jnp.ones(3)), np.ones(2, np.float32), 0.0 * jnp.ones(()))
    assert [weight.form for weight in found.weights] == ["product of norms", "not read by the loss"]
