"""The linearised attack against differences, against training in NumPy, and against the attack."""

import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from attack_problems import relu_problem, sphere_rows
from dp_gd_numpy import clipped_descent
from helpers import assert_mean_close, released_parameters

import jaxdp
from jaxdp.attacks import LevenbergMarquardt, RandomFeaturesTarget, row_errors
from jaxdp.theory import last_iterate_reconstruction_errors, local_reconstruction_errors
from jaxdp.theory.reconstruction.local import training_coefficients

RELU = jax.nn.relu
COUNT, DIM, FEATURES = 3, 5, 300


def _case(seed=0, num_features=FEATURES):
    rng = np.random.default_rng(seed)
    inputs = sphere_rows(rng, COUNT, DIM)
    return inputs, rng.standard_normal((num_features, DIM)) / np.sqrt(DIM)


LABELS = np.array([1.0, -1.0, 1.0])


@pytest.mark.parametrize("num_known", [0, 2])
def test_errors_are_those_of_the_differenced_fit(num_known):
    inputs, weights = _case()
    scales, std = np.array([0.5, -2.0, 1.0]), 0.01
    columns = list(np.tanh(inputs @ weights.T))
    for row in range(num_known, COUNT):
        for direction in np.linalg.svd(inputs[row][None])[2][1:]:
            step = 1e-5 * direction
            ahead, behind = (np.tanh(weights @ (inputs[row] + s * step)) for s in (1, -1))
            columns.append(scales[row] * (ahead - behind) / 2e-5)
    inverse = np.linalg.pinv(np.array(columns).T)[COUNT:]
    spread = (inverse**2).sum(1).reshape(COUNT - num_known, DIM - 1).sum(1)
    found = local_reconstruction_errors(inputs, weights, jnp.tanh, scales, std, num_known=num_known)
    np.testing.assert_allclose(found, std * np.sqrt(spread / DIM), rtol=1e-5)


def test_coefficients_are_those_of_noiseless_training():
    inputs, weights = _case()
    problem, clip = relu_problem(inputs, LABELS, weights), 8.0
    for num_steps in (1, 60):
        algorithm = jaxdp.DPGD(1e-3, clip, num_steps, 0.3)
        features = np.maximum(inputs @ weights.T, 0)
        how = {"rate": 1e-3, "clip": clip, "num_steps": num_steps}
        theta = clipped_descent(features, LABELS, **how)[-1]
        coefficients = np.asarray(training_coefficients(problem, algorithm))
        np.testing.assert_allclose(coefficients @ features, theta, atol=1e-5 * abs(theta).max())


def test_at_one_budget_more_steps_leak_less_once_rows_are_no_longer_clipped():
    inputs, weights = _case()
    problem, rate, mu = relu_problem(inputs, LABELS, weights), 1e-3, 20.0

    def errors(num_steps):
        algorithm = jaxdp.DPGD(rate, 4.0, num_steps, math.sqrt(rate * num_steps) / mu)
        return last_iterate_reconstruction_errors(problem, algorithm)

    np.testing.assert_allclose(errors(4), errors(1), rtol=1e-5)
    settled = errors(20_000)
    assert np.all(settled > 3 * errors(1))
    np.testing.assert_allclose(errors(40_000), 2 * settled, rtol=0.02)


def test_too_narrow_a_model_tells_nothing_apart():
    inputs, weights = _case(num_features=COUNT * DIM)
    found = local_reconstruction_errors(inputs, weights, RELU, np.ones(COUNT), 0.1)
    np.testing.assert_array_equal(found, np.inf)
    known = local_reconstruction_errors(inputs, weights, RELU, np.ones(COUNT), 0.1, num_known=2)
    assert known.shape == (1,)
    assert np.isfinite(known).all()


@pytest.mark.slow
@pytest.mark.parametrize("num_steps", [1, 400])
def test_attack_on_the_last_iterate_has_the_predicted_error(num_steps):
    inputs, weights = _case(num_features=600)
    problem, rate = relu_problem(inputs, LABELS, weights), 1e-3
    # A budget at which errors are a few per cent, so that the problem is linear.
    algorithm = jaxdp.DPGD(rate, 5.0, num_steps, math.sqrt(rate * num_steps) / 500)
    expected = last_iterate_reconstruction_errors(problem, algorithm)
    louder = algorithm.noise_scale * 0.03 / float(expected.mean())
    algorithm = algorithm.replace(noise_scale=louder)
    expected = last_iterate_reconstruction_errors(problem, algorithm)
    samples = []
    for run in released_parameters(problem, algorithm, jr.key(3), num_runs=60):
        attempt = LevenbergMarquardt().minimise(
            RandomFeaturesTarget(weights, RELU, run),
            jnp.asarray(inputs, jnp.float32)[None],
            key=jr.key(0),
            max_passes=200,
            tolerance=1e-12,
        )
        samples.append(np.mean((row_errors(inputs, attempt.inputs[0]) / expected) ** 2))
    assert_mean_close(samples, 1.0, sigmas=3, bias=0.05, rejects=[1.3])
