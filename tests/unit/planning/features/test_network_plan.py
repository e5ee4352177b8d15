"""Plans of private training of networks, which search in the modes of kernels along a mean path."""

import jax
import numpy as np
import optax
import pytest
from small_networks import network

import jaxdp

SLOW = pytest.mark.slow


@SLOW
def test_a_plan_of_a_network_is_better_than_its_neighbours_in_simulation():
    problem = network(3)
    steps = {"num_steps": 20, "sampling_rate": 0.2}
    plan = jaxdp.plan(problem, epsilon=4.0, delta=1e-5, **steps)
    cost = jaxdp.account(plan.algorithm, delta=1e-5)
    assert 3.9 < cost.epsilon <= 4.0

    def loss(algorithm):
        runs = jaxdp.simulate(problem, algorithm, key=jax.random.key(2), num_runs=40, records=1)
        return float(np.mean(runs.final_risk))

    rate, planned = plan.chosen.learning_rate, loss(plan.algorithm)
    # The standard error of 40 runs is 0.005 of the loss.
    np.testing.assert_allclose(plan.predicted.final_risk, planned, rtol=0.03 + 3 * 0.005)
    for factor in (0.1, 10.0):
        assert loss(plan.algorithm.replace(learning_rate=factor * rate)) > 1.1 * planned


def test_a_plan_of_a_network_asks_for_a_linear_optimiser():
    with pytest.raises(jaxdp.NotCoveredError, match="a plan asks MeanPath"):
        jaxdp.plan(network(), epsilon=4.0, delta=1e-5, optimiser=optax.adam)
