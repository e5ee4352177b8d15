"""Gradients through loops whose derivative rules are not linear are those of JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxdp

WEIGHT = np.array([1.0, 2.0], np.float32)
# Four samples of three turns.
INPUTS = np.random.default_rng(0).normal(size=(4, 3, 2)).astype(np.float32)
TARGETS = np.zeros(4, np.float32)


@jax.custom_vjp
def _signed(weight):
    """The weight, of whose cotangents only the signs are handed on."""
    return weight


_signed.defvjp(lambda weight: (weight, None), lambda _, cotangent: (jnp.sign(cotangent),))


def _every_turn(weight, inputs, _):
    return lax.map(lambda x: jnp.tanh(_signed(weight) @ x), inputs).sum()


def _of_one_turn_of_the_sample(weight, inputs, _):
    """What meets the weight is of the sample, and the same in each turn."""
    return lax.scan(
        lambda total, factor: (total + factor * _signed(weight * inputs[0]).sum(), None),
        0.0,
        jnp.arange(1.0, 4.0),
    )[0]


def _compiled_and_kept(weight, inputs, _):
    turn = jax.checkpoint(lambda total, x: total + jnp.tanh(jax.jit(_signed)(weight) @ x))
    return lax.fori_loop(0, 3, lambda at, total: turn(total, inputs[at]), 0.0)


def _in_a_branch(weight, inputs, _):
    def turn(total, x):
        chosen = lax.cond(weight[0] > 0, _signed, lambda w: 2 * w, weight)
        return total + chosen @ x, None

    return lax.scan(turn, 0.0, inputs, reverse=True)[0]


def _made_of_the_weight(weight, inputs, _):
    def turn(hidden, x):
        return jnp.tanh(_signed(jnp.outer(weight, weight)) @ hidden + x), None

    return lax.scan(turn, jnp.ones(2), inputs)[0].sum()


LOSSES = (
    _every_turn,
    _of_one_turn_of_the_sample,
    _compiled_and_kept,
    _in_a_branch,
    _made_of_the_weight,
)


@pytest.mark.parametrize("loss", LOSSES, ids=[loss.__name__[1:] for loss in LOSSES])
def test_each_turn_goes_through_a_rule_that_is_not_linear_by_itself(loss):
    gradients = jax.vmap(jax.grad(loss), (None, 0, 0))(WEIGHT, INPUTS, TARGETS)
    norms = np.linalg.norm(gradients, axis=1)
    clip_norm = float(np.median(norms))
    expected = (gradients * np.minimum(1, clip_norm / norms)[:, None]).sum(0)
    found, measured = jaxdp.clipped_gradient_sum(loss, WEIGHT, INPUTS, TARGETS, clip_norm=clip_norm)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(measured, norms, rtol=1e-5)
