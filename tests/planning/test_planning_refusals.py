"""Wrong calls of every planner: one error that says what was expected, before any work."""

import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import jaxdp
from jaxdp.planning import best_risks, optimal_strategy
from jaxdp.planning.features import private_training
from jaxdp.privacy import FixedSizeBatches, PoissonSampler, ShuffledEpochs
from jaxdp.privacy.batches.unamplified import AbstractUnamplifiedSampler

STREAM = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
UNEQUAL = jaxdp.LinearRegression.power_law(20, condition_number=3, label_noise=0.3)
HALF = jaxdp.LinearRegression(np.repeat([2.0, 0.0], 5), np.full(10, 0.3), 0.3)
NOTHING = jaxdp.LinearRegression(np.ones(5), np.zeros(5), 0.3)
TABLE = jaxdp.TabularRegression(np.random.default_rng(0).normal(size=(90, 3)), np.arange(90.0))
LOGISTIC = jaxdp.LogisticRegression(9, signal=2.0)
ROWS = jaxdp.RandomFeatures.sample(40, 10, 3, 4, key=jr.key(0))
PUBLIC = jaxdp.FixedFeatures.from_arrays(*2 * (np.eye(30)[:, :3], np.arange(30.0)))
NOT_COVERED = jaxdp.NotCoveredError


def _without_a_rate(rate):
    return optax.sgd(0.1)


def _changing_rate(rate):
    return optax.adam(lambda count: rate / (1 + count))


def _warming_up(peak):
    return lambda step: peak * jnp.minimum(1.0, step / 20)


# What is changed of a call that is right, and what is then said.
OF_STREAMS = [
    ({"epsilon": 1.0, "delta": 1e-5}, ValueError, "either rho or epsilon and delta, got both"),
    ({"rho": None}, ValueError, "either rho or epsilon and delta, got neither"),
    ({"rho": None, "epsilon": 1.0}, ValueError, "expected delta with epsilon"),
    ({"delta": 1e-5}, ValueError, "got rho and delta"),
    ({"rho": 0.0}, ValueError, "expected rho > 0, got 0.0"),
    ({"rho": math.nan}, ValueError, "expected rho > 0"),
    ({"rho": "1"}, TypeError, "expected rho to be a real number"),
    ({"rho": None, "epsilon": -1.0, "delta": 1e-5}, ValueError, "expected 0 < epsilon"),
    ({"rho": None, "epsilon": 1.0, "delta": 2.0}, ValueError, "expected 0 < delta < 1"),
    ({"num_samples": None}, TypeError, "expected num_samples to be a Python int"),
    ({"num_samples": 0}, ValueError, "expected num_samples >= 1"),
    ({"num_samples": 10.5}, TypeError, "expected num_samples to be a Python int"),
    ({"schedule": jaxdp.Constant(3.0)}, TypeError, "expected schedule to be jaxdp.Optimal"),
    ({"schedule": None}, TypeError, "expected schedule to be jaxdp.Optimal"),
    ({"schedule": optax.linear_schedule(3.0, 0.0, 100)}, TypeError, "single schedule is no family"),
    ({"schedule": lambda time: 3.0 - time}, TypeError, "gives float: 2.3 for 0.7: a single sch"),
    ({"schedule": optax.sgd}, TypeError, "or lambda peak: jaxdp.FromSteps.*gives GradientTransf"),
    ({"schedule": optax.cosine_decay_schedule}, TypeError, "of optax.*use jaxdp.FromSteps"),
    ({"schedule": lambda peak: lambda time: peak}, ValueError, "0.7 all the time"),
    ({"schedule": _warming_up}, ValueError, "only rises, from 0 to 0.035; .*use jaxdp.FromSteps"),
    ({"rho": None, "epsilon": 1.0, "delta": 1e-3}, UserWarning, "at least 1/n = 0.001"),
    ({"rho": None, "epsilon": [1.0, 2.0], "delta": 1e-5}, ValueError, "epsilon to be one number"),
    ({"uncertainty": (1, 2)}, TypeError, "expected uncertainty to be a jaxdp.Box"),
    ({"num_steps": 10}, TypeError, "for LinearRegression epsilon, delta and num_samples.*num_s"),
    ({"optimiser": None}, TypeError, "got optimiser"),
    ({"problem": LOGISTIC, "num_steps": 10}, TypeError, "for LogisticRegression epsilon, delta"),
    ({"problem": NOTHING}, ValueError, "expected a problem with something to learn"),
    ({"problem": TABLE}, NOT_COVERED, r"of a table, its .surrogate"),
    ({"problem": None}, TypeError, "expected problem to be a problem"),
]
OF_ROWS = [
    ({"rho": 1.0}, TypeError, r"for RandomFeatures epsilon, delta and num_st.*got rho"),
    ({"problem": STREAM}, TypeError, "expected for LinearRegression .* got num_steps"),
    ({"epsilon": 0}, ValueError, "expected 0 < epsilon"),
    ({"epsilon": math.inf}, ValueError, "expected 0 < epsilon < infinity"),
    ({"epsilon": "2"}, TypeError, "expected epsilon to be a real number"),
    (
        {"epsilon": [1.0, 2.0]},
        ValueError,
        "epsilon to be one number, got shape .2,.; make one call",
    ),
    ({"delta": 1.0}, ValueError, "expected 0 < delta < 1"),
    ({"delta": 0.025}, UserWarning, "delta = 0.025 is at least 1/n = 0.025"),
    ({"num_steps": ()}, ValueError, "expected at least one num_steps, got none"),
    ({"num_steps": (5, 0)}, ValueError, "expected num_steps >= 1, got 0"),
    ({"num_steps": 2.5}, TypeError, "expected num_steps to be a Python int"),
    ({"num_steps": None}, TypeError, "expected num_steps"),
    ({"num_steps": "5"}, TypeError, "expected num_steps to be a number or a tuple"),
    ({"num_steps": 2**31}, ValueError, "expected num_steps <= 2147483647, got 2147483648"),
    ({"sampling_rate": ()}, ValueError, "expected at least one sampling_rate"),
    ({"sampling_rate": (0.5, 0.0)}, ValueError, "expected 0 < sampling_rate <= 1, got 0"),
    ({"sampling_rate": 1.5}, ValueError, "expected 0 < sampling_rate <= 1, got 1.5"),
    ({"sampling_rate": "all"}, TypeError, "expected sampling_rate to be a number or a tuple"),
    ({"optimiser": optax.sgd(0.1)}, TypeError, "expected optimiser to be a f"),
    ({"optimiser": optax.rmsprop}, NOT_COVERED, "GaussianClosure"),
    ({"optimiser": optax.sign_sgd}, NOT_COVERED, "GaussianClosure"),
    ({"optimiser": _without_a_rate}, ValueError, "uses the learning rate that it is given"),
    ({"optimiser": _changing_rate}, NOT_COVERED, "one learning rate is planned"),
    ({"criterion": "margin"}, ValueError, 'expected criterion "loss" or "accuracy", got'),
    ({"criterion": "accuracy"}, ValueError, "expected a loss of classes .* got Squared"),
    ({"average": "polyak"}, TypeError, "expected average to be None or an average"),
    ({"sampler": AbstractUnamplifiedSampler}, TypeError, "a class of jaxdp.privacy: Poisson"),
    ({"sampler": PoissonSampler(40, 0.5)}, TypeError, "expected sampler to be a class"),
    ({"sampler": ShuffledEpochs, "sampling_rate": 0.4}, NOT_COVERED, "batch_size that divides"),
]
OF_SAMPLES = [
    ({"target_risk": 0.6}, ValueError, "below the initial risk 0.5, got 0.6"),
    ({"target_risk": 0.0}, ValueError, "expected target_risk above 0"),
    ({"target_risk": math.nan}, ValueError, "expected target_risk above 0"),
    ({"target_risk": "0.1"}, TypeError, "target_risk to be a real number"),
    ({"rho": None}, ValueError, "either rho or epsilon and delta, got neither"),
    ({"problem": None}, TypeError, "expected problem to be a LinearReg"),
    ({"problem": LOGISTIC}, NOT_COVERED, "the inverse question is for least squares on Gauss"),
    ({"schedule": 3}, TypeError, "expected schedule"),
    ({"schedule": "optimal"}, TypeError, "expected schedule"),
]
OF_EPSILON = [
    ({"problem": ROWS}, TypeError, "expected problem"),
    ({"delta": "0.1"}, TypeError, "expected delta"),
    ({"target_risk": 0.7}, ValueError, "below the initi"),
    ({"num_samples": 0}, ValueError, "num_samples >= 1"),
    ({"delta": 2.0}, ValueError, "0 < delta < 1"),
    ({"problem": LOGISTIC}, NOT_COVERED, "the inverse question is for least squares on Gauss"),
]
OF_FORECASTS = [
    (
        {"epsilon": [1.0, 2.0]},
        ValueError,
        "epsilon to be one number, got shape .2,.; make one call",
    ),
    ({"delta": [1e-5]}, ValueError, "expected delta to be one number"),
    # Of the private table, not of the public rows.
    ({"delta": 1e-4}, UserWarning, "delta = 0.0001 is at least 1/n = 0.0001"),
]
OF_RISKS = [
    ({"num_samples": [9, 0]}, ValueError, "num_samples > "),
    ({"rho": [1, -1]}, ValueError, "rho > 0"),
    ({"problem": UNEQUAL}, NOT_COVERED, "equal"),
    # Half of the inputs never vary: the other eigenvalue is 2, not 1.
    ({"problem": HALF}, NOT_COVERED, "equal"),
]
OF_BOXES = [
    ({"initial_risk": (5.0, 0.05)}, ValueError, "initial_risk with low <= high"),
    ({"label_noise": (1.0, 0.1)}, ValueError, "label_noise with low <= high"),
    ({"initial_risk": (0.0, 1.0)}, ValueError, "initial_risk > 0"),
    ({"label_noise": (-0.1, 1.0)}, ValueError, "label_noise >= 0"),
    ({"initial_risk": (0.1, math.inf)}, ValueError, "both finite"),
    ({"initial_risk": (0.1, math.nan)}, ValueError, "low <= high"),
    ({"initial_risk": (0.1, 1.0, 2.0)}, ValueError, r"a pair \(low, high\)"),
    ({"initial_risk": 0.1}, ValueError, r"a pair \(low, high\)"),
    ({"initial_risk": "ab"}, TypeError, "real number"),
]
OF_STRATEGIES = [
    ({"rates": [1.0, -1.0]}, ValueError, "finite rates >= 0"),
    ({"problem": TABLE}, NOT_COVERED, "known covariance"),
]
OF_FAMILIES = [
    ({"num_knots": knots}, (TypeError, ValueError), "num_knots") for knots in (1, 2.5, "3")
]
BUDGET = {"epsilon": 8.0, "delta": 1e-3}
STRATEGY = {"rates": [2.0, 1.0], "clip_scale": 0.4, "rho": 1.0, "batch_size": 9}
CALLS = [
    (jaxdp.plan, {"problem": STREAM, "num_samples": 1000, "rho": 1.0}, OF_STREAMS),
    (jaxdp.plan, {"problem": ROWS, "num_steps": 5, "sampling_rate": 1.0, **BUDGET}, OF_ROWS),
    (jaxdp.required_samples, {"problem": STREAM, "target_risk": 0.1, "rho": 1.0}, OF_SAMPLES),
    (
        jaxdp.required_epsilon,
        {"problem": STREAM, "target_risk": 0.1, "num_samples": 9, "delta": 0.1},
        OF_EPSILON,
    ),
    (
        jaxdp.forecast,
        {"problem": PUBLIC, "num_samples": 10_000, "epsilon": 1.0, "delta": 1e-5},
        OF_FORECASTS,
    ),
    (best_risks, {"problem": STREAM, "num_samples": 9, "rho": 1.0}, OF_RISKS),
    (jaxdp.Box, {"initial_risk": (0.1, 1.0), "label_noise": (0.1, 1.0)}, OF_BOXES),
    (optimal_strategy, {"problem": STREAM, **STRATEGY}, OF_STRATEGIES),
    (jaxdp.FreeForm, {}, OF_FAMILIES),
]


@pytest.mark.parametrize(
    ("call", "right", "changes", "error", "words"),
    [(call, right, *row) for call, right, rows in CALLS for row in rows],
)
def test_a_wrong_call_is_one_error_before_any_work(call, right, changes, error, words, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("work was begun")

    monkeypatch.setattr(private_training, "multiplier_for", never)
    monkeypatch.setattr(private_training, "closure_risk", never)
    with pytest.raises(error, match=words):
        call(**{**right, **changes})


@pytest.mark.parametrize("name", ["logistic", "scales", "huber"])
def test_what_rests_on_gaussian_least_squares_refuses_other_streams(name):
    scales = jaxdp.InputScales(np.array([0.5, 1.5]), [0.5, 0.5])
    others = {
        "logistic": LOGISTIC,
        "scales": STREAM.replace(input_scales=scales),
        "huber": STREAM.replace(loss=jaxdp.losses.Huber(width=0.4)),
    }
    said = "is for least squares on Gaussian inputs.*jaxdp.plan"
    box = jaxdp.Box(initial_risk=(0.1, 1.0), label_noise=(0.1, 0.5))
    with pytest.raises(NOT_COVERED, match=f"uncertainty {said}"):
        jaxdp.plan(others[name], num_samples=1000, rho=1.0, uncertainty=box)
    with pytest.raises(NOT_COVERED, match=f"the inverse question {said}"):
        jaxdp.required_samples(others[name], 0.1, rho=1.0)
    with pytest.raises(NOT_COVERED, match=f"best_risks {said}"):
        best_risks(others[name], num_samples=1000, rho=1.0)


def test_traced_arguments_are_refused():
    def planned(label_noise):
        problem = jaxdp.LinearRegression.isotropic(5, label_noise=label_noise)
        return jaxdp.plan(problem, num_samples=1000, rho=1.0).final_risk

    with pytest.raises(TypeError, match="expected concrete problem"):
        jax.jit(planned)(0.3)
    with pytest.raises(TypeError, match="expected concrete arguments of optimal_strategy"):
        jax.jit(lambda rho: optimal_strategy(STREAM, **STRATEGY | {"rho": rho}))(1.0)


def test_batches_of_one_size_are_rounded_to_whole_rows():
    plan = jaxdp.plan(
        ROWS, **BUDGET, sampling_rate=(1e-6, 0.02), num_steps=3, sampler=FixedSizeBatches
    )
    # Sizes that round to one are one cell, and its share is what is run.
    assert [cell.sampling_rate for cell in plan.table] == [1 / 40]
