"""The minimiser: where it is, that its certificate holds, and that it ends on every table."""

import numpy as np
import pytest
from scipy.optimize import minimize

from experiments.private_kernel_learning.published import HuberHinge
from jaxdp.kernels.margin import objective_solver
from jaxdp.kernels.margin.objective_solver import minimise, newton_step
from jaxdp.kernels.margin.perturbed_objective import PerturbedObjective
from jaxdp.losses import Huber, Logistic, Softmax

LOSSES = [Logistic(), HuberHinge(0.5), HuberHinge(0.01), Huber(0.5), Softmax(3)]
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)


def _objective(
    loss, *, num=300, dim=8, ridge=1e-2, noise=5.0, bound=1.0, scale=1.0, dtype=np.float64
):
    rng = np.random.default_rng(3)
    features = rng.normal(size=(num, dim))
    features *= bound / np.maximum(np.linalg.norm(features, axis=1), 1)[:, None] * 0.999
    values = features[:, 0] + 0.3 * bound * rng.normal(size=num)
    if loss.class_labels is None:
        labels = scale * np.tanh(values / bound)
    elif loss.num_outputs is None:
        labels = np.where(values > 0, 1.0, -1.0)
    else:
        labels = np.digitize(values / bound, (-0.3, 0.3)).astype(float)
    linear_term = noise * rng.normal(size=dim * (loss.num_outputs or 1))
    label_bound = scale if loss.class_labels is None else 0.0
    rows = features.astype(dtype), labels
    return PerturbedObjective(*rows, loss, ridge, linear_term, bound, label_bound)


def _wide_gradient(objective, coefficients):
    """In extended precision, slopes and all."""
    outputs = objective.loss.num_outputs
    rows, labels = (np.asarray(x, np.longdouble) for x in (objective.features, objective.labels))
    shape = (-1,) if outputs is None else (-1, outputs)
    matrix = np.asarray(coefficients, np.longdouble).reshape(shape)
    predictions = rows @ matrix
    if outputs is None:
        slopes = objective.loss.slope(predictions, labels, xp=np)
    else:
        powers = np.exp(predictions - predictions.max(axis=1, keepdims=True))
        places = np.eye(outputs)[objective.labels.astype(int)]
        slopes = powers / powers.sum(axis=1, keepdims=True) - places
    total = (rows.T @ slopes).ravel() + objective.linear_term
    return total / len(labels) + objective.ridge * matrix.ravel()


@each_loss
def test_the_minimum_is_certified_and_the_one_that_another_solver_finds(loss, monkeypatch):
    # Of a small ridge, where the solver goes farther, the certificate alone.
    for ridge in (1e-3, 0.05):
        objective = _objective(loss, ridge=ridge)
        found = minimise(objective, tolerance=1e-9)
        true = float(np.linalg.norm(_wide_gradient(objective, found.coefficients)))
        assert true <= found.gradient_norm <= 1e-9
    assert np.linalg.norm(found.coefficients) <= objective.coefficient_bound
    other = minimize(
        lambda point: objective.at(point).value,
        np.zeros(len(found.coefficients)),
        jac=lambda point: objective.at(point).gradient,
        method="BFGS",
        options={"gtol": 1e-9},
    )
    assert np.linalg.norm(found.coefficients - other.x) <= 1e-6 / objective.ridge
    # Without Newton's steps.
    monkeypatch.setattr(objective_solver, "_NEWTON_STEPS", 0)
    slow = minimise(objective, tolerance=1e-8)
    assert found.num_steps < slow.num_steps <= objective.num_accelerated_steps(1e-8)


@each_loss
def test_value_gradient_and_curvature_belong_together(loss):
    objective = _objective(loss, num=40, dim=4)
    size, step = len(objective.linear_term), 1e-6
    point, slopes, curvatures = 0.4 * np.random.default_rng(7).normal(size=size), [], []
    for axis in np.eye(size):
        above, below = objective.at(point + step * axis), objective.at(point - step * axis)
        slopes.append((above.value - below.value) / (2 * step))
        curvatures.append((above.gradient - below.gradient) / (2 * step))
    np.testing.assert_allclose(objective.at(point).gradient, slopes, atol=1e-8)
    found = [objective.curvature_at(point)(axis) for axis in np.eye(size)]
    np.testing.assert_allclose(found, curvatures, atol=1e-5 * float(loss.curvature_bound))


def test_blocks_of_rows_add_up_and_float32_features_are_widened():
    objective = _objective(Logistic(), num=9000, dim=3, dtype=np.float32)
    assert objective.features.dtype == np.float32
    point = np.asarray([0.4, -1.0, 2.0])
    direct = _wide_gradient(objective, point).astype(float)
    np.testing.assert_allclose(objective.at(point).gradient, direct, rtol=1e-12)


@each_loss
@pytest.mark.parametrize(("bound", "scale"), [(1.0, 1.0), (30.0, 1e6)])
def test_the_rounding_of_the_gradient_is_covered(loss, bound, scale):
    objective = _objective(loss, num=1000, dim=30, bound=bound, scale=scale)
    for size in (0.1, 10.0, 1e4):
        point = size * np.random.default_rng(7).normal(size=len(objective.linear_term))
        off = objective.at(point).gradient - _wide_gradient(objective, point)
        covered = objective.gradient_rounding(float(np.linalg.norm(point)))
        assert 0 < np.linalg.norm(off.astype(float)) <= covered


def test_the_bound_of_the_minimiser_is_nearly_reached():
    # Where there are no rows, points no worse than zero are up to twice as far.
    for noise in (0.3, 3e3):
        flat = _extreme(_TABLES["nothing"], Logistic(), flipped=False, noise=noise)
        opposite = 2 * minimise(flat, tolerance=1e-9).coefficients
        assert flat.at(opposite).value == pytest.approx(flat.at(0 * opposite).value, abs=1e-6)
        assert 1 < flat.coefficient_bound / np.linalg.norm(opposite) < (8 if noise < 1 else 1.01)


def test_a_step_that_overshoots_is_shortened():
    rows = np.asarray([[1.0]])
    objective = PerturbedObjective(rows, np.ones(1), Logistic(), 1e-4, np.asarray([0.9]), 1.0)
    point = objective.at(np.asarray([12.0]))
    full = point.coefficients - point.gradient / objective.curvature_at(point.coefficients)(
        np.ones(1)
    )
    taken = newton_step(objective, point)
    assert abs(taken.coefficients[0]) < abs(full[0])
    assert taken.value < point.value


# Tables at the ends of what a loss's constants allow: all rows one, none, or a direction each.
_TABLES = {
    "one row": np.full((30, 4), 0.5),
    "nothing": np.zeros((30, 4)),
    "a row for each direction": np.eye(4)[np.arange(30) % 4],
    "small directions": np.eye(4)[np.arange(30) % 4] * [1.0, 1e-2, 1e-4, 1e-6],
}


def _extreme(rows, loss, *, flipped, ridge=1e-2, noise=0.3):
    labels = np.ones(30) if loss.num_outputs is None else np.arange(30.0) % loss.num_outputs
    # A neighbour: the first record's label is another.
    labels[0] = (-1.0 if loss.num_outputs is None else 1.0) if flipped else labels[0]
    b = noise * np.random.default_rng(1).normal(size=4 * (loss.num_outputs or 1))
    label_bound = float(isinstance(loss, Huber))
    return PerturbedObjective(rows, labels, loss, ridge, b, 1.0, label_bound)


each_extreme_loss = pytest.mark.parametrize(
    "loss", [Logistic(), HuberHinge(0.2), Softmax(3), Huber(0.2)], ids=lambda loss: type(loss)
)


@pytest.mark.parametrize("max_steps", [1, None])
@each_extreme_loss
def test_no_table_keeps_the_tolerance_from_being_met(loss, max_steps):
    for rows in _TABLES.values():
        for flipped in (False, True):
            objective = _extreme(rows, loss, flipped=flipped)
            found = minimise(objective, tolerance=1e-9, max_steps=max_steps)
            assert objective.gradient_norm(objective.at(found.coefficients)) <= 1e-9


@each_extreme_loss
def test_gradient_steps_alone_meet_the_least_tolerance_in_the_number_stated(loss, monkeypatch):
    monkeypatch.setattr(objective_solver, "_NEWTON_STEPS", 0)
    monkeypatch.setattr(PerturbedObjective, "num_accelerated_steps", lambda *_: 0)
    for rows in _TABLES.values():
        objective = _extreme(rows, loss, flipped=True, ridge=1e-1)
        tolerance = objective.least_tolerance
        assert 1e-15 < tolerance < 1e-11
        found = minimise(objective, tolerance=tolerance)
        assert found.gradient_norm <= tolerance
        assert found.num_steps <= objective.num_gradient_steps(tolerance)
        assert np.linalg.norm(found.coefficients) <= objective.coefficient_bound
        # In exact arithmetic the steps multiply distances by 1 - 1/kappa where there are no rows.
        if not rows.any():
            assert found.num_steps > objective.num_gradient_steps(tolerance) / 4


def test_gradient_steps_meet_eight_times_any_rounding(monkeypatch):
    # Rounding as large as is allowed for, and against every step: nothing but the bound is left.
    monkeypatch.setattr(objective_solver, "_NEWTON_STEPS", 0)
    monkeypatch.setattr(PerturbedObjective, "num_accelerated_steps", lambda *_: 0)
    monkeypatch.setattr(PerturbedObjective, "gradient_rounding", lambda *_: 1e-5)
    true, generator = PerturbedObjective.at, np.random.default_rng(2)

    def against(gradient):
        return -gradient / np.linalg.norm(gradient)

    def anywhere(gradient):
        direction = generator.normal(size=gradient.shape)
        return direction / np.linalg.norm(direction)

    for direction in (against, anywhere):

        def rounded(self, coefficients, direction=direction):
            point = true(self, coefficients)
            return point._replace(gradient=point.gradient + 1e-5 * direction(point.gradient))

        monkeypatch.setattr(PerturbedObjective, "at", rounded)
        for rows in _TABLES.values():
            objective = _extreme(rows, HuberHinge(0.1), flipped=True, ridge=0.1)
            tolerance = objective.least_tolerance
            assert tolerance == pytest.approx(8e-5)
            found = minimise(objective, tolerance=tolerance)
            assert np.linalg.norm(true(objective, found.coefficients).gradient) <= tolerance
            assert found.num_steps <= objective.num_gradient_steps(tolerance)


def test_a_loss_that_is_not_what_it_states_is_an_error(monkeypatch):
    # Its slope changes ten times as fast, and steps of the stated length go nowhere.
    monkeypatch.setattr(HuberHinge, "curvature_bound", 0.05)
    monkeypatch.setattr(objective_solver, "_NEWTON_STEPS", 0)
    objective = _extreme(_TABLES["one row"], HuberHinge(0.05), flipped=False)
    with pytest.raises(RuntimeError, match=r"bounded as it states, got HuberHinge"):
        minimise(objective, tolerance=1e-9)
