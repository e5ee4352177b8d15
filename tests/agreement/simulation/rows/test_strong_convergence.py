"""DP-GD of ever smaller steps follows the path of its diffusion for the same Brownian motion."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_gd_numpy import rows

import jaxdp

DURATION, CLIP, FINEST, NUM_RUNS = 0.6, 4.0, 2048, 60
# Sigma of the diffusion, the same with and without clipping.
DIFFUSION = 0.32
DATA = rows(3, num_train=20, num_test=2, dim=5, num_features=30)


def _brownian(seed):
    """Increments over the finest steps, (FINEST, runs, features)."""
    shape = FINEST, NUM_RUNS, DATA.train_features.shape[1]
    return np.random.default_rng(seed).standard_normal(shape) * np.sqrt(DURATION / FINEST)


def _slopes(parameters, clip):
    """Cut slopes in NumPy: the largest |slope| phi is C."""
    features, count = DATA.train_features, len(DATA.train_labels)
    limits = clip / np.linalg.norm(features, axis=1)
    slopes = np.clip(2 * (parameters @ features.T - DATA.train_labels), -limits, limits)
    return slopes @ features / count


def _path_end(increments, clip):
    """Theta(tau) of (3.5) by the finest steps."""
    parameters = np.zeros(increments.shape[1:])
    for each in increments:
        parameters = parameters - DURATION / FINEST * _slopes(parameters, clip)
        parameters = parameters + DIFFUSION * each
    return parameters


def _exact_end(increments, _):
    """Theta(tau) of (6.1): decay of each mode, integrated over the Brownian path."""
    features, count = DATA.train_features, len(DATA.train_labels)
    values, basis = np.linalg.eigh(features.T @ features)
    rates = 2 * np.maximum(values, 0) / count
    pull = basis.T @ features.T @ DATA.train_labels * 2 / count
    middles = DURATION * (1 - (np.arange(FINEST) + 0.5) / FINEST)
    decay = np.exp(-rates[None] * middles[:, None])
    mean = pull * DURATION * decay.mean(axis=0)
    noise = np.einsum("sj,srj->rj", decay, increments @ basis)
    return (mean + DIFFUSION * noise) @ basis.T


@jax.jit
def _run(algorithm, noises):
    """DP-GD by jaxdp's own step, driven by given noise, (steps, runs, features)."""
    features, labels = jnp.asarray(DATA.train_features), jnp.asarray(DATA.train_labels)
    lengths = jnp.linalg.norm(features, axis=1)

    def step(parameters, noise):
        slopes = 2 * (parameters @ features.T - labels)
        total = algorithm.clipped_slopes(slopes, lengths)[0] @ features
        return algorithm.move(parameters, None, total, noise, len(labels))[0], None

    return jax.lax.scan(step, jnp.zeros(noises.shape[1:]), noises)[0]


def _errors(increments, end, clip, lengths=(16, 32, 64, 128)):
    """E|theta_T - Theta(tau)| for numbers of steps T that divide the finest."""
    found = []
    with jax.enable_x64():
        for num_steps in lengths:
            noise_scale = DIFFUSION * len(DATA.train_labels) / (2 * clip)
            algorithm = jaxdp.DPGD(np.float64(DURATION / num_steps), clip, num_steps, noise_scale)
            coarse = increments.reshape(num_steps, -1, *increments.shape[1:]).sum(axis=1)
            # Of the law of the noise of Algorithm 1, sqrt(eta) (2 C sigma/n) N(0, I).
            noise_std = float(algorithm.noise_std(len(DATA.train_labels)))
            reached = _run(
                algorithm, jnp.asarray(coarse / np.sqrt(DURATION / num_steps) * noise_std)
            )
            found.append(np.linalg.norm(np.asarray(reached) - end, axis=1).mean())
    return np.asarray(found)


@pytest.mark.slow
@pytest.mark.parametrize(("clip", "solved"), [(CLIP, _path_end), (400.0, _exact_end)])
def test_paths_converge_strongly_with_order_one(clip, solved):
    # Source: PF Proposition B.4, (B.29), (B.30) and (B.31); (3.4) is Euler and Maruyama's scheme.
    increments = _brownian(0)
    end = solved(increments, clip)
    if clip == CLIP:
        # Clipping matters on these paths, at their start from zero and at their end.
        limits = clip / np.linalg.norm(DATA.train_features, axis=1)
        assert np.mean(np.abs(2 * DATA.train_labels) > limits) > 0.5
        slopes = 2 * (end @ DATA.train_features.T - DATA.train_labels)
        assert 0.02 < np.mean(np.abs(slopes) > limits) < 0.98
    errors = _errors(increments, end, clip)
    orders = np.log2(errors[:-1] / errors[1:])
    # Additive noise: one in place of the one half of the general theorem. The reference's own
    # steps are 16 times shorter than the last ones, which adds .1 to the last order at most.
    assert np.all(orders > 0.85)
    assert np.all(orders < 1.2)
    # A path of other noise is no nearer with shorter steps.
    apart = _errors(_brownian(1), end, clip)
    assert apart[-1] > 0.8 * apart[0]
    assert errors[-1] < 0.05 * apart[-1]
    # Nor is one whose noise is off by a third.
    scaled = _errors(increments * 4 / 3, end, clip)
    assert scaled[-1] > 10 * errors[-1]
