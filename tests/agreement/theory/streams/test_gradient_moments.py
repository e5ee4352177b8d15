"""Inputs of random scale and Huber's loss: theories and simulators against references and runs."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from every_loss import ShiftedSquare
from helpers import (
    assert_mean_close,
    assert_runs_close,
    quick_and_slow,
    reference_risk,
)

import jaxdp
from jaxdp.losses import HalfSquared, Huber

VALUES, WEIGHTS = np.array([0.2, 1.0, 3.0]) / 1.08, np.array([0.4, 0.4, 0.2])
DIM, NUM_STEPS = 200, 2000
BIAS = 0.15 / DIM


def _problem(dim=DIM, values=VALUES, width=None, **more):
    """Isotropic inputs of random scale, of none for values of None; and Huber's loss of a width."""
    scales = None if values is None else jaxdp.InputScales(values, WEIGHTS)
    loss = HalfSquared() if width is None else Huber(width)
    options = {"input_scales": scales, "loss": loss, **more}
    return jaxdp.LinearRegression.isotropic(dim, label_noise=0.3, **options)


def _algorithm(peak, power, clip_scale, rho, num_steps=NUM_STEPS):
    # Of one type whatever the power, for one compilation.
    return jaxdp.OnePassDPSGD(jaxdp.Polynomial(peak, power), clip_scale, rho, num_steps)


# peak, power, c, rho; the same problem for all.
SETTINGS = {
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


PAIRS, ONE = tuple(zip(VALUES, WEIGHTS, strict=True)), ((1, 1),)
# The problem, the algorithm, and the scales and width of the reference.
EQUATIONS = {
    **{name: ({}, setting, PAIRS, np.inf) for name, setting in SETTINGS.items()},
    # Kinks that coincide are one.
    "all one": ({"values": np.ones(3)}, SETTINGS["beyond the caps"], ONE, np.inf),
    "Huber": ({"values": None, "width": 0.2}, (5.0, 0.5, 0.5, 1.0), ONE, 0.2),
    "both": ({"width": 0.6}, (5.0, 0.5, 0.6, 1.0), PAIRS, 0.6),
}


@pytest.mark.parametrize("name", quick_and_slow(EQUATIONS, "beyond the caps", "Huber"))
def test_the_equations_agree_with_an_independent_solution(name):
    described, setting, scales, width = EQUATIONS[name]
    with jax.enable_x64():
        predicted = jaxdp.predict(_problem(**described), _algorithm(*setting)).check()
    given = dict(zip(("peak", "power", "clip_scale", "rho"), setting, strict=True))
    expected = _reference(predicted.time, **given, scales=scales, width=width)
    np.testing.assert_allclose(predicted.risk, expected, atol=1e-6, rtol=0)


HUBERS = {"values": None, "width": 0.2}
PATHS = jaxdp.HomogenizedSDE(num_steps=1000)
# Reduced runs of scales have a test of their own.
SIMULATED = [
    ("beyond the caps", {}, jaxdp.Iterates(), 60),
    ("private", {}, PATHS, 60),
    ("private", HUBERS, jaxdp.Reduced(), 600),
    ("private", HUBERS, jaxdp.Iterates(), 60),
    ("private", HUBERS, PATHS, 60),
]


@pytest.mark.long_runs
@pytest.mark.slow
@pytest.mark.parametrize(("setting", "described", "simulator", "num_runs"), SIMULATED)
def test_every_simulator_agrees_with_the_equations(setting, described, simulator, num_runs):
    problem, algorithm = _problem(**described), _algorithm(*SETTINGS[setting])
    runs = jaxdp.simulate(
        problem, algorithm, key=jr.key(1), num_runs=num_runs, simulator=simulator, records=10
    ).check()
    predicted = jaxdp.predict(problem, algorithm, records=10)
    # Of order 1/d and eta^2/steps of the largest risk.
    bias = BIAS + 0.002
    if not described:
        steps = 1000 if simulator is PATHS else NUM_STEPS
        bias = BIAS + (4 / steps + 2 / DIM) * float(predicted.risk.max())
    wrong = jaxdp.predict(_problem(values=None), algorithm, records=10)
    assert_runs_close(runs, predicted, bias=bias, rejects=[wrong])


def test_reduced_runs_agree_and_reject_gaussian_inputs():
    # A capped problem, so that scale, clip and cap all matter.
    peak, power, clip_scale, rho = 20.0, 0.5, 0.1, 3.0
    problem, algorithm = _problem(), _algorithm(peak, power, clip_scale, rho)
    runs = jaxdp.simulate(problem, algorithm, key=jr.key(1), num_runs=300, records=4)
    with jax.enable_x64():
        exact = jaxdp.predict(_problem(), _algorithm(peak, power, clip_scale, rho))
    quarters = np.asarray(exact.risk)[::25]
    bias = BIAS + 0.005 * quarters.max()
    assert_mean_close(runs.final_risk, exact.final_risk, bias=bias)
    for observable in ("clipped_fraction", "capped_fraction"):
        simulated = runs.observables[observable][:, -1]
        assert_mean_close(simulated, exact.observables[observable][-1], bias=0.004)
    times = np.arange(5) / 4
    options = dict(clip_scale=clip_scale, rho=rho, peak=peak, power=power)
    gaussian = _reference(times, **options, scales=[(1, 1)])
    capped = _reference(times, **options, scales=PAIRS)
    np.testing.assert_allclose(capped, quarters, rtol=1e-5)
    assert_mean_close(runs.risk[:, 1:], quarters[1:], bias=bias, rejects=[gaussian[1:]])


@pytest.mark.long_runs
@pytest.mark.slow
def test_the_recursion_agrees_with_large_batches_and_rejects_gaussian_inputs():
    dim, batch, num_steps = 100, 200, 30
    problem = _problem(dim)
    rate = jaxdp.Polynomial(1.5, 0.5)
    algorithm = jaxdp.OnePassDPSGD(rate, 0.4, 1.0, num_steps, batch_size=batch)
    runs = jaxdp.simulate(problem, algorithm, key=jr.key(0), num_runs=100, records=num_steps)
    predicted = jaxdp.predict(problem, algorithm, records=num_steps)
    assert predicted.label == "recursion"
    bias = 0.3 / dim * float(predicted.risk[0])
    wrong = jaxdp.predict(problem.replace(input_scales=None), algorithm, records=num_steps)
    assert_runs_close(runs, predicted, bias=bias, rejects=[wrong])


def test_the_account_does_not_see_the_loss():
    # The proof needs monotone slopes of Lipschitz constant 1 and the cap 2/|x|^2, which both have.
    problem = _problem(4, None, 0.2)
    sample = problem.draw(None, jr.key(0), jnp.asarray(0))
    np.testing.assert_allclose(problem.smoothness(sample), jnp.sum(sample.inputs**2), rtol=1e-6)
    predictions = jnp.linspace(-3, 3, 101)
    slopes = np.asarray(problem.loss.slope(predictions, 0.1))
    assert np.all(np.diff(slopes) >= 0)
    assert np.all(np.diff(slopes) <= np.diff(predictions) * (1 + 1e-5))
    assert float(jaxdp.account(_algorithm(5.0, 0.5, 0.5, 1.0), delta=1e-5).mu) == 1.0


@pytest.mark.slow
@pytest.mark.long_runs
@pytest.mark.parametrize("simulator", [jaxdp.Reduced(), jaxdp.Iterates(), PATHS])
def test_any_loss_of_residuals_is_simulated_as_it_is_predicted(simulator):
    problem = _problem(values=None).replace(loss=ShiftedSquare(0.375))
    algorithm = _algorithm(5.0, 0.5, 0.3, 5.0)
    options = dict(key=jr.key(5), num_runs=100, simulator=simulator, records=4)
    runs = jaxdp.simulate(problem, algorithm, **options)
    predicted = jaxdp.predict(problem, algorithm, records=4)
    for name in ("clipped_fraction", "capped_fraction"):
        expected = predicted.observables[name][1:]
        if name in runs.observables:
            assert_mean_close(runs.observables[name][:, 1:], expected, bias=0.01)
    bias = 0.15 / 200 + 0.002
    other = jaxdp.predict(problem.replace(loss=ShiftedSquare(0.0)), algorithm, records=4)
    rejects = [other.risk[1:]]
    assert_mean_close(runs.risk[:, 1:], predicted.risk[1:], bias=bias, rejects=rejects)
