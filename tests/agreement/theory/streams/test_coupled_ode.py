"""The coupled equations and their bounds against an independent float64 solution."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close, quick_and_slow, reference_risk

import jaxdp
from jaxdp.theory.streams import modes as linear_modes
from jaxdp.theory.streams.coupled_ode import integrate


def _piecewise_slope(t):
    """-d(rate^2)/dt of the piecewise linear case below."""
    piece = min(np.searchsorted(KNOTS, t, side="right"), 3) - 1
    steepness = (VALUES[piece] - VALUES[piece + 1]) / (KNOTS[piece + 1] - KNOTS[piece])
    return 2 * np.interp(t, KNOTS, VALUES) * steepness


# eigenvalues, multiplicities, squared target per block, gamma, rho, zeta, c
PLAIN = dict(blocks=([1.0], [30], [1.0]), gamma=0.1, rho=1.0, zeta=0.3, clip=1.0)
KNOTS, VALUES = [0.0, 0.5, 0.51, 1.0], [4.0, 3.0, 1.0, 0.0]
# What changes, the schedule, and the same rate and -d(rate^2)/dt in NumPy; the latter times ds/dt
# on the reference's clock, analytically.
CASES = {
    "square root": dict(
        **dict(gamma=0.2, rho=0.8, zeta=0.5, clip=0.7),
        schedule=jaxdp.Polynomial(2.0, 0.5),
        rate=lambda t: 2 * np.sqrt(1 - t),
        slope=lambda s, speed: 4.0 * speed,
    ),
    # 2 alpha (1-t)^(2 alpha - 1) dt/ds = 2 alpha warp (1-s)^(2 alpha warp - 1), without 0 * inf.
    "singular power": dict(
        **dict(blocks=([1.6, 0.4], [15, 15], [0.7, 0.3]), clip=0.5, warp=10.0),
        schedule=jaxdp.Polynomial(4.0, 0.1),
        rate=lambda t: 4 * (1 - t) ** 0.1,
        slope=lambda s, speed: 16 * 0.2 * 10 * (1 - s) ** (0.2 * 10 - 1),
    ),
    "two blocks, one without target": dict(
        **dict(blocks=([1.5, 0.5], [15, 15], [0.0, 1.6]), zeta=0.4, clip=1.2),
        schedule=jaxdp.Polynomial(4.0, 0.5),
        rate=lambda t: 4 * np.sqrt(1 - t),
        slope=lambda s, speed: 16.0 * speed,
    ),
    "a steep drop between knots": dict(
        schedule=jaxdp.PiecewiseLinear(KNOTS, VALUES),
        rate=lambda t: np.interp(t, KNOTS, VALUES),
        slope=lambda s, speed: _piecewise_slope(1 - (1 - s) ** 2) * speed,
    ),
    "beyond the cap": dict(
        clip=0.1,
        schedule=jaxdp.Polynomial(40.0, 0.5),
        rate=lambda t: 40 * np.sqrt(1 - t),
        slope=lambda s, speed: 1600.0 * speed,
    ),
}
CASES = {name: PLAIN | case for name, case in CASES.items()}


def _described(case):
    values, sizes, squared = (np.asarray(part, float) for part in case["blocks"])
    spectrum = np.repeat(values, sizes.astype(int))
    target = np.repeat(np.sqrt(squared / sizes), sizes.astype(int))
    problem = jaxdp.LinearRegression(spectrum, target, case["zeta"])
    num_steps = round(30 / case["gamma"])
    algorithm = jaxdp.OnePassDPSGD(case["schedule"], case["clip"], case["rho"], num_steps)
    return problem, algorithm


def _reference(case, times):
    values, sizes, squared = (np.asarray(part, float) for part in case["blocks"])
    return reference_risk(
        eigenvalues=values,
        weights=values * sizes / 30,
        initial=30 * squared / (2 * sizes),
        gamma=case["gamma"],
        rho=case["rho"],
        label_noise=case["zeta"],
        clip_scale=case["clip"],
        rate=case["rate"],
        square_slope=case["slope"],
        times=times,
        warp=case.get("warp", 2.0),
    )


# Source: AC (62).
@pytest.mark.parametrize("name", quick_and_slow(CASES, "square root"))
def test_agrees_with_an_independent_solution(name):
    case = CASES[name]
    with jax.enable_x64():
        predicted = jaxdp.predict(*_described(case)).check()
    expected = _reference(case, predicted.time)
    np.testing.assert_allclose(predicted.risk, expected, atol=1e-6, rtol=0)
    jump = 2 * (case["clip"] * case["gamma"] / case["rho"] * case["rate"](1.0)) ** 2
    np.testing.assert_allclose(predicted.final_risk, expected[-1] + jump, atol=1e-6)


# The noise to come makes the state 10^5 times the risk, which rises a thousandfold in the first
# hundredth: a first step guessed from the state's size jumps over that, and is 8e-5 off there.
def test_a_start_that_the_noise_to_come_hides_is_followed():
    case = CASES["square root"] | dict(gamma=0.1, rho=1.0, zeta=0.3, clip=10.0)
    case |= dict(schedule=jaxdp.Polynomial(221.0, 0.5), rate=lambda t: 221 * np.sqrt(1 - t))
    case |= dict(slope=lambda s, speed: 221.0**2 * speed)
    with jax.enable_x64():
        predicted = jaxdp.predict(*_described(case)).check()
    np.testing.assert_allclose(predicted.risk, _reference(case, predicted.time), rtol=1e-6)


# Source: AC (62).
@pytest.mark.slow
def test_the_printed_initial_values_are_refuted_by_simulation():
    # Erratum to AC (62): D_i(0) has no lambda_i. Here the two agree at t = 0 and nowhere after.
    dim = 200
    spectrum = np.repeat([1.8, 0.2], dim // 2)
    target = np.repeat(np.sqrt(np.asarray([0.1, 0.9]) / (dim // 2)), dim // 2)
    problem = jaxdp.LinearRegression(spectrum, target, 0.3)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, 0.5), 1.0, 1.0, 10 * dim)
    runs = jaxdp.simulate(problem, algorithm, key=jr.key(5), num_runs=150)
    right = jaxdp.predict(problem, algorithm)
    modes = linear_modes.eigen_modes(problem)
    printed = eqx.tree_at(lambda tree: tree.initial, modes, modes.initial * modes.descent)
    wrong = integrate(printed, algorithm, 100, jaxdp.CoupledODE().adjoint)
    np.testing.assert_allclose(wrong.risk[0], right.risk[0], rtol=1e-5)
    assert_mean_close(runs.risk, right.risk, bias=0.15 / dim, rejects=[wrong.risk])


@pytest.mark.slow
def test_capped_fraction_matches_simulation():
    problem = jaxdp.LinearRegression(np.repeat([1.6, 0.4], 10), np.full(20, 0.2), 0.3)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(35.0, 0.5), 0.3, 1.0, 200)
    runs = jaxdp.simulate(problem, algorithm, key=jr.key(0), num_runs=400)
    predicted = jaxdp.predict(problem, algorithm).observables["capped_fraction"]
    assert 0.2 < predicted[-1] < 0.9
    # Step k has rate eta~(k/K): half a step of the schedule's range, 1/(2K), is the clock's error.
    simulated = runs.observables["capped_fraction"]
    assert_mean_close(simulated[:, 1:], predicted[1:], bias=0.002 + 1 / 400)


BOUNDS = [
    jaxdp.LowerBound(),
    jaxdp.theory.TightLowerBound(),
    jaxdp.theory.TightUpperBound(),
    jaxdp.UpperBound(),
]
SCALES = jaxdp.InputScales(np.array([0.2, 1.0, 3.0]) / 1.08, [0.4, 0.4, 0.2])
# Inputs, peak and clip scale, and from an independent solution the bounds' final risks, AC (65).
BOUNDED = [
    (None, 3.0, 0.8, (0.0540396, 0.0657134, 0.26204, 0.4207297)),
    (SCALES, 12.0, 0.3, None),
]


# Source: AC Lemma 15, (5) = (42) = (60) = (66), (64), (65).
@pytest.mark.slow
@pytest.mark.parametrize(("scales", "peak", "clip_scale", "known"), BOUNDED)
def test_bounds_are_ordered(scales, peak, clip_scale, known):
    problem = jaxdp.LinearRegression.power_law(
        30, condition_number=4.0, label_noise=0.3, input_scales=scales
    )
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(peak, 0.5), clip_scale, 1.0, 200)
    found = [jaxdp.predict(problem, algorithm, theory=bound).check() for bound in BOUNDS]
    if known is not None:
        np.testing.assert_allclose([bound.final_risk for bound in found], known, rtol=1e-4)
    found.insert(2, jaxdp.predict(problem, algorithm))
    for below, above in itertools.pairwise(found):
        assert np.all(below.risk <= above.risk * (1 + 1e-5))
        assert below.final_risk < above.final_risk


# Source: AC (5).
@pytest.mark.slow
@pytest.mark.parametrize(("scales", "peak", "clip_scale", "known"), BOUNDED)
def test_bounds_coincide_for_isotropic_data(scales, peak, clip_scale, known):
    problem = jaxdp.LinearRegression.isotropic(30, label_noise=0.3, input_scales=scales)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(peak, 0.5), clip_scale, 1.0, 200)
    expected = jaxdp.predict(problem, algorithm).risk
    for bound in BOUNDS:
        found = jaxdp.predict(problem, algorithm, theory=bound).risk
        np.testing.assert_allclose(found, expected, rtol=2e-5 if scales is None else 1e-4)


@pytest.mark.slow
def test_limits_without_noise_and_clipping_have_a_closed_form():
    # R' = -2 eta R + eta^2 gamma (R + zeta^2/2): linear, with constant coefficients.
    problem = jaxdp.LinearRegression.isotropic(30, label_noise=0.5)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Constant(3.0), jnp.inf, jnp.inf, 300)
    predicted = jaxdp.predict(problem, algorithm)
    decay, source = 2 * 3 - 9 * 0.1, 9 * 0.1 * 0.125
    time = np.asarray(predicted.time)
    expected = source / decay + (0.5 - source / decay) * np.exp(-decay * time)
    np.testing.assert_allclose(predicted.risk, expected, rtol=1e-4)
    np.testing.assert_allclose(predicted.final_risk, expected[-1], rtol=1e-4)
    assert predicted.observables["clipped_fraction"].max() == 0
