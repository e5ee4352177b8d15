"""Squared distance and other quadratics of the iterate, predicted and simulated alike."""

import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close

import jaxdp

DIM = 40
SPECTRUM = np.repeat([1.6, 0.4], DIM // 2)
# Uneven within each block of equal eigenvalues: blocks alone would not tell directions apart.
TARGET = np.where(np.arange(DIM) % (DIM // 4) == 0, 0.5, 0.05)
PROBLEM = jaxdp.LinearRegression(SPECTRUM, TARGET, 0.3)
ALGORITHM = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, 0.5), 1.0, 1.0, 10 * DIM)
FIRST = np.eye(DIM)[0]
QUADRATICS = {"first": FIRST, "risk again": SPECTRUM / 2}


@pytest.fixture(scope="module")
def predicted():
    theory = jaxdp.CoupledODE(quadratics=QUADRATICS)
    return jaxdp.predict(PROBLEM, ALGORITHM, theory=theory).check()


# Source: AC Theorem 14.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("simulator", "num_runs"), [(jaxdp.Reduced(), 2000), (jaxdp.Iterates(), 500)]
)
def test_simulators_observe_the_predicted_distance(predicted, simulator, num_runs):
    expected = predicted.observables["distance"]
    np.testing.assert_allclose(expected[0], np.sum(TARGET**2), rtol=1e-6)
    runs = jaxdp.simulate(PROBLEM, ALGORITHM, key=jr.key(0), num_runs=num_runs, simulator=simulator)
    distance = runs.observables["distance"]
    # O(1/d) of the mean, as of the risk.
    assert_mean_close(distance[:, 1:], expected[1:], bias=0.5 / DIM, rejects=[1.1 * expected[1:]])


@pytest.mark.long_runs
@pytest.mark.slow
def test_quadratics_are_sums_over_directions(predicted):
    observed = predicted.observables
    np.testing.assert_allclose(observed["first"][0], TARGET[0] ** 2, rtol=1e-6)
    np.testing.assert_allclose(observed["risk again"], predicted.risk, rtol=1e-5)
    # Of a low rate, which remembers where each direction started; it ends at zero, so that the
    # released iterate is the last recorded.
    algorithm = ALGORITHM.replace(learning_rate=jaxdp.Polynomial(0.5, 0.5))
    theory = jaxdp.CoupledODE(quadratics=QUADRATICS)
    expected = jaxdp.predict(PROBLEM, algorithm, theory=theory).observables["first"][-1]
    runs = jaxdp.simulate(
        PROBLEM, algorithm, key=jr.key(1), num_runs=2000, keep_parameters=True, records=1
    )
    first = (np.asarray(runs.parameters)[:, 0] - TARGET[0]) ** 2
    # The mean over the direction's block is another number.
    block = np.sum(TARGET[: DIM // 2] ** 2) / (DIM // 2) / TARGET[0] ** 2
    rejects = [1.1 * expected, block * expected]
    assert_mean_close(first, expected, bias=0.002, rejects=rejects)


@pytest.mark.slow
def test_every_theory_of_modes_observes_the_same_distance(predicted):
    for theory in (jaxdp.CoupledODE(), jaxdp.Fluctuations()):
        other = jaxdp.predict(PROBLEM, ALGORITHM, theory=theory)
        np.testing.assert_allclose(other.risk, predicted.risk, rtol=2e-5)
        distance = other.observables["distance"]
        np.testing.assert_allclose(distance, predicted.observables["distance"], rtol=2e-5)
    steps = jaxdp.predict(PROBLEM, ALGORITHM, theory=jaxdp.DiscreteRecursion())
    distance = steps.observables["distance"]
    np.testing.assert_allclose(distance, predicted.observables["distance"], atol=0.01)
