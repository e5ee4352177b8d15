"""The law of inputs of random scale, and what is refused as one."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from helpers import assert_mean_close

import jaxdp

SCALES = jaxdp.InputScales(np.array([3.0, 0.2, 1.0]) / 1.08, [0.2, 0.4, 0.4])
PROBLEM = jaxdp.LinearRegression([1.6, 0.4], [1.0, -2.0], 0.5, input_scales=SCALES)


@jax.jit
def _samples(problem):
    return jax.vmap(lambda index: problem.draw(None, jr.key(0), index))(jnp.arange(40_000))


@jax.jit
def _drawn(scales):
    return jax.vmap(scales.draw)(jr.split(jr.key(1), 20_000))


def test_samples_have_the_described_law():
    samples = _samples(PROBLEM)
    inputs, noise = samples.inputs, samples.labels - samples.inputs @ PROBLEM.target
    square = np.asarray(inputs**2 / PROBLEM.spectrum)
    # E s = 1, and E s^2 = (.4 * .04 + .4 + .2 * 9)/1.08^2 multiplies the Gaussian's moments.
    assert_mean_close(square, [1, 1])
    assert_mean_close(square[:, 0] * square[:, 1], 2.216 / 1.08**2, rejects=[1])
    assert_mean_close(noise**2, 0.25)
    assert_mean_close(noise**2 * square[:, 0], 0.25)
    assert_mean_close(noise[:, None] * inputs, [0, 0])


def test_directions_and_label_noise_are_those_of_gaussian_inputs():
    scaled, plain = (_samples(p) for p in (PROBLEM, PROBLEM.replace(input_scales=None)))
    ratio = np.asarray(scaled.inputs / plain.inputs) ** 2
    np.testing.assert_allclose(ratio[:, 0], ratio[:, 1], rtol=1e-5)
    distance = np.abs(ratio[:, :1] / np.asarray(SCALES.values)[None] - 1)
    np.testing.assert_allclose(distance.min(axis=1), 0, atol=1e-5)
    noises = (s.labels - s.inputs @ PROBLEM.target for s in (scaled, plain))
    np.testing.assert_allclose(*noises, atol=1e-5)


def test_traced_scales_out_of_range_are_void():
    def is_valid(values, weights):
        problem = PROBLEM.replace(input_scales=jaxdp.InputScales(values, weights))
        return problem.is_valid

    values = jnp.asarray([[0.5, 1.5], [-0.5, 2.5], [1.0, 2.0]])
    found = jax.vmap(is_valid, in_axes=(0, None))(values, jnp.asarray([0.5, 0.5]))
    assert found.tolist() == [True, False, False]
