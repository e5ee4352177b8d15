"""Arguments of the wrong kind: one clear error that names them, before any work."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import jaxdp
from jaxdp import attacks

DRAW = np.random.default_rng(0)
ROWS, LABELS, WEIGHTS = DRAW.normal(size=(3, 4)), DRAW.normal(size=3), DRAW.normal(size=(20, 4))
THETA, ITERATES = DRAW.normal(size=20), DRAW.normal(size=(3, 20))
TARGET = attacks.RandomFeaturesTarget(WEIGHTS, jnp.tanh, THETA)
DESCENT = jaxdp.DPGD(0.1, 1.0, 3, 0.5)
RATE = {"learning_rate": 0.1, "num_steps": 2}
MLP = eqx.nn.MLP(4, 2, 5, 1, key=jr.key(0))


def _informed(algorithm=DESCENT, activation=jnp.tanh, num_samples=3):
    return attacks.without_known_rows(
        ITERATES, WEIGHTS, activation, algorithm, ROWS[:2], LABELS[:2], num_samples=num_samples
    )


def _reconstruct(**more):
    return attacks.reconstruct(TARGET, 3, **{"key": jr.key(0), **more})


CALLS = {
    "activation": [
        lambda value: attacks.RandomFeaturesTarget(WEIGHTS, value, THETA),
        lambda value: attacks.minimum_norm_parameters(ROWS, LABELS, WEIGHTS, value),
        lambda value: attacks.gradient_descent_parameters(ROWS, LABELS, WEIGHTS, value, **RATE),
        lambda value: _informed(activation=value),
    ],
    "features": [lambda value: attacks.NetworkTarget(value, THETA, 4)],
    "target": [
        lambda value: attacks.span_residual(ROWS, ROWS, value),
        lambda value: attacks.reconstruct(value, 3, key=jr.key(0)),
    ],
    "algorithm": [lambda value: _informed(algorithm=value)],
    "num_samples": [lambda value: _informed(num_samples=value)],
    "optimiser": [lambda value: _reconstruct(optimiser=value or "none")],
    "key": [lambda value: _reconstruct(key=value)],
    "found": [lambda value: attacks.leak_report(TARGET, value)],
    "trained": [
        lambda value: attacks.two_layer_target(value, THETA),
        lambda value: attacks.network_target(value, THETA),
    ],
    "last": [lambda value: attacks.network_target(MLP, np.ones((2, 5)), last=value or "none")],
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("value", [None, "text", 2.5, {"a": 1}, jaxdp.DPGD, np.ones(3)], ids=str)
def test_wrong_kinds_end_with_an_error_that_names_the_argument(name, value):
    for call in CALLS[name]:
        if isinstance(value, np.ndarray) and name in ("optimiser", "last"):
            value = list(value)
        with pytest.raises(TypeError, match=rf"^expected (an? |the )?{name}\b"):
            call(value)
