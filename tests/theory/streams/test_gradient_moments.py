"""Inputs of random scale: theories and simulators against references and against each other."""

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close, reference_moments, reference_risk

import jaxdp
from jaxdp.theory.coverage import require_one_pass, require_plain_one_pass

VALUES, WEIGHTS = np.array([0.2, 1.0, 3.0]) / 1.08, np.array([0.4, 0.4, 0.2])
DIM, NUM_STEPS = 200, 2000
BIAS = 0.15 / DIM


def _problem(dim=DIM, values=VALUES, **more):
    scales = jaxdp.InputScales(values, WEIGHTS)
    return jaxdp.LinearRegression.isotropic(dim, label_noise=0.3, input_scales=scales, **more)


def _algorithm(peak, power, clip_scale, rho, num_steps=NUM_STEPS):
    # Of one type whatever the power, for one compilation.
    return jaxdp.OnePassDPSGD(jaxdp.Polynomial(peak, power), clip_scale, rho, num_steps)


# peak, power, c, rho; the same problem for all.
SETTINGS = {
    "without noise": (3.0, 0.0, 0.5, jnp.inf),
    "private": (5.0, 0.5, 0.3, 1.0),
    # Three kinks: with 2/gamma = 20 the caps are 108, 21.6 and 7.2.
    "beyond the caps": (120.0, 0.5, 0.05, 3.0),
}


def _reference(times, *, peak, power, clip_scale, rho, scales, width=np.inf):
    assert power in (0.0, 0.5)
    return reference_risk(
        eigenvalues=[1.0],
        weights=[1.0],
        initial=[0.5],
        gamma=DIM / NUM_STEPS,
        rho=rho,
        label_noise=0.3,
        clip_scale=clip_scale,
        rate=lambda t: peak * max(1 - t, 0) ** power,
        square_slope=lambda s, speed: 2 * power * peak**2 * speed,
        times=times,
        scales=scales,
        width=width,
    )


PAIRS = tuple(zip(VALUES, WEIGHTS, strict=True))


@pytest.mark.parametrize("name", SETTINGS)
def test_the_equations_agree_with_an_independent_solution(name):
    setting = dict(zip(("peak", "power", "clip_scale", "rho"), SETTINGS[name], strict=True))
    with jax.enable_x64():
        predicted = jaxdp.predict(_problem(), _algorithm(*SETTINGS[name])).check()
    expected = _reference(predicted.time, **setting, scales=PAIRS)
    np.testing.assert_allclose(predicted.risk, expected, atol=1e-6, rtol=0)


def test_scales_that_are_all_one_are_gaussian_inputs():
    # Kinks that coincide are one.
    peak, power, clip_scale, rho = SETTINGS["beyond the caps"]
    with jax.enable_x64():
        algorithm = _algorithm(peak, power, clip_scale, rho)
        predicted = jaxdp.predict(_problem(values=np.ones(3)), algorithm)
    expected = _reference(
        predicted.time, peak=peak, power=power, clip_scale=clip_scale, rho=rho, scales=[(1, 1)]
    )
    np.testing.assert_allclose(predicted.risk, expected, atol=1e-6, rtol=0)


def test_predicts_the_known_values():
    # An independent simulation of this setting ended at .0584, its equations at .0581; Gaussian
    # inputs would end at .0268.
    with jax.enable_x64():
        elliptical, plain = (
            jaxdp.predict(_problem(values=values), _algorithm(*SETTINGS["without noise"]))
            for values in (VALUES, np.ones(3))
        )
    found = elliptical.final_risk, plain.final_risk
    np.testing.assert_allclose(found, [0.0581, 0.0268], atol=1e-4)


@pytest.mark.long_runs
@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize(
    ("simulator", "num_runs"),
    [(jaxdp.Reduced(), 600), (jaxdp.Iterates(), 60), (jaxdp.HomogenizedSDE(num_steps=1000), 60)],
    ids=lambda value: type(value).__name__ if not isinstance(value, int) else "",
)
def test_every_simulator_agrees_with_the_equations(name, simulator, num_runs):
    problem, algorithm = _problem(), _algorithm(*SETTINGS[name])
    runs = jaxdp.simulate(
        problem, algorithm, key=jr.key(1), num_runs=num_runs, simulator=simulator, records=10
    ).check()
    predicted = jaxdp.predict(problem, algorithm, records=10)
    # Of order 1/d and eta^2/steps of the largest risk.
    steps = 1000 if isinstance(simulator, jaxdp.HomogenizedSDE) else NUM_STEPS
    bias = BIAS + (4 / steps + 2 / DIM) * float(predicted.risk.max())
    assert_mean_close(runs.risk[:, 1:], predicted.risk[1:], bias=bias)
    assert_mean_close(runs.final_risk, predicted.final_risk, bias=bias)
    wrong = jaxdp.predict(problem.replace(input_scales=None), algorithm, records=10)
    with pytest.raises(AssertionError):
        assert_mean_close(runs.risk[:, 1:], wrong.risk[1:], bias=bias)


def test_reduced_runs_agree_and_reject_gaussian_inputs_and_a_cap_that_is_ignored():
    # A capped problem, so that scale, clip and cap all matter.
    peak, power, clip_scale, rho = 20.0, 0.5, 0.1, 3.0
    problem, algorithm = _problem(), _algorithm(peak, power, clip_scale, rho)
    runs = jaxdp.simulate(problem, algorithm, key=jr.key(1), num_runs=300, records=4)
    with jax.enable_x64():
        exact = jaxdp.predict(_problem(), _algorithm(peak, power, clip_scale, rho))
    quarters = np.asarray(exact.risk)[::25]
    bias = BIAS + 0.005 * quarters.max()
    assert_mean_close(runs.risk[:, 1:], quarters[1:], bias=bias)
    assert_mean_close(runs.final_risk, exact.final_risk, bias=bias)
    for observable in ("clipped_fraction", "capped_fraction"):
        simulated = runs.observables[observable][:, -1]
        assert_mean_close(simulated, exact.observables[observable][-1], bias=0.004)
    times = np.arange(5) / 4
    options = dict(clip_scale=clip_scale, rho=rho, peak=peak, power=power)
    gaussian = _reference(times, **options, scales=[(1, 1)])
    capped = _reference(times, **options, scales=PAIRS)
    np.testing.assert_allclose(capped, quarters, rtol=1e-5)
    one_cap = _one_cap_for_all(times, **options)
    for wrong in (gaussian, one_cap):
        with pytest.raises(AssertionError):
            assert_mean_close(runs.risk[:, 1:], wrong[1:], bias=bias)


def _one_cap_for_all(times, *, peak, power, clip_scale, rho):
    """The equations without the caps of the inputs' scales, by small Euler steps."""
    gamma, count = DIM / NUM_STEPS, 8000
    risk, path = 0.5, [0.5]
    for step in range(count):
        rate = peak * (1 - step / count) ** power
        later = peak * (1 - (step + 1) / count) ** power
        drift = 0.0
        for scale, share in PAIRS:
            variance = 2 * scale * risk + 0.09
            mu, nu = reference_moments(clip_scale / np.sqrt(scale * variance))
            drift -= 2 * share * scale * rate * mu * risk
            drift += share * scale * rate**2 * nu * variance / 2 * gamma
        risk += drift / count + 2 * (clip_scale * gamma / rho) ** 2 * (rate**2 - later**2)
        path.append(risk)
    return np.interp(times, np.arange(count + 1) / count, path)


@pytest.mark.long_runs
@pytest.mark.slow
def test_the_recursion_agrees_with_large_batches_and_rejects_gaussian_inputs():
    dim, batch, num_steps = 100, 200, 30
    problem = _problem(dim)
    rate = jaxdp.Polynomial(1.5, 0.5)
    algorithm = jaxdp.OnePassDPSGD(rate, 0.4, 1.0, num_steps, batch_size=batch)
    runs = jaxdp.simulate(problem, algorithm, key=jr.key(0), num_runs=200, records=num_steps)
    predicted = jaxdp.predict(problem, algorithm, records=num_steps)
    assert predicted.label == "recursion"
    bias = 0.3 / dim * float(predicted.risk[0])
    assert_mean_close(runs.risk[:, 1:], predicted.risk[1:], bias=bias)
    assert_mean_close(runs.final_risk, predicted.final_risk, bias=bias)
    wrong = jaxdp.predict(problem.replace(input_scales=None), algorithm, records=num_steps)
    with pytest.raises(AssertionError):
        assert_mean_close(runs.risk[:, 1:], wrong.risk[1:], bias=bias)


@pytest.mark.slow
def test_bounds_are_ordered_for_inputs_of_random_scale():
    scales = jaxdp.InputScales(VALUES, WEIGHTS)
    problem = jaxdp.LinearRegression.power_law(
        30, condition_number=4.0, label_noise=0.3, input_scales=scales
    )
    algorithm = _algorithm(12.0, 0.5, 0.3, 1.0, 200)
    theories = (
        jaxdp.LowerBound(),
        jaxdp.TightLowerBound(),
        jaxdp.CoupledODE(),
        jaxdp.TightUpperBound(),
        jaxdp.UpperBound(),
    )
    curves = [jaxdp.predict(problem, algorithm, theory=theory).check() for theory in theories]
    for below, above in itertools.pairwise(curves):
        assert np.all(below.risk <= above.risk * (1 + 1e-5))
    isotropic = _problem(30)
    curves = [jaxdp.predict(isotropic, algorithm, theory=theory).risk for theory in theories]
    for curve in curves:
        np.testing.assert_allclose(curve, curves[2], rtol=1e-4)


@pytest.mark.slow
def test_a_batch_of_scales_gives_what_each_gives():
    algorithm = _algorithm(*SETTINGS["private"])

    def final(values):
        return jaxdp.predict(_problem(values=values), algorithm).final_risk

    batch = jnp.asarray(np.stack([VALUES, np.ones(3)]))
    together = jax.jit(jax.vmap(final))(batch)
    np.testing.assert_allclose(together, [final(values) for values in batch], rtol=1e-4)


@pytest.mark.long_runs
@pytest.mark.slow
def test_the_scales_have_derivatives():
    algorithm = _algorithm(*SETTINGS["beyond the caps"])
    with jax.enable_x64():
        # Away from the mean of one, along which the weighted mean stays.
        direction = jnp.asarray([1.0, -1.0, 0.0])

        def final(amount):
            return jaxdp.predict(_problem(values=VALUES + amount * direction), algorithm).final_risk

        difference = (final(1e-4) - final(-1e-4)) / 2e-4
        np.testing.assert_allclose(jax.grad(final)(0.0), difference, rtol=1e-4)


def test_theories_of_gaussian_least_squares_have_a_reason_to_refuse_others():
    algorithm, plain = _algorithm(*SETTINGS["private"]), _problem().replace(input_scales=None)
    huber = plain.replace(loss=jaxdp.losses.Huber(1.0))
    assert require_plain_one_pass(plain, algorithm) is None
    assert "got input_scales; CoupledODE()" in require_plain_one_pass(_problem(), algorithm)
    assert "got the loss Huber; use CoupledODE()" in require_plain_one_pass(huber, algorithm)
    other = jaxdp.DPGD(1.0, 1.0, 5, 1.0)
    assert require_plain_one_pass(plain, other) == require_one_pass(plain, other)
