import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import FALSE_ALARM, assert_mean_close, assert_variance
from scipy import stats

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
        found = eqx.filter_jit(lambda target: target.features(GUESS))(target)
        np.testing.assert_allclose(found, expected, atol=1e-6)


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
    assert_mean_close(probed, expected, rejects=[1.1 * expected])


KEY = jr.key(7)


@pytest.fixture(scope="module")
def whole():
    return np.asarray(RegeneratedWeights(KEY, 1000, 9).materialise())


@pytest.mark.parametrize("block_size", [64, 999])
def test_the_matrix_does_not_depend_on_the_block_size(whole, block_size):
    weights = RegeneratedWeights(KEY, 1000, 9, block_size=block_size)
    np.testing.assert_array_equal(weights.materialise(), whole)


def test_blocks_are_rows_of_the_matrix_and_end_with_zeros(whole):
    weights = RegeneratedWeights(KEY, 1000, 9, block_size=300)
    assert weights.num_blocks == 4
    assert weights.shape == (1000, 9)
    blocks = jax.jit(jax.vmap(weights.block))(jnp.arange(4))
    np.testing.assert_array_equal(blocks[1], whole[300:600])
    np.testing.assert_array_equal(blocks[3, :100], whole[900:])
    np.testing.assert_array_equal(blocks[3, 100:], np.zeros((200, 9)))


def test_every_row_and_key_has_its_own_numbers(whole):
    # Of 9000 float32 numbers a pair or two coincide by chance.
    assert len(np.unique(whole)) > 0.999 * whole.size
    other = np.asarray(RegeneratedWeights(jr.key(8), 1000, 9).materialise())
    assert np.isin(other, whole).mean() < 0.001


def test_entries_are_normal_with_variance_one_over_the_dimension():
    entries = np.asarray(RegeneratedWeights(KEY, 4000, 101).materialise(), float).ravel()
    assert stats.kstest(entries * np.sqrt(101), "norm").pvalue > FALSE_ALARM
    assert_variance(entries, 1 / 101)
    with pytest.raises(AssertionError):
        assert_variance(entries, 1 / (101 - 3))
    # Neither neighbours in a row nor halves of a hash go together.
    rows = entries.reshape(4000, 101)
    for other in (np.roll(rows, 1, 1), np.roll(rows, 51, 1), np.roll(rows, 1, 0)):
        assert abs(np.mean(rows * other) * 101) < 5 / np.sqrt(rows.size)


def test_a_pass_holds_two_hundredths_of_the_matrix_at_most():
    features, dim, rows = 40960, 256, 16
    weights = RegeneratedWeights(KEY, features, dim)
    target = RandomFeaturesTarget(weights, jax.nn.relu, jnp.ones(features))
    start = jnp.zeros((rows, dim))
    compiled = jax.jit(lambda inputs: loss_and_gradient(target, inputs)).lower(start).compile()
    analysis = compiled.memory_analysis()
    assert analysis is not None
    assert analysis.temp_size_in_bytes <= 0.02 * 4 * features * dim
