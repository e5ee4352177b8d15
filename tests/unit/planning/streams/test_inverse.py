"""How many samples, and how much privacy, a risk asks for; and many budgets at once."""

import math

import numpy as np
import pytest
from plan_cells import CELLS

import jaxdp
from jaxdp.planning import best_risks

pytestmark = pytest.mark.long_runs

PROBLEM = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
DELTA = 1000**-1.1


@pytest.mark.slow
def test_the_samples_that_are_required_are_enough_and_one_less_is_not():
    count = jaxdp.required_samples(PROBLEM, 0.05, rho=1.0)
    assert count == 1068
    risks = best_risks(PROBLEM, num_samples=[count - 1, count], rho=1.0)
    assert risks[1] <= 0.05 < risks[0]


def test_the_epsilon_that_is_required_gives_the_risk_back():
    target = 0.03
    epsilon = jaxdp.required_epsilon(PROBLEM, target, num_samples=1000, delta=DELTA)
    rho = jaxdp.privacy.gaussian_mu(epsilon, DELTA)
    np.testing.assert_allclose(best_risks(PROBLEM, num_samples=1000, rho=rho), target, rtol=1e-5)
    count = jaxdp.required_samples(PROBLEM, target, epsilon=epsilon, delta=DELTA)
    assert abs(count - 1000) <= 1


@pytest.mark.slow
def test_below_the_floor_no_epsilon_is_enough_and_just_above_it_one_is():
    floor = 0.007619275682
    ask = {"num_samples": 1000, "delta": DELTA}
    assert math.isinf(jaxdp.required_epsilon(PROBLEM, floor * (1 - 1e-6), **ask))
    assert math.isfinite(jaxdp.required_epsilon(PROBLEM, floor * 1.001, **ask))


@pytest.mark.slow
def test_best_risks_of_a_grid_fall_with_samples_and_with_rho():
    risks = best_risks(PROBLEM, num_samples=[[300], [1000], [3000]], rho=[0.3, 1.0, 3.0, np.inf])
    assert risks.shape == (3, 4)
    assert np.all(np.diff(risks, axis=0) < 0)
    assert np.all(np.diff(risks, axis=1) < 0)
    np.testing.assert_allclose(risks[1, 1], CELLS[1].optimal, rtol=1e-4)
    np.testing.assert_allclose(risks[1, 3], 0.0076192757, rtol=1e-6)
