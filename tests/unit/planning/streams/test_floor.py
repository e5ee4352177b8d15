"""The best risk without privacy, and with it where samples are many."""

import itertools
import math

import numpy as np
import pytest
import scipy
from plan_cells import CELLS, Cell

from jaxdp.planning.streams.best_schedule import greedy
from jaxdp.planning.streams.greedy_arc import isotropic_floor, noiseless_schedule

# rho = 1, zeta = .3, computed apart from JAX.
SMALL = {
    1e-2: 7.965428583e-4,
    1e-3: 5.206859453e-5,
    1e-4: 4.645328054e-6,
    1e-5: 4.527139773e-7,
    1e-6: 4.504558546e-8,
}


def _small_aspect_risk(gamma, rho, label_noise):
    r"""The least risk of one private pass as gamma falls to 0, when R(0) is forgotten; and c.

    With $g = \gamma\nu\zeta^2/2$ and $k = K\mu$ at $z = c/\zeta$, on the arc $\mu Z = 3\mu
    K\tilde\eta^2 + g\tilde\eta$; the last rate $e = \tilde\eta(1)$ solves

    $$ \mu = \frac1e + \frac{2k}{g}\ln\Bigl(1 + \frac{g}{4ke}\Bigr), \qquad
       R^* = 3Ke^2 + \frac{ge}{\mu}, $$

    and c minimises it. $R^*/(\gamma\zeta^2/2)$ tends to 1: privacy is free in the limit.
    """

    def ending(log_ratio):
        ratio = math.exp(log_ratio)
        descent = math.erf(ratio / math.sqrt(2))
        density = math.sqrt(2 / math.pi) * ratio * math.exp(-(ratio**2) / 2)
        variance = ratio**2 * math.erfc(ratio / math.sqrt(2)) + descent - density
        spread = gamma * variance * label_noise**2 / 2
        strength = 2 * (ratio * label_noise * gamma / rho) ** 2
        pull = strength * descent

        def excess(log_rate):
            rate = math.exp(log_rate)
            held = 2 * pull / spread * math.log1p(spread / (4 * pull * rate))
            return 1 / rate + held - descent

        rate = math.exp(float(scipy.optimize.brentq(excess, -math.log(descent), 60.0)))
        return 3 * strength * rate**2 + spread * rate / descent

    found = scipy.optimize.minimize_scalar(
        lambda log_ratio: math.log(ending(log_ratio)),
        bounds=(math.log(0.02), math.log(8.0)),
        method="bounded",
        options={"xatol": 1e-8},
    )
    return ending(found.x), float(np.exp(found.x)) * label_noise


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


def test_the_closed_form_is_approached_as_gamma_falls():
    excess = []
    for gamma in SMALL:
        _, exact = greedy(Cell(gamma, 1.0, 0.3, 0.5, math.nan).setting)
        excess.append(exact / _small_aspect_risk(gamma, 1.0, 0.3)[0] - 1)
    # By a tenth of itself with every tenth of gamma, to what the integration is good for.
    np.testing.assert_allclose(excess[:4], [0.118, 9.3e-3, 8.3e-4, 8.2e-5], rtol=0.02)
    assert 0 < excess[4] < 2e-5
