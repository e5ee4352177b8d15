"""Forecasts from public rows: against private training that is simulated, and what they refuse."""

import dataclasses
import functools
import json
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import jaxdp
from jaxdp.planning import Forecast, forecasts
from jaxdp.planning.features.private_training import predicted_roughly
from jaxdp.planning.features.training_plan import LOOKED_AT

pytestmark = pytest.mark.long_runs
BUDGET = {"num_samples": 240, "epsilon": 2.0, "delta": 1e-5}
CELL = {"num_steps": 10, "sampling_rate": 0.25}
LOSS = jaxdp.losses.Logistic()


def _rows(seed, *, shift=0.8, num_train=240, num_test=200):
    """Two classes whose means are 2 `shift` apart, in 4 columns and a constant one."""
    labels, noise = jr.split(jr.key(seed))
    labels = jnp.where(jr.bernoulli(labels, shape=(num_train + num_test,)), 1, -1)
    inputs = jr.normal(noise, (len(labels), 4)).at[:, 0].add(shift * labels)
    inputs = jnp.concatenate([inputs, jnp.ones((len(labels), 1))], axis=1)
    return inputs[:num_train], labels[:num_train], inputs[num_train:], labels[num_train:]


@functools.cache
def _public():
    return jaxdp.FixedFeatures.from_arrays(*_rows(1), loss=LOSS)


@pytest.fixture(scope="module")
def alike() -> Forecast:
    return jaxdp.forecast(_public(), **BUDGET, **CELL)


def _found(algorithm, **rows):
    """Loss and accuracy of private training on other rows, with their standard errors."""
    problem = jaxdp.FixedFeatures.from_arrays(*_rows(2, **rows), loss=LOSS)
    runs = jaxdp.simulate(problem, algorithm, key=jr.key(3), num_runs=200, records=1)
    values = np.stack([runs.final_risk, runs.observables["accuracy"][:, -1]])
    return values.mean(axis=1), values


@pytest.mark.slow
def test_a_forecast_holds_for_rows_like_the_public_ones_and_not_for_others(alike):
    levels = alike.loss, alike.accuracy
    means, runs = _found(alike.plan.algorithm, num_test=4000)
    for level, mean, values in zip(levels, means, runs, strict=True):
        assert level.low < mean < level.high
        # Nine in ten are claimed; of 200 runs on one draw of rows the interval has most.
        assert np.mean((level.low < values) & (values < level.high)) > 0.85
    means, _ = _found(alike.plan.algorithm, num_test=4000, shift=0.3)
    assert not alike.loss.low < means[0] < alike.loss.high
    assert not alike.accuracy.low < means[1] < alike.accuracy.high


@pytest.mark.slow
def test_the_parts_of_an_interval_are_chance_and_the_change_on_disturbed_rows(alike):
    run = float(jaxdp.predict(_public(), alike.plan.algorithm, records=1).final_std)
    assert alike.loss.std == pytest.approx(run, rel=1e-3)
    other = jaxdp.FixedFeatures.from_arrays(*_rows(4, shift=0.3), loss=LOSS)
    wide = jaxdp.forecast(_public(), **BUDGET, **CELL, disturbed=[other])
    assert wide.accuracy.mean == pytest.approx(alike.accuracy.mean, abs=1e-6)
    # The disturbed rows are as many as are asked for, and not as many as they were.
    moved = jaxdp.predict(other, wide.plan.algorithm, records=1).final_risk - wide.loss.mean
    assert wide.loss.difference == pytest.approx(1.645 * abs(float(moved)), rel=1e-3)
    for name in ("loss", "accuracy"):
        level, same = getattr(wide, name), getattr(alike, name)
        assert level.sampling == pytest.approx(same.sampling, rel=1e-3)
        assert level.difference > same.difference > 0
    half = np.hypot(wide.loss.sampling, wide.loss.difference)
    assert wide.loss.high - wide.loss.mean == pytest.approx(half)


@pytest.mark.slow
def test_levels_of_several_classes_are_predicted_once_with_their_spread():
    rows = _rows(1)
    labels = [(part > 0) * 1 + (inputs[:, 1] > 0.5) for inputs, part in (rows[:2], rows[2:])]
    given = rows[0], labels[0], rows[2], labels[1]
    problem = jaxdp.FixedFeatures.from_arrays(*given, loss=jaxdp.losses.Softmax(3))
    found = jaxdp.forecast(problem, **BUDGET, **CELL)
    run = jaxdp.predict(problem, found.plan.algorithm, records=1)
    assert found.loss.mean == pytest.approx(float(run.final_risk), rel=1e-5)
    assert found.loss.std == pytest.approx(float(run.final_std), rel=1e-3)
    # Copies are compared as if outputs were independent.
    heavy = functools.partial(optax.sgd, momentum=0.7)
    algorithm = found.plan.algorithm.replace(optimiser=heavy, average=jaxdp.TailAverage())
    theory = jaxdp.GaussianClosure(rank=0, spread_rank=None)
    whole = jaxdp.predict(problem, algorithm, theory=theory, records=1)
    expected = whole.final_risk, whole.observables["accuracy"][-1]
    np.testing.assert_allclose(predicted_roughly(problem, algorithm), expected, rtol=1e-4)
    single = jaxdp.predict(problem, algorithm, records=1)
    assert abs(float(whole.final_risk) / float(single.final_risk) - 1) > 1e-3


@pytest.mark.slow
def test_two_test_rows_tell_little_of_an_accuracy():
    # All rows are right, whichever two are for the test.
    few = jaxdp.FixedFeatures.from_arrays(*_rows(1, shift=6, num_test=2), loss=LOSS)
    found = jaxdp.forecast(few, **BUDGET | {"epsilon": [2.0]}, **CELL, disturbed=())
    assert found.accuracy.mean > 0.99
    assert found.accuracy.sampling == pytest.approx(1.645 * np.sqrt(0.75 * 0.25 / 2), abs=0.01)
    assert (found.accuracy.difference, found.accuracy.high) == (0, 1)
    assert "by differences)" not in str(found)
    # One budget has no sizes between it and another.
    assert [(one.epsilon, one.num_samples) for one in found.curve] == [(2.0, 240)]


@pytest.mark.slow
def test_several_budgets_give_the_curve_and_a_warning_stands_once(alike, monkeypatch):
    planned = []

    def plan_training(*rows, **arguments):
        warnings.warn(f"careful: plan {len(planned)}", stacklevel=1)
        planned.append(plan(*rows, **arguments))
        return planned[-1]

    plan = forecasts.plan_training
    monkeypatch.setattr(forecasts, "plan_training", plan_training)
    with pytest.warns(UserWarning, match="careful") as seen:
        found = jaxdp.forecast(_public(), **BUDGET | {"epsilon": np.array([2.0, 0.5])}, **CELL)
    assert [(str(one.message), one.filename) for one in seen] == [("careful: plan 0", __file__)]
    assert len(planned) == 2
    assert found.loss == pytest.approx(alike.loss)
    assert [one.epsilon for one in found.over_epsilon] == [0.5, 2.0]
    assert found.over_epsilon[1] == alike.over_epsilon[2]
    # Another search, which starts from no other budget's settings.
    losses = found.over_epsilon[0].loss, alike.over_epsilon[0].loss
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert [one.num_samples for one in found.over_samples] == [120, 240]
    assert found.over_epsilon[1].clip_norm == found.plan.chosen.clip_norm


@pytest.mark.slow
def test_more_budget_and_more_rows_help_and_are_told_in_one_currency(alike):
    losses = [one.loss for one in alike.over_epsilon]
    assert losses == sorted(losses, reverse=True)
    assert len(losses) == 5
    sizes = [one.num_samples for one in alike.over_samples]
    assert sizes == [120, 240, 480]
    half, same, twice = (one.loss for one in alike.over_samples)
    assert half > same > twice
    # A plan for the epsilon that twice the rows are worth is as good as twice the rows.
    worth = alike.rows_worth
    assert 2 * 2.0 < worth < 6
    plan = jaxdp.plan(_public(), epsilon=worth, delta=1e-5, **CELL)
    assert plan.chosen.noise_multiplier == pytest.approx(
        alike.plan.chosen.noise_multiplier / 2, rel=1e-3
    )
    found, off = float(plan.predicted.final_risk), 0.2 * (same - twice)
    assert abs(found - twice) < off < abs(found - same)


@pytest.mark.slow
def test_unlike_stand_ins_choose_but_tell_no_level(alike):
    found = jaxdp.forecast(_public(), **BUDGET, **CELL, stand_in="unlike")
    assert found.loss is None
    assert found.accuracy is None
    assert found.plan.chosen == alike.plan.chosen
    assert "so none is given" in " ".join(str(found).split())


@pytest.mark.slow
def test_a_forecast_prints_and_is_json(alike):
    assert str(alike).splitlines()[0] == LOOKED_AT
    assert f"<strong>{LOOKED_AT} Forecast for n = 240" in alike._repr_html_()
    text = " ".join(str(alike).split())
    said = ("nine runs in ten", "twice the rows", "AUC", "PrivateOptimiser.calibrated")
    assert [part for part in said if part not in text] == []
    data = json.loads(json.dumps(alike.to_dict()))
    assert data["accuracy"]["mean"] == alike.accuracy.mean
    assert len(data["curve"]) == 7
    assert 0.5 < data["leak"]["auc"] <= data["leak"]["bound"]
    held_back = "learning rate: the largest rate"
    table = tuple(cell._replace(is_at_limit=True) for cell in alike.plan.table)
    limited = dataclasses.replace(alike, plan=dataclasses.replace(alike.plan, table=table))
    assert [held_back in str(one) for one in (alike, limited)] == [False, True]


def test_disturbed_rows_of_other_shapes_and_other_words_are_refused():
    disturbed = jaxdp.FixedFeatures.from_arrays(*_rows(1, num_test=9), loss=LOSS)
    for change, words in (
        ({"disturbed": [disturbed]}, "expected disturbed rows of the shapes"),
        ({"disturbed": disturbed}, "expected disturbed to be a tuple of problems FixedFeatures"),
        ({"stand_in": "similar"}, "alike"),
        ({"criterion": "f1"}, "criterion"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            jaxdp.forecast(_public(), **BUDGET, **CELL, **change)


def test_a_class_without_rows_and_a_column_that_is_alone_in_the_norm_are_named():
    inputs, labels, *test = _rows(1)
    classes = jnp.where(labels > 0, 2.0, 0.0), test[0], jnp.where(test[1] > 0, 2.0, 1.0)
    softmax = jaxdp.losses.Softmax(3)
    for rows, loss, words in (
        ((inputs, *classes), softmax, "of every class, got none of class 1 "),
        ((inputs.at[:, 3].mul(100), labels, *test), LOSS, "column 3 .from 0. has 99.9% of the fea"),
    ):
        # Warnings are errors here, so that no work is done.
        with pytest.raises(UserWarning, match=words):
            jaxdp.forecast(jaxdp.FixedFeatures.from_arrays(*rows, loss=loss), **BUDGET, **CELL)


@pytest.mark.slow
def test_levels_of_a_network_are_those_of_private_runs():
    inputs, labels, *test = _rows(1, num_test=400)
    model = eqx.nn.MLP(5, "scalar", 8, 1, jax.nn.tanh, key=jr.key(0))
    problem = jaxdp.Linearised(model, inputs, labels, *test, loss=LOSS)
    with warnings.catch_warnings():
        # A network of fifty weights moves as far as it is long.
        warnings.simplefilter("ignore")
        found = jaxdp.forecast(problem, **BUDGET | {"epsilon": [2.0]}, **CELL)
    algorithm = found.plan.algorithm

    def off(algorithm):
        """The level less the mean of other runs, and the spread of these."""
        runs = jaxdp.simulate(problem, algorithm, key=jr.key(3), num_runs=64, records=1)
        return abs(runs.final_risk.mean() - found.loss.mean), float(runs.final_risk.std(ddof=1))

    distance, std = off(algorithm)
    error = std * np.sqrt(1 / 16 + 1 / 64)
    assert distance < 4 * error
    assert off(algorithm.replace(learning_rate=algorithm.learning_rate / 2))[0] > 4 * error
    # The standard deviation of 16 runs has a relative error of 0.18.
    assert found.loss.std == pytest.approx(std, rel=0.6)
    assert found.loss.sampling > 1.8 * found.loss.std
    assert found.accuracy.low < found.accuracy.mean < found.accuracy.high
    assert found.leak is None
