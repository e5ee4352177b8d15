"""Theory and simulation, which share no code, agree; and the same test sees what would be wrong."""

import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close, assert_runs_close

import jaxdp

SCHEDULES = {
    # Power 0 is the constant schedule, and shares the other's compiled functions.
    "constant": lambda peak: jaxdp.Polynomial(peak, power=0.0),
    "square root": lambda peak: jaxdp.Polynomial(peak, power=0.5),
}
# Runs that make five standard errors small beside what ten per cent of noise or rate changes.
RUNS = {(100, 2): 1200, (1000, 1): 40, (1000, 2): 80}


def _problem(dim, kappa):
    if kappa == 1:
        return jaxdp.LinearRegression.isotropic(dim, label_noise=0.3)
    # Of a thousand dimensions ten share each value, and runs are reduced to the lengths of such
    # blocks. Of a hundred each has its own value, and runs draw every coordinate.
    shared = 10 if dim == 1000 else 1
    law = jaxdp.LinearRegression.power_law(dim // shared, condition_number=kappa, label_noise=0.3)
    spectrum, target = (np.repeat(part, shared) for part in (law.spectrum, law.target))
    return jaxdp.LinearRegression(spectrum, target / shared**0.5, 0.3)


def _algorithm(schedule, dim, peak=3.0, rho=1.0, clip_scale=1.0):
    return jaxdp.OnePassDPSGD(SCHEDULES[schedule](peak), clip_scale, rho, 10 * dim)


def _simulated(problem, algorithm):
    num_runs = RUNS[problem.dim, 1 if len(problem.blocks.sizes) == 1 else 2]
    return jaxdp.simulate(problem, algorithm, key=jr.key(2024), num_runs=num_runs).check()


def _each_cell():
    """The quick ones are the front page's own problem, whose compiled functions others share."""
    quick = [(1000, schedule, 1) for schedule in SCHEDULES]
    slow = [(100, "square root", 2), (1000, "constant", 2)]
    marks = pytest.mark.slow, pytest.mark.long_runs
    return quick + [pytest.param(*cell, marks=marks) for cell in slow]


# Source: AC Proposition 13, Figure 2.
@pytest.mark.parametrize(("dim", "schedule", "kappa"), _each_cell())
def test_ode_matches_simulation_within_error_bars(dim, schedule, kappa):
    problem, algorithm = _problem(dim, kappa), _algorithm(schedule, dim)
    runs = _simulated(problem, algorithm)
    # Noise off by ten per cent, and a schedule off by ten per cent.
    others = _algorithm(schedule, dim, rho=1.1), _algorithm(schedule, dim, peak=3.3)
    wrong = [jaxdp.predict(problem, other) for other in others]
    # AC Figure 2's claim: five standard errors and the O(1/d) bias of the mean.
    predicted = jaxdp.predict(problem, algorithm)
    assert_runs_close(runs, predicted, bias=0.15 / dim, rejects=wrong)


def test_clipped_fraction_matches_simulation():
    problem, algorithm = _problem(1000, 1), _algorithm("square root", 1000, clip_scale=0.5)
    simulated = _simulated(problem, algorithm).observables["clipped_fraction"][:, 1:]
    predicted = jaxdp.predict(problem, algorithm).observables["clipped_fraction"][1:]
    assert_mean_close(simulated, predicted, bias=1 / 1000, rejects=[1.1 * predicted])


def test_beyond_the_cap_the_gradient_rate_saturates_and_the_noise_does_not():
    problem = _problem(1000, 1)
    algorithm = _algorithm("square root", 1000, peak=40.0, clip_scale=0.1)
    final = _simulated(problem, algorithm).final_risk
    # From a study apart from this code: without the cap the prediction would be .0973.
    assert_mean_close(
        final, jaxdp.predict(problem, algorithm).final_risk, bias=0.15 / 1000, rejects=[0.0973]
    )


# Source: AC Theorem 4, (63).
@pytest.mark.slow
def test_gap_of_the_mean_falls_with_the_dimension():
    gaps = []
    for dim, runs in [(10, 20_000), (40, 8000), (160, 3000)]:
        problem, algorithm = _problem(dim, 1), _algorithm("square root", dim)
        comparison = jaxdp.compare(
            jaxdp.simulate(problem, algorithm, key=jr.key(1), num_runs=runs),
            jaxdp.predict(problem, algorithm),
        )
        gaps.append(comparison.max_gap)
        # From a study apart from this code: .0107, .0040, .0012 at d = 10, 30, 100; slope -1.
        assert comparison.max_gap < 0.15 / dim + 5 * comparison.standard_error.max()
    assert gaps[1] < gaps[0] / 2
    assert gaps[2] < gaps[1] / 2
