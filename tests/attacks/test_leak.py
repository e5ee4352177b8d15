"""Whether nothing was found because the attack does not apply, or though it does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attack_problems import random_victim, single_target, sphere_rows

from jaxdp.attacks import (
    Ending,
    LevenbergMarquardt,
    RandomFeaturesTarget,
    Reconstruction,
    Verdict,
    leak_report,
    reconstruct,
)

DIM, COUNT = 6, 3
STRAY = sphere_rows(np.random.default_rng(1), COUNT, DIM).astype(np.float32)


def _target(num_features, *, noise=0.0, outputs=None):
    victim = random_victim(0, DIM, COUNT, num_features, outputs=outputs)
    added = np.random.default_rng(2).standard_normal(victim.parameters.shape)
    parameters = victim.parameters + noise * added * np.std(victim.parameters)
    return victim.inputs, single_target(victim._replace(parameters=parameters))


def _found(inputs, loss):
    return Reconstruction(
        inputs=jnp.asarray(inputs, jnp.float32),
        loss=loss,
        converged=loss <= 1e-7,
        num_passes=3.0,
        status=Ending.CONVERGED if loss <= 1e-7 else Ending.STALLED,
        losses=jnp.asarray([loss]),
    )


def test_rows_that_are_there_are_found():
    truth, target = _target(120)
    report = leak_report(target, _found(truth[::-1], 1e-12), 3 * truth)
    assert report.verdict is Verdict.FOUND
    assert report.verdict.applies
    assert report.errors.max() < 1e-5
    assert report.true_loss < 1e-10
    assert (report.equations, report.unknowns) == (120 - COUNT, COUNT * (DIM - 1))


def test_nothing_found_though_the_attack_applies():
    truth, target = _target(120)
    report = leak_report(target, _found(STRAY, 0.3), truth)
    assert report.verdict is Verdict.NOT_FOUND
    assert report.verdict.applies
    assert "though the attack applies" in str(report)


def test_nothing_found_because_the_parameters_are_not_in_the_span():
    truth, target = _target(120, noise=0.1)
    report = leak_report(target, _found(STRAY, 0.3), truth)
    assert report.verdict is Verdict.NOT_IN_SPAN
    assert report.verdict.applies is False
    assert report.true_loss > 1e-3
    # What was found all the same was found.
    assert leak_report(target, _found(truth, 0.3), truth).verdict is Verdict.FOUND


def test_rows_near_the_truth_after_noise_are_not_called_nothing():
    truth, target = _target(120, noise=0.1)
    near = truth + 0.4 * STRAY
    report = leak_report(target, _found(near, 0.3), truth)
    assert report.errors.min() > 0.1
    assert report.verdict is Verdict.NEAR
    assert report.verdict.applies is None
    # The mean error of independent rows is below sqrt 2 by what the assignment gains.
    assert 1 < report.chance < np.sqrt(2)
    assert report.chance > 2 * report.errors.mean()


def test_nothing_found_because_other_rows_do_as_well():
    truth, target = _target(12)
    report = leak_report(target, _found(STRAY, 1e-12), truth)
    assert report.verdict is Verdict.UNDETERMINED
    assert report.verdict.applies is False
    assert report.true_loss < 1e-10


def test_without_the_true_rows_it_is_said_what_can_be_told():
    _, enough = _target(120)
    _, few = _target(12)
    assert leak_report(enough, _found(STRAY, 1e-9)).verdict is Verdict.FOUND
    assert leak_report(few, _found(STRAY, 1e-9)).verdict is Verdict.UNDETERMINED
    unknown = leak_report(enough, _found(STRAY, 0.3))
    assert unknown.verdict is Verdict.UNKNOWN
    assert unknown.verdict.applies is None
    assert unknown.errors is None
    # Five independent outputs are in the span of no three rows.
    _, noisy = _target(120, noise=0.5, outputs=5)
    assert leak_report(noisy, _found(STRAY, 0.3)).verdict is Verdict.NOT_IN_SPAN
    _, shared = _target(120, outputs=5)
    assert leak_report(shared, _found(STRAY, 0.3)).equations == 3 * (120 - COUNT)


@pytest.mark.parametrize("outputs", [None, 5])
def test_rows_that_leave_a_small_rest_are_not_called_nothing(outputs):
    # A rest in the parameters, as training of all layers leaves it, hides no rows. With several
    # outputs it has raised their rank above the number of rows.
    truth, target = _target(120, noise=0.005, outputs=outputs)
    with_truth = leak_report(target, _found(truth, 0.3), truth)
    loss = with_truth.true_loss
    assert loss is not None
    assert 1e-6 < loss < 1e-4
    report = leak_report(target, _found(truth, loss))
    assert report.verdict is Verdict.EXPLAINED
    assert report.verdict.applies is None
    assert report.loss == loss
    assert f"rows that explain all but {loss:.2g} of the parameters were found" in str(report)
    assert "nothing" not in str(report)
    assert with_truth.verdict is Verdict.FOUND


def test_a_loss_is_small_beside_what_fitted_rows_leave_by_chance():
    _, wide = _target(120)
    _, narrow = _target(24)
    # Rows have 18 numbers: of noise they leave 1 - 18/120 and 1 - 18/24.
    losses = 0.03, 0.08, 0.09
    verdicts = [leak_report(wide, _found(STRAY, loss)).verdict for loss in losses]
    assert verdicts == [Verdict.EXPLAINED, Verdict.EXPLAINED, Verdict.UNKNOWN]
    losses = 0.02, 0.03
    verdicts = [leak_report(narrow, _found(STRAY, loss)).verdict for loss in losses]
    assert verdicts == [Verdict.EXPLAINED, Verdict.UNKNOWN]
    # Fewer features than numbers: other rows explain the parameters as well.
    _, few = _target(12)
    assert leak_report(few, _found(STRAY, 1e-5)).verdict is Verdict.UNDETERMINED
    assert "nothing" not in str(Verdict.UNKNOWN)


@pytest.mark.slow
@pytest.mark.parametrize("num_features", [24, 72])
def test_rows_fitted_to_noise_are_not_said_to_explain_it(num_features):
    draw = np.random.default_rng(num_features)
    for _ in range(3):
        weights = draw.standard_normal((num_features, DIM)).astype(np.float32) / DIM**0.5
        noise = draw.standard_normal(num_features).astype(np.float32)
        target = RandomFeaturesTarget(weights, jax.nn.relu, noise)
        found = reconstruct(
            target,
            COUNT,
            key=jax.random.key(0),
            optimiser=LevenbergMarquardt(),
            max_passes=600,
            num_starts=8,
        )
        assert found.loss > 0.2 * (1 - COUNT * DIM / num_features)
        assert leak_report(target, found).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("num_features", "outputs", "rank"), [(6, 1, 3), (8, 1, 5), (12, 1, 9), (6, 2, 6), (8, 2, 9)]
)
def test_equations_and_unknowns_are_counted_as_the_jacobian_does(num_features, outputs, rank):
    """At the truth the residual moves in as many directions as there are independent equations."""
    dim, count = 4, 3
    victim = random_victim(3, dim, count, num_features, activation="tanh", outputs=outputs)
    features = np.tanh(victim.inputs @ victim.weights.T)
    pseudoinverse = np.linalg.pinv(features)
    alpha = pseudoinverse.T @ victim.parameters
    columns = np.zeros((num_features, outputs, count, dim))
    for row, of_row in enumerate(victim.inputs):
        tangent = np.eye(dim) - np.outer(of_row, of_row) / dim
        jacobian = (1 - features[row] ** 2)[:, None] * victim.weights @ tangent
        kept = jacobian - pseudoinverse @ (features @ jacobian)
        columns[:, :, row] = kept[:, None] * alpha[row][:, None]
    found = np.linalg.matrix_rank(columns.reshape(-1, count * dim), tol=1e-9)
    assert found == rank == min(outputs * (num_features - count), count * (dim - 1))
