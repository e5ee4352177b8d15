"""From budgets to noise: the account of a calibrated mechanism is the budget, never more."""

import math

import jax
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxdp
from jaxdp.privacy import (
    FixedSizeBatches,
    GaussianMechanism,
    PoissonSampler,
    SecretNoise,
    ShuffledEpochs,
    calibrated_noise_multiplier,
    gaussian_noise_std,
    zcdp_noise_std,
)
from jaxdp.privacy.batches.poisson import PoissonSubsampledGaussian
from jaxdp.privacy.mechanisms import ZeroConcentrated

_ADDED = "add-or-remove-one"
budgets = given(
    epsilon=st.floats(-3, 1.6).map(lambda power: 10**power),
    delta=st.floats(-12, -1).map(lambda power: 10**power),
    sensitivity=st.floats(-3, 3).map(lambda power: 10**power),
    num_releases=st.integers(1, 10**6),
)


@settings(max_examples=60)
@budgets
def test_gaussian_noise_keeps_the_budget_and_wastes_nothing(
    epsilon, delta, sensitivity, num_releases
):
    std = gaussian_noise_std(epsilon, delta, sensitivity=sensitivity, num_releases=num_releases)

    def spent(std):
        mu = sensitivity / std * math.sqrt(num_releases)
        return GaussianMechanism(mu).epsilon(delta, _ADDED)

    assert spent(std) <= epsilon < spent(std * (1 - 1e-6))


@settings(max_examples=40)
@budgets
def test_zcdp_noise_keeps_the_budget_and_wastes_nothing(epsilon, delta, sensitivity, num_releases):
    std = zcdp_noise_std(epsilon, delta, sensitivity=sensitivity, num_releases=num_releases)

    def spent(std):
        zcdp = (sensitivity / std) ** 2 / 2 * num_releases
        return ZeroConcentrated(zcdp).epsilon(delta, _ADDED)

    assert spent(std) <= epsilon < spent(std * (1 - 1e-6))
    exact = gaussian_noise_std(epsilon, delta, sensitivity=sensitivity, num_releases=num_releases)
    assert exact <= std


@pytest.mark.parametrize("calibrate", [gaussian_noise_std, zcdp_noise_std])
def test_traced_noise_is_not_less_than_concrete_noise(calibrate):
    epsilons = np.geomspace(1e-3, 30, 50).astype(np.float32)
    traced = jax.jit(lambda e, s: calibrate(e, np.float32(1e-5), sensitivity=s, num_releases=7))
    found = np.asarray(traced(epsilons, 2.0), np.float64)
    expected = calibrate(epsilons, np.float32(1e-5), sensitivity=2.0, num_releases=7)
    assert np.all(found >= expected)
    assert np.all(found <= expected * (1 + 4e-5))


def test_a_concrete_float32_sensitivity_is_not_rounded_down():
    for sensitivity in np.float32([0.1, 0.3, 0.7]):
        found = gaussian_noise_std(
            1.0, 1e-5, sensitivity=jax.numpy.asarray(sensitivity), num_releases=3
        )
        exact = gaussian_noise_std(1.0, 1e-5, sensitivity=float(sensitivity), num_releases=3)
        assert found == exact


def test_limits():
    assert gaussian_noise_std(math.inf, 1e-5, sensitivity=1.0) == 0
    assert gaussian_noise_std(1.0, 1e-5, sensitivity=0.0) == 0
    assert zcdp_noise_std(math.inf, 1e-5, sensitivity=1.0) == 0
    assert 0 < gaussian_noise_std(0.0, 1e-5, sensitivity=1.0) < math.inf


def test_batches_that_hardly_fit_get_the_noise_that_is_left():
    """Most of delta goes to batches that do not fit."""
    sampler = PoissonSampler(50, 0.9, capacity=49)
    delta = 1.001 * sampler.overflow_probability
    with pytest.warns(UserWarning, match="is at least 1/n"):
        found = calibrated_noise_multiplier(1.0, delta, sampler=sampler, num_steps=1)
    assert found > 2 * gaussian_noise_std(1.0, delta, sensitivity=1.0)
    spent = PoissonSubsampledGaussian(sampler, found, 1).epsilon(delta, _ADDED)
    assert 0.99 < spent <= 1


@pytest.mark.parametrize(
    ("sampler", "num_steps"),
    [
        (PoissonSampler(20_000, 0.01), 30),
        (PoissonSampler(200, 0.5), 3),
        (PoissonSampler(200, 1.0), 7),
        (ShuffledEpochs(200, 10), 50),
        (FixedSizeBatches(200, 10), 50),
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.01, 1e-5), (1.0, 1e-12), (8.0, 1e-6), (60.0, 1e-5), (1e3, 1e-8)]
)
def test_every_budget_that_is_calibrated_is_stated_of_either_noise(
    sampler, num_steps, epsilon, delta
):
    settings = {"clip_norm": 1.0, "num_steps": num_steps, "sampler": sampler}
    simulated = jaxdp.PrivateOptimiser.calibrated(optax.sgd(0.1), epsilon, delta, **settings)
    cost = jaxdp.account(simulated, delta=delta)
    assert epsilon * (1 - 1e-3) <= cost.epsilon <= epsilon
    assert not cost.is_certified
    certified = jaxdp.account(simulated.replace(noise=SecretNoise()), delta=delta)
    assert (certified.epsilon, certified.is_certified) == (cost.epsilon, True)


@pytest.mark.slow
def test_tiny_budgets_of_many_steps_are_amplified():
    """sqrt(T) q / s is about mu, a Gaussian's."""
    sampler, num_steps = PoissonSampler(2000, 0.01), 10_000
    found = calibrated_noise_multiplier(0.01, 1e-8, sampler=sampler, num_steps=num_steps)
    about = gaussian_noise_std(0.01, 1e-8, sensitivity=0.01, num_releases=num_steps)
    assert found == pytest.approx(about, rel=0.02)
