"""The diffusion where labels follow a signal: against its equations, and the linear one."""

import jax.random as jr
import numpy as np
import pytest
from euler_moments import DIM as FEW
from euler_moments import assert_paths_have_eulers_moments
from helpers import assert_mean_close
from linear_signal import LinearSignal

import jaxdp

DIM = 100
SDE = jaxdp.HomogenizedSDE(num_steps=1000)
PROBLEM = jaxdp.LogisticRegression(DIM, signal=2.0)


def _algorithm(rho=1.0, power=0.5, peak=12.0):
    return jaxdp.OnePassDPSGD(jaxdp.Polynomial(peak, power), 0.3, rho, 20 * DIM)


def _paths(problem, algorithm, num_runs=200, **more):
    options = {"records": 10, "simulator": SDE, "key": jr.key(0), **more}
    return jaxdp.simulate(problem, algorithm, num_runs=num_runs, **options)


def test_a_few_steps_have_the_moments_of_eulers_rule():
    # A signal of 1 along the first coordinate, and the squared loss: AC (3) without a spectrum.
    problem = LinearSignal(FEW, signal=1.0, label_noise=0.5)
    assert_paths_have_eulers_moments(problem, np.ones(FEW), np.eye(FEW)[0], 0.5)


@pytest.mark.long_runs
@pytest.mark.slow
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_mean_risk_is_that_of_the_equations(power):
    paths = _paths(PROBLEM, _algorithm(power=power)).check()

    def assert_agrees(algorithm):
        predicted = jaxdp.predict(PROBLEM, algorithm, records=10)
        # Euler's bias is of relative order eta^2 / num_steps, the mean's of order 1/d.
        assert_mean_close(paths.risk[:, 1:], predicted.risk[1:], bias=0.2 / DIM + 1e-3)
        assert_mean_close(paths.final_risk, predicted.final_risk, bias=0.2 / DIM + 1e-3)
        overlap = predicted.observables["overlap"][1:]
        assert_mean_close(paths.observables["overlap"][:, 1:], overlap, bias=2 / DIM)

    assert_agrees(_algorithm(power=power))
    for wrong in (_algorithm(rho=0.75, power=power), _algorithm(peak=16.0, power=power)):
        with pytest.raises(AssertionError):
            assert_agrees(wrong)


@pytest.mark.long_runs
@pytest.mark.slow
def test_the_squared_loss_gives_the_diffusion_of_linear_regression():
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, 0.5), 1.0, 1.0, 1000)
    linear = jaxdp.LinearRegression.isotropic(DIM, label_noise=0.3, initial_risk=0.5)
    # Both are Euler's scheme, and as far from their equations with few steps.
    few = jaxdp.HomogenizedSDE(num_steps=250)
    theirs = _paths(linear, algorithm, 300, simulator=few, key=jr.key(1)).check()

    def assert_agrees(label_noise=0.3, rho=1.0):
        problem = LinearSignal(DIM, signal=1.0, label_noise=label_noise)
        ours = _paths(problem, algorithm.replace(rho=rho), 300, simulator=few).check()
        for pair in (
            (ours.risk, theirs.risk),
            (ours.final_risk[:, None], theirs.final_risk[:, None]),
        ):
            first, second = (np.asarray(risks)[:, -10:] for risks in pair)
            spread = np.sqrt((first.var(0) + second.var(0)) / 300)
            assert np.all(np.abs(first.mean(0) - second.mean(0)) < 6 * spread)
            # Paths of one law: the standard deviations agree too, to their own error.
            np.testing.assert_allclose(first.std(0), second.std(0), rtol=6 / np.sqrt(300))

    assert_agrees()
    for wrong in ({"label_noise": 0.5}, {"rho": 0.8}):
        with pytest.raises(AssertionError):
            assert_agrees(**wrong)
