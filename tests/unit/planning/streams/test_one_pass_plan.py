"""Plans of one-pass DP-SGD: what they cost, what they reach, and what they say."""

import functools
import math

import helpers
import jax.random as jr
import numpy as np
import pytest
from plan_cells import CELLS, plan_once

import jaxdp
from jaxdp.planning.streams import one_pass_plan
from jaxdp.planning.streams.best_schedule import solve
from jaxdp.planning.streams.setting import setting_of

PROBLEM = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
DELTA = 1e-5
UNEQUAL = jaxdp.LinearRegression.power_law(60, condition_number=10, label_noise=0.3)
STEEP = jaxdp.LinearRegression.power_law(200, condition_number=100, label_noise=0.3)


def _plan(problem=PROBLEM, num_samples=1000, **options):
    return plan_once(problem, num_samples, **options or {"rho": 1.0})


@pytest.fixture
def without_floor(monkeypatch):
    """For plans whose floor, a search as long as their own, nothing is asked of."""
    monkeypatch.setattr(one_pass_plan, "floor_of", lambda setting: math.nan)


def test_what_is_predicted_is_what_the_search_saw_and_the_known_best():
    plan = _plan()
    assert plan.status == jaxdp.Status.OK
    assert plan.predicted.label == "ODE"
    np.testing.assert_allclose(plan.final_risk, CELLS[1].optimal, rtol=1e-4)
    again = jaxdp.predict(PROBLEM, plan.algorithm, theory=jaxdp.CoupledODE())
    assert float(again.final_risk) == plan.final_risk
    np.testing.assert_allclose(plan.floor, 0.0076192757, rtol=1e-6)
    assert plan.regret is None


def test_a_plan_says_that_the_prediction_is_not_what_the_search_saw(monkeypatch):
    wrong = CELLS[1].optimal * 1.01
    monkeypatch.setattr(one_pass_plan, "solve", lambda *given: solve(*given)._replace(risk=wrong))
    plan = jaxdp.plan(PROBLEM, num_samples=1000, rho=1.0)
    assert plan.status == jaxdp.Status.UNSTABLE
    assert "status: UNSTABLE" in str(plan)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_a_plan_keeps_the_budget_and_spends_it(epsilon):
    plan = _plan(epsilon=epsilon, delta=DELTA)
    cost = jaxdp.account(plan.algorithm, delta=DELTA)
    assert 0.9999 * epsilon < cost.epsilon <= epsilon
    first = str(plan).splitlines()[0]
    assert first.startswith(f"Plan for 1,000 samples at epsilon {epsilon:g}, delta 1e-05 (rho = ")
    shown = float(first.partition("(rho = ")[2].split()[0])
    assert shown == pytest.approx(float(plan.algorithm.rho), rel=2e-3)
    assert "if the problem was estimated from private rows, no cost covers that" in first


def test_a_larger_budget_and_more_samples_are_better():
    risks = [_plan(rho=rho).final_risk for rho in (0.3, 1.0, 3.0, math.inf)]
    assert risks == sorted(risks, reverse=True)
    assert _plan(num_samples=2000, rho=1.0).final_risk < risks[1]
    # Without noise the plan is not clipped and reaches the floor.
    quiet = _plan(rho=math.inf)
    assert np.isinf(quiet.algorithm.clip_scale)
    assert "no clipping;" in str(quiet)
    assert np.isinf(eval(quiet.line, {"jaxdp": jaxdp}).rho)
    np.testing.assert_allclose(quiet.final_risk, quiet.floor, rtol=1e-4)


def test_too_slow_is_catastrophic_and_too_fast_costs_a_factor_of_two():
    sensitivities = _plan(num_samples=10_000, rho=1.0).sensitivities
    assert list(sensitivities) == ["clip_scale", "learning_rate", "exchange"]
    for name in ("clip_scale", "learning_rate"):
        halved, doubled = sensitivities[name]
        assert halved > 5
        assert 0 < doubled < 1
    # Only the product matters much.
    assert max(_plan().sensitivities["exchange"]) < 0.1


def test_simulated_runs_reach_what_is_planned_and_not_with_noise_a_tenth_off():
    plan = _plan()
    how = {"key": jr.key(0), "simulator": jaxdp.Reduced(), "records": 1}
    runs = jaxdp.simulate(PROBLEM, plan.algorithm, num_runs=1000, **how)
    noisier = plan.algorithm.replace(rho=plan.algorithm.rho / 1.1)
    wrong, planned = jaxdp.predict(PROBLEM, noisier).final_risk, float(plan.predicted.final_risk)
    helpers.assert_mean_close(runs.final_risk, planned, bias=0.02 * planned, rejects=[wrong])


def test_what_is_printed_says_what_is_assumed_and_can_be_pasted():
    plan = _plan()
    assert plan.adjacency == jaxdp.account(plan.algorithm, delta=DELTA).adjacency == "replace-one"
    for words in ("taken as known", "not covered by rho", "replace-one"):
        assert words in str(plan)
    pasted = eval(plan.line, {"jaxdp": jaxdp})
    assert (pasted.num_steps, pasted.rho) == (1000, plan.algorithm.rho)
    # Few knots of few digits are enough to follow the schedule.
    assert len(plan.line) < 300
    rates = (one.learning_rate(np.linspace(0, 1, 300)) for one in (pasted, plan.algorithm))
    np.testing.assert_allclose(*rates, rtol=0.011)


OTHERS = jaxdp.Constant, functools.partial(jaxdp.Polynomial, power=0.5), jaxdp.planning.FreeForm(24)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", [*OTHERS, jaxdp.Optimal])
def test_a_plan_of_a_family_is_predicted_and_can_be_pasted(schedule):
    plan = _plan(rho=1.0, schedule=schedule)
    assert plan.status == jaxdp.Status.OK
    assert plan.final_risk > CELLS[1].optimal * (1 - 1e-4)
    found = jaxdp.predict(PROBLEM, eval(plan.line, {"jaxdp": jaxdp})).final_risk
    np.testing.assert_allclose(found, plan.final_risk, rtol=1e-3)


@pytest.mark.long_runs
# Hyperbolic, and the best of 12 free knots, through 20 modes; computed apart from JAX.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("gamma", "hyperbolic", "free"), [(0.1, 0.069083, 0.063172), (0.01, 0.0014291, 0.0011758)]
)
def test_unequal_eigenvalues_are_planned_through_their_modes(gamma, hyperbolic, free):
    count = round(60 / gamma)
    plan = _plan(UNEQUAL, num_samples=count, rho=1.0, schedule=jaxdp.Hyperbolic)
    np.testing.assert_allclose(plan.final_risk, hyperbolic, rtol=1.5e-3)
    plan = _plan(UNEQUAL, num_samples=count, rho=1.0)
    np.testing.assert_allclose(plan.final_risk, free, rtol=1.5e-3)
    assert plan.status == jaxdp.Status.OK
    assert any("not proved best" in sentence for sentence in plan.assumptions)
    # The plan that takes the eigenvalues for equal ones is worse, and so is none without privacy.
    equal = setting_of(UNEQUAL, count, 1.0).isotropic()
    naive = jaxdp.predict(UNEQUAL, solve(None, equal).algorithm(1.0, count)).final_risk
    assert plan.floor < plan.final_risk < float(naive)


@pytest.mark.long_runs
@pytest.mark.slow
@pytest.mark.usefixtures("without_floor")
def test_at_a_large_condition_number_no_faster_or_slower_rate_is_better():
    """Coarse steps of the search take fast schedules for unstable, and end at .00283."""
    plan = jaxdp.plan(STEEP, num_samples=20_000, rho=1.0)
    assert plan.status == jaxdp.Status.OK
    assert plan.final_risk < 0.00180
    assert all(rise > 0 for each in plan.sensitivities.values() for rise in each)


@pytest.mark.slow
def test_a_risk_that_the_search_does_not_resolve_is_a_status():
    without = jaxdp.LinearRegression.isotropic(100, label_noise=0.0)
    plan = jaxdp.plan(without, num_samples=100_000, rho=1.0)
    assert plan.status == jaxdp.Status.UNSTABLE
    # At the risks that are resolved there is nothing to say.
    assert jaxdp.plan(without, num_samples=3000, rho=1.0).status == jaxdp.Status.OK
    little = jaxdp.LinearRegression.isotropic(100, label_noise=0.03)
    assert jaxdp.plan(little, num_samples=100_000, rho=1.0).status == jaxdp.Status.OK
