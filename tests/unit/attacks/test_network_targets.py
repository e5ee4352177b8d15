"""Networks that a user built with Equinox and trained with optax, as targets."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from attack_problems import OwnModel, sphere_rows
from helpers import MadeWhenAsked, quick_and_slow

from jaxdp import attacks
from jaxdp.attacks.objective import checked_loss

DIM, COUNT, WIDTH = 6, 3, 40
ROWS = sphere_rows(np.random.default_rng(0), COUNT, DIM).astype(np.float32)
LABELS = np.random.default_rng(1).normal(size=(COUNT, 2)).astype(np.float32)


def _mlp(*, outputs=2, depth=1, **more):
    return eqx.nn.MLP(DIM, outputs, WIDTH, depth, key=jr.key(0), **more)


def _two_layers(**options):
    first, last = jr.split(jr.key(0))
    return eqx.nn.Linear(DIM, WIDTH, key=first), eqx.nn.Linear(WIDTH, 2, key=last, **options)


def _sequential(**options):
    body, head = _two_layers(**options)
    return eqx.nn.Sequential([body, eqx.nn.Lambda(jnp.tanh), head])


def _layers_last(model):
    return model.layers[-1]


def _head(model):
    return model.head


def _trained(model, last, *, whole=False, optimiser=None, steps=20):
    """A user's loop: full batches, of the last layer alone or of all layers."""
    optimiser = optax.sgd(0.02) if optimiser is None else optimiser
    is_trained = jax.tree.map(eqx.is_inexact_array, model)
    if not whole:
        is_trained = jax.tree.map(lambda _: False, model)
        is_trained = eqx.tree_at(lambda tree: last(tree).weight, is_trained, True)
        if last(model).bias is not None:
            is_trained = eqx.tree_at(lambda tree: last(tree).bias, is_trained, True)
    moving, fixed = eqx.partition(model, is_trained)

    def loss(moving):
        outputs = jax.vmap(eqx.combine(moving, fixed))(ROWS)
        return jnp.mean((outputs.reshape(COUNT, -1) - LABELS[:, : outputs.size // COUNT]) ** 2)

    @jax.jit
    def run(arrays):
        moving = eqx.combine(arrays, others)

        def step(carried, _):
            moving, state = carried
            updates, state = optimiser.update(jax.grad(loss)(moving), state, moving)
            return (optax.apply_updates(moving, updates), state), None

        return jax.lax.scan(step, (moving, optimiser.init(moving)), length=steps)[0][0]

    arrays, others = eqx.partition(moving, eqx.is_array)
    return eqx.combine(run(arrays), fixed)


BARE = {"use_bias": False, "use_final_bias": False}
MODELS = MadeWhenAsked(
    {
        "mlp": lambda: (_mlp(), _layers_last, {}),
        "mlp without biases": lambda: (_mlp(**BARE), _layers_last, {}),
        "deep": lambda: (_mlp(depth=3), _layers_last, {}),
        "scalar": lambda: (_mlp(outputs="scalar"), _layers_last, {}),
        "final activation": lambda: (_mlp(final_activation=jax.nn.sigmoid), _layers_last, {}),
        "learnt activation": lambda: (_mlp(activation=eqx.nn.PReLU()), _layers_last, {}),
        "sequential": lambda: (_sequential(), _layers_last, {}),
        "sequential without bias": lambda: (_sequential(use_bias=False), _layers_last, {}),
        "own": lambda: (OwnModel(*_two_layers()[::-1]), _head, {"last": _head, "dim": DIM}),
    }
)
SLOW = {"deep", "mlp without biases", "final activation", "sequential without bias"}


@pytest.mark.parametrize("name", quick_and_slow(MODELS, *MODELS.keys() - SLOW))
def test_the_change_of_the_last_layer_lies_in_the_span_of_the_features(name):
    start, last, more = MODELS[name]
    trained = _trained(start, last)
    target = attacks.network_target(trained, last(start), **more)
    outputs = 1 if name == "scalar" else 2
    assert (target.dim, target.num_features, target.num_outputs) == (DIM, WIDTH, outputs)
    assert checked_loss(target, jnp.asarray(ROWS)) < 1e-9
    others = sphere_rows(np.random.default_rng(5), COUNT, DIM)
    assert checked_loss(target, jnp.asarray(others)) > 1e-2
    by_weights = attacks.network_target(trained, last(start).weight, **more)
    np.testing.assert_array_equal(by_weights.parameters, target.parameters)


@pytest.mark.parametrize(("name", "whole"), [("mlp", True), ("sequential", False)])
def test_features_are_those_of_the_trained_model(name, whole):
    start, last, more = MODELS[name]
    trained = _trained(start, last, whole=whole)
    target = attacks.network_target(trained, last(start), **more)
    features = np.asarray(target.features(jnp.asarray(ROWS)))
    outputs = features @ np.asarray(last(trained).weight).T + np.asarray(last(trained).bias)
    np.testing.assert_allclose(outputs, jax.vmap(trained)(ROWS), rtol=1e-4, atol=1e-5)
    # Where all layers moved, the first features span the change no more exactly.
    loss = checked_loss(target, jnp.asarray(ROWS))
    assert (loss > 1e-7) == whole


def test_after_adam_the_change_is_in_no_such_span():
    start, last, _ = MODELS["mlp"]
    trained = _trained(start, last, optimiser=optax.adam(0.01))
    assert checked_loss(attacks.network_target(trained, last(start)), jnp.asarray(ROWS)) > 1e-2


def test_a_two_layer_mlp_is_random_features_and_with_biases_a_network():
    start, last, _ = MODELS["mlp without biases"]
    trained = _trained(start, last)
    target = attacks.two_layer_target(trained, last(start))
    assert isinstance(target, attacks.RandomFeaturesTarget)
    assert checked_loss(target, jnp.asarray(ROWS)) < 1e-9
    other = attacks.network_target(trained, last(start))
    rows = jnp.asarray(ROWS)
    np.testing.assert_allclose(target.features(rows), other.features(rows), rtol=1e-5, atol=1e-6)
    for name in ("mlp", "scalar", "learnt activation"):
        start, last, _ = MODELS[name]
        moved = eqx.tree_at(lambda tree: tree.layers[-1].weight, start, replace_fn=lambda w: w + 1)
        target, other = (
            make(moved, last(start)) for make in (attacks.two_layer_target, attacks.network_target)
        )
        assert isinstance(target, attacks.NetworkTarget)
        np.testing.assert_array_equal(target.parameters, other.parameters)


@pytest.mark.slow
@pytest.mark.parametrize(("whole", "worst"), [(False, 0.01), (True, 0.1)])
def test_rows_are_read_off_an_mlp_that_optax_trained(whole, worst):
    start = eqx.nn.MLP(DIM, 2, 400, 1, **BARE, key=jr.key(0))
    trained = _trained(start, _layers_last, whole=whole, optimiser=optax.sgd(1e-3))
    for make in (attacks.two_layer_target, attacks.network_target):
        found = attacks.reconstruct(
            make(trained, start.layers[-1]), COUNT, key=jr.key(1), max_passes=800
        )
        assert attacks.reconstruction_error(ROWS, found.inputs) < worst
