"""The equations of overlap and remainder: against known ones, an independent solution, and runs."""

import jax
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close, assert_runs_close
from scipy.integrate import solve_ivp
from scipy.special import expit

import jaxdp

# Clip scale, peak and power: strong and weak clips, and beyond the cap, which is 8/.05 = 160.
CASES = {
    "strong clip": (0.1, 30.0, 0.5),
    "weak clip": (0.7, 12.0, 0.5),
    "beyond the cap": (0.05, 300.0, 0.5),
}
NUM_STEPS, DIM = 20, 1000
PROBLEM = jaxdp.LogisticRegression(DIM, signal=2.0)


def _algorithm(case, dim, rho=1.0):
    clip_scale, peak, power = CASES[case]
    return jaxdp.OnePassDPSGD(jaxdp.Polynomial(peak, power), clip_scale, rho, NUM_STEPS * dim)


def _reference(case, signal, gamma, times):
    """Overlap and remainder in the variables of the paper, means over a grid of samples."""
    clip_scale, peak, power = CASES[case]
    place, weights = np.polynomial.legendre.leggauss(2000)
    aside, weights_aside = np.polynomial.legendre.leggauss(100)
    # u along the prediction, where the clip's kink is, and v across it.
    u, v = 8 * place[:, None], 8 * aside[None]
    weights = 64 * np.outer(weights, weights_aside) * np.exp(-(u**2 + v**2) / 2) / (2 * np.pi)

    def field(s, state):
        # On the clock t = 1 - (1 - s)^2 the noise of rate^2 is smooth.
        left, speed = (1 - s) ** 2, 2 * (1 - s)
        overlap, remainder = state
        rest = np.sqrt(max(remainder, 0))
        length = np.hypot(overlap, rest)
        cosine, sine = (overlap / length, rest / length) if length > 0 else (1.0, 0.0)
        z, h = cosine * u - sine * v, sine * u + cosine * v
        along = across = square = 0.0
        for label in (1, -1):
            chance = weights * expit(label * signal * z)
            slope = -label * np.minimum(expit(-label * length * u), clip_scale)
            along += np.sum(chance * slope * z)
            across += np.sum(chance * slope * h)
            square += np.sum(chance * slope**2)
        rate = min(peak * left**power, 8 / gamma)
        noise = peak**2 * 2 * power * left ** (2 * power - 1)
        drift = -2 * rate * rest * across + rate**2 * gamma * square
        drift += 4 * clip_scale**2 * gamma**2 * noise
        return [-rate * along * speed, drift * speed]

    clock = 1 - np.sqrt(1 - np.asarray(times))
    found = solve_ivp(field, (0, 1), [0, 0], t_eval=clock, rtol=1e-7, atol=1e-9)
    assert found.success
    return found.y


@pytest.mark.slow
def test_agrees_with_an_independent_solution():
    problem = jaxdp.LogisticRegression(50, signal=2.0)
    with jax.enable_x64():
        predicted = jaxdp.predict(problem, _algorithm("weak clip", 50), records=5).check()
    overlap, remainder = _reference("weak clip", 2.0, 1 / NUM_STEPS, predicted.time)
    observed = predicted.observables
    # The grid of the reference meets the clip's kink between its nodes.
    np.testing.assert_allclose(observed["overlap"], overlap, atol=2e-5)
    np.testing.assert_allclose(observed["norm_squared"], overlap**2 + remainder, atol=2e-5)
    # The rate ends at zero, and so does the last step's noise.
    assert predicted.final_risk == predicted.risk[-1]


def _runs(problem, case, num_runs, simulator=None):
    options = {"records": 10, "simulator": simulator}
    algorithm = _algorithm(case, problem.dim)
    return jaxdp.simulate(problem, algorithm, key=jr.key(7), num_runs=num_runs, **options).check()


# Five standard errors and the O(1/d) bias of the mean.
TOLERANCES = {"bias": 0.2 / DIM}
TOLERANCES["observables"] = dict.fromkeys(("overlap", "norm_squared", "clipped_fraction"), 2 / DIM)


@pytest.mark.parametrize(
    ("case", "num_runs"),
    [
        ("weak clip", 100),
        pytest.param("strong clip", 1000, marks=(pytest.mark.slow, pytest.mark.long_runs)),
        pytest.param("beyond the cap", 1000, marks=(pytest.mark.slow, pytest.mark.long_runs)),
    ],
)
def test_agrees_with_runs_of_the_exact_chain(case, num_runs):
    runs = _runs(PROBLEM, case, num_runs)
    # The second has its noise off by ten per cent.
    predicted, wrong = (
        jaxdp.predict(PROBLEM, _algorithm(case, DIM, rho), records=10) for rho in (1.0, 1.1)
    )
    assert_runs_close(runs, predicted, **TOLERANCES, rejects=[wrong])


@pytest.mark.slow
def test_the_capped_share_is_that_of_runs():
    problem = PROBLEM.replace(dim=10)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(300.0, 0.5), 0.3, 1.0, 200)
    runs = jaxdp.simulate(problem, algorithm, key=jr.key(1), num_runs=500, records=4)
    predicted = jaxdp.predict(problem, algorithm, records=4)
    shares, expected = (t.observables["capped_fraction"] for t in (runs, predicted))
    assert 0.1 < expected[-1] < 0.9
    # Half a step of the schedule's range is the clock's error.
    assert_mean_close(shares[:, 1:], expected[1:], bias=0.002 + 1 / 400)
