"""AC's closed forms of linear bounds, against numerical solutions and predictions."""

import mpmath
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import erf

import jaxdp

TIMES = np.asarray([0.0, 0.2, 0.5, 0.8, 0.99])
RISK, DECAY, SAMPLING, PRIVATE = 0.7, 5.0, 0.4, 0.3


def _integral(order, argument):
    """E_order(argument), AC (104), of any real order."""
    return float(mpmath.expint(order, argument))


def _linear(power, private, start=RISK, sampling=SAMPLING, decay=DECAY):
    """R' = -a x^power R + b1 x^(2 power) + b2 x^(2 power - 1), x = 1 - t, solved numerically."""

    def field(t, risk):
        left = 1 - t
        noise = private * left ** (2 * power - 1) if private else 0
        return -decay * left**power * risk + sampling * left ** (2 * power) + noise

    solution = solve_ivp(
        field, (0, TIMES[-1]), [start], t_eval=TIMES, rtol=1e-11, atol=1e-13, method="DOP853"
    )
    return solution.y[0]


def _constant_rate(time, start, decay, sampling):
    """AC (126); (127) with the lower constants."""
    return (start - sampling / decay) * np.exp(-decay * time) + sampling / decay


def _square_root_rate(time, start, decay, sampling, private):
    """AC (152); (153) with the lower constants."""
    left = 1 - time
    grown, scaled = np.exp(2 * decay / 3), 2 * decay * left**1.5 / 3
    first = _integral(-1 / 3, 2 * decay / 3) - left**2 * _integral(-1 / 3, scaled)
    second = _integral(1 / 3, 2 * decay / 3) - left * _integral(1 / 3, scaled)
    inner = 3 - 2 / start * grown * (sampling * first + private * second)
    return start / 3 * np.exp(-2 * decay * (1 - left**1.5) / 3) * inner


def _without_private_noise(time, power, start, decay, sampling):
    """AC (180)."""
    left, whole = 1 - time, 1 + power
    scaled, order = decay * left**whole / whole, -1 + 1 / whole
    inner = left ** (1 + 2 * power) * _integral(order, scaled) - _integral(order, decay / whole)
    inner = whole + sampling / start * np.exp(decay / whole) * inner
    return start / whole * np.exp(-decay * (1 - left**whole) / whole) * inner


def _private_noise_alone(time, power, decay, private):
    """AC (183)."""
    left, whole = 1 - time, 1 + power
    scaled, order = decay * left**whole / whole, (1 - power) / whole
    inner = left ** (2 * power) * _integral(order, scaled) - _integral(order, decay / whole)
    return private / whole * np.exp(scaled) * inner


# Source: AC (125) to (127), (151) to (153), (177) to (185).
def test_closed_forms_solve_their_equations():
    np.testing.assert_allclose(
        _constant_rate(TIMES, RISK, DECAY, SAMPLING), _linear(0, 0), rtol=1e-9
    )
    found = [_square_root_rate(t, RISK, DECAY, SAMPLING, PRIVATE) for t in TIMES]
    np.testing.assert_allclose(found, _linear(0.5, PRIVATE), rtol=1e-9)
    for power in (1.0, 2.0, 3.7):
        first = [_without_private_noise(t, power, RISK, DECAY, SAMPLING) for t in TIMES]
        np.testing.assert_allclose(first, _linear(power, 0), rtol=1e-9)
        second = [_private_noise_alone(t, power, DECAY, PRIVATE) for t in TIMES]
        alone = _linear(power, PRIVATE, start=0.0, sampling=0)
        np.testing.assert_allclose(second, alone, rtol=1e-8, atol=1e-12)
        # (184), and (185) with its own constants, are the sum; a constant of the other fails.
        both = np.add(first, second)
        np.testing.assert_allclose(both, _linear(power, PRIVATE), rtol=1e-9)
        assert not np.allclose(both[1:], _linear(power, 2 * PRIVATE)[1:], rtol=1e-3)


CLIP, LABEL_NOISE, DIM = 0.5, 0.3, 20


def _problem(initial_risk):
    """Half the eigenvalues 1.6, half .4, a flat target."""
    target = np.full(DIM, np.sqrt(2 * initial_risk / DIM))
    return jaxdp.LinearRegression(np.repeat([1.6, 0.4], DIM // 2), target, LABEL_NOISE)


def _constants(initial_risk, product, gamma, *, clip=CLIP, printed=False):
    """a and b_1 of both bounds, AC (129), (159); product = c peak. The printed root has less."""
    ratio = clip / LABEL_NOISE
    least_descent = erf(ratio / np.sqrt(2)) / ratio
    inside = erf(ratio / np.sqrt(2)) - np.sqrt(2 / np.pi) * ratio * np.exp(-(ratio**2) / 2)
    least_variance = inside / ratio**2 + 1 - erf(ratio / np.sqrt(2))
    power = 2 * (initial_risk + 1) + LABEL_NOISE**2
    if printed:
        power = initial_risk + 1 + LABEL_NOISE**2
    above = 2 * 0.4 * product * least_descent / np.sqrt(power), 1.6 * product**2 * gamma / 2
    below = (
        2 * 1.6 * product / np.sqrt(np.pi * LABEL_NOISE**2 / 2),
        product**2 * gamma * least_variance / 2,
    )
    return above, below


def _predicted(power, initial_risk, product, gamma, rho):
    """Lower bound, coupled risk and upper bound."""
    algorithm = jaxdp.OnePassDPSGD(
        jaxdp.Polynomial(product / CLIP, power), CLIP, rho, round(DIM / gamma)
    )
    problem = _problem(initial_risk)
    theories = jaxdp.LowerBound(), jaxdp.CoupledODE(), jaxdp.UpperBound()
    found = [jaxdp.predict(problem, algorithm, theory=theory).check() for theory in theories]
    return found[0].time, [np.asarray(each.risk, np.float64) for each in found]


# Source: AC (116) to (119), (128) to (133), (145), (159).
@pytest.mark.slow
@pytest.mark.parametrize(("power", "rho"), [(0.0, 0.3), (0.5, 0.3), (2.0, 3.0)])
def test_closed_forms_bound_the_predictions_of_unequal_spectra(power, rho):
    initial, product, gamma = 0.5, 8.0, 1e-3
    time, (lower, middle, upper) = _predicted(power, initial, product, gamma, rho)
    noise = 4 * power * (product * gamma / rho) ** 2 if power else 0.0
    above, below = (
        [
            _square_root_rate(t, initial, *pair, noise)
            if power == 0.5
            else _constant_rate(t, initial, *pair)
            if power == 0
            else _without_private_noise(t, power, initial, *pair)
            + _private_noise_alone(t, power, pair[0], noise)
            for t in np.minimum(time, 1 - 1e-7)
        ]
        for pair in _constants(initial, product, gamma)
    )
    slack = 1e-5
    assert np.all(np.asarray(below) <= lower * (1 + slack))
    assert np.all(lower <= middle * (1 + slack))
    assert np.all(middle <= upper * (1 + slack))
    assert np.all(upper <= np.asarray(above) * (1 + slack))
    assert max(above) <= initial + 1


# Source: AC (129).
@pytest.mark.slow
def test_the_printed_constant_is_no_bound_where_the_start_is_high():
    # AC (129) as printed decays faster than the truth once R(0) > 1: here of equal eigenvalues.
    initial, product, gamma, clip = 5.0, 4.0, 1e-3, 0.05
    problem = _problem(initial).replace(spectrum=np.ones(DIM))
    algorithm = jaxdp.OnePassDPSGD(product / clip, clip, 1.0, round(DIM / gamma))
    predicted = jaxdp.predict(problem, algorithm).check()

    def bound(*, printed):
        above, _ = _constants(initial, product, gamma, clip=clip, printed=printed)
        # At lambda = 1 in place of 1.6 and .4.
        decay, sampling = above[0] / 0.4, above[1] / 1.6
        return _constant_rate(np.asarray(predicted.time), initial, decay, sampling)

    assert np.all(predicted.risk <= bound(printed=False) + 1e-5)
    assert np.max(predicted.risk - bound(printed=True)) > 0.05


# Source: AC (67), (68).
@pytest.mark.slow
def test_crude_bounds_hold_for_the_bounding_equations():
    # AC (67) and (68), of power 1/2, whose noise has a constant strength.
    initial, gamma = 0.5, 0.1
    for product, rho in ((1.5, 1.0), (1.5, 0.3), (6.0, 3.0)):
        time, (lower, _, upper) = _predicted(0.5, initial, product, gamma, rho)
        time = np.asarray(time)
        below = initial * np.exp(-2 * 1.6 * product / CLIP * time)
        slope = 1.6 * product**2 * gamma + 2 * (product * gamma / rho) ** 2
        assert np.all(lower >= below * (1 - 1e-5))
        assert np.all(upper <= (initial + slope * time) * (1 + 1e-5))
