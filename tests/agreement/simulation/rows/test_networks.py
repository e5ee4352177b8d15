"""Runs of networks: those of `train`, and the linear one beside the true one."""

import functools

import jax
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree
from small_networks import descent, network, only

import jaxdp
from jaxdp.algorithms import train

LINEAR = jaxdp.simulation.LinearisedNetwork()


def _simulated(problem, algorithm, **how):
    how = {"key": jax.random.key(3), "num_runs": 3, "records": 2} | how
    return jaxdp.simulate(problem, algorithm, **how)


ALGORITHM = descent(0.3, num_steps=6)


@functools.cache
def _trained():
    return _simulated(network(), ALGORITHM, keep_parameters=True)


@pytest.mark.slow
def test_a_run_is_that_of_train():
    problem, algorithm, runs = network(), ALGORITHM, _trained()

    def loss(weights, row, label):
        return problem.loss.value(problem.prediction(weights, row), label)

    key = jax.random.fold_in(jax.random.key(3), 1)
    rows = problem.inputs, problem.labels
    trained = train(algorithm, loss, problem.weights, *rows, key=key, microbatch_size=64).model
    expected, start = ravel_pytree(trained)[0], ravel_pytree(problem.weights)[0]
    np.testing.assert_allclose(runs.parameters[1], expected, rtol=1e-4, atol=1e-6)
    moved = np.linalg.norm(expected - start) / np.linalg.norm(start)
    np.testing.assert_allclose(runs.observables["movement"][1, -1], moved, rtol=1e-4)
    assert not np.allclose(runs.parameters[0], expected, rtol=1e-2)


@pytest.mark.slow
def test_a_head_is_its_own_linearisation_run_by_run_and_a_body_is_not():
    whole = network()
    head = only(whole, lambda model: [model.layers[-1].weight, model.layers[-1].bias])
    true, linear = (_simulated(head, ALGORITHM, simulator=it) for it in (None, LINEAR))
    np.testing.assert_allclose(true.risk, linear.risk, rtol=1e-5)
    bodies, other = _trained(), _simulated(whole, ALGORITHM, simulator=LINEAR)
    np.testing.assert_allclose(true.risk[0, 0], bodies.risk[0, 0], rtol=1e-6)
    assert np.all(np.abs(other.final_risk / bodies.final_risk - 1) > 1e-3)


def test_what_no_network_is_trained_by_is_refused():
    reason = LINEAR.why_not(network(), jaxdp.DPGD(0.1, 1.0, 5, 0.1))
    assert "trained by a PrivateOptimiser" in reason
    assert "it needs a network" in LINEAR.why_not(
        jaxdp.LinearRegression.isotropic(5, label_noise=0.3), descent(0.1)
    )
    secret = descent(0.1).replace(noise=jaxdp.privacy.SecretNoise())
    with pytest.raises(jaxdp.NotCoveredError, match="NetworkTraining"):
        _simulated(network(), secret)
    assert LINEAR.why_not(network(), descent(0.1, optimiser=optax.adam)) is None
