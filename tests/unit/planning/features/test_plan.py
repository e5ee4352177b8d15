"""Plans of private training: what they cost, what they reach, and what they say."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from helpers import assert_mean_close

import jaxdp
from jaxdp.core.display import as_text
from jaxdp.planning.features import closure_risk as closures
from jaxdp.planning.features import private_training
from jaxdp.planning.features.closure_risk import (
    BEYOND,
    Draw,
    LinearRisk,
    closure_risk,
    largest_rate,
)
from jaxdp.planning.features.search import Evaluation, Point, best_point
from jaxdp.planning.features.training_plan import LOOKED_AT
from jaxdp.privacy import FixedSizeBatches, PoissonSampler, ShuffledEpochs
from jaxdp.theory.features import modes as mode_basis
from jaxdp.theory.features.modes import explicit_modes, kernel_modes

NUM, TEST, FEATURES = 40, 20, 12
BUDGET = {"epsilon": 8.0, "delta": 1e-3}
MOMENTUM = functools.partial(optax.sgd, momentum=0.6)


def _problem(loss=None):
    """Rows of noise whose labels are linear in them, up to a little noise."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((NUM + TEST, FEATURES)) / FEATURES**0.5
    weights = rng.standard_normal((FEATURES, 3))
    scores = features @ weights + 0.1 * rng.standard_normal((NUM + TEST, 3))
    loss = jaxdp.losses.Squared() if loss is None else loss
    labels = 2 * scores[:, 0]
    if isinstance(loss, jaxdp.losses.Logistic):
        labels = np.where(labels > 0, 1.0, -1.0)
    if isinstance(loss, jaxdp.losses.Softmax):
        labels = scores.argmax(axis=1)
    rows = features[:NUM], labels[:NUM], features[NUM:], labels[NUM:]
    return jaxdp.FixedFeatures.from_arrays(*rows, loss=loss)


PROBLEM = _problem()
AT_ZERO = float(np.mean(np.asarray(PROBLEM.test_labels) ** 2))


# Shares of the work that were told, by the names of what was changed.
TOLD = {}


@functools.cache
def _plan(**changes):
    arguments = {"num_steps": (20, 10), "sampling_rate": (0.2, 1.0), **BUDGET, **changes}
    shares = TOLD[tuple(changes)] = []
    return jaxdp.plan(PROBLEM, **arguments, progress=shares.append)


@pytest.mark.slow
def test_shares_of_the_work_are_told_and_end_at_one():
    _plan()
    # Four cells, and the end.
    assert len(TOLD[()]) == 5
    assert TOLD[()] == sorted(TOLD[()])
    assert TOLD[()][-1] == 1.0


def _algorithm(rate, clip_norm, sampler, *, optimiser=optax.sgd, **changes):
    given = {"noise_multiplier": 1.5, "num_steps": 20, "sampler": sampler} | changes
    return jaxdp.PrivateOptimiser(optimiser, learning_rate=rate, clip_norm=clip_norm, **given)


@pytest.mark.slow
def test_every_cell_keeps_the_budget_and_spends_it():
    """By the account of the algorithm itself."""
    plan = _plan()
    for cell in plan.table:
        place = cell.learning_rate, cell.clip_norm, PoissonSampler(NUM, cell.sampling_rate)
        sizes = {"num_steps": cell.num_steps, "noise_multiplier": cell.noise_multiplier}
        cost = jaxdp.account(_algorithm(*place, **sizes), delta=plan.delta)
        assert 0.98 * plan.epsilon < cost.epsilon <= plan.epsilon
        assert cost.adjacency == cell.adjacency == "zero-out-one"
    assert jaxdp.account(plan.algorithm, delta=plan.delta).epsilon <= plan.epsilon


def test_the_table_has_every_cell_once_and_the_best_is_chosen():
    plan = _plan()
    cells = [(cell.num_steps, cell.sampling_rate) for cell in plan.table]
    assert cells == [(20, 0.2), (20, 1.0), (10, 0.2), (10, 1.0)]
    assert all(cell.risk >= plan.chosen.risk for cell in plan.table)
    assert plan.algorithm.num_steps == plan.chosen.num_steps
    assert plan.algorithm.clip_norm == plan.chosen.clip_norm
    # What is repeated is looked at once.
    assert private_training._listed("num_steps", [20, 20, 10]) == (20, 10)


def _assert_simulated(plan, rejects=()):
    runs = jaxdp.simulate(PROBLEM, plan.algorithm, num_runs=2000, key=jr.key(0), records=1)
    bias = 0.02 * float(runs.final_risk.mean())
    predicted = plan.predicted.final_risk
    assert_mean_close(runs.final_risk, predicted, sigmas=3, bias=bias, rejects=rejects)


def test_simulated_runs_agree_with_the_plan_and_not_with_a_third_more_noise():
    plan = _plan()
    noisier = plan.algorithm.replace(noise_multiplier=1.33 * plan.algorithm.noise_multiplier)
    _assert_simulated(plan, [jaxdp.predict(PROBLEM, noisier).final_risk])


def _risk_of(algorithm, problem=PROBLEM, *, is_linear=True):
    modes = (kernel_modes if is_linear else explicit_modes)(problem)
    (risk,) = closure_risk(modes, [algorithm], is_linear=is_linear)
    draw, steps = Draw.of(algorithm), jnp.asarray(int(algorithm.num_steps))

    def evaluate(rate, clip_norm):
        place = jnp.log(jnp.asarray([rate, clip_norm]))
        return risk.value_and_gradient(place, draw, steps)

    return evaluate


# So short that no node of the softmax's quadrature crosses the kink of the clip on its way.
RATE, CLIP_NORM, STEP = 0.3, 0.7, 1e-7


def _assert_derivative(gradient, value_at):
    """Central differences of a function of the two logarithms."""
    for place, direction in enumerate(np.eye(2)):
        moved = np.exp(STEP * direction), np.exp(-STEP * direction)
        above, below = (float(value_at(*factors * (RATE, CLIP_NORM))) for factors in moved)
        difference = (above - below) / (2 * STEP)
        np.testing.assert_allclose(gradient[place], difference, rtol=1e-5, atol=1e-9)


def _assert_predicted(problem, algorithm, evaluate, rank):
    """Value and gradient are those of the closure that `predict` asks."""
    theory = jaxdp.GaussianClosure(rank)

    def predicted(rate, clip_norm):
        changed = algorithm.replace(learning_rate=rate, clip_norm=clip_norm)
        return jaxdp.predict(problem, changed, theory=theory, records=1)

    value, gradient, is_stable = evaluate(RATE, CLIP_NORM)
    expected = predicted(RATE, CLIP_NORM)
    np.testing.assert_allclose(value, expected.final_risk, rtol=1e-10)
    assert is_stable == (expected.status == jaxdp.Status.OK)
    _assert_derivative(gradient, lambda *place: predicted(*place).final_risk)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("optimiser", "average", "sampler", "loss"),
    [
        (optax.sgd, None, PoissonSampler(NUM, 0.2), None),
        (MOMENTUM, jaxdp.PolyakAverage(), PoissonSampler(NUM, 0.2), None),
        (optax.sgd, jaxdp.TailAverage(), FixedSizeBatches(NUM, 10), None),
        (optax.sgd, jaxdp.algorithms.ExponentialAverage(0.8), ShuffledEpochs(NUM, 10), None),
        (optax.sgd, None, PoissonSampler(NUM, 1.0), jaxdp.losses.Logistic()),
        (optax.sgd, None, PoissonSampler(NUM, 0.2), jaxdp.losses.Softmax(3)),
        (optax.adam, None, PoissonSampler(NUM, 0.2), None),
    ],
)
def test_the_search_minimises_what_predict_says(optimiser, average, sampler, loss):
    is_linear = optimiser is not optax.adam
    with jax.enable_x64():
        problem = _problem(loss)
        algorithm = _algorithm(RATE, CLIP_NORM, sampler, optimiser=optimiser, average=average)
        rank = 0 if is_linear else FEATURES
        evaluate = _risk_of(algorithm, problem, is_linear=is_linear)
        _assert_predicted(problem, algorithm, evaluate, rank)
        quiet = algorithm.replace(noise_multiplier=0.0)
        evaluate = _risk_of(quiet, problem, is_linear=is_linear)
        with pytest.raises(AssertionError):
            _assert_predicted(problem, algorithm, evaluate, rank)


def _assert_best_of_grid(cell, evaluate, limit):
    rates = limit * np.geomspace(1e-3, 1, 20)
    clip_norms = cell.clip_norm * np.geomspace(0.05, 20, 20)
    found = [float(evaluate(rate, clip_norm)[0]) for rate in rates for clip_norm in clip_norms]
    assert cell.risk < min(found) * (1 + 2e-4)


def test_a_cell_is_as_good_as_the_best_of_a_fine_grid():
    cell = next(cell for cell in _plan().table if cell[:2] == (20, 1.0))
    noise = {"noise_multiplier": cell.noise_multiplier}
    evaluate = _risk_of(_algorithm(0.1, 1.0, PoissonSampler(NUM, 1.0), **noise))
    limit = kernel_modes(PROBLEM).stability_limit()
    _assert_best_of_grid(cell, evaluate, limit)
    elsewhere = 1.3 * cell.clip_norm
    worse = float(evaluate(cell.learning_rate, elsewhere)[0])
    with pytest.raises(AssertionError):
        _assert_best_of_grid(cell._replace(clip_norm=elsewhere, risk=worse), evaluate, limit)


def _beyond(loss):
    """Rows whose mean makes the top eigenvalue large: few labels need the largest step."""
    rng = np.random.default_rng(0)
    features, weights = rng.standard_normal((300, 8)), rng.standard_normal(8)
    scores = features @ weights
    labels = scores / scores.std()
    if loss.class_labels is not None:
        labels = np.where(scores + 0.3 * rng.standard_normal(300) > 0, 1.0, -1.0)
    features = (features + 1.5) / np.sqrt(26)
    rows = features[:200], labels[:200], features[200:], labels[200:]
    return jaxdp.FixedFeatures.from_arrays(*rows, loss=loss)


@pytest.mark.slow
def test_a_plan_finds_a_rate_beyond_the_limit_without_clipping():
    problem = _beyond(jaxdp.losses.Logistic())
    cell = {"num_steps": 20, "sampling_rate": 1.0, "epsilon": 8.0, "delta": 1e-3}
    plan = jaxdp.plan(problem, **cell)
    limit = problem.reduced().stability_limit()
    assert plan.chosen.learning_rate > 3 * limit
    assert plan.predicted.status == jaxdp.Status.OK
    # Rates up to the limit lose.
    evaluate = _risk_of(plan.algorithm, problem)
    places = [(rate * limit, clip) for rate in (0.5, 0.98) for clip in np.geomspace(0.03, 3, 20)]
    within = min(float(evaluate(*place)[0]) for place in places)
    assert plan.chosen.risk < 0.95 * within
    runs = jaxdp.simulate(problem, plan.algorithm, num_runs=400, key=jr.key(0), records=1)
    bias = 0.02 * float(runs.final_risk.mean())
    given = {"sigmas": 3, "bias": bias, "rejects": [within]}
    assert_mean_close(runs.final_risk, plan.predicted.final_risk, **given)


@pytest.mark.slow
def test_a_plan_stops_where_the_clipped_step_is_no_longer_stable():
    problem = _beyond(jaxdp.losses.Huber(0.5))
    cell = {"num_steps": 20, "sampling_rate": 1.0, "epsilon": 8.0, "delta": 1e-3}
    plan = jaxdp.plan(problem, **cell)
    chosen, limit = plan.chosen, problem.reduced().stability_limit()
    assert chosen.is_at_limit
    assert limit < chosen.learning_rate < 0.9 * BEYOND * limit
    assert plan.predicted.status == jaxdp.Status.OK
    evaluate = _risk_of(plan.algorithm, problem)
    assert evaluate(chosen.learning_rate, chosen.clip_norm)[2]
    assert not evaluate(chosen.learning_rate / 0.89, chosen.clip_norm)[2]


def test_no_cell_is_beyond_the_limits_of_stability():
    plan = _plan()
    assert plan.predicted.status == jaxdp.Status.OK
    for cell in plan.table:
        sampler = PoissonSampler(NUM, cell.sampling_rate)
        given = {"noise_multiplier": cell.noise_multiplier, "num_steps": cell.num_steps}
        evaluate = _risk_of(_algorithm(0.1, 1.0, sampler, **given))
        assert evaluate(cell.learning_rate, cell.clip_norm)[2]
        assert cell.is_at_limit == (not evaluate(cell.learning_rate / 0.9, cell.clip_norm)[2])
    assert ("*:" in str(plan)) == any(cell.is_at_limit for cell in plan.table)


def test_a_search_from_an_unstable_point_begins_anew():
    algorithm = _algorithm(0.1, 1.0, PoissonSampler(NUM, 0.5))
    (risk,) = closure_risk(kernel_modes(PROBLEM), [algorithm], is_linear=True)
    beyond = Point(np.log(largest_rate(risk, Draw.of(algorithm))), np.log(100.0), 1.0, True)
    found = private_training._searched(risk, algorithm, beyond, last_rows=NUM)
    assert found == private_training._searched(risk, algorithm, None, last_rows=NUM)
    assert found.point.is_stable


def test_a_risk_that_rounds_to_nothing_ends_a_search():
    def flat(place):
        return Evaluation(Point(*place, -1e-8, True), np.zeros(2))

    bounds = {"log_rates": (-1.0, 1.0), "log_clip_norms": (-1.0, 1.0)}
    assert best_point(flat, [(0.0, 0.0)], **bounds) == Point(0.0, 0.0, -1e-8, True)


def test_the_largest_rates_are_thirty_times_those_of_descent_and_heavy_ball():
    modes, limit = kernel_modes(PROBLEM), kernel_modes(PROBLEM).stability_limit()
    for share in (0.05, 1.0):
        draw = Draw.of(_algorithm(0.1, 1.0, PoissonSampler(NUM, share)))
        for optimiser, expected in ((optax.sgd, limit), (MOMENTUM, 1.6 * limit)):
            found = largest_rate(LinearRisk(modes, optimiser, None, 1, 1), draw)
            np.testing.assert_allclose(found, BEYOND * expected, rtol=0.01)


def test_a_larger_budget_is_no_worse_and_next_to_none_teaches_nothing():
    options = {"num_steps": 20, "sampling_rate": 1.0}
    risks = [_plan(epsilon=one, **options).chosen.risk for one in (1e-3, 1.0, 8.0, 40.0, 1e3)]
    assert risks == sorted(risks, reverse=True)
    np.testing.assert_allclose(risks[0], AT_ZERO, rtol=0.01)
    assert risks[-1] < 0.8 * AT_ZERO


def test_batches_of_one_size_are_rounded_to_whole_rows():
    sizes = {"sampling_rate": (1e-6, 0.02), "num_steps": 3, "sampler": FixedSizeBatches}
    plan = jaxdp.plan(PROBLEM, **BUDGET, **sizes)
    # Sizes that round to one are one cell, and its share is what is run.
    assert [cell.sampling_rate for cell in plan.table] == [1 / 40]


def _best_of(plan):
    """The predicted loss and accuracy of what is planned."""
    algorithm = plan.algorithm
    own = jnp.reshape(algorithm.learning_rate, 1), jnp.reshape(algorithm.clip_norm, 1)
    return [float(part[0]) for part in _predicted_loss_and_accuracy(algorithm, *own)]


def test_full_batches_of_replace_one_have_twice_the_noise_and_say_so():
    options = {"num_steps": 20, "sampling_rate": 1.0}
    poisson, shuffled = _plan(**options), _plan(**options, sampler=ShuffledEpochs)
    assert shuffled.adjacency == shuffled.chosen.adjacency == "replace-one"
    ratio = shuffled.chosen.noise_multiplier / poisson.chosen.noise_multiplier
    np.testing.assert_allclose(ratio, 2, rtol=2e-3)
    assert shuffled.chosen.risk > poisson.chosen.risk
    given = {"learning_rate": 0.1, "clip_norm": 1.0, "num_steps": 20}
    expected = jaxdp.DPGD.calibrated(*BUDGET.values(), **given).noise_multiplier
    np.testing.assert_allclose(shuffled.chosen.noise_multiplier, expected, rtol=1e-6)


def test_what_is_printed_says_what_a_plan_is_not_and_can_be_pasted():
    plan = _plan()
    text = str(plan)
    for first in (text, as_text(plan._explanation())):
        assert first.splitlines()[0] == LOOKED_AT
    assert "rows; if private, no cost covers it" in LOOKED_AT
    said = ("planning is not private", "proxy", "validation rows", "not the loss on the priv")
    assert [words for words in said if words not in text] == []
    assert text.count("zero-out-one") == 1
    assert plan.line in text.splitlines()
    pasted = eval(plan.line, {"functools": functools, "jaxdp": jaxdp, "optax": optax})
    assert repr(pasted) == repr(plan.algorithm)
    assert pasted == plan.algorithm


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"optimiser": MOMENTUM, "average": jaxdp.algorithms.ExponentialAverage(0.9)},
        {"optimiser": optax.adam},
        {"sampler": ShuffledEpochs, "average": jaxdp.PolyakAverage()},
        {"sampler": FixedSizeBatches},
    ],
)
def test_other_optimisers_averages_and_batches_are_planned(options):
    plan = jaxdp.plan(PROBLEM, **BUDGET, num_steps=20, sampling_rate=(0.25, 1.0), **options)
    assert plan.predicted.status == jaxdp.Status.OK
    assert float(plan.predicted.final_risk) < AT_ZERO
    pasted = eval(plan.line, {"functools": functools, "jaxdp": jaxdp, "optax": optax})
    assert repr(pasted) == repr(plan.algorithm)
    _assert_simulated(plan)


SOFTMAX_ROWS = 100


@functools.cache
def _softmax_problem():
    """So many rows that a plan uses a share of the nodes for each."""
    rng = np.random.default_rng(0)
    means, labels = rng.standard_normal((3, 6)), rng.integers(0, 3, SOFTMAX_ROWS + 60)
    features = (means[labels] + rng.standard_normal((len(labels), 6))) / 6**0.5
    parts = features[:SOFTMAX_ROWS], labels[:SOFTMAX_ROWS]
    rest = features[SOFTMAX_ROWS:], labels[SOFTMAX_ROWS:]
    return jaxdp.FixedFeatures.from_arrays(*parts, *rest, loss=jaxdp.losses.Softmax(3))


@functools.cache
def _softmax_plan(criterion):
    options = {"num_steps": 20, "sampling_rate": 1.0, "epsilon": 2.0, "delta": 1e-3}
    return jaxdp.plan(_softmax_problem(), **options, criterion=criterion)


@jax.jit
@functools.partial(jax.vmap, in_axes=(None, 0, 0))
def _predicted_loss_and_accuracy(algorithm, rate, clip_norm):
    changed = algorithm.replace(learning_rate=rate, clip_norm=clip_norm)
    theory = jaxdp.GaussianClosure(rank=0)
    found = jaxdp.predict(_softmax_problem(), changed, theory=theory, records=1)
    return found.final_risk, found.observables["accuracy"][-1]


def _assert_best_of_predictions(plan, loss):
    """No stable pair of a fine grid of full predictions is better by half a percent."""
    largest = 0.98 * kernel_modes(_softmax_problem()).stability_limit()
    pairs = largest * np.geomspace(0.03, 1, 9), plan.algorithm.clip_norm * np.geomspace(0.1, 10, 9)
    rates, clip_norms = (jnp.asarray(part.reshape(-1)) for part in np.meshgrid(*pairs))
    losses, _ = _predicted_loss_and_accuracy(plan.algorithm, rates, clip_norms)
    assert loss < 1.005 * float(losses.min())


@pytest.mark.slow
def test_a_softmax_plan_is_as_good_as_the_best_of_a_grid_of_full_predictions():
    plan = _softmax_plan("loss")
    _assert_best_of_predictions(plan, _best_of(plan)[0])
    assert plan.chosen.is_polished
    worse = plan.algorithm.replace(clip_norm=2.5 * plan.algorithm.clip_norm)
    with pytest.raises(AssertionError):
        _assert_best_of_predictions(plan, _best_of(dataclasses.replace(plan, algorithm=worse))[0])


@pytest.mark.slow
def test_a_plan_for_accuracy_has_more_of_it_and_a_larger_loss():
    loss, accuracy = (_best_of(_softmax_plan(criterion)) for criterion in ("loss", "accuracy"))
    assert accuracy[1] > loss[1]
    assert accuracy[0] > loss[0]
    (cell,) = _softmax_plan("accuracy").table
    np.testing.assert_allclose(cell.risk, 1 - accuracy[1], rtol=0.02)


def test_rows_that_stand_for_all_predict_what_all_do(monkeypatch):
    monkeypatch.setattr(mode_basis, "_ROW_NODES", 2**20)
    once = _softmax_problem()
    rows = [np.repeat(part, 2, axis=0) for part in (once.train_inputs, once.train_labels)]
    rows += once.test_inputs, once.test_labels
    twice = jaxdp.FixedFeatures.from_arrays(*rows, loss=jaxdp.losses.Softmax(3))
    algorithm = _algorithm(0.5, 0.5, PoissonSampler(2 * SOFTMAX_ROWS, 0.02), noise_multiplier=0.5)
    risk = closure_risk(kernel_modes(twice), [algorithm], is_linear=True)[0]
    each_once = np.arange(0, 2 * SOFTMAX_ROWS, 2)
    monkeypatch.setattr(closures, "some_rows", lambda count, most: each_once)
    fewer, share = risk.on_fewer_rows(SOFTMAX_ROWS)
    assert (fewer.modes.num_train, share) == (SOFTMAX_ROWS, 0.5)
    place, steps = jnp.log(jnp.asarray([0.5, 0.5])), jnp.asarray(20)
    whole = float(risk.value(place, Draw.of(algorithm), steps)[0])
    part = float(fewer.value(place, Draw.of(algorithm, share), steps)[0])
    as_if_all = float(fewer.value(place, Draw.of(algorithm), steps)[0])
    assert abs(part - whole) < 2e-3 * whole
    assert abs(as_if_all - whole) > 2e-3 * whole


def test_rows_that_stand_for_all_are_of_both_classes_if_labels_take_turns():
    # Evenly spaced rows would be of one class.
    rows = mode_basis.some_rows(2048, 1024)
    assert len(np.unique(rows)) == 1024
    # Half of 1,024 rows drawn without replacement of 2,048, plus or minus five deviations.
    assert abs(np.mean(rows % 2) - 0.5) < 5 * np.sqrt(0.25 / 1024 / 2)
