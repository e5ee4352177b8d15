"""Correlated noise over one pass: its box in NumPy, its law, its cost, what it refuses."""

import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close
from worst_case import OneRecord

import jaxdp
from jaxdp.privacy import independent_strategy, square_root_strategy

RATES = np.array([2.0, 0.0, 1.5, 0.5])
COUNT, DIM, BATCH = 4, 3, 5
# Columns of other norms than 1 too: the first is shorter.
STRATEGY = square_root_strategy(COUNT, 0.1) * np.array([0.8, 1.0, 1.0, 1.0])


def _algorithm(**changes):
    given = {"rates": RATES, "clip_scale": 0.5, "rho": 1.5, "batch_size": BATCH}
    return jaxdp.CorrelatedDPSGD(**given | {"strategy": STRATEGY} | changes)


def test_the_steps_are_those_of_the_box():
    random = np.random.default_rng(0)
    gradients = random.normal(size=(COUNT, BATCH, DIM))
    normals = random.normal(size=(COUNT, DIM))
    # The box, in NumPy.
    clip_norm = 0.5 * math.sqrt(DIM)
    noise = np.linalg.inv(STRATEGY) @ normals
    norms = np.linalg.norm(gradients, axis=2, keepdims=True)
    means = (gradients * np.minimum(1, clip_norm / norms)).mean(axis=1)
    expected = -np.cumsum(RATES[:, None] * (means + 2 * clip_norm / (BATCH * 1.5) * noise), axis=0)
    algorithm, theta = _algorithm(), jnp.zeros(DIM)
    state = algorithm.init(theta)
    for k in range(COUNT):
        fresh = algorithm.noise_std(k + 1, DIM) * jnp.asarray(normals[k], jnp.float32)
        rate = algorithm.step_size(k + 1)
        drawn = jnp.asarray(gradients[k], jnp.float32)
        # Of any smoothness: no step is capped.
        update = algorithm.step(theta, state, drawn, 1e9 * jnp.ones(BATCH), rate, fresh)
        theta, state = update.parameters, update.state
        np.testing.assert_allclose(theta, expected[k], rtol=2e-5, atol=2e-6)
        assert not update.capped.any()
        assert update.clipped.any()


def _covariance(algorithm):
    """Of the iterates in one dimension where no gradient moves them."""
    scale = 2 * float(algorithm.clip_scale) / (algorithm.batch_size * float(algorithm.rho))
    left = np.tril(np.ones((COUNT, COUNT))) @ np.diag(RATES) @ np.linalg.inv(STRATEGY)
    return scale**2 * left @ left.T


@pytest.mark.parametrize(
    "records", [3, *(pytest.param(count, marks=pytest.mark.slow) for count in (4, 9))]
)
def test_the_simulated_iterates_have_the_covariance_of_the_strategy(records):
    # A record that pushes nowhere: the iterates are the noise, and their risk is their value. 3
    # records leave steps that are padding, and 9 repeat some.
    algorithm, problem = _algorithm(), OneRecord(jnp.zeros(()))
    how = {"key": jr.key(0), "num_runs": 20_000, "records": records, "keep_parameters": True}
    runs = jaxdp.simulate(problem, algorithm, **how)
    values = np.asarray(runs.risk, np.float64)
    steps = np.arange(records + 1) * COUNT // records
    covariance = np.pad(_covariance(algorithm), ((1, 0), (1, 0)))[np.ix_(steps, steps)]
    products = values[:, :, None] * values[:, None]
    assert_mean_close(products, covariance, bias=1e-9)
    for wrong in (0.9, 1.1):
        with pytest.raises(AssertionError):
            assert_mean_close(products, wrong**2 * covariance, bias=1e-9)
    # The last record has its noise, and is what is released.
    np.testing.assert_array_equal(runs.risk[:, -1], runs.final_risk)
    np.testing.assert_array_equal(runs.risk[:, -1], runs.parameters[:, 0])
    np.testing.assert_allclose(runs.time, steps / COUNT)
    assert not runs.observables["capped_fraction"].any()


def _score(algorithm, sign, key, strategy, column):
    """What tells best in which direction the first record of one step pushes."""
    clip_norm = algorithm.clip.norm(1)

    def others(theta, count):
        return jnp.where(theta > 0, 1.0, -1.0) * count * clip_norm / BATCH

    def step(carry, index):
        theta, state = carry
        adaptive = jnp.where(theta > 0, 1e3, -1e3) * jnp.ones((BATCH, 1))
        is_it = (index == column) & (jnp.arange(BATCH) == 0)
        gradients = jnp.where(is_it[:, None], 1e3 * sign, adaptive)
        noise = algorithm.noise_std(index + 1, 1) * jr.normal(jr.fold_in(key, index), (1,))
        rate = algorithm.step_size(index + 1)
        update = algorithm.step(theta, state, gradients, jnp.ones(BATCH), rate, noise)
        released = (theta - update.parameters) / rate
        known = others(theta, BATCH - (index == column))
        return (update.parameters, update.state), (released - known)[0]

    theta = jnp.zeros(1)
    _, left = jax.lax.scan(step, (theta, algorithm.init(theta)), jnp.arange(COUNT))
    return jnp.asarray(strategy[:, column]) @ (jnp.asarray(strategy) @ left)


ALL_MOVE = np.array([2.0, 1.0, 1.5, 0.5])


@pytest.mark.parametrize("column", [0, 1])
def test_neighbours_are_told_apart_by_rho_times_the_column(column):
    algorithm, keys = _algorithm(rates=ALL_MOVE), jr.split(jr.key(3), 20_000)
    scores = (
        jax.vmap(lambda key, sign=sign: _score(algorithm, sign, key, STRATEGY, column))(keys)
        for sign in (1.0, -1.0)
    )
    plus, minus = (np.asarray(score, np.float64) for score in scores)
    claim = 1.5 * np.linalg.norm(STRATEGY[:, column])
    assert claim == pytest.approx((1.2, 1.5)[column])
    standard = ((plus - plus.mean()) / (plus - minus).mean()) ** 2
    assert_mean_close(standard, claim**-2, rejects=[(0.93 * claim) ** -2, (claim / 1.5) ** -2])


def test_costs_rho_whatever_the_rates_and_the_strategy():
    for strategy in (STRATEGY, independent_strategy(COUNT)):
        cost = jaxdp.account(_algorithm(strategy=strategy), delta=1e-5)
        assert cost.mu == 1.5
        assert cost.adjacency == "replace-one"
        assert not cost.is_certified
        assert "all iterates" in cost.assumptions[0]
    assert jaxdp.account(_algorithm(rho=np.inf), delta=1e-5).epsilon == np.inf


def test_a_calibrated_pass_keeps_its_budget():
    given = {"rates": RATES, "clip_scale": 0.5, "batch_size": BATCH, "strategy": STRATEGY}

    def found(epsilon):
        algorithm = jaxdp.CorrelatedDPSGD.calibrated(epsilon, 1e-5, **given)
        return jaxdp.account(algorithm, delta=1e-5).epsilon

    assert 0.9999 < found(1.0) <= 1
    assert 0.99 < jax.jit(found)(jnp.asarray(1.0)) <= 1
