"""Every public function that draws refuses keys of the old kind, seeds and several keys."""

import jax.numpy as jnp
import jax.random as jr
import optax
import pytest

import jaxdp
from jaxdp import kernels, privacy
from jaxdp.algorithms.private_optimiser import training
from jaxdp.attacks.random_features_target import RegeneratedWeights
from jaxdp.problems.rows import random_features

GAUSSIAN = kernels.Gaussian(1.0)
SHUFFLED, POISSON = privacy.ShuffledEpochs(4, 2), privacy.PoissonSampler(4, 0.5)
OPTIMISER = jaxdp.PrivateOptimiser(
    optax.sgd(0.1), clip_norm=1.0, noise_multiplier=1.0, num_steps=2, sampler=SHUFFLED
)
BASELINE = training.NonPrivateOptimiser(optax.sgd(0.1), 1)
WEIGHTS = jnp.ones(2)
STATE = OPTIMISER.init(WEIGHTS)
LINEAR = jaxdp.LinearRegression.isotropic(dim=4, label_noise=0.3)
ONE_PASS = jaxdp.OnePassDPSGD(jaxdp.Constant(0.5), clip_scale=1.0, rho=1.0, num_steps=4)


def _loss(model, x, y):
    return jnp.sum(model * x) - y


DATA = jnp.ones((4, 2)), jnp.ones(4)
DRAWS = {
    "simulate": lambda key: jaxdp.simulate(LINEAR, ONE_PASS, key=key),
    "train": lambda key: training.train(OPTIMISER, _loss, WEIGHTS, *DATA, key=key),
    "train baseline": lambda key: training.train(BASELINE, _loss, WEIGHTS, *DATA, key=key),
    "step": lambda key: OPTIMISER.step(_loss, WEIGHTS, STATE, *DATA, key=key),
    "update": lambda key: OPTIMISER.update(WEIGHTS, WEIGHTS, STATE, key=key),
    "noisy_sum": lambda key: OPTIMISER.noisy_sum(WEIGHTS, 0, key=key),
    "release": lambda key: OPTIMISER.release(key=key),
    "baseline step": lambda key: BASELINE.step(
        _loss, WEIGHTS, BASELINE.init(WEIGHTS), *DATA, key=key
    ),
    "ShuffledEpochs": lambda key: SHUFFLED.sample(0, key=key),
    "FixedSizeBatches": lambda key: privacy.FixedSizeBatches(4, 2).sample(0, key=key),
    "PoissonSampler": lambda key: POISSON.sample(0, key=key),
    "audit": lambda key: privacy.audit(
        lambda data, key: data, 0.0, 1.0, num_trials=2, delta=1e-5, key=key
    ),
    "frequencies": lambda key: GAUSSIAN.frequencies(2, 2, key=key),
    "features": lambda key: GAUSSIAN.features(2, 2, key=key),
    "FourierFeatures": lambda key: kernels.FourierFeatures.sample(GAUSSIAN, 2, 2, key=key),
    "CosineFeatures": lambda key: kernels.CosineFeatures.sample(GAUSSIAN, 2, 2, key=key),
    "SamplePaths": lambda key: kernels.SamplePaths.sample(GAUSSIAN, 2, 2, 2, key=key),
    "gaussian_inputs": lambda key: random_features.gaussian_inputs(2, 2, key=key),
    "sphere_inputs": lambda key: random_features.sphere_inputs(2, 2, key=key),
    "RegeneratedWeights": lambda key: RegeneratedWeights(key, 2, 2),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_key_of_another_kind_is_refused_by_name(draw):
    for wrong, came in ((jr.PRNGKey(0), "a key of the old kind, PRNGKey"), (0, "int")):
        with pytest.raises(TypeError, match=f"expected key to be a jax.random.key.*got {came}"):
            draw(wrong)
    with pytest.raises(ValueError, match="expected one key, got an array of keys"):
        draw(jr.split(jr.key(0), 2))
