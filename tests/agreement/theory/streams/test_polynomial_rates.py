"""The orders of polynomial learning rates: the printed formulas, their condition, their range."""

import math

import pytest

from jaxdp.theory import polynomial_rate


# Source: AC Theorem 6/20, (96), (98), (99).
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_terms_are_those_printed_for_output_perturbation_and_constant_noise(power):
    gamma, rho, smallest, largest = 1e-3, 0.5, 0.4, 1.6
    rate = polynomial_rate(gamma, power, rho=rho, smallest=smallest, largest=largest)
    log = math.log(1000)
    first = {0.0: gamma * log, 0.5: gamma * log ** (2 / 3)}[power]
    second = {0.0: gamma**2 * log**2, 0.5: gamma**2 * log ** (4 / 3)}[power] / rho**2
    assert rate.sampling == pytest.approx(largest / smallest**2 * first, rel=1e-12)
    assert rate.private == pytest.approx(second / smallest**2, rel=1e-12)
    assert rate.total == rate.sampling + rate.private
    assert rate.lower == pytest.approx((first + second) / largest**2, rel=1e-12)
    condition = log**2 * gamma / smallest**2 * (largest + gamma / rho**2)
    assert rate.condition == pytest.approx(condition, rel=1e-12)
    assert rate.is_covered == (condition < 1)


# Source: AC Theorem 7/21, (102).
def test_steep_rates_have_their_prefactors():
    gamma, rho, log = 1e-5, 0.1, math.log(1e5)
    for power in (1.0, 3.0, math.log(log)):
        rate = polynomial_rate(gamma, power, rho=rho)
        exponent = 1 / (1 + power)
        assert rate.sampling == pytest.approx(power * gamma * log**exponent, rel=1e-12)
        second = power**2 * gamma**2 * log ** (2 * exponent) / rho**2
        assert rate.private == pytest.approx(second, rel=1e-12)
        assert rate.lower is None
    # (103): at ln ln the powers of the logarithm are constants below e and e^2.
    assert rate.sampling < math.e * gamma * power
    assert rate.private < math.e**2 * (gamma * power / rho) ** 2
    # At a power of one there is no prefactor yet, and less of the logarithm than at a half.
    half, one = (polynomial_rate(gamma, power, rho=rho).sampling for power in (0.5, 1.0))
    assert one == pytest.approx(half * log ** (1 / 2 - 2 / 3), rel=1e-12)


# Source: AC (100).
def test_the_condition_counts_the_square_of_the_power_under_privacy():
    steep = polynomial_rate(1e-4, 32.0, rho=0.01)
    assert steep.condition == pytest.approx(1e-4 * math.log(1e4) ** 2 * (32 + 32**2), rel=1e-12)
    assert not steep.is_covered
    # As printed it would be small.
    assert 1e-4 * math.log(1e4) ** 2 * (32 + 1) < 0.3
    assert polynomial_rate(1e-4, 32.0, rho=math.inf).is_covered
