"""The proved lower bound of the risk: below every schedule that is tried, and close to the best."""

import numpy as np
import pytest
from scipy.special import erf, erfc

import jaxdp
from experiments.statements.aggressive_clipping.certificate import (
    Law,
    certified_risk,
    fastest_fall,
    first_boxes,
)
from jaxdp.planning import best_risks

# The best constant clips and schedules, by an independent study: gamma, rho, zeta, R(0), c, risk.
OPTIMA = [
    (0.3, 1.0, 0.3, 0.5, 0.246, 0.250805),
    (0.1, 1.0, 0.3, 0.5, 0.2107, 0.0564845),
    (0.01, 1.0, 0.3, 0.5, 0.2731, 8.9065e-4),
    (0.1, 0.3, 0.3, 0.5, 0.0827, 0.242619),
    (0.1, 3.0, 0.3, 5.0, 0.639, 0.0438549),
    (0.01, 0.3, 0.1, 0.5, 0.0346, 6.8997e-4),
]


def _factors(clip, risk, noise):
    """mu R and nu P, in NumPy."""
    power = risk + noise**2 / 2
    ratio = clip / np.sqrt(2 * power)
    inside = erf(ratio / np.sqrt(2)) - np.sqrt(2 / np.pi) * ratio * np.exp(-(ratio**2) / 2)
    spread = power * (ratio**2 * erfc(ratio / np.sqrt(2)) + inside)
    return erf(ratio / np.sqrt(2)) * risk, spread


def _released(rates, clips, gamma, rho, noise, start):
    """Released risks of schedules (schedules, knots), constant between knots, by Heun's method.

    In the risk itself, noise as it comes: nothing of the certificate's variables.
    """
    risk = np.full(np.broadcast_shapes(rates.shape[:1], clips.shape), float(start))
    step, strength = 1 / rates.shape[1], 2 * (clips * gamma / rho) ** 2

    def slope(risk, rate):
        rate = np.minimum(rate, 2 / gamma)
        pull, spread = _factors(clips, np.maximum(risk, 0), noise)
        return -2 * rate * pull + rate**2 * gamma * spread

    parts = 6
    for knot in range(rates.shape[1]):
        for _ in range(parts):
            first = slope(risk, rates[:, knot])
            risk = risk + step / parts * first
            risk = risk + step / parts / 2 * (slope(risk, rates[:, knot]) - first)
        after = rates[:, knot + 1] if knot + 1 < rates.shape[1] else 0
        risk = risk + strength * (rates[:, knot] ** 2 - after**2)
    return risk


def _schedules(rng, gamma):
    """Polynomial, hyperbolic, flat and then hyperbolic, and irregular ones; times, knots."""
    time = (np.arange(80) + 0.5) / 80
    peaks = np.geomspace(1, 3 / gamma, 16)
    found = [peak * (1 - time) ** power for peak in peaks for power in (0, 0.1, 0.3, 0.5, 1, 2)]
    found += [peak / (1 + time / knee) for peak in peaks for knee in (0.03, 0.1, 0.3, 1.0)]
    flats = (0.05, 0.1, 0.2, 0.3, 0.5)
    found += [np.minimum(peak, peak * flat / time) for peak in peaks for flat in flats]
    for peak in peaks:
        found += list(peak * np.sort(rng.random((12, 80)), axis=1)[:, ::-1])
    return np.asarray(found)


# Source: AC Theorem 6/20, (99).
@pytest.mark.slow
@pytest.mark.parametrize(("gamma", "rho", "noise", "start"), [(0.1, 1.0, 0.3, 0.5)])
def test_no_schedule_and_no_clip_of_a_fine_grid_is_below_the_bound(gamma, rho, noise, start):
    setting = {"label_noise": noise, "initial_risk": start, "tolerance": 0.02}
    bound = certified_risk(gamma, rho=rho, **setting)
    rates = _schedules(np.random.default_rng(0), gamma)
    risks = [
        np.nanmin(_released(rates, np.asarray(clip), gamma, rho, noise, start))
        for clip in np.geomspace(0.05, 2, 9)
    ]
    assert min(risks) >= bound
    # The grid comes near it, so that the bound of three quarters of the noise is refuted.
    assert min(risks) < 1.12 * bound
    assert min(risks) < certified_risk(gamma, rho=rho * 3 / 4, **setting)
    # So would be a bound that forgets what labels add: at a third more of label noise.
    louder = certified_risk(gamma, rho=rho, **(setting | {"label_noise": noise * 4 / 3}))
    assert louder > bound * 1.05


# Source: AC Theorem 6/20.
@pytest.mark.parametrize(
    ("gamma", "rho", "noise", "start", "clip", "optimum"),
    [OPTIMA[0], *(pytest.param(*case, marks=pytest.mark.slow) for case in OPTIMA[1:])],
)
def test_the_bound_of_a_clip_is_close_below_the_best_schedule(
    gamma, rho, noise, start, clip, optimum
):
    setting = {"label_noise": noise, "initial_risk": start, "rho": rho}
    bound = certified_risk(gamma, **setting, clip_scale=clip, tolerance=0.01)
    assert 0.95 * optimum < bound < optimum
    # A clip that may change gains a tenth at most.
    assert 0.85 * optimum < certified_risk(gamma, **setting) < optimum


def test_the_fall_is_bounded_by_no_more_than_the_tolerance():
    gamma, rho, noise, tolerance = 0.03, 0.7, 0.4, 0.01
    strength = 2 * (gamma / rho) ** 2
    clips = np.geomspace(1e-3, 50, 600)[:, None]
    for largest in (1.0, 1.7):
        law = Law(gamma, strength, noise**2 / 2, largest)
        for risk in (3.0, 0.1, 1e-3):
            # Up to the cap, and as far as the noise to come leaves a risk.
            most = np.minimum(2 / gamma, np.sqrt(risk / strength) / clips)
            rates = most * np.linspace(0, 1, 800)
            pull, spread = _factors(clips, risk - strength * (clips * rates) ** 2, noise)
            falls = 2 * rates * largest * pull - rates**2 * gamma * spread
            found, rate = fastest_fall(risk, first_boxes(law, risk, None), law, np.inf, tolerance)
            assert falls.max() <= found <= falls.max() * (1 + 2 * tolerance)
            best = np.unravel_index(falls.argmax(), falls.shape)
            assert rate == pytest.approx((clips * rates)[best], rel=0.3)
            # One clip, and rates no larger than one that is far below the best.
            at = 300
            boxes = first_boxes(law, risk, float(clips[at, 0]))
            one, _ = fastest_fall(risk, boxes, law, np.inf, tolerance)
            assert falls[at].max() <= one <= falls[at].max() * (1 + 2 * tolerance)
            least = rates[at, 1]
            slower, _ = fastest_fall(risk, boxes, law, float(clips[at, 0] * least), tolerance)
            assert falls[at, 1] * (1 - 1e-9) <= slower <= falls[at, 1] * (1 + 2 * tolerance)


# Far above the first risk the last range of clips decides, which has no end.
@pytest.mark.parametrize(
    ("gamma", "rho", "noise", "start", "ratio"),
    [
        (0.1, 1.0, 0.3, 0.5, 1e4),
        (0.01, 100.0, 0.01, 1e-3, 1e6),
        (3.0, 100.0, 0.3, 0.5, 1e5),
    ],
)
def test_no_clip_falls_faster_than_the_bound_where_noise_is_most_of_the_risk(
    gamma, rho, noise, start, ratio
):
    strength, risk = 2 * (gamma / rho) ** 2, start * ratio
    law = Law(gamma, strength, noise**2 / 2, 1.0)
    clips = np.geomspace(1e-3, 1e7, 1500)[:, None] * np.sqrt(start)
    most = np.minimum(2 / gamma, np.sqrt(risk / strength) / clips)
    # The best rates leave nearly nothing of the risk but noise: both ends of the range are dense.
    shares = np.concatenate([np.linspace(0, 1, 400), 1 - np.geomspace(1e-12, 0.5, 400)])
    rates = most * shares
    pull, spread = _factors(clips, risk - strength * (clips * rates) ** 2, noise)
    falls = 2 * rates * pull - rates**2 * gamma * spread
    found, _ = fastest_fall(risk, first_boxes(law, start, None), law, np.inf, 0.01)
    assert falls.max() <= found


def test_without_privacy_the_bound_is_the_floor():
    problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
    for samples in (100, 300):
        floor = float(best_risks(problem, num_samples=samples, rho=np.inf))
        bound = certified_risk(
            100 / samples, label_noise=0.3, initial_risk=0.5, rho=np.inf, tolerance=0.02
        )
        assert 0.93 * floor < bound < floor


def test_the_bound_moves_as_the_problem_does():
    setting = {"label_noise": 0.3, "initial_risk": 0.5, "rho": 1.0, "tolerance": 0.1}
    bound = certified_risk(0.1, **setting)
    assert certified_risk(0.2, **setting) > 1.5 * bound
    assert certified_risk(0.1, **(setting | {"rho": 0.5})) > 1.5 * bound
    assert certified_risk(0.1, **(setting | {"initial_risk": 1.0})) > bound
    # A clip far from the best costs much; a larger eigenvalue may help.
    assert certified_risk(0.1, **setting, clip_scale=3.0) > 3 * bound
    assert certified_risk(0.1, **setting, largest=2.0) < 0.8 * bound
    # A tighter tolerance never loses what is proved.
    assert certified_risk(0.1, **(setting | {"tolerance": 0.2})) < bound


# Source: AC Theorem 6/20, (99).
@pytest.mark.slow
def test_no_spectrum_is_below_the_bound_of_its_largest_eigenvalue():
    problem = jaxdp.LinearRegression(np.repeat([1.6, 0.4], 30), np.full(60, np.sqrt(1 / 60)), 0.3)
    setting = {"label_noise": 0.3, "initial_risk": 0.5, "rho": 1.0}
    bound = certified_risk(0.05, **setting, largest=1.6)
    found = []
    for peak, power in ((8.0, 0.5), (12.0, 0.5), (8.0, 0.0), (16.0, 1.0)):
        algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(peak, power), 0.25, 1.0, 1200)
        found += [
            jaxdp.predict(problem, algorithm, theory=theory, records=1).check().final_risk
            for theory in (jaxdp.LowerBound(), jaxdp.CoupledODE())
        ]
    assert bound < min(found) < 2 * bound


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"gamma": 0.0}, "gamma"),
        ({"rho": 0.0}, "expected rho > 0, got 0.0"),
        ({"rho": 1e-200}, "whose noise float64 can hold"),
        ({"gamma": 1e-300}, "of which float64 holds"),
        ({"gamma": [0.1, 0.2]}, "gamma to be one number, got shape"),
        ({"largest": 0.5}, "expected finite largest >= 1, got 0.5"),
        ({"tolerance": 1.0}, "expected 1e-6 <= tolerance < 1, got 1.0"),
    ],
)
def test_numbers_out_of_range_are_refused(changed, message):
    setting = {"gamma": 0.1, "label_noise": 0.3, "initial_risk": 0.5, "rho": 1.0} | changed
    with pytest.raises(ValueError, match=message):
        certified_risk(setting.pop("gamma"), **setting)
