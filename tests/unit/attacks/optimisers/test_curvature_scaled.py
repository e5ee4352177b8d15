import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from attack_problems import random_victim, single_target

from jaxdp import attacks
from jaxdp.attacks.optimisers.base import Ending


def _errors(seeds, dim, count, widths, activation="relu", **more):
    """Reconstruction error and passes of each seed."""
    results, size = [], int(widths * dim * count)
    for seed in seeds:
        victim = random_victim(seed, dim, count, size, activation=activation, **more)
        found = attacks.reconstruct(single_target(victim, activation), count, key=jr.key(seed))
        flips = activation == "tanh"
        error = attacks.reconstruction_error(victim.inputs, found.inputs, allow_sign_flips=flips)
        results.append((error, found.num_passes))
    return np.array(results).T


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["relu", "relu_tanh", "tanh"])
def test_seeds_are_solved(activation):
    errors, passes = _errors(range(6), 30, 10, 10, activation)
    # Rounding, which differs between processors, may send one of them elsewhere.
    assert (errors <= 0.01).sum() >= 5
    assert np.median(passes) <= 200


@pytest.mark.slow
def test_hard_widths_and_one_hot_outputs_are_solved():
    errors, _ = _errors(range(6), 30, 10, 2)
    assert (errors <= 0.01).sum() >= 5
    errors, _ = _errors(range(3), 20, 5, 10, outputs=3)
    assert errors.max() <= 0.01


@pytest.mark.slow
def test_noisy_parameters_stall_at_the_noise_with_rows_nearby():
    victim = random_victim(0, 12, 4, 960)
    noise = np.random.default_rng(1).standard_normal(960)
    scale = 1e-2 * np.linalg.norm(victim.parameters) / np.sqrt(960)
    noisy = single_target(victim._replace(parameters=victim.parameters + scale * noise))
    found = attacks.reconstruct(noisy, 4, key=jr.key(0))
    assert found.status is Ending.STALLED
    assert not found.converged
    # n d of the p squares of the noise are fitted.
    np.testing.assert_allclose(found.loss, 1e-4 * (1 - 48 / 960), rtol=5 * np.sqrt(2 / 912))
    assert attacks.reconstruction_error(victim.inputs, found.inputs) < 0.03


@pytest.mark.slow
def test_a_network_and_regenerated_weights_are_solved():
    victim = random_victim(0, 12, 4, 480)
    labels = np.random.default_rng(1).standard_normal(4)
    weights = attacks.RegeneratedWeights(jr.key(5), 480, 12, block_size=128)
    theta = attacks.minimum_norm_parameters(victim.inputs, labels, weights, jax.nn.relu)
    found = attacks.reconstruct(
        attacks.RandomFeaturesTarget(weights, jax.nn.relu, theta), 4, key=jr.key(0)
    )
    assert attacks.reconstruction_error(victim.inputs, found.inputs) <= 0.01
    network = eqx.nn.MLP(
        12, 480, 64, 1, activation=jnp.tanh, final_activation=jax.nn.relu, key=jr.key(1)
    )
    features = np.asarray(jax.vmap(network)(jnp.asarray(victim.inputs, jnp.float32)), np.float64)
    theta = features.T @ np.linalg.solve(features @ features.T, labels)
    found = attacks.reconstruct(attacks.NetworkTarget(network, theta, 12), 4, key=jr.key(0))
    assert attacks.reconstruction_error(victim.inputs, found.inputs) <= 0.01
