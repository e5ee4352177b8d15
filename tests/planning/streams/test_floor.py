"""The best risk without privacy, and with it where samples are many."""

import itertools
import math

import numpy as np
import pytest
from plan_cells import CELLS, Cell

from jaxdp.planning import small_aspect_risk
from jaxdp.planning.streams.floor import isotropic_floor, noiseless_schedule
from jaxdp.planning.streams.solution import greedy

# rho = 1, zeta = .3, computed apart from JAX.
SMALL = {
    1e-2: 7.965428583e-4,
    1e-3: 5.206859453e-5,
    1e-4: 4.645328054e-6,
    1e-5: 4.527139773e-7,
    1e-6: 4.504558546e-8,
}


@pytest.mark.parametrize(
    ("gamma", "label_noise", "expected"),
    [(0.1, 0.3, 0.0076192757), (0.01, 0.3, 4.831028539e-4), (0.1, 1.0, 0.0566721551)],
)
def test_the_floor_solves_its_equation_and_is_known(gamma, label_noise, expected):
    setting = Cell(gamma, math.inf, label_noise, 0.5, math.nan).setting
    floor = isotropic_floor(setting)
    np.testing.assert_allclose(floor, expected, rtol=1e-8)
    left = math.log(0.5 / floor) + label_noise**2 / 2 * (1 / floor - 2)
    np.testing.assert_allclose(left, 1 / gamma, rtol=1e-10)


def test_without_label_noise_the_floor_falls_exponentially():
    for gamma in (0.02, 1.0, 30.0):
        floor = isotropic_floor(Cell(gamma, math.inf, 0.0, 0.5, math.nan).setting)
        np.testing.assert_allclose(floor, 0.5 * math.exp(-1 / gamma), rtol=1e-9)


def test_the_rates_to_the_floor_solve_the_unclipped_equation():
    setting = CELLS[1].setting
    time = np.linspace(0, 1, 2001)
    rates = noiseless_schedule(setting, time)
    risk = 0.5
    for rate, after in itertools.pairwise(rates):
        # Two stages of a step are enough on a grid so fine.
        slopes = []
        for at, trial in ((rate, risk), (after, None)):
            value = risk + slopes[0] / 2000 if trial is None else trial
            slopes.append(-2 * at * value + at**2 * 0.1 * (value + 0.045))
        risk += sum(slopes) / 4000
    np.testing.assert_allclose(risk, isotropic_floor(setting), rtol=1e-4)


def test_the_closed_form_is_known_and_privacy_becomes_free():
    ratios = []
    for gamma, expected in SMALL.items():
        risk, clip_scale = small_aspect_risk(gamma, 1.0, 0.3)
        np.testing.assert_allclose(risk, expected, rtol=1e-8)
        ratios.append(risk / (gamma * 0.045))
    np.testing.assert_allclose(ratios, [1.770, 1.157, 1.0323, 1.0060, 1.0010], rtol=1e-3)
    np.testing.assert_allclose(clip_scale / 0.3, 3.31, rtol=2e-3)


def test_the_closed_form_is_approached_as_gamma_falls():
    excess = []
    for gamma in SMALL:
        _, exact = greedy(Cell(gamma, 1.0, 0.3, 0.5, math.nan).setting)
        excess.append(exact / small_aspect_risk(gamma, 1.0, 0.3)[0] - 1)
    # By a tenth of itself with every tenth of gamma, to what the integration is good for.
    np.testing.assert_allclose(excess[:4], [0.118, 9.3e-3, 8.3e-4, 8.2e-5], rtol=0.02)
    assert 0 < excess[4] < 2e-5


@pytest.mark.parametrize("argument", ["gamma", "rho", "label_noise"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf])
def test_the_closed_form_refuses_what_it_is_not_for(argument, value):
    numbers = {"gamma": 0.01, "rho": 1.0, "label_noise": 0.3, argument: value}
    with pytest.raises(ValueError, match=f"expected finite {argument} > 0"):
        small_aspect_risk(**numbers)
