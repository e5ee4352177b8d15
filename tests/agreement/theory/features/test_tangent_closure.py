"""The closure of tangent features against linear and true networks, and where it warns."""

import functools
import warnings

import jax
import numpy as np
import optax
import pytest
from small_networks import NUM_TRAIN, descent, network, only

import jaxdp

SLOW = pytest.mark.slow
START, MEAN = (jaxdp.TangentClosure(kernel=kernel) for kernel in ("start", "mean"))


def _predicted(problem, algorithm, theory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return jaxdp.predict(problem, algorithm, theory=theory, records=1)


def _gaps(predicted, runs):
    """Relative gap of the loss and gap of the accuracy at the end, with their standard errors."""
    loss, accuracy = (
        np.asarray(each, np.float64)
        for each in (runs.final_risk, runs.observables["accuracy"][:, -1])
    )
    found = float(predicted.final_risk), float(predicted.observables["accuracy"][-1])
    root = len(loss) ** 0.5
    return (
        (abs(found[0] / loss.mean() - 1), loss.std(ddof=1) / root / loss.mean()),
        (abs(found[1] - accuracy.mean()), accuracy.std(ddof=1) / root),
    )


def _assert_agrees(predicted, runs, *, loss, accuracy):
    for (gap, error), tolerance in zip(_gaps(predicted, runs), (loss, accuracy), strict=True):
        assert gap <= tolerance + 3 * error, f"{gap:.4f} beyond {tolerance} and 3 x {error:.4f}"


@functools.cache
def _runs(num_classes, rate, simulator, num_runs):
    algorithm = descent(rate)
    how = {"key": jax.random.key(5), "num_runs": num_runs, "records": 1}
    return jaxdp.simulate(network(num_classes), algorithm, simulator=simulator, **how)


@pytest.mark.parametrize(
    ("num_classes", "rate"),
    [(2, 0.3), pytest.param(3, 0.3, marks=SLOW)],
)
def test_the_closure_agrees_with_the_linear_network(num_classes, rate):
    runs = _runs(num_classes, rate, jaxdp.simulation.LinearisedNetwork(), 30)
    found = _predicted(network(num_classes), descent(rate), START)
    _assert_agrees(found, runs, loss=0.003, accuracy=0.002)
    moved = np.sqrt(np.mean(np.asarray(runs.observables["movement"][:, -1]) ** 2))
    np.testing.assert_allclose(found.observables["movement"][-1], moved, rtol=0.05)
    # The closure that is told another rate does not.
    other = _predicted(network(num_classes), descent(1.05 * rate), START)
    with pytest.raises(AssertionError):
        _assert_agrees(other, runs, loss=0.003, accuracy=0.002)


@SLOW
def test_the_mean_kernel_agrees_with_the_true_network_and_the_starts_does_not():
    runs = _runs(2, 0.05, jaxdp.simulation.NetworkTraining(), 100)
    found = _predicted(network(), descent(0.05), MEAN)
    assert found.status == jaxdp.Status.OK
    _assert_agrees(found, runs, loss=0.06, accuracy=0.015)
    moved = np.sqrt(np.mean(np.asarray(runs.observables["movement"][:, -1]) ** 2))
    np.testing.assert_allclose(found.observables["movement"][-1], moved, rtol=0.05)
    start = _predicted(network(), descent(0.05), START)
    assert start.status == jaxdp.Status.UNSTABLE
    with pytest.raises(AssertionError):
        _assert_agrees(start, runs, loss=0.06, accuracy=0.015)


@pytest.mark.parametrize(
    ("rate", "theory", "limit"),
    [(0.3, MEAN, "the kernel gap is"), (0.05, START, "the weights' mean moves by")],
)
def test_beyond_its_limits_it_warns_which_one_is_passed(rate, theory, limit):
    with pytest.warns(UserWarning, match=limit) as caught:
        found = jaxdp.predict(network(), descent(rate), theory=theory, records=1)
    assert found.status == jaxdp.Status.UNSTABLE
    assert caught[0].filename == __file__


@SLOW
@pytest.mark.parametrize("part", ["biases", "head"])
def test_where_parts_are_trained_it_agrees_with_the_true_network(part):
    chosen = {
        "biases": lambda model: [model.layers[-1].weight, *(one.bias for one in model.layers)],
        "head": lambda model: [model.layers[-1].weight, model.layers[-1].bias],
    }
    problem, algorithm = only(network(), chosen[part]), descent(0.2)
    found = jaxdp.predict(problem, algorithm, records=1).check()
    runs = jaxdp.simulate(problem, algorithm, key=jax.random.key(7), num_runs=200, records=1)
    _assert_agrees(found, runs, loss=0.02, accuracy=0.005)
    if part == "head":
        # The features of a head are the body's: nothing about them changes.
        np.testing.assert_allclose(found.observables["kernel_gap"], 0, atol=1e-5)


@SLOW
def test_few_modes_with_the_rest_as_noise_predict_what_all_do():
    full = _predicted(network(), descent(0.3), jaxdp.TangentClosure("start", 300, 300))
    few = _predicted(network(), descent(0.3), jaxdp.TangentClosure("start", 60, 20))
    np.testing.assert_allclose(few.final_risk, full.final_risk, rtol=0.003)
    np.testing.assert_allclose(few.observables["movement"], full.observables["movement"], rtol=0.01)


def test_what_it_is_not_about_is_refused():
    assert "describes PrivateOptimiser" in MEAN.why_not(network(), jaxdp.DPGD(0.1, 1.0, 5, 0.1))
    assert "not linear" in MEAN.why_not(network(), descent(0.1, optimiser=optax.adam))
    assert "got Linearised" in jaxdp.GaussianClosure().why_not(network(), descent(0.1))
    sampler = jaxdp.privacy.PoissonSampler(NUM_TRAIN + 1, 0.2)
    with pytest.raises(ValueError, match="expected 301 training rows"):
        jaxdp.predict(network(), descent(0.1).replace(sampler=sampler))
