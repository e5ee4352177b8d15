import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close

from jaxdp.attacks import NetworkTarget, RandomFeaturesTarget, RegeneratedWeights
from jaxdp.attacks.objective import loss_and_gradient

GENERATOR = np.random.default_rng(0)
WEIGHTS = GENERATOR.standard_normal((50, 4)).astype(np.float32)
THETA = GENERATOR.standard_normal(50).astype(np.float32)
GUESS = GENERATOR.standard_normal((3, 4)).astype(np.float32)


# Source: DR (1).
def test_features_are_those_of_the_layer_whatever_the_blocks():
    expected = np.maximum(GUESS @ WEIGHTS.T, 0)
    for block_size in (None, 7, 25):
        target = RandomFeaturesTarget(WEIGHTS, jax.nn.relu, THETA, block_size=block_size)
        np.testing.assert_allclose(target.features(GUESS), expected, atol=1e-6)


def test_a_last_block_that_is_not_full_counts_no_feature_twice():
    # cos(0) = 1: a row of zeros is not a feature of zero.
    whole = RandomFeaturesTarget(WEIGHTS, jnp.cos, THETA)
    evaluate = eqx.filter_jit(loss_and_gradient)
    expected = evaluate(whole, GUESS)
    blocks = evaluate(whole.in_blocks(7), GUESS)
    np.testing.assert_allclose(blocks.loss, expected.loss, rtol=1e-5)
    np.testing.assert_allclose(blocks.gradient, expected.gradient, atol=1e-6)


def _layer_as_network():
    layer = eqx.nn.Linear(4, 50, use_bias=False, key=jr.key(0))
    layer = eqx.tree_at(lambda layer: layer.weight, layer, jnp.asarray(WEIGHTS))
    return NetworkTarget(eqx.nn.Sequential([layer, eqx.nn.Lambda(jax.nn.relu)]), THETA, 4)


def test_a_layer_as_a_network_is_the_same_target():
    network, neurons = _layer_as_network(), RandomFeaturesTarget(WEIGHTS, jax.nn.relu, THETA)
    assert (network.dim, network.num_features, network.num_outputs) == (4, 50, 1)
    evaluate = eqx.filter_jit(loss_and_gradient)
    found, expected = (evaluate(target, GUESS) for target in (network, neurons))
    np.testing.assert_allclose(found.gradient, expected.gradient, atol=1e-5)


@pytest.mark.slow
def test_probes_of_a_network_estimate_the_coupling_of_its_rows():
    slopes = (GUESS @ WEIGHTS.T > 0).astype(float)
    expected = (slopes * np.sum(WEIGHTS**2, axis=1)) @ slopes.T / 4
    block, keys = _layer_as_network().block(0), jr.split(jr.key(1), 400)
    probed = np.asarray(jax.vmap(lambda key: block.row_coupling(GUESS, key=key))(keys))
    assert_mean_close(probed, expected)
    with pytest.raises(AssertionError, match="standard error"):
        assert_mean_close(probed, 1.1 * expected)


@pytest.mark.parametrize("weights", [WEIGHTS, RegeneratedWeights(jr.key(0), 50, 4)])
def test_shapes_that_do_not_match_are_errors(weights):
    with pytest.raises(ValueError, match="one row of parameters for each of the 50 features"):
        RandomFeaturesTarget(weights, jax.nn.relu, THETA[1:])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            (np.where(WEIGHTS > 0, np.nan, WEIGHTS), jax.nn.relu, THETA),
            ValueError,
            "finite weights",
        ),
        (
            (WEIGHTS, jax.nn.relu, np.where(THETA > 1, np.inf, THETA)),
            ValueError,
            "finite parameters",
        ),
        ((WEIGHTS, jax.nn.relu, 0 * THETA), ValueError, "zeros only"),
        ((WEIGHTS, jax.nn.relu, THETA[None, None]), ValueError, r"\(p,\) or \(p, k\)"),
        ((WEIGHTS, "relu", THETA), TypeError, "activation to be a function of an array"),
        ((WEIGHTS[0], jax.nn.relu, THETA), ValueError, "expected weights of shape"),
        ((WEIGHTS, lambda z: z.sum(), THETA), ValueError, "on each number alone"),
        ((WEIGHTS, jax.nn.softmax, THETA), ValueError, "on each number alone"),
        ((WEIGHTS, np.tanh, THETA), TypeError, "jax.numpy operations"),
    ],
)
def test_what_makes_no_target_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        RandomFeaturesTarget(*arguments)


def test_networks_that_do_not_match_are_errors():
    network = eqx.nn.Linear(4, 49, key=jr.key(0))
    with pytest.raises(ValueError, match=r"features of shape \(50,\)"):
        NetworkTarget(network, THETA, 4)
    spoilt = eqx.tree_at(lambda layer: layer.bias, network, jnp.full(49, jnp.nan))
    with pytest.raises(ValueError, match="finite weights of the network"):
        NetworkTarget(spoilt, THETA[1:], 4)


def test_blocks_of_no_features_are_refused():
    with pytest.raises(ValueError, match="block_size >= 1"):
        RandomFeaturesTarget(np.ones((4, 2)), jnp.tanh, np.ones(4), block_size=0)


def test_networks_that_cannot_be_evaluated_are_refused():
    with pytest.raises(ValueError, match=r"one input of shape \(2,\)"):
        NetworkTarget(lambda x: jnp.ones((4, 3)) @ x, np.ones(4), 2)
    with pytest.raises(ValueError, match=r"transpose the parameters to \(p, k\)"):
        NetworkTarget(lambda x: jnp.ones((4, 2)) @ x, np.ones((1, 4)), 2)
