"""The worst neighbours of one-pass DP-SGD, steps of any sampler, and how often audits may err."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from helpers import FALSE_ALARM
from scipy.stats import binom

import jaxdp
from jaxdp.problems import Samples


def optimiser(sampler, noise_multiplier=1.0, num_steps=1, **settings):
    """Steps of length one and of clip norm one."""
    given = {"clip_norm": 1.0, "noise_multiplier": noise_multiplier, "num_steps": num_steps}
    return jaxdp.PrivateOptimiser(optax.sgd(1.0), sampler=sampler, **given | settings)


def assert_rare(events, rate):
    """No more events than `rate` allows, but by chance."""
    assert np.sum(events) <= binom.isf(FALSE_ALARM, len(events), rate), f"rate {np.mean(events)}"


class OneRecord(jaxdp.problems.AbstractSampleProblem):
    """A stream whose only record of any effect is the first, of this sign: others are tiny."""

    sign: jax.Array

    dim = 1
    max_samples = None
    is_valid = True

    def prepare(self, key):
        return None

    def draw(self, prepared, key, index):
        first = index == 0
        inputs = jnp.where(first, 0.1, 1e-6)[None]
        return Samples(inputs, jnp.where(first, self.sign * 1e6, 0))

    def gradient(self, parameters, samples):
        return samples.inputs * (samples.inputs @ parameters - samples.labels)[..., None]

    def smoothness(self, samples):
        return jnp.sum(samples.inputs**2, axis=-1)

    def risk(self, prepared, parameters):
        return parameters[0]

    def in_input_coordinates(self, parameters):
        return parameters
