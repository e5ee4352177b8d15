"""Plans of noise over the steps: their prices, what they choose, and what they say."""

import dataclasses
import functools

import equinox as eqx
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
from jaxdp.planning.features.training_plan import Cell, TrainingPlan, best_cell
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
    quick_and_slow(("momentum, average", "logistic", "softmax", "full batches"), "logistic"),
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
            return changed.point(point[:2], draw, jnp.asarray(steps)).risk

        weights = noise_weights(risk, draw, point, steps)
        place = jnp.exp(jnp.asarray(point[:2]))
        assert risk.final(*place, draw, jnp.asarray(steps))[1].clipped > 0.4 * steps
        rng, size = np.random.default_rng(1), 1e-4
        for _ in range(4):
            change = rng.standard_normal((steps, steps))
            change += change.T
            ends = [value(risk.noise + sign * size * change) for sign in (1, -1)]
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
    assert 0.9999 * epsilon < cost.epsilon <= epsilon
    assert cost.adjacency == plan.adjacency == "zero-out-one"
    kinds = {"bands": (FixedOrder, BandedNoise), "independent": (PoissonSampler, type(None))}
    assert tuple(map(type, (plan.algorithm.sampler, plan.algorithm.noise))) == kinds[wins]
    gain = [cell.risk - plan.floor for cell in plan.table]
    less = abs(1 - gain[1] / gain[0])
    sign = "less" if wins == "bands" else "more"
    assert f"{less:.1%} {sign} above training without privacy, {plan.floor:.5g}" in plan.about_noise
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
    # Of the excess over training without privacy.
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


@pytest.mark.slow
def test_unfinished_epochs_and_other_measures_are_planned_within_the_budget():
    # Eleven steps are no whole number of epochs of eight batches, three are less than one.
    plan = _plan(2.0, num_steps=(11, 3))
    assert [cell.noise for cell in plan.table] == 2 * ["independent"] + 2 * ["bands"]
    assert np.isfinite([cell.risk for cell in plan.table]).all()
    # The multiplier is the root of the epochs over the mu of the budget.
    multipliers = {cell.num_steps: cell.noise_multiplier for cell in plan.table[2:]}
    assert multipliers[11] == pytest.approx(np.sqrt(2) * multipliers[3], rel=1e-6)
    assert jaxdp.account(plan.algorithm, delta=1e-3).epsilon <= 2.0
    plan = _plan(2.0, num_steps=8, problem=_problem(Logistic()), criterion="accuracy")
    error = 1 - float(plan.predicted.observables["accuracy"][-1])
    assert plan.chosen.risk == pytest.approx(error, rel=0.05)
    assert 0 < plan.floor < 0.5


# The price of the way.


def _without_price(monkeypatch):
    real = correlated_training.weights_of_strategy

    def free(transitions, injections, prices, *rest):
        return real(transitions, injections, np.zeros_like(prices), *rest)

    monkeypatch.setattr(correlated_training, "weights_of_strategy", free)


def _with_best_noise(algorithm, problem):
    """The algorithm with the best strategy for the prices of independent noise."""
    risk = closure_risk(kernel_modes(problem), [algorithm], is_linear=True)[0]
    numbers = np.log([float(algorithm.learning_rate), float(algorithm.clip_norm)])
    point, batches = Point(*numbers, 0.0, True), algorithm.sampler.num_batches
    weights = noise_weights(risk, Draw.of(algorithm), point, algorithm.num_steps)
    strategy = least_noise_strategy(rows_of(weights), batches, batches)
    variance = np.trace(weights @ covariance_of(strategy))
    return algorithm.replace(noise=BandedNoise(strategy)), variance


@pytest.mark.slow
def test_noise_that_is_free_on_the_way_is_predicted_and_found_to_be_worse(monkeypatch):
    problem, theory = _problem(), jaxdp.GaussianClosure(rank=0, spread_rank=None)
    algorithm = jaxdp.PrivateOptimiser(
        optax.sgd,
        learning_rate=2.0,
        clip_norm=0.2,
        noise_multiplier=4.0,
        num_steps=32,
        sampler=FixedOrder(NUM, 16),
    )
    honest, its_variance = _with_best_noise(algorithm, problem)
    _without_price(monkeypatch)
    naive, variance = _with_best_noise(algorithm, problem)
    # By its own lights it is much better.
    assert variance < 0.7 * its_variance
    means = []
    for one in (honest, algorithm, naive):
        predicted = float(jaxdp.predict(problem, one, theory=theory, records=1).final_risk)
        runs = jaxdp.simulate(problem, one, num_runs=100, key=jr.key(0), records=1)
        means.append(np.asarray(runs.final_risk, float).mean())
        assert predicted == pytest.approx(means[-1], rel=0.05)
    # Even independent noise is better.
    assert means[0] < 0.95 * means[1] < 0.9 * means[2]


@pytest.mark.slow
def test_a_plan_is_better_than_one_without_the_price(monkeypatch):
    plan = _plan_once(8.0)
    cell, problem = plan.chosen, _problem()
    theory = jaxdp.GaussianClosure(rank=0, spread_rank=None)
    # The table's risk is that of the algorithm, with the feedback of its noise on clipping.
    found = jaxdp.predict(problem, plan.algorithm, theory=theory, records=1).final_risk
    assert cell.risk == pytest.approx(float(found), rel=1e-4)
    _without_price(monkeypatch)
    naive, _ = _with_best_noise(plan.algorithm.replace(noise=None), problem)
    assert float(jaxdp.predict(problem, naive, theory=theory, records=1).final_risk) > cell.risk
    assert _plan(8.0).table[-1].risk > cell.risk


# Refusals.


def test_what_correlated_noise_is_not_planned_for_is_refused():
    for given, error, match in (
        ({"noise": "other"}, ValueError, 'expected noise "independent" or "correlated"'),
        ({"noise": None}, ValueError, 'expected noise "independent" or "correlated"'),
        ({"optimiser": optax.adam}, jaxdp.NotCoveredError, r"linear optimisers .* got Adam"),
        ({"sampler": ShuffledEpochs}, ValueError, r"expected no sampler .* got .*ShuffledEpochs"),
        ({"criterion": "accuracy"}, ValueError, "expected a loss of classes"),
    ):
        with pytest.raises(error, match=match):
            _plan(1.0, **given)
    model = eqx.nn.MLP(DIM, "scalar", 4, 1, key=jr.key(0))
    network = jaxdp.Linearised(model, *_rows_of(_problem()), loss=HalfSquared())
    with pytest.raises(jaxdp.NotCoveredError, match="features on fixed rows only"):
        _plan(1.0, problem=network)
    stream = jaxdp.LinearRegression.isotropic(10, label_noise=0.3)
    with pytest.raises(TypeError, match=r"expected for LinearRegression .* got noise"):
        jaxdp.plan(stream, num_samples=100, epsilon=1.0, delta=1e-3, noise="correlated")


def _rows_of(problem):
    return problem.train_inputs, problem.train_labels, problem.test_inputs, problem.test_labels


# What counts as a gain.


@pytest.mark.parametrize(
    ("risk", "floor", "wins", "gain"),
    [
        (0.99, 0.6, "bands", 0.025),
        (0.996, 0.6, "independent", 0.01),
        # A private run may be below a floor; then the whole risks are compared.
        (0.99, 0.995, "independent", 0.01),
        (0.97, 0.98, "bands", 0.03),
        (1.1, 1.5, "independent", -0.1),
    ],
)
def test_other_noise_has_to_save_a_share_of_the_excess_over_the_floor(risk, floor, wins, gain):
    cells = tuple(
        Cell(4, 0.5, 0.1, 1.0, 1.0, one, "zero-out-one", False, noise=noise)
        for one, noise in ((1.0, "independent"), (risk, "bands"))
    )
    assert best_cell(cells, floor).noise == wins
    plan = TrainingPlan(None, None, cells, 1.0, 1e-5, None, floor)
    less = f"{abs(gain):.1%} {'less' if gain > 0 else 'more'}"
    expected = f"1: {less}"
    if floor < 0.9:
        expected += f" above training without privacy, {floor}"
    assert expected in plan.about_noise
