"""The predictions of a plan, beside the recursion it is of and beside private descents."""

import math

import numpy as np
import pytest
from helpers import assert_mean_close, assert_std_close

from jaxdp.kernels import ClippedFeatures, IdentityFeatures
from jaxdp.privacy import SecretNoise
from jaxdp.regression import Automatic, FullBatch, methods
from jaxdp.regression.descent import SquaredSlopes, private_descent
from jaxdp.regression.descent_plan import (
    _RATES,
    SQUARED,
    Spectrum,
    _of_the_average,
    _responses,
    planned,
    shrunk,
)
from jaxdp.regression.private_sums import PrivateRows


def _averaged(modes, num_steps, rate, momentum, start, noise):
    """The average over the last half of the steps of the recursion, step by step."""
    error, speed, kept = np.full(len(modes), start), np.zeros(len(modes)), []
    for step in range(num_steps):
        speed = momentum * speed + modes * error + noise[step]
        error = error - rate * speed
        kept.append(error)
    return np.mean(kept[num_steps // 2 :], axis=0)


@pytest.mark.parametrize(("num_steps", "rate", "momentum"), [(5, 1.0, 0.0), (8, 0.3, 0.8)])
def test_bias_and_variance_of_the_average_are_those_of_the_recursion(num_steps, rate, momentum):
    modes = np.array([0.9, 0.3, 0.01])
    errors, echoes = _responses(modes[None], 10, np.array([[rate]]), momentum)
    variance = _of_the_average(echoes, num_steps)[0]
    still = np.zeros(num_steps)
    expected = _averaged(modes, num_steps, rate, momentum, 1.0, still)
    errors = errors[num_steps // 2 : num_steps, 0]
    np.testing.assert_allclose(errors.mean(axis=0), expected, rtol=1e-12)
    # Noise of one step after the other: their squares add up.
    parts = [_averaged(modes, num_steps, rate, momentum, 0.0, row) for row in np.eye(num_steps)]
    np.testing.assert_allclose(variance, np.square(parts).sum(axis=0), rtol=1e-12)


def test_moments_that_would_be_noise_cost_little():
    # 100 features, mu = .2: the edge of the noise, sqrt(400) / (n mu) with the whole budget, is
    # three times 1 / 200 at n = 6667.
    few, many = (Automatic()._spending(100, count, 0.2) for count in (6600, 6700))
    assert few == (0.05, (1.0,), 1)
    assert many[0] == Automatic.moments_share
    assert many[1:] == (methods._ROUNDS, 8)
    assert FullBatch()._spending(100, 6700, 0.2).rounds == (1.0,)


def test_a_larger_clip_costs_no_more_than_a_little_of_what_is_learnt():
    """Where most is noise all risks are alike, and the largest clip learns nothing."""
    values = np.full(100, 0.005)
    spectrum = Spectrum(values, np.eye(100), np.full(100, 0.05), 1e-4, np.eye(100))
    options = {"num_samples": 1000, "mu": 0.3, "dampings": (math.inf,), "momenta": (0.0,)}
    risks = [
        planned(spectrum, curvature=SQUARED._replace(clips=clips), **options).predicted_risk
        for clips in [SQUARED.clips, *((clip,) for clip in SQUARED.clips)]
    ]
    gain = 0.25 - min(risks)
    assert 0 < gain < 0.1
    assert 0.25 - risks[0] > 0.95 * gain
    assert 0.25 - risks[-1] < 0.7 * gain


def test_shrinking_keeps_what_has_no_noise_and_finds_a_multiple_of_one_in_noise():
    draw = np.random.default_rng(0)
    root = draw.normal(size=(6, 6))
    moments = root @ root.T
    values, vectors, _, left, *_ = shrunk(moments, 0.0, np.eye(6))
    np.testing.assert_allclose((vectors * values) @ vectors.T, moments, atol=1e-12)
    assert left < 1e-3 * values.mean()
    noise = np.triu(draw.normal(size=(200, 200)), 1) / math.sqrt(2)
    noisy = 0.5 * np.eye(200) + 0.3 * (noise + noise.T + np.diag(draw.normal(size=200)))
    raw, (values, *_) = np.linalg.eigvalsh(noisy), shrunk(noisy, 0.3, np.eye(200))
    assert np.abs(raw - 0.5).max() > 1
    assert np.abs(values - 0.5).max() < 0.2


class _KnownScale(SquaredSlopes):
    """Residuals that are clipped in units of the labels' own deviation, from the first step on."""

    def __init__(self, labels):
        super().__init__(labels)
        self._scale = 1 / 8

    def scale(self, rows, weights, num_steps, step):
        return 1 / 8


@pytest.mark.parametrize(
    ("mu", "is_one_pass"),
    [
        (0.1, False),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in ((0.3, False), (0.2, True))),
    ],
)
def test_private_descents_have_the_risk_that_is_planned(mu, is_one_pass):
    num_rows, dim, signal = 20_000, 12, 0.5
    draw, found = np.random.default_rng(1), []
    directions = draw.normal(size=(num_rows, dim))
    directions *= 1 / np.linalg.norm(directions, axis=1, keepdims=True)
    target = draw.normal(size=dim)
    target *= math.sqrt(signal * dim) / np.linalg.norm(target)
    labels = directions @ target + math.sqrt(1 - signal) * draw.normal(size=num_rows)
    labels /= 8
    features = ClippedFeatures(IdentityFeatures(dim), 1.0)
    values = np.full(dim, 1 / dim)
    spectrum = Spectrum(values, np.eye(dim), values, 0.0, np.eye(dim))
    options = {"num_samples": num_rows, "mu": mu, "curvature": SQUARED}
    options |= {"dampings": (math.inf,), "momenta": (0.0,), "is_one_pass": is_one_pass}
    plan = planned(spectrum, **options)
    best, *_ = np.linalg.lstsq(directions, labels, rcond=None)
    fits = []
    for place in range(40):
        noise = SecretNoise(2**200 + place)
        rows = PrivateRows.of(features, directions.astype(np.float32), noise)
        stage = private_descent(rows, _KnownScale(labels), plan, mu)
        _, noise = stage.left_and_noise(plan.values * plan.units**2)
        fits.append(stage.in_steps[:, 0] / np.sqrt(noise))
        found.append(np.sum((stage.weights[:, 0] - best) ** 2) / dim / 2 * 64)
    # What clipping leaves of a curvature is that of the labels at the start.
    assert_mean_close(found, plan.predicted_risk, bias=0.1 * plan.predicted_risk)
    with pytest.raises(AssertionError):
        assert_mean_close(found, 2 * plan.predicted_risk, bias=0.1 * plan.predicted_risk)
    # Directions are alike: all weights tell of one spread.
    fits = np.ravel(fits - np.mean(fits, axis=0)) * math.sqrt(40 / 39)
    assert_std_close(fits, 1, bias=0.1)
    with pytest.raises(AssertionError):
        assert_std_close(fits, 0.7, bias=0.1)


SPECTRA = {
    "flat": np.full(60, 1 / 60),
    "one large": np.append(0.9, np.full(59, 0.1 / 60)),
    "decaying": np.logspace(-0.7, -6, 60),
    "low rank": np.append(0.5, np.zeros(59)),
}


@pytest.mark.parametrize("name", [*SPECTRA, "additive"])
@pytest.mark.parametrize("noise", [1e-3, 0.1, 3.0])
def test_no_descent_diverges_on_the_true_second_moments(name, noise):
    """Whatever a noisy spectrum is drawn to, steps are short for what the features really have."""
    draw, size = np.random.default_rng(3), 60
    if name == "additive":
        # Six columns of nine bins and a constant: one direction has all that they share.
        rows = np.hstack([np.eye(9)[draw.integers(0, 9, 4000)] for _ in range(6)])
        rows = np.hstack([rows, np.ones((4000, 6))]) / math.sqrt(12)
        moments = rows.T @ rows / len(rows)
    else:
        turn, _ = np.linalg.qr(draw.normal(size=(size, size)))
        moments = (turn * SPECTRA[name]) @ turn.T
    std = noise * np.linalg.eigvalsh(moments).max() / math.sqrt(size)
    given = {"num_samples": 10_000, "mu": math.sqrt(2) / (10_000 * std) / math.sqrt(0.2)}
    for _ in range(3):
        upper = np.triu(draw.normal(size=(size, size)), 1) / math.sqrt(2)
        noisy = moments + std * (upper + upper.T + np.diag(draw.normal(size=size)))
        spectrum = shrunk(noisy, std, np.eye(size))
        for dampings, momentum in (((math.inf,), 0.0), ((1.0,), 0.0), ((3.0,), 0.8)):
            options = {"curvature": SQUARED, "dampings": dampings, "momenta": (momentum,)}
            plan = planned(spectrum, **given, **options)
            top = np.linalg.eigvalsh(plan.transform @ moments @ plan.transform.T).max()
            # Half as long with momentum: any rate that the plan may choose, not this one alone.
            longest = max(_RATES) / (2 if momentum else 1)
            assert plan.rate <= longest
            assert longest * top < 2 * (1 + momentum)
