"""Huber's loss on streams: the residual cut at its width and at the clip, whichever is nearer."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close, reference_risk

import jaxdp
from jaxdp.losses import HalfSquared, Huber, SmoothedAbsolute, SmoothedQuantile

VALUES, WEIGHTS = np.array([0.2, 1.0, 3.0]) / 1.08, np.array([0.4, 0.4, 0.2])


def _problem(width, dim=200, **more):
    loss = HalfSquared() if width is None else Huber(width)
    return jaxdp.LinearRegression.isotropic(dim, label_noise=0.3, loss=loss, **more)


def _algorithm(clip_scale=0.5, rho=1.0, num_steps=2000, peak=5.0):
    return jaxdp.OnePassDPSGD(jaxdp.Polynomial(peak, 0.5), clip_scale, rho, num_steps)


def _reference(times, width, *, clip_scale=0.5, rho=1.0, scales=((1.0, 1.0),)):
    return reference_risk(
        eigenvalues=[1.0],
        weights=[1.0],
        initial=[0.5],
        gamma=0.1,
        rho=rho,
        label_noise=0.3,
        clip_scale=clip_scale,
        rate=lambda t: 5 * np.sqrt(max(1 - t, 0)),
        square_slope=lambda s, speed: 25.0 * speed,
        times=times,
        scales=scales,
        width=width,
    )


@pytest.mark.parametrize("width", [1e6, 0.2])
def test_the_equations_agree_with_an_independent_solution(width):
    # The larger width cuts nothing: the equations are those of least squares.
    with jax.enable_x64():
        predicted = jaxdp.predict(_problem(width), _algorithm()).check()
    expected = _reference(predicted.time, np.inf if width > 1e3 else width)
    np.testing.assert_allclose(predicted.risk, expected, atol=1e-6, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("clip_scale", [0.5, 5.0])
def test_a_wide_loss_is_least_squares(clip_scale):
    with jax.enable_x64():
        wide, plain = (
            jaxdp.predict(_problem(width), _algorithm(clip_scale)) for width in (1e6, None)
        )
    np.testing.assert_allclose(wide.risk, plain.risk, atol=1e-6, rtol=0)
    np.testing.assert_allclose(wide.final_risk, plain.final_risk, atol=1e-6, rtol=0)
    for name, values in plain.observables.items():
        np.testing.assert_allclose(wide.observables[name], values, atol=1e-6)


@pytest.mark.slow
def test_width_and_scales_cut_together():
    scales = jaxdp.InputScales(VALUES, WEIGHTS)
    with jax.enable_x64():
        predicted = jaxdp.predict(_problem(0.6, input_scales=scales), _algorithm(0.6))
    pairs = tuple(zip(VALUES, WEIGHTS, strict=True))
    expected = _reference(predicted.time, 0.6, clip_scale=0.6, scales=pairs)
    np.testing.assert_allclose(predicted.risk, expected, atol=1e-6, rtol=0)


def test_reduced_runs_agree_and_reject_least_squares():
    # Without clipping, so that the loss alone cuts: c > w everywhere.
    problem, algorithm = _problem(0.2), _algorithm(5.0, jnp.inf)
    runs = jaxdp.simulate(problem, algorithm, key=jr.key(3), num_runs=200, records=4)
    with jax.enable_x64():
        exact = jaxdp.predict(_problem(0.2), _algorithm(5.0, jnp.inf))
    bias = 0.15 / 200
    assert_mean_close(runs.risk[:, 1:], np.asarray(exact.risk)[25::25], bias=bias)
    # What the loss has cut is not clipped.
    assert runs.observables["clipped_fraction"].max() == 0
    assert np.asarray(exact.observables["clipped_fraction"]).max() == 0
    wrong = _reference(np.arange(1, 5) / 4, np.inf, clip_scale=5.0, rho=np.inf)
    with pytest.raises(AssertionError):
        assert_mean_close(runs.risk[:, 1:], wrong, bias=bias)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "clip_scale", "rho"), [(0.4, 0.3, 1.0), (0.3, 1.0, 1.0), (0.2, 5.0, 3.0)]
)
def test_ode_matches_simulation_within_two_standard_errors(width, clip_scale, rho):
    dim = 1000
    problem, algorithm = _problem(width, dim), _algorithm(clip_scale, rho, 10 * dim)
    runs = jaxdp.simulate(problem, algorithm, key=jr.key(7), num_runs=100, records=4)
    predicted = jaxdp.predict(problem, algorithm, records=4)
    final = np.asarray(runs.final_risk, np.float64)
    error = final.std(ddof=1) / 10
    assert abs(final.mean() - predicted.final_risk) < 2 * error
    clipped = runs.observables["clipped_fraction"][:, -1]
    assert_mean_close(clipped, predicted.observables["clipped_fraction"][-1], bias=2e-3)
    for wrong in (_problem(None, dim), _problem(1.5 * width, dim)):
        if wrong.loss.slope_bound > clip_scale and width > clip_scale:
            continue  # both losses are cut by the clip first
        gap = abs(final.mean() - jaxdp.predict(wrong, algorithm, records=4).final_risk)
        assert gap > 5 * error


@pytest.mark.slow
@pytest.mark.parametrize(
    "simulator", [jaxdp.Iterates(), jaxdp.HomogenizedSDE(num_steps=1000)], ids=["Iterates", "SDE"]
)
def test_iterates_and_paths_agree(simulator):
    problem, algorithm = _problem(0.2), _algorithm(0.3)
    options = dict(key=jr.key(0), num_runs=60, simulator=simulator, records=4)
    runs = jaxdp.simulate(problem, algorithm, **options)
    predicted = jaxdp.predict(problem, algorithm, records=4)
    bias = 0.15 / 200 + 0.002
    assert_mean_close(runs.risk[:, 1:], predicted.risk[1:], bias=bias)
    assert_mean_close(runs.final_risk, predicted.final_risk, bias=bias)
    wrong = jaxdp.predict(_problem(None), algorithm, records=4)
    with pytest.raises(AssertionError):
        assert_mean_close(runs.risk[:, 1:], wrong.risk[1:], bias=bias)


@pytest.mark.parametrize(
    ("loss", "wrong", "simulator"),
    [
        (SmoothedQuantile(0.875, 0.25), SmoothedQuantile(0.5, 0.25), jaxdp.Reduced()),
        *(
            pytest.param(SmoothedAbsolute(0.25), SmoothedAbsolute(1.5), one, marks=pytest.mark.slow)
            for one in (jaxdp.Reduced(), jaxdp.Iterates(), jaxdp.HomogenizedSDE(num_steps=1000))
        ),
    ],
    ids=lambda part: type(part).__name__,
)
def test_any_loss_of_residuals_is_simulated_as_it_is_predicted(loss, wrong, simulator):
    problem, algorithm = _problem(None).replace(loss=loss), _algorithm(0.3, 5.0)
    options = dict(key=jr.key(5), num_runs=100, simulator=simulator, records=4)
    runs = jaxdp.simulate(problem, algorithm, **options)
    predicted = jaxdp.predict(problem, algorithm, records=4)
    for name in ("clipped_fraction", "capped_fraction"):
        expected = predicted.observables[name][1:]
        if name in runs.observables:
            assert_mean_close(runs.observables[name][:, 1:], expected, bias=0.01)
    bias = 0.15 / 200 + 0.002
    assert_mean_close(runs.risk[:, 1:], predicted.risk[1:], bias=bias)
    other = jaxdp.predict(problem.replace(loss=wrong), algorithm, records=4)
    with pytest.raises(AssertionError):
        assert_mean_close(runs.risk[:, 1:], other.risk[1:], bias=bias)


def test_the_account_does_not_see_the_loss():
    # The proof needs monotone slopes of Lipschitz constant 1 and the cap 2/|x|^2, which both have.
    problem = _problem(0.2, 4)
    sample = problem.draw(None, jr.key(0), jnp.asarray(0))
    np.testing.assert_allclose(problem.smoothness(sample), jnp.sum(sample.inputs**2), rtol=1e-6)
    predictions = jnp.linspace(-3, 3, 101)
    slopes = np.asarray(problem.loss.slope(predictions, 0.1))
    assert np.all(np.diff(slopes) >= 0)
    assert np.all(np.diff(slopes) <= np.diff(predictions) * (1 + 1e-5))
    assert float(jaxdp.account(_algorithm(), delta=1e-5).mu) == 1.0
