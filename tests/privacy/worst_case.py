"""The pair of neighbours at which one-pass DP-SGD is least private."""

import jax
import jax.numpy as jnp

import jaxdp
from jaxdp.problems import Samples


class OneRecord(jaxdp.problems.AbstractSampleProblem):
    """A stream whose only record of any effect is the first; its sign is what neighbours differ in.

    Later inputs are tiny, so that they are never capped nor contract.
    """

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
