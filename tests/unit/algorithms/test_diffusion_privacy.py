"""The diffusion that DP-GD tends to is as private as DP-GD: PF Proposition 3.4, in one dimension.

Laws of the clipped diffusion on two neighbouring data sets are found by solving its Fokker-Planck
equation on a grid, without jaxdp, and their exact delta is compared with what is claimed.
"""

import math

import numpy as np
import pytest
from scipy.linalg import eigh_tridiagonal
from scipy.stats import norm

import jaxdp
from jaxdp.privacy import gaussian_delta

NUM_TRAIN, CLIP, DURATION = 4, 2.0, 0.8
EPSILON, DELTA = 1.5, 0.3


def _law(features, labels, diffusion):
    """Probabilities on a grid of Theta(tau), dTheta = -grad L_C dt + diffusion dB, from 0."""
    grid = np.linspace(-1, 1, 801) * (CLIP / NUM_TRAIN * 4 * DURATION + 6 * diffusion)
    width = grid[1] - grid[0]
    middle = (grid[1:] + grid[:-1]) / 2
    limits = CLIP / np.abs(features)
    slopes = np.clip(2 * (middle[:, None] * features - labels), -limits, limits)
    drift = -(slopes @ features) / NUM_TRAIN
    # Scharfetter and Gummel's rates: exact for a drift that is constant between two points.
    peclet = drift * width / (diffusion**2 / 2)
    is_small = np.abs(peclet) < 1e-8
    bernoulli = np.where(is_small, 1 - peclet / 2, peclet / np.expm1(np.where(is_small, 1, peclet)))
    to_left = bernoulli * diffusion**2 / 2 / width**2
    logs = np.concatenate([[0], np.cumsum(peclet)])
    to_right = to_left * np.exp(peclet)
    leaving = np.append(to_right, 0) + np.insert(to_left, 0, 0)
    # Symmetric in units of the root of what the two rates hold in balance.
    rates, modes = eigh_tridiagonal(-leaving, np.sqrt(to_left * to_right))
    start = len(grid) // 2
    moved = modes @ (np.exp(rates * DURATION) * modes[start])
    return grid, moved * np.exp((logs - logs[start]) / 2)


def _delta(pair, diffusion, epsilon=EPSILON):
    """Of the two laws, the larger of both directions."""
    (_, first), (_, second) = (_law(*rows, diffusion) for rows in pair)
    gaps = first - math.exp(epsilon) * second, second - math.exp(epsilon) * first
    return max(np.maximum(gap, 0).sum() for gap in gaps)


# A record that pulls as hard as clipping lets it, and others that pull back where they are not cut.
_QUIET = np.asarray([1.0, 1e-9, 1e-9, 1e-9])
_WORST = tuple((_QUIET, np.asarray([label, 0.0, 0.0, 0.0])) for label in (50.0, -50.0))
_FEATURES = np.asarray([1.0, 0.8, 1.3, -1.1])
_PULLED = tuple((_FEATURES, np.asarray([label, 0.4, -0.2, 0.3])) for label in (50.0, -50.0))


def test_the_law_on_the_grid_is_a_gaussian_where_every_gradient_is_cut():
    features, labels = _WORST[0]
    grid, found = _law(features, labels, 0.7)
    mean, spread = CLIP / NUM_TRAIN * DURATION, 0.7 * math.sqrt(DURATION)
    expected = norm.pdf(grid, mean, spread) * (grid[1] - grid[0])
    np.testing.assert_allclose(found, expected, atol=3e-5)


def test_the_diffusion_is_as_private_as_dp_gd_and_the_claim_is_reached():
    # Source: PF Proposition 3.4, (3.5) and (3.6).
    for calibration in (
        jaxdp.algorithms.PublishedCalibration(),
        jaxdp.algorithms.ExactCalibration(),
    ):
        algorithms = [
            jaxdp.DPGD.calibrated(
                EPSILON,
                DELTA,
                learning_rate=DURATION / num_steps,
                clip_norm=CLIP,
                num_steps=num_steps,
                calibration=calibration,
            )
            for num_steps in (1, 3, 1000)
        ]
        diffusion = float(algorithms[0].diffusion(NUM_TRAIN))
        # One noise for the diffusion, whatever the steps.
        assert [float(one.diffusion(NUM_TRAIN)) for one in algorithms] == pytest.approx(
            [diffusion] * 3, rel=1e-5
        )
        if isinstance(calibration, jaxdp.algorithms.PublishedCalibration):
            root = math.sqrt(8 * math.log(1 / DELTA) * DURATION)
            assert diffusion == pytest.approx(2 * CLIP * root / (NUM_TRAIN * EPSILON), rel=1e-5)
        claim = gaussian_delta(algorithms[0].mu, EPSILON)
        assert claim <= DELTA
        worst, pulled = _delta(_WORST, diffusion), _delta(_PULLED, diffusion)
        assert worst == pytest.approx(float(claim), rel=0.02)
        assert 0 < pulled < worst
        # Half the noise is not enough for the claim, though it is for the published budget.
        assert _delta(_WORST, diffusion / 2) > 1.5 * claim
    assert _delta(_WORST, diffusion / 2) > DELTA


def test_densities_at_a_point_say_nothing_of_differential_privacy():
    # Source: PF Proposition 3.4, whose proof says so in (B.44) and (B.45).
    def delta(mu):
        return norm.cdf(mu / 2 - 4 / mu) - math.exp(4) * norm.cdf(-mu / 2 - 4 / mu)

    # Far from private, and no density is above delta where the unit of length is small.
    assert delta(1.733) == pytest.approx(0.034, abs=5e-4)
    assert norm.pdf(0, scale=1e4) < 4e-5 < 5e-4
    # Private, and the densities' excess is far above delta where it is large.
    assert delta(1.040) < 5e-4
    points = np.linspace(-10, 10, 2001)
    excess = norm.pdf(points) - math.exp(4) * norm.pdf(points, loc=1.040)
    assert excess.max() / 1e-4 == pytest.approx(1.5, abs=0.1)
