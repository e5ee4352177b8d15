"""AC's lemmas on clipped moments, capped steps, bounded paths and exponential integrals."""

import jax
import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gamma
from scipy.stats import chi2, norm

import jaxdp
from jaxdp.core.numerics.clipped_moments import descent_factor, variance_factor
from jaxdp.privacy.mechanisms import GaussianMechanism


# Source: AC Lemma 12, (32) to (41).
def test_the_factors_over_their_ratios_fall_between_their_limits():
    ratios = np.geomspace(1e-2, 30, 60).astype(np.float32)
    factors = [np.asarray(jax.jit(one)(ratios), float) for one in (descent_factor, variance_factor)]
    descent, variance = factors[0] / ratios, factors[1] / ratios.astype(float) ** 2
    # Both fall all the way, so that their value at c/zeta is a lower constant for every R.
    slack = 1e-6
    assert np.all(np.diff(descent) < slack * descent[1:])
    assert np.all(np.diff(variance) < slack * variance[1:])
    np.testing.assert_allclose(descent[0], np.sqrt(2 / np.pi), rtol=1e-4)
    np.testing.assert_allclose(variance[0], 1, rtol=1e-2)
    assert np.all(descent < np.sqrt(2 / np.pi) * (1 + slack))
    assert np.all(variance < 1)
    assert np.all(variance[ratios <= 1] > 0.5)
    assert np.all(factors[1][ratios > 1] > 0.5)
    # Little could be added to 1/2: at a ratio of one both are .516, (41).
    at_one = float(jax.jit(variance_factor)(1.0))
    assert at_one == pytest.approx(1 - np.sqrt(2 / (np.pi * np.e)), rel=1e-6)
    # The monotone ratio is nu over c'^2; nu over c', as the proof has it, rises and falls.
    printed = variance * ratios
    assert printed[0] < printed.max() > printed[-1]


# Source: AC Lemma 16.
def test_below_the_cap_no_step_is_capped_and_at_the_cap_half_are():
    for ratio, dims in ((0.9, (1600, 3200, 6400)), (0.75, (100, 200, 800))):
        # The chance that any of n = 10 d inputs of law N(0, I) has a cap below the rate.
        chance = [10 * dim * chi2.sf(dim / ratio, dim) for dim in dims]
        assert chance[0] > chance[1] > chance[2]
        assert chance[2] < 0.01
    assert chi2.sf(1000, 1000) == pytest.approx(0.494, abs=1e-3)
    # (79) as printed, 2 exp(-c t) for every t, asks for a c that falls with d.
    shares = [-np.log(chi2.sf(d + t, d) / 2) / t for d in (1e2, 1e4, 1e6) for t in [np.sqrt(2 * d)]]
    assert shares[0] > 5 * shares[1] > 25 * shares[2]


# Source: AC Lemma 17, (82).
@pytest.mark.parametrize("clip", [1.0, 2.0, 3.0])
def test_the_noise_of_all_steps_is_the_diffusions_up_to_the_square_of_the_clip_over_n(clip):
    num_steps = dim = 1000
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(1.0, power=1.0), clip, 0.5, num_steps)
    steps = np.arange(1, num_steps)
    # eta~^2 = (1 - t)^2 has the second derivative 2 everywhere, and sigma~^2 = 2 (1 - t) / rho^2.
    noise_std = jax.jit(jax.vmap(lambda step: algorithm.noise_std(step, dim)))
    added = np.asarray(noise_std(steps), np.float64) ** 2
    diffused = 4 * dim * clip**2 * 2 * (1 - steps / num_steps) / (0.5**2 * num_steps**3)
    # Half of 4 d c^2 (sigma_k^2 - sigma~^2 / n^3) times the trace of the Hessian of q.
    right = clip**2 * 2 / (0.5**2 * num_steps)
    printed = 2 * 2 / (0.5**2 * num_steps)
    # q = u' (I - z)^(-1) u has the Hessian 2 / (1 - z): z = -2 and the largest norm allowed.
    for hessian in (2 / 3, 1.0):
        found = abs(np.sum(added - diffused)) / 2 * hessian * dim
        assert found == pytest.approx(hessian * right, rel=3e-3)
        assert found < right
        # In print the square of the clip is left out: at gamma = 1 too small from c = 2 on.
        assert (found > printed) == (clip >= 2)


# Source: AC Lemma 19.
@pytest.mark.slow
def test_a_small_error_may_grow_but_stays_bounded():
    problem = jaxdp.LinearRegression.isotropic(1000, label_noise=0.3, initial_risk=0.005)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, power=0.5), 1.0, 1.0, 10_000)
    risk = np.asarray(jaxdp.predict(problem, algorithm).check().risk, np.float64)
    # Printed: sup |V|^2 <= |V_0|^2 exp(C r / sqrt d), which leaves no room for this.
    assert risk.max() > 10 * risk[0]
    # What the proof shows: log(1 + |V|^2) grows by no more than its drift, at most
    # eta^2 gamma nu P + 2 c^2 gamma^2 sigma^2 in the risk.
    grown = 0.1 * 9 / 2 * (2 * risk.max() + 0.3**2) / 2 + 2 * 0.1**2 * 9
    assert risk.max() < risk[0] + grown


# Source: AC (47) to (53).
def test_the_mean_of_one_steps_second_order_term_is_that_of_the_diffusion():
    rng = np.random.default_rng(0)
    dim, clip, noise, trials = 60, 0.8, 0.3, 20_000
    spectrum = np.linspace(0.5, 1.5, dim)
    error = rng.standard_normal(dim) / np.sqrt(dim)
    inputs = rng.standard_normal((trials, dim)) * np.sqrt(spectrum)
    residuals = inputs @ error - noise * rng.standard_normal(trials)
    limits = clip * np.sqrt(dim) / np.linalg.norm(inputs, axis=1)
    gradients = np.clip(residuals, -limits, limits)[:, None] * inputs
    power = np.sum(spectrum * error**2) + noise**2
    ratio = clip / np.sqrt(power)
    # q = u' Sigma u / 2, of Hessian Sigma: drift -mu u' Sigma^2 u, diffusion nu P tr(Sigma^2).
    drift = float(descent_factor(ratio)) * np.sum(spectrum**2 * error**2)
    expected = float(variance_factor(ratio)) * power / 2 * np.sum(spectrum**2)

    def mean_and_error(samples):
        return samples.mean(), samples.std() / np.sqrt(trials)

    first, spread = mean_and_error(gradients @ (spectrum * error))
    # Right up to O(1/d), as |x|^2 is d up to O(sqrt d).
    assert abs(first - drift) < 5 * spread + 2 * drift / dim
    second, spread = mean_and_error(np.sum(gradients**2 * spectrum, axis=1) / 2)
    assert abs(second - expected) < 5 * spread + 2 * expected / dim
    # (50) and (51) have another half.
    assert abs(second - expected / 2) > 5 * spread + 2 * expected / dim


# Source: AC Lemma 22, (104) to (115).
def test_exponential_integrals_have_their_bounds_and_their_limit():
    for order in (-2.0, -1 / 3, 0.0, 1 / 3, 0.9):
        for argument in (1e-3, 0.1, 1.0, 5.0, 20.0):
            value = float(mpmath.expint(order, argument))
            direct = quad(lambda t, x=argument, b=order: np.exp(-x * t) * t**-b, 1, np.inf)[0]
            assert value == pytest.approx(direct, rel=1e-6)
            incomplete = float(mpmath.gammainc(1 - order, argument))
            assert value == pytest.approx(argument ** (order - 1) * incomplete, rel=1e-9)
            assert value <= gamma(1 - order) * argument ** (order - 1)
            if order >= 0 or argument >= -2 * order:
                assert value <= 2 * np.exp(-argument) / argument
        limit = 1e-12 ** (1 - order) * float(mpmath.expint(order, 1e-12))
        assert limit == pytest.approx(gamma(1 - order), rel=0.1)
    # (108) does not hold of every argument where the order is negative.
    assert float(mpmath.expint(-2, 0.5)) > 2 * np.exp(-0.5) / 0.5


# Source: AC (186) to (193).
@pytest.mark.parametrize("power", [1.0, 2.0, 5.0])
def test_the_linear_solution_of_a_steep_schedule_ends_below_its_powers(power):
    whole = 1 + power
    assert gamma(2 - 1 / whole) <= 1
    assert gamma(2 * power / whole) <= 1
    for decay in (10.0, 40.0, 160.0):
        grown = decay / whole
        # At t = 1 the terms b_1 and b_2 of (184), by (190).
        first = whole ** (2 - 1 / whole) * gamma(2 - 1 / whole) * decay ** (1 / whole - 2)
        first = (first - float(mpmath.expint(-1 + 1 / whole, grown))) / whole
        second = gamma(2 * power / whole) * whole ** (2 * power / whole)
        second = second * decay ** (-2 * power / whole)
        second = (second - float(mpmath.expint((1 - power) / whole, grown))) / whole
        integrals = [
            quad(lambda s, k=k, a=grown: np.exp(-a * s**whole) * s**k, 0, 1)[0]
            for k in (2 * power, 2 * power - 1)
        ]
        np.testing.assert_allclose([first, second], integrals, rtol=1e-6)
        assert first <= whole * decay ** (1 / whole - 2)
        assert second <= whole * decay ** (-2 * power / whole)
        # The power 1/3 that (193) prints in place of 1 is too small for steep schedules.
    assert first > whole ** (1 / 3) * decay ** (1 / whole - 2) or power < 5


# Source: AC Definitions 1 and 9, (1), (8).
def test_the_renyi_divergence_of_the_gaussian_mechanism_is_its_zcdp_times_the_order():
    for mu in (0.3, 1.0):
        zcdp = float(GaussianMechanism(mu).proved.zcdp)
        for order in (1.5, 3.0, 10.0):

            def density(x, order=order, mu=mu):
                return np.exp(order * norm.logpdf(x, mu) + (1 - order) * norm.logpdf(x))

            divergence = np.log(quad(density, -30, 50, limit=400)[0]) / (order - 1)
            assert divergence == pytest.approx(order * zcdp, rel=1e-6)


# Source: AC (9).
def test_the_simpler_epsilon_is_larger_where_rho_is_small():
    delta = np.geomspace(1e-12, 0.3, 30)
    log = np.log(1 / delta)
    rho = np.linspace(1e-3, 1, 20)[:, None] * np.sqrt(log)
    published = [
        [jaxdp.privacy.zcdp_epsilon_published(r**2 / 2, d) for r, d in zip(row, delta, strict=True)]
        for row in rho
    ]
    assert np.all(np.asarray(published) <= 2 * rho * np.sqrt(log) * (1 + 1e-12))
    beyond = 1.5 * np.sqrt(log)
    assert np.any(beyond**2 / 2 + beyond * np.sqrt(2 * log) > 2 * beyond * np.sqrt(log))


# Source: AC (134) to (144), (169) to (175).
def test_no_product_of_clip_and_rate_makes_both_terms_small():
    # exp(-a tau) + tau^q delta / a^(2-q): q = 1, 2 of output perturbation, 2/3, 4/3 of power 1/2.
    decay = 1.3
    for power in (2 / 3, 1.0, 4 / 3, 2.0):
        ratios = []
        for small in (1e-2, 1e-4, 1e-8, 1e-16):
            products = np.geomspace(1e-3, 1e3, 200_001)
            values = np.exp(-decay * products) + products**power * small / decay ** (2 - power)
            order = small * np.log(1 / small) ** power / decay**2
            ratios.append(values.min() / order)
            if power == 1.0:
                # (137), with b gamma / a for the slope.
                best = np.log(decay**2 / small) / decay
                assert products[values.argmin()] == pytest.approx(best, rel=1e-3)
        # Bounded below, and at last nearly level: another power of the logarithm would not be.
        assert min(ratios) > 0.5
        assert ratios[-1] == pytest.approx(ratios[-2], rel=0.1)
        assert abs(ratios[-1] * 2**0.5 / ratios[-2] - 1) > 0.3
