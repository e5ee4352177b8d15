"""Whether nothing was found because the attack does not apply, or though it does."""

import jax.numpy as jnp
import numpy as np
import pytest
from attack_problems import kaufman_jacobian, random_victim, single_target, sphere_rows

from jaxdp.attacks import Reconstruction, Verdict, leak_report
from jaxdp.attacks.optimisers.base import Ending

DIM, COUNT = 6, 3
STRAY = sphere_rows(np.random.default_rng(1), COUNT, DIM).astype(np.float32)


def _target(num_features, *, noise=0.0, outputs=None):
    victim = random_victim(0, DIM, COUNT, num_features, outputs=outputs)
    added = np.random.default_rng(2).standard_normal(victim.parameters.shape)
    parameters = victim.parameters + noise * added * np.std(victim.parameters)
    return victim.inputs, single_target(victim._replace(parameters=parameters))


def _found(inputs, loss):
    inputs, status = jnp.asarray(inputs, jnp.float32), [Ending.STALLED, Ending.CONVERGED]
    converged = loss <= 1e-7
    return Reconstruction(inputs, loss, converged, 3.0, status[converged], jnp.asarray([loss]))


# Features and noise of the parameters, what was found of the truth and its loss; the verdict.
VERDICTS = {
    "rows that are there": (120, 0.0, lambda truth: truth[::-1], 1e-12, Verdict.FOUND),
    "nothing though the attack applies": (120, 0.0, lambda truth: STRAY, 0.3, Verdict.NOT_FOUND),
    "nothing, outside the span": (120, 0.1, lambda truth: STRAY, 0.3, Verdict.NOT_IN_SPAN),
    # What was found all the same was found, and rows near the truth are not called nothing.
    "rows outside the span": (120, 0.1, lambda truth: truth, 0.3, Verdict.FOUND),
    "rows nearby": (120, 0.1, lambda truth: truth + 0.4 * STRAY, 0.3, Verdict.NEAR),
    "other rows, which do as well": (12, 0.0, lambda truth: STRAY, 1e-12, Verdict.UNDETERMINED),
}
APPLIES = {Verdict.FOUND: True, Verdict.NOT_FOUND: True, Verdict.NEAR: None}


@pytest.mark.parametrize("name", VERDICTS)
def test_beside_the_true_rows_it_is_said_why_nothing_was_found(name):
    num_features, noise, rows, loss, verdict = VERDICTS[name]
    truth, target = _target(num_features, noise=noise)
    report = leak_report(target, _found(rows(truth), loss), 3 * truth)
    assert report.verdict is verdict
    assert report.verdict.applies is APPLIES.get(verdict, False)
    assert report.true_loss > 1e-3 if noise else report.true_loss < 1e-10
    assert (report.errors.max() < 1e-5) == (verdict is Verdict.FOUND)
    unknowns = COUNT * (DIM - 1)
    assert (report.equations, report.unknowns) == (num_features - COUNT, unknowns)
    # The mean error of independent rows is below sqrt 2 by what the assignment gains.
    assert 1 < report.chance < np.sqrt(2)
    assert (report.chance > 2 * report.errors.mean()) == (verdict in (Verdict.FOUND, Verdict.NEAR))
    assert ("though the attack applies" in str(report)) == (verdict is Verdict.NOT_FOUND)


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
    assert with_truth.verdict is Verdict.FOUND
    loss = with_truth.true_loss
    assert 1e-6 < loss < 1e-4
    report = leak_report(target, _found(truth, loss))
    assert (report.verdict, report.verdict.applies) == (Verdict.EXPLAINED, None)
    assert f"rows that explain all but {loss:.2g} of the parameters were found" in str(report)
    assert "nothing" not in str(report)


@pytest.mark.parametrize(
    ("num_features", "losses", "verdicts"),
    [
        # Rows have 18 numbers: of noise they leave 1 - 18/120 and 1 - 18/24.
        (120, (0.03, 0.08, 0.09), [Verdict.EXPLAINED, Verdict.EXPLAINED, Verdict.UNKNOWN]),
        (24, (0.02, 0.03), [Verdict.EXPLAINED, Verdict.UNKNOWN]),
        # Fewer features than numbers: other rows explain the parameters as well.
        (12, (1e-5,), [Verdict.UNDETERMINED]),
    ],
)
def test_a_loss_is_small_beside_what_fitted_rows_leave_by_chance(num_features, losses, verdicts):
    _, target = _target(num_features)
    assert [leak_report(target, _found(STRAY, loss)).verdict for loss in losses] == verdicts


@pytest.mark.parametrize(
    ("num_features", "outputs", "rank"), [(6, 1, 3), (8, 1, 5), (12, 1, 9), (6, 2, 6), (8, 2, 9)]
)
def test_equations_and_unknowns_are_counted_as_the_jacobian_does(num_features, outputs, rank):
    """At the truth the residual moves in as many directions as there are independent equations."""
    dim, count = 4, 3
    victim = random_victim(3, dim, count, num_features, activation="tanh", outputs=outputs)
    columns = kaufman_jacobian(victim.weights, victim.parameters, victim.inputs)
    found = np.linalg.matrix_rank(columns.reshape(-1, count * dim), tol=1e-9)
    assert found == rank == min(outputs * (num_features - count), count * (dim - 1))
