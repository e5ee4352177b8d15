"""Overlap and remainder at finitely many steps: batches, and the limit of many."""

import jax
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close
from linear_signal import LinearSignal

import jaxdp

DIM = 100
PROBLEM = jaxdp.LogisticRegression(DIM, signal=2.0)


def _algorithm(peak=1.6, num_steps=30, batch_size=100):
    schedule = jaxdp.Polynomial(peak, 0.5)
    return jaxdp.OnePassDPSGD(schedule, 0.3, 1.0, num_steps, batch_size=batch_size)


@pytest.mark.long_runs
@pytest.mark.slow
def test_large_batches_agree_with_simulation():
    # Steps of at most 1.6/30 are below the cap 8/|x|^2 but for one sample in a hundred: capped ones
    # are of 8/|x|^2, whose mean is 2 % above 8/d at d = 100.
    runs = jaxdp.simulate(PROBLEM, _algorithm(), key=jr.key(0), num_runs=500, records=10)

    def assert_agrees(predicted):
        assert_mean_close(runs.risk[:, 1:], predicted.risk[1:], bias=3e-4)
        assert_mean_close(runs.final_risk, predicted.final_risk, bias=3e-4)

    predicted = jaxdp.predict(PROBLEM, _algorithm(), records=10)
    assert predicted.label == "recursion"
    assert_agrees(predicted)
    # The same check sees the differential equation, which is for batches small against d.
    limit = jaxdp.predict(PROBLEM, _algorithm(), theory=jaxdp.CoupledODE(), records=10)
    with pytest.raises(AssertionError):
        assert_agrees(limit)


@pytest.mark.slow
def test_many_small_steps_tend_to_the_differential_equation():
    gaps = []
    for num_steps in (250, 1000):
        problem = PROBLEM.replace(dim=num_steps // 10)
        algorithm = _algorithm(8.0, num_steps, 1)
        discrete = jaxdp.predict(problem, algorithm, theory=jaxdp.DiscreteRecursion())
        continuous = jaxdp.predict(problem, algorithm)
        gaps.append(float(np.abs(discrete.risk - continuous.risk).max()))
    # First order in 1/K.
    assert gaps[1] < gaps[0] / 3


@pytest.mark.slow
def test_the_squared_loss_gives_the_recursion_of_linear_regression():
    with jax.enable_x64():
        # Of the shared gradient's square along the target 1/B is of order 1/d of what it adds.
        algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(0.2, 0.5), 5.0, 1.0, 50, batch_size=500)
        signal = LinearSignal(1000, signal=1.0, label_noise=0.3)
        linear = jaxdp.LinearRegression.isotropic(1000, label_noise=0.3, initial_risk=0.5)
        found, expected = (jaxdp.predict(p, algorithm, records=10) for p in (signal, linear))
        found, expected = np.asarray(found.risk), np.asarray(expected.risk)
    assert expected[0] - expected[-1] > 0.05
    np.testing.assert_allclose(found, expected, atol=1e-6, rtol=0)
