"""Plans of logistic streams, of inputs of random scale and of Huber's loss."""

import dataclasses
import itertools

import helpers
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from every_loss import ShiftedSquare
from plan_cells import CELLS, plan_once

import jaxdp
from jaxdp.core.numerics.precision import on_host
from jaxdp.planning.streams import best_schedule
from jaxdp.planning.streams.families import FreeForm, Parametric, schedule_log_risk
from jaxdp.planning.streams.one_pass_plan import stream_setting_of
from jaxdp.planning.streams.setting import Setting

DIM, COUNT = 300, 3000
SCALES = jaxdp.InputScales(np.array([0.2, 1.0, 3.0]) / 1.08, [0.4, 0.4, 0.2])
PLAIN = jaxdp.LinearRegression.isotropic(DIM, label_noise=0.3)
PROBLEMS = {
    "logistic": jaxdp.LogisticRegression(DIM, signal=2.0),
    "scales": PLAIN.replace(input_scales=SCALES),
    "huber": PLAIN.replace(loss=jaxdp.losses.Huber(width=0.4)),
    "shifted": PLAIN.replace(input_scales=SCALES, loss=ShiftedSquare(0.375)),
}
# Of a hyperbola: peak, knee, and a clip scale; the last begins beyond some caps.
PLACES = {
    "logistic": [(20.0, 3.0, 0.1), (60.0, 10.0, 0.05)],
    "scales": [(6.0, 2.0, 0.2), (15.0, 8.0, 0.3)],
    "huber": [(6.0, 2.0, 0.2), (24.0, 20.0, 1.0)],
    "shifted": [(6.0, 2.0, 0.2), (24.0, 20.0, 1.0)],
}
# Those that are searched for: the shifted loss has Huber's equations.
PLANNED = ("logistic", "scales", "huber")


def _plan(name, schedule=jaxdp.Optimal):
    return plan_once(PROBLEMS[name], COUNT, rho=1.0, schedule=schedule)


@jax.jit
def _log_risk(peak, knee, clip_scale, setting):
    schedule = jaxdp.Hyperbolic(peak, knee)
    clock = Parametric(jaxdp.Hyperbolic).clock(setting)
    return schedule_log_risk(schedule, jnp.log(clip_scale), setting, clock)


@pytest.mark.parametrize("name", helpers.quick_and_slow(PROBLEMS, "logistic"))
def test_the_search_sees_what_the_theory_predicts(name):
    problem = PROBLEMS[name]
    setting = stream_setting_of(problem, COUNT, 1.0)
    for peak, knee, clip_scale in PLACES[name]:
        algorithm = jaxdp.OnePassDPSGD(jaxdp.Hyperbolic(peak, knee), clip_scale, 1.0, COUNT)
        predicted = float(jaxdp.predict(problem, algorithm, records=1).final_risk)
        with on_host():
            seen = float(np.exp(_log_risk(peak, knee, clip_scale, setting)))
            half_the_noise = stream_setting_of(problem, COUNT, 2.0)
            other = float(np.exp(_log_risk(peak, knee, clip_scale, half_the_noise)))
        np.testing.assert_allclose(seen, predicted, rtol=5e-4)
        assert abs(other / predicted - 1) > 0.01


def _as_scaled(setting: Setting) -> Setting:
    one = jax.tree.map(np.asarray, jaxdp.InputScales(np.ones(1), np.ones(1)))
    loss = jaxdp.losses.HalfSquared()
    modes = dataclasses.replace(setting.modes, scales=one, loss=loss)
    return dataclasses.replace(setting, modes=modes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("constant", Parametric(jaxdp.Constant)),
        ("hyperbolic", Parametric(jaxdp.Hyperbolic)),
        # Of all schedules, by theorem.
        ("optimal", FreeForm(32)),
    ],
)
def test_least_squares_by_the_general_equations_is_what_the_special_ones_say(name, family):
    for cell in (CELLS[1], CELLS[3], CELLS[12]):
        found = best_schedule.solve(family, _as_scaled(cell.setting))
        np.testing.assert_allclose(found.risk, getattr(cell, name), rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANNED)
def test_a_plan_is_predicted_and_no_small_change_of_it_is_better(name):
    plan = _plan(name)
    assert plan.status == jaxdp.Status.OK
    again = jaxdp.predict(PROBLEMS[name], plan.algorithm, theory=jaxdp.CoupledODE())
    assert float(again.final_risk) == plan.final_risk
    assert 0 < plan.floor < plan.final_risk
    assert any("not proved best" in sentence for sentence in plan.assumptions)
    # A clip far above all slopes, or far below, changes nothing; nothing lowers the risk.
    rises = [rise for each in plan.sensitivities.values() for rise in each]
    assert min(rises) > -1e-4
    assert max(rises) > 0.3
    knots, values = vars(plan.algorithm.learning_rate).values()
    for clip, rate in itertools.product((0.93, 1.0, 1.07), repeat=2):
        algorithm = plan.algorithm.replace(
            clip_scale=plan.algorithm.clip_scale * clip,
            learning_rate=jaxdp.PiecewiseLinear(knots, values * rate),
        )
        changed = jaxdp.predict(PROBLEMS[name], algorithm, records=1).final_risk
        assert changed > plan.final_risk * (1 - 1e-4), (clip, rate)


@pytest.mark.slow
def test_simulated_logistic_runs_reach_what_is_planned_and_not_with_noise_a_tenth_off():
    problem, plan = PROBLEMS["logistic"], _plan("logistic")
    runs = jaxdp.simulate(
        problem, plan.algorithm, num_runs=400, key=jr.key(0), simulator=jaxdp.Reduced()
    )
    noisier = plan.algorithm.replace(rho=plan.algorithm.rho / 1.1)
    wrong = float(jaxdp.predict(problem, noisier).final_risk)
    # The mean over runs differs by O(1/d).
    tolerance = {"sigmas": 3, "bias": 3 / DIM * plan.final_risk}
    helpers.assert_mean_close(runs.final_risk, plan.final_risk, **tolerance, rejects=[wrong])
