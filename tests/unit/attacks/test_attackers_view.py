"""The attack sees what an attacker sees: a target, and not the rows behind it."""

import functools
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from attack_problems import JAX_ACTIVATIONS, random_victim
from helpers import FALSE_ALARM
from jaxtyping import Array, Float

from jaxdp import attacks
from jaxdp.attacks import MomentumDescent, NetworkTarget, RandomFeaturesTarget, reconstruct
from jaxdp.attacks.base import AbstractBlock, AbstractTarget, Linearisation

# No other axis of the problem is as long as the set of rows.
NUM_SAMPLES, DIM, WIDTH = 5, 6, 240


_mixed = JAX_ACTIVATIONS["relu_tanh"]


def _problem(seed=4):
    """Rows, weights, and an interpolator of theirs."""
    return random_victim(seed, DIM, NUM_SAMPLES, WIDTH, activation="relu_tanh")


class _Layer(eqx.Module):
    weights: Array

    def __call__(self, row):
        return _mixed(self.weights @ row)


def _shapes(target):
    return [leaf.shape for leaf in jax.tree.leaves(eqx.filter(target, eqx.is_array))]


def test_a_target_holds_no_array_with_a_row_for_each_sample():
    inputs, weights, parameters = _problem()
    regenerated = attacks.RegeneratedWeights(jr.key(1), WIDTH, DIM, block_size=20)
    for target in (
        RandomFeaturesTarget(weights, _mixed, parameters),
        RandomFeaturesTarget(regenerated, _mixed, parameters),
        NetworkTarget(_Layer(jnp.asarray(weights)), parameters, DIM),
    ):
        assert all(NUM_SAMPLES not in shape for shape in _shapes(target))
    # The same look does find rows where there are some.
    assert any(NUM_SAMPLES in shape for shape in _shapes(_Leaking(inputs, weights, parameters)))


class _LeakingBlock(AbstractBlock):
    """DR's code for ReLU + tanh: the slopes are those at the true rows, one for each found one."""

    parameters: Float[Array, "rows outputs"]
    weights: Float[Array, "rows dim"]
    true_inputs: Float[Array, "n dim"]

    def features(self, inputs):
        return _mixed(inputs @ self.weights.T)

    def linearised(self, inputs):
        slopes = self._slopes()
        return Linearisation(
            self.features(inputs),
            lambda directions: slopes * (directions @ self.weights.T),
            lambda cotangents: (slopes * cotangents) @ self.weights,
        )

    def row_coupling(self, inputs, *, key):
        slopes = self._slopes()
        return slopes @ slopes.T * jnp.mean(self.weights**2)

    def _slopes(self):
        arguments = self.true_inputs @ self.weights.T
        return jax.jvp(_mixed, (arguments,), (jnp.ones_like(arguments),))[1]


class _Leaking(AbstractTarget):
    """A target that holds the rows."""

    parameters: Float[Array, " features"]
    weights: Float[Array, "features dim"]
    true_inputs: Float[Array, "n dim"]

    def __init__(self, true_inputs, weights, parameters):
        self.true_inputs, self.weights = jnp.asarray(true_inputs), jnp.asarray(weights)
        self.parameters = jnp.asarray(parameters)

    @property
    def dim(self):
        return self.weights.shape[1]

    @property
    def num_blocks(self):
        return 1

    def block(self, index):
        return _LeakingBlock(self.parameters[:, None], self.weights, self.true_inputs)

    def in_blocks(self, num_rows):
        return self

    def widened(self):
        return self

    def _positions(self, index):
        return jnp.arange(len(self.weights))


def _attack(target, seed):
    optimiser = MomentumDescent(step_size=5.0)
    return reconstruct(target, NUM_SAMPLES, key=jr.key(seed), optimiser=optimiser, max_passes=200)


def _level_of_fixed_points(make, num_problems=64):
    """How probable by chance so many, or so few, rows at their own place are, over all problems."""
    places = np.arange(NUM_SAMPLES)
    orders = list(itertools.permutations(places))
    fixed = np.bincount(np.sum(orders == places, axis=1)) / len(orders)
    law, found = functools.reduce(np.convolve, num_problems * [fixed]), 0
    for seed in range(num_problems):
        inputs, weights, parameters = _problem(seed)
        target = make(inputs, weights, parameters)
        order, _ = attacks.matching(inputs, _attack(target, seed).inputs)
        found += np.sum(order == places)
    return 2 * min(law[: found + 1].sum(), law[found:].sum())


@pytest.mark.slow
def test_rows_are_found_in_an_order_of_chance():
    level = _level_of_fixed_points(
        lambda _, *model: RandomFeaturesTarget(model[0], _mixed, model[1])
    )
    assert level > FALSE_ALARM


@pytest.mark.slow
def test_a_leak_of_the_true_rows_slopes_is_seen_in_the_order():
    """Erratum: with the true rows' slopes, found rows come in the true rows' order."""
    assert _level_of_fixed_points(_Leaking) < FALSE_ALARM
