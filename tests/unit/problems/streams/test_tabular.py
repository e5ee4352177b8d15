"""Real tables: split, standardisation, and a risk that is not in-sample."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import assert_mean_close

import jaxdp


def _table(rows=300, dim=4, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(rows, dim)) * [3.0, 1.0, 0.5, 0.2][:dim] + 5
    return inputs, inputs @ np.arange(1.0, dim + 1) + noise * rng.normal(size=rows)


def test_a_pass_uses_each_training_row_once_and_no_held_out_row():
    problem = jaxdp.TabularRegression(*_table(rows=41))
    assert problem.num_steps == 20
    split = problem.prepare(jr.key(0))
    draw = jax.jit(jax.vmap(lambda index: problem.draw(split, jr.key(1), index).inputs))
    rows = set(map(tuple, np.asarray(problem.rows).tolist()))
    seen = set(map(tuple, np.asarray(draw(jnp.arange(20))).tolist()))
    assert len(seen) == 20
    assert seen < rows
    assert len(set(np.asarray(split.order).tolist())) == 20


def test_rows_that_are_not_the_surrogates_make_invalid_runs():
    problem = jaxdp.TabularRegression(*_table())
    is_valid = eqx.filter_jit(lambda problem: problem.is_valid)
    assert is_valid(problem)
    for where in (lambda p: p.rows, lambda p: p.centred_labels, lambda p: p.surrogate.target):
        changed = eqx.tree_at(where, problem, 2 * where(problem))
        assert not is_valid(changed)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Constant(1.0), 1.0, 1.0, 10)
    for one, status in ((problem, jaxdp.Status.OK), (changed, jaxdp.Status.INVALID)):
        assert jaxdp.simulate(one, algorithm, key=jr.key(0), records=1).status[0] == status
    relabelled = problem.replace(labels=2 * problem.labels)
    expected = 2 * problem.surrogate.target
    np.testing.assert_allclose(relabelled.surrogate.target, expected, rtol=1e-4, atol=1e-4)


def test_rows_have_trace_dim_and_are_centred():
    problem = jaxdp.TabularRegression(*_table())
    second_moments = np.asarray(problem.rows, np.float64).T @ problem.rows / 300
    np.testing.assert_allclose(np.trace(second_moments), 4, rtol=1e-5)
    np.testing.assert_allclose(second_moments, np.diag(problem.surrogate.spectrum), atol=1e-5)
    np.testing.assert_allclose(problem.rows.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(problem.centred_labels.mean(), 0, atol=1e-5)


def test_held_out_risk_is_the_excess_risk_by_hand():
    inputs, labels = _table(rows=60)
    problem = jaxdp.TabularRegression(inputs, labels)
    split = problem.prepare(jr.key(3))
    order = set(split.order.tolist())
    held_out = [row for row in range(60) if row not in order]
    x = np.asarray(problem.rows, np.float64)[held_out]
    y = np.asarray(problem.centred_labels, np.float64)[held_out]
    best, residual = np.linalg.lstsq(x, y)[:2]
    theta = np.asarray([0.5, -1.0, 0.2, 0.1])
    excess = np.mean((y - x @ theta) ** 2) / 2 - np.mean((y - x @ best) ** 2) / 2
    bias = residual[0] / (len(y) - 4) * 4 / (2 * len(y))
    risk = problem.risk(split, jnp.asarray(theta))
    np.testing.assert_allclose(risk, excess - bias, rtol=1e-4)


def test_held_out_risk_is_unbiased_and_without_the_correction_it_is_not():
    rng = np.random.default_rng(1)
    risks, biases = [], []
    # A new table each time, and the parameters that are right: their excess risk is 0.
    for _ in range(150):
        inputs = rng.normal(size=(60, 4))
        labels = inputs @ np.ones(4) + 0.8 * rng.normal(size=60)
        problem = jaxdp.TabularRegression(inputs, labels)
        scale = np.sqrt(60 * 4 / np.sum((inputs - inputs.mean(0)) ** 2))
        right = np.asarray(problem.rotation).T @ np.ones(4) / scale
        split = problem.prepare(jr.key(int(rng.integers(2**31))))
        risks.append(float(problem.risk(split, jnp.asarray(right))))
        biases.append(float(split.bias))
    assert_mean_close(risks, 0)
    with pytest.raises(AssertionError):
        assert_mean_close(np.add(risks, biases), 0)


@pytest.mark.slow
def test_parameters_act_on_the_users_inputs():
    inputs, labels = _table()
    problem = jaxdp.TabularRegression(inputs, labels)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Constant(2.0), 5.0, jnp.inf, problem.num_steps)
    runs = jaxdp.simulate(problem, algorithm, key=jr.key(0), keep_parameters=True)
    centred = inputs - inputs.mean(0)
    scaled = centred * np.sqrt(300 * 4 / np.sum(centred**2))
    predicted = scaled @ np.asarray(runs.parameters[0], np.float64)
    in_basis = np.asarray(problem.rotation).T @ np.asarray(runs.parameters[0])
    np.testing.assert_allclose(predicted, problem.rows @ in_basis, atol=1e-3)
    assert np.corrcoef(predicted, labels)[0, 1] > 0.8


def test_a_pass_longer_than_the_table_is_refused():
    problem = jaxdp.TabularRegression(*_table())
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Constant(2.0), 1.0, 1.0, 100, batch_size=2)
    message = r"at most 150 samples.*half of the rows are held out.*num_steps \* batch_size = 200"
    with pytest.raises(ValueError, match=message):
        jaxdp.simulate(problem, algorithm, key=jr.key(0))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda x, y: (x[:, 0], y), "shape"),
        (lambda x, y: (x * np.where(np.arange(4) == 1, 0, 1), y), "1 constant ones \\(number 1\\)"),
        (lambda x, y: (x[:11], y[:11]), "at least 12 rows for 4 columns, got 11"),
        (lambda x, y: (x, 0 * y), "labels that vary"),
    ],
)
def test_tables_that_cannot_be_learnt_are_refused(spoil, message):
    for make in (jaxdp.TabularRegression, jaxdp.LinearRegression.from_data):
        with pytest.raises(ValueError, match=message):
            make(*spoil(*_table()))


@pytest.mark.slow
def test_simulation_on_a_gaussian_table_agrees_with_its_surrogate():
    rng = np.random.default_rng(2)
    inputs = rng.normal(size=(4000, 30))
    labels = inputs @ rng.normal(size=30) / np.sqrt(30) + 0.4 * rng.normal(size=4000)
    problem = jaxdp.TabularRegression(inputs, labels)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(4.0, power=0.5), 1.0, 1.0, problem.num_steps)
    keys = jax.random.split(jr.key(0))
    table = jaxdp.simulate(problem, algorithm, key=keys[0], num_runs=40)
    surrogate = jaxdp.simulate(problem.surrogate, algorithm, key=keys[1], num_runs=40)
    gap = np.asarray(table.risk.mean(0) - surrogate.risk.mean(0))
    error = np.sqrt((table.risk.var(0, ddof=1) + surrogate.risk.var(0, ddof=1)) / 40)
    # R(0) of the surrogate carries the in-sample bias zeta^2 d / (2 n) = 6e-4.
    assert np.all(np.abs(gap) < 5 * error + 1e-3)
