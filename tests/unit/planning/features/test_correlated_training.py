"""Plans of noise over the steps: their prices, what they choose, and what they say."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from helpers import quick_and_slow

import jaxdp
from jaxdp.losses import HalfSquared, Logistic, Softmax
from jaxdp.planning.features import correlated_training
from jaxdp.planning.features.closure_risk import Draw, closure_risk
from jaxdp.planning.features.correlated_training import noise_weights
from jaxdp.planning.features.search import Point
from jaxdp.planning.features.strategies import least_noise_strategy, rows_of
from jaxdp.privacy import BandedNoise, FixedOrder, PoissonSampler, ScheduledNoise, ShuffledEpochs
from jaxdp.theory.features.linear_recursion import covariance_of
from jaxdp.theory.features.modes import kernel_modes

NUM, DIM, BATCHES, STEPS = 400, 10, 8, 16
HEAVY = functools.partial(optax.sgd, momentum=0.6)


@functools.cache
def _problem(loss=None, num=NUM, width=DIM):
    """Rows with the spectrum 1/j and trace 1."""
    rng, loss = np.random.default_rng(0), loss or HalfSquared()
    scales = np.arange(1, width + 1) ** -0.5
    features = rng.standard_normal((2 * num, width)) * scales / np.linalg.norm(scales)
    if isinstance(loss, Softmax):
        scores = 3 * features @ rng.standard_normal((width, 3))
        labels = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    else:
        labels = features @ rng.standard_normal(width) + 0.5 * rng.standard_normal(2 * num)
        labels = labels if loss.class_labels is None else np.sign(labels)
    rows = features[:num], labels[:num], features[num:], labels[num:]
    return jaxdp.FixedFeatures.from_arrays(*rows, loss=loss)


# Prices.


def _priced(loss, optimiser=optax.sgd, average=None, batches=4, steps=8, **settings):
    """A risk with banded noise, its draw and a point where most rows are clipped."""
    problem = _problem(loss, 60, 5)
    algorithm = jaxdp.PrivateOptimiser(
        optimiser,
        learning_rate=1.0,
        clip_norm=1.0,
        noise_multiplier=3.0,
        num_steps=steps,
        sampler=FixedOrder(60, batches),
        average=average,
    )
    risk = closure_risk(kernel_modes(problem), [algorithm], is_linear=True, **settings)[0]
    covariance = covariance_of(np.eye(steps) + 0.4 * np.eye(steps, k=-1))
    risk = dataclasses.replace(risk, noise=jnp.asarray(covariance))
    return risk, Draw.of(algorithm), Point(np.log(0.4), np.log(0.4), 0.0, True)


@pytest.mark.parametrize(
    "name",
    quick_and_slow(("momentum, average", "logistic", "softmax", "full batches"), "momentum, average"),
)
def test_weights_are_derivatives_of_the_predicted_risk_in_the_covariance(name):
    given = {
        "momentum, average": dict(loss=HalfSquared(), optimiser=HEAVY, average=jaxdp.TailAverage()),
        "logistic": dict(loss=Logistic(), optimiser=HEAVY),
        "softmax": dict(loss=Softmax(3), criterion="accuracy"),
        "full batches": dict(loss=Logistic(), batches=1),
    }[name]
    with jax.enable_x64():
        risk, draw, point = _priced(**given)
        steps = len(risk.noise)

        def value(covariance):
            changed = dataclasses.replace(risk, noise=jnp.asarray(covariance))
            found = changed.value(jnp.asarray(point[:2]), draw, jnp.asarray(steps))
            return float(found[0]), float(found[1])

        weights = noise_weights(risk, draw, point, steps)
        assert value(risk.noise)[1] > 0.4
        rng, size = np.random.default_rng(1), 1e-4
        for _ in range(4):
            change = rng.standard_normal((steps, steps))
            change += change.T
            ends = [value(risk.noise + sign * size * change)[0] for sign in (1, -1)]
            expected = (ends[0] - ends[1]) / (2 * size)
            scale = np.abs(weights * change).sum()
            # Prices below zero, and what the draw of the batches sees of them, are left out.
            assert abs(np.sum(weights * change) - expected) < 3e-3 * scale
            assert abs(np.sum(np.diag(weights) * np.diag(change)) - expected) > 3e-3 * scale


# Plans.


def _plan(epsilon, *, num_steps=STEPS, sampling_rate=1 / BATCHES, **given):
    given = {"problem": _problem(), "noise": "correlated", "delta": 1e-3} | given
    problem = given.pop("problem")
    sizes = {"num_steps": num_steps, "sampling_rate": sampling_rate}
    return jaxdp.plan(problem, epsilon=epsilon, **sizes, **given)


_plan_once = functools.cache(_plan)
# The notes' cases: two epochs of a power law, with little and with much privacy.
WINS = {8.0: "bands", 0.5: "independent"}


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", WINS)
def test_the_plan_says_which_noise_wins_and_spends_the_budget(epsilon):
    plan, wins = _plan_once(epsilon), WINS[epsilon]
    assert [cell.noise for cell in plan.table] == ["independent", "bands"]
    assert plan.chosen.noise == wins
    cost = jaxdp.account(plan.algorithm, delta=1e-3)
    assert cost.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert cost.epsilon <= epsilon
    assert cost.adjacency == plan.adjacency == "zero-out-one"
    kinds = {"bands": (FixedOrder, BandedNoise), "independent": (PoissonSampler, type(None))}
    assert tuple(map(type, (plan.algorithm.sampler, plan.algorithm.noise))) == kinds[wins]
    gain = [cell.risk - plan.floor for cell in plan.table]
    less = abs(1 - gain[1] / gain[0])
    sign = "less" if wins == "bands" else "more"
    assert f"privacy adds {less:.1%} {sign} to the {plan.floor:.5g} without it" in plan.about_noise
    assert plan.about_noise.startswith("independent noise is kept, as") == (wins == "independent")
    assert f"Noise: {plan.about_noise}." in str(plan)
    text = plan.line
    assert ("FixedOrder" in text and "noise=plan.algorithm.noise" in text) == (wins == "bands")
    names = {"jaxdp": jaxdp, "optax": optax, "functools": functools, "plan": plan}
    again = eval(text, names)
    assert again.noise_multiplier == plan.algorithm.noise_multiplier


@pytest.mark.slow
def test_the_risk_of_planned_noise_is_that_of_simulated_runs():
    plan = _plan_once(8.0)
    runs = jaxdp.simulate(_problem(), plan.algorithm, num_runs=100, key=jr.key(0), records=1)
    found = np.asarray(runs.final_risk, float).mean()
    independent = plan.table[0].risk
    assert abs(plan.chosen.risk - found) < 0.05 * found
    # Of what privacy adds, independent noise is told apart.
    assert abs(plan.chosen.risk - found) < 0.2 * (independent - found)


@pytest.mark.slow
def test_full_batches_have_a_schedule():
    plan = _plan(2.0, num_steps=8, sampling_rate=1.0, optimiser=HEAVY)
    assert [cell.noise for cell in plan.table] == ["independent", "schedule"]
    risks = [cell.risk for cell in plan.table]
    assert risks[1] < risks[0]
    if plan.chosen.noise == "schedule":
        assert isinstance(plan.algorithm.noise, ScheduledNoise)
        assert "noise schedule" in plan.about_noise
