"""Plans for what is not known: boxes, and the least worst regret."""

import math

import numpy as np
import pytest

import jaxdp
from jaxdp.planning import best_risks

PROBLEM = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
BOX = jaxdp.Box(initial_risk=(0.05, 5.0), label_noise=(0.1, 1.0))


def _worst_regret(algorithm, num_samples, side):
    """The worst ratio to the best risk, over a grid of the box that is as fine as is asked for."""
    ratios = []
    for initial_risk in np.geomspace(*BOX.initial_risk, side):
        for label_noise in np.geomspace(*BOX.label_noise, side):
            one = jaxdp.LinearRegression.isotropic(
                100, label_noise=float(label_noise), initial_risk=float(initial_risk)
            )
            best = best_risks(one, num_samples=num_samples, rho=1.0)
            ratios.append(float(jaxdp.predict(one, algorithm).final_risk) / float(best))
    return max(ratios)


# The worst regret of the plan of least worst risk is 41 and 17 there; of flat-then-hyperbolic
# schedules the least worst regret is 5.15 and 4.93.
@pytest.mark.long_runs
@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_samples", "least", "of_corner"), [(1000, 5.15, 41), (10_000, 4.93, 16.5)]
)
def test_the_worst_regret_is_far_below_that_of_the_plan_of_least_worst_risk(
    num_samples, least, of_corner
):
    plan = jaxdp.plan(PROBLEM, num_samples=num_samples, rho=1.0, uncertainty=BOX)
    assert plan.status == jaxdp.Status.OK
    assert plan.regret is not None
    assert 1 < plan.regret < least
    assert f"at most {plan.regret:.3g} times" in str(plan)
    corner = jaxdp.LinearRegression.isotropic(100, label_noise=1.0, initial_risk=5.0)
    worst = jaxdp.plan(corner, num_samples=num_samples, rho=1.0).algorithm
    assert _worst_regret(worst, num_samples, 3) > of_corner * 0.97
    np.testing.assert_allclose(
        _worst_regret(plan.algorithm, num_samples, 3), plan.regret, rtol=1e-3
    )
    # Between the nine places it is no worse.
    assert _worst_regret(plan.algorithm, num_samples, 5) < 1.05 * plan.regret


@pytest.mark.slow
def test_a_box_of_one_place_is_that_place():
    box = jaxdp.Box(initial_risk=(0.5, 0.5), label_noise=(0.3, 0.3))
    plan = jaxdp.plan(PROBLEM, num_samples=1000, rho=1.0, uncertainty=box)
    assert plan.regret is not None
    np.testing.assert_allclose(plan.regret, 1, atol=1e-3)
    np.testing.assert_allclose(plan.final_risk, 0.0564845, rtol=1e-3)


def test_a_box_has_nine_places_and_fewer_where_a_side_is_known():
    assert len(BOX.places()) == 9
    assert (5.0, 0.1) in BOX.places()
    assert len(jaxdp.Box((0.5, 0.5), (0.0, 1.0)).places()) == 3


@pytest.mark.parametrize(
    ("initial_risk", "label_noise", "error", "words"),
    [
        ((5.0, 0.05), (0.1, 1.0), ValueError, "initial_risk with low <= high"),
        ((0.1, 1.0), (1.0, 0.1), ValueError, "label_noise with low <= high"),
        ((0.0, 1.0), (0.1, 1.0), ValueError, "initial_risk > 0"),
        ((0.1, 1.0), (-0.1, 1.0), ValueError, "label_noise >= 0"),
        ((0.1, math.inf), (0.1, 1.0), ValueError, "both finite"),
        ((0.1, math.nan), (0.1, 1.0), ValueError, "low <= high"),
        ((0.1, 1.0, 2.0), (0.1, 1.0), ValueError, r"a pair \(low, high\)"),
        (0.1, (0.1, 1.0), ValueError, r"a pair \(low, high\)"),
        ("ab", (0.1, 1.0), TypeError, "real number"),
    ],
)
def test_an_empty_or_impossible_box_is_one_error(initial_risk, label_noise, error, words):
    with pytest.raises(error, match=words):
        jaxdp.Box(initial_risk=initial_risk, label_noise=label_noise)
