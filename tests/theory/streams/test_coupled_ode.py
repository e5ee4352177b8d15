"""The coupled equations and their bounds against an independent float64 solution."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close, reference_risk

import jaxdp
from jaxdp.theory.streams import modes as linear_modes
from jaxdp.theory.streams.coupled_ode import integrate


def _piecewise_slope(t):
    """-d(rate^2)/dt of the piecewise linear case below."""
    knots, values = [0.0, 0.5, 0.51, 1.0], [4.0, 3.0, 1.0, 0.0]
    piece = min(np.searchsorted(knots, t, side="right"), 3) - 1
    steepness = (values[piece] - values[piece + 1]) / (knots[piece + 1] - knots[piece])
    return 2 * np.interp(t, knots, values) * steepness


# eigenvalues, multiplicities, squared target per block, gamma, rho, zeta, c, schedule, and the same
# rate and -d(rate^2)/dt in NumPy; the latter times ds/dt on the reference's clock, analytically.
CASES = {
    "constant": dict(
        blocks=([1.0], [30], [1.0]),
        gamma=0.1,
        rho=1.0,
        zeta=0.3,
        clip=1.0,
        schedule=jaxdp.Constant(3.0),
        rate=lambda t: 3.0,
        slope=lambda s, speed: 0.0,
    ),
    "square root": dict(
        blocks=([1.0], [30], [1.0]),
        gamma=0.2,
        rho=0.8,
        zeta=0.5,
        clip=0.7,
        schedule=jaxdp.Polynomial(2.0, 0.5),
        rate=lambda t: 2 * np.sqrt(1 - t),
        slope=lambda s, speed: 4.0 * speed,
    ),
    # 2 alpha (1-t)^(2 alpha - 1) dt/ds = 2 alpha warp (1-s)^(2 alpha warp - 1), without 0 * inf.
    "singular power": dict(
        blocks=([1.6, 0.4], [15, 15], [0.7, 0.3]),
        gamma=0.1,
        rho=1.0,
        zeta=0.3,
        clip=0.5,
        schedule=jaxdp.Polynomial(4.0, 0.1),
        rate=lambda t: 4 * (1 - t) ** 0.1,
        slope=lambda s, speed: 16 * 0.2 * 10 * (1 - s) ** (0.2 * 10 - 1),
        warp=10.0,
    ),
    "two blocks, one without target": dict(
        blocks=([1.5, 0.5], [15, 15], [0.0, 1.6]),
        gamma=0.1,
        rho=1.0,
        zeta=0.4,
        clip=1.2,
        schedule=jaxdp.Polynomial(4.0, 0.5),
        rate=lambda t: 4 * np.sqrt(1 - t),
        slope=lambda s, speed: 16.0 * speed,
    ),
    "hyperbolic": dict(
        blocks=([1.0], [30], [1.0]),
        gamma=0.01,
        rho=1.0,
        zeta=0.3,
        clip=0.3,
        schedule=jaxdp.Hyperbolic(20.0, 0.1),
        rate=lambda t: 20 / (1 + t / 0.1),
        slope=lambda s, speed: 2 * 400 / 0.1 / (1 + (1 - (1 - s) ** 2) / 0.1) ** 3 * speed,
    ),
    "a steep drop between knots": dict(
        blocks=([1.0], [30], [1.0]),
        gamma=0.1,
        rho=1.0,
        zeta=0.3,
        clip=1.0,
        schedule=jaxdp.PiecewiseLinear([0.0, 0.5, 0.51, 1.0], [4.0, 3.0, 1.0, 0.0]),
        rate=lambda t: np.interp(t, [0.0, 0.5, 0.51, 1.0], [4.0, 3.0, 1.0, 0.0]),
        slope=lambda s, speed: _piecewise_slope(1 - (1 - s) ** 2) * speed,
    ),
    "beyond the cap": dict(
        blocks=([1.0], [30], [1.0]),
        gamma=0.1,
        rho=1.0,
        zeta=0.3,
        clip=0.1,
        schedule=jaxdp.Polynomial(40.0, 0.5),
        rate=lambda t: 40 * np.sqrt(1 - t),
        slope=lambda s, speed: 1600.0 * speed,
    ),
}


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
    dim = sizes.sum()
    return reference_risk(
        eigenvalues=values,
        weights=values * sizes / dim,
        initial=dim * squared / (2 * sizes),
        gamma=case["gamma"],
        rho=case["rho"],
        label_noise=case["zeta"],
        clip_scale=case["clip"],
        rate=case["rate"],
        square_slope=case["slope"],
        times=times,
        warp=case.get("warp", 2.0),
    )


# Each needs a compilation in each precision.
QUICK = {64: ("square root", "singular power"), 32: ("a steep drop between knots",)}


def _each_case(bits):
    return pytest.mark.parametrize(
        "name",
        [
            pytest.param(name, marks=[] if name in QUICK[bits] else [pytest.mark.slow])
            for name in CASES
        ],
    )


# Source: AC (62).
@_each_case(64)
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


@_each_case(32)
def test_float32_keeps_four_digits(name):
    case = CASES[name]
    predicted = jaxdp.predict(*_described(case)).check()
    assert predicted.risk.dtype == jnp.float32
    np.testing.assert_allclose(predicted.risk, _reference(case, predicted.time), rtol=1e-4)


def test_values_of_an_independent_study():
    # From a study apart from this code.
    problem = jaxdp.LinearRegression.isotropic(1000, label_noise=0.3)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Constant(3.0), 1.0, 1.0, 10_000)
    predicted = jaxdp.predict(problem, algorithm)
    quarters = predicted.risk[jnp.asarray([25, 50, 75, 100])]
    np.testing.assert_allclose(quarters, [0.187815, 0.062364, 0.023335, 0.012240], rtol=1e-4)
    np.testing.assert_allclose(predicted.final_risk, 0.192240, rtol=1e-4)


@pytest.mark.slow
def test_keeps_its_digits_where_the_final_risk_is_tiny():
    # gamma = 10^-4, hyperbolic: R(1) = 5e-6 beside noise still to come of 3e-3 at the start.
    def final(dtype):
        problem = jaxdp.LinearRegression.isotropic(100, label_noise=jnp.asarray(0.3, dtype))
        schedule = jaxdp.Hyperbolic(jnp.asarray(2000.0, dtype), jnp.asarray(1.1e-3, dtype))
        algorithm = jaxdp.OnePassDPSGD(
            schedule, jnp.asarray(0.5, dtype), jnp.asarray(1.0, dtype), 10**6
        )
        return float(jaxdp.predict(problem, algorithm).check().final_risk)

    with jax.enable_x64():
        exact = final(jnp.float64)
    assert exact < 1e-5
    np.testing.assert_allclose(final(jnp.float32), exact, rtol=1e-4)


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
    assert_mean_close(runs.risk, right.risk, bias=0.15 / dim)
    modes = linear_modes.eigen_modes(problem)
    printed = eqx.tree_at(lambda tree: tree.initial, modes, modes.initial * modes.descent)
    wrong = integrate(printed, algorithm, 100, jaxdp.CoupledODE().adjoint)
    np.testing.assert_allclose(wrong.risk[0], right.risk[0], rtol=1e-5)
    with pytest.raises(AssertionError):
        assert_mean_close(runs.risk, wrong.risk, bias=0.15 / dim)


@pytest.mark.slow
def test_capped_fraction_matches_simulation():
    problem = jaxdp.LinearRegression(np.repeat([1.6, 0.4], 10), np.full(20, 0.2), 0.3)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(35.0, 0.5), 0.3, 1.0, 200)
    runs = jaxdp.simulate(problem, algorithm, key=jr.key(0), num_runs=400)
    predicted = jaxdp.predict(problem, algorithm)
    simulated = runs.observables["capped_fraction"]
    assert 0.2 < predicted.observables["capped_fraction"][-1] < 0.9
    # Step k has rate eta~(k/K): half a step of the schedule's range, 1/(2K), is the clock's error.
    assert_mean_close(
        simulated[:, 1:], predicted.observables["capped_fraction"][1:], bias=0.002 + 1 / 400
    )


BOUNDS = [jaxdp.LowerBound(), jaxdp.TightLowerBound(), jaxdp.TightUpperBound(), jaxdp.UpperBound()]


# Source: AC Lemma 15, (5) = (42) = (60) = (66), (64), (65).
@pytest.mark.slow
def test_bounds_are_ordered():
    problem = jaxdp.LinearRegression.power_law(30, condition_number=4.0, label_noise=0.3)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, 0.5), 0.8, 1.0, 200)
    lower, tight_lower, tight_upper, upper = (
        jaxdp.predict(problem, algorithm, theory=bound).check() for bound in BOUNDS
    )
    middle = jaxdp.predict(problem, algorithm)
    ordered = [lower, tight_lower, middle, tight_upper, upper]
    for below, above in itertools.pairwise(ordered):
        assert np.all(below.risk <= above.risk * (1 + 1e-5))
        assert below.final_risk < above.final_risk
    # AC (65) at this point, from an independent solution.
    np.testing.assert_allclose(tight_upper.final_risk, 0.26204, rtol=1e-4)
    np.testing.assert_allclose(tight_lower.final_risk, 0.0657134, rtol=1e-4)
    np.testing.assert_allclose(upper.final_risk, 0.4207297, rtol=1e-4)
    np.testing.assert_allclose(lower.final_risk, 0.0540396, rtol=1e-4)


# Source: AC (5).
@pytest.mark.slow
def test_bounds_coincide_for_isotropic_data():
    problem = jaxdp.LinearRegression.isotropic(30, label_noise=0.3)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, 0.5), 1.0, 1.0, 300)
    expected = jaxdp.predict(problem, algorithm).risk
    for bound in BOUNDS:
        np.testing.assert_allclose(
            jaxdp.predict(problem, algorithm, theory=bound).risk, expected, rtol=2e-5
        )


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

    def final(peak):
        return jaxdp.predict(
            problem, jaxdp.OnePassDPSGD(jaxdp.Constant(peak), jnp.inf, jnp.inf, 300)
        ).final_risk

    assert np.isfinite(jax.grad(final)(3.0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schedule", "num_steps"),
    [(jaxdp.Hyperbolic(1e5, 2e-5), 10**8), (jaxdp.Polynomial(3.0, 0.5), 10**4)],
)
def test_early_records_keep_their_digits_in_float32(schedule, num_steps):
    def predicted():
        problem = jaxdp.LinearRegression.isotropic(1000, label_noise=0.3)
        algorithm = jaxdp.OnePassDPSGD(schedule, 1.0, 1.0, num_steps)
        return jaxdp.predict(problem, algorithm, theory=jaxdp.CoupledODE(), records=10_000)

    narrow = predicted()
    with jax.enable_x64():
        wide = predicted()
    np.testing.assert_allclose(narrow.risk, wide.risk, rtol=1e-4)
    shares = [runs.observables["clipped_fraction"] for runs in (narrow, wide)]
    np.testing.assert_allclose(*shares, atol=1e-5)
