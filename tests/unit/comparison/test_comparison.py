"""The comparison's numbers by hand, its table, and what it refuses."""

import dataclasses

import canonical
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.comparison import average

TIME = np.array([0.0, 0.5, 1.0], np.float32)


def _runs(risk, final, status=None):
    risk, final = np.asarray(risk, np.float32), np.asarray(final, np.float32)
    status = np.zeros(len(risk), np.int32) if status is None else np.asarray(status)
    observables = {"clipped_fraction": risk}
    return jaxdp.Trajectory(TIME, risk, final, status, observables, label="simulated")


def _prediction(risk, final, label="ODE"):
    risk, final = np.asarray(risk, np.float32), np.asarray(final, np.float32)
    return jaxdp.Trajectory(TIME, risk, final, np.array(0), {}, label=label)


RUNS = _runs([[1.0, 0.4, 0.2], [1.0, 0.6, 0.4]], [0.3, 0.5])


def _joined(comparison):
    """What is printed, without the breaks of its lines."""
    return " ".join(str(comparison).split())


PREDICTION = _prediction([1.5, 0.45, 0.25], 0.35)


def test_gaps_and_sigmas_by_hand():
    comparison = jaxdp.compare(RUNS, PREDICTION, _prediction([1.0, 9.0, 9.0], 9.0))
    np.testing.assert_allclose(comparison.mean, [1.0, 0.5, 0.3], rtol=1e-6)
    # ddof 1: the standard deviation of two values 0.2 apart is 0.2/sqrt 2, over sqrt 2.
    np.testing.assert_allclose(comparison.standard_error, [0, 0.1, 0.1], rtol=1e-5)
    assert comparison.max_gap == pytest.approx(0.5)
    # The start has no standard error and does not count, whatever its gap.
    assert comparison.max_sigmas == pytest.approx(0.5, rel=1e-5)
    assert comparison.final_gap == pytest.approx(0.05, rel=1e-5)
    assert comparison.final_sigmas == pytest.approx(0.5, rel=1e-5)


def test_a_prediction_of_another_problem_is_warned_of():
    simulated, predicted = canonical.runs("stream"), canonical.predicted("stream")
    other = canonical.stream(initial_risk=2.0)
    other = jaxdp.predict(other, canonical.one_pass(), records=canonical.RECORDS)
    with pytest.warns(UserWarning, match=r"start at risk 0.5, and ODE at 2: .* one problem"):
        jaxdp.compare(simulated, other)
    jaxdp.compare(simulated, predicted)


def test_a_single_run_has_no_sigmas():
    comparison = jaxdp.compare(_runs([[1.0, 0.5, 0.2]], [0.2]), PREDICTION)
    assert np.isnan(comparison.max_sigmas)
    assert np.isnan(comparison.final_sigmas)
    assert "nan" not in str(comparison)


def test_failed_runs_are_left_out_and_counted():
    spoiled = _runs(
        [[1.0, 0.4, 0.2], [1.0, np.nan, np.nan], [1.0, 0.6, 0.4]], [0.3, np.nan, 0.5], [0, 1, 0]
    )
    comparison = jaxdp.compare(spoiled, PREDICTION)
    assert comparison.num_failed == 1
    assert comparison.final_mean == pytest.approx(0.4)
    assert "1 of 3 runs did not end well" in str(comparison)
    with pytest.raises(ValueError, match="all of them failed"):
        jaxdp.compare(_runs(spoiled.risk, spoiled.final_risk, [1, 1, 1]), PREDICTION)


def test_the_table_shows_every_prediction():
    text = str(jaxdp.compare(RUNS, PREDICTION, _prediction([1.2, 1.0, 0.5], 0.6, "upper bound")))
    head, *lines = text.splitlines()
    assert " ".join(head.split()) == "time simulated s.e. ODE upper bound gap sigmas"
    (final,) = (" ".join(line.split()) for line in lines if line.startswith("final"))
    assert final == "final 0.40000 0.10000 0.35000 0.60000 0.05000 0.5"
    assert text.endswith("\n")


def test_average_is_the_mean_of_the_runs():
    mean = average(RUNS)
    np.testing.assert_allclose(mean.risk, [1.0, 0.5, 0.3], rtol=1e-6)
    np.testing.assert_allclose(mean.observables["clipped_fraction"], mean.risk)
    assert mean.final_risk == pytest.approx(0.4)
    assert jaxdp.compare(RUNS, mean).max_gap < 1e-6


OTHER_CLOCK = dataclasses.replace(PREDICTION, time=jnp.asarray([0.0, 0.4, 1.0]))
VOID = dataclasses.replace(PREDICTION, status=jnp.asarray(int(jaxdp.Status.INVALID)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([RUNS], "at least one prediction"),
        ([RUNS, RUNS], "got \\(2, 3\\)"),
        ([RUNS, OTHER_CLOCK], "expected one clock"),
        ([RUNS, VOID], "a prediction that ended well, got invalid: ODE"),
        ([PREDICTION, PREDICTION], "simulated runs of shape"),
    ],
)
def test_what_cannot_be_compared_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        jaxdp.compare(*given)


def _unclipped(probability):
    exits = {"exit_probability": jnp.asarray([0.0, 0.0, probability])}
    return dataclasses.replace(PREDICTION, observables=exits, label="OU")


def test_an_unclipped_theory_that_clipping_is_likely_to_spoil_is_warned_of():
    with pytest.warns(UserWarning, match=r"OU leaves clipping out.*probability 0\.02"):
        comparison = jaxdp.compare(RUNS, PREDICTION, _unclipped(0.02))
    assert "with probability 0.02 (PF (6.2)); GaussianClosure() includes it" in _joined(comparison)
    assert "clipped" not in str(jaxdp.compare(RUNS, PREDICTION, _unclipped(0.009)))


def test_the_spread_stands_beside_the_predicted_one():
    spread = {"std": jnp.asarray([0.0, 0.1, 0.2]), "final_std": jnp.asarray(0.05)}
    predicted = dataclasses.replace(PREDICTION, **spread)
    comparison = jaxdp.compare(RUNS, predicted, _prediction([1.0, 0.5, 0.3], 0.4, "other"))
    # Of two values 0.2 apart, ddof 1.
    np.testing.assert_allclose(comparison.std, [0, 0.2 / np.sqrt(2), 0.2 / np.sqrt(2)], rtol=1e-5)
    assert comparison.final_std == pytest.approx(0.2 / np.sqrt(2), rel=1e-5)
    head, *rows = str(comparison).splitlines()
    assert head.split()[-3:] == ["s.d.", "ODE", "s.d."]
    (final,) = (row.split() for row in rows if row.startswith("final"))
    assert final[-2:] == ["0.14142", "0.05000"]
    # .1414 over .2 and over .1; at the end over .05; sampling error 1/sqrt(2 (2 - 1)).
    assert "simulated over ODE: 0.707 to 1.414, final 2.828 (each +- 0.707" in _joined(comparison)
    alone = jaxdp.compare(_runs([[1.0, 0.4, 0.2]], [0.3]), predicted)
    assert np.isnan(alone.final_std)
