"""The summary of coefficients: its table, its intervals and what it is refused for."""

import math
import warnings

import numpy as np
import pytest
from helpers import quick_and_slow
from scipy.stats import norm

from jaxdp.estimators import DPLinearRegression, DPLogisticRegression
from jaxdp.estimators.summary import CoefficientSummary
from jaxdp.regression import Columns, NoisyStatistics, ObjectivePerturbation

SUMMARY = CoefficientSummary(
    ("age", "a name that is longer than all the others are", "kind is never", "intercept"),
    np.array([1.5, -2.0, 0.25, 1e6]),
    np.array([0.3, 1.0, math.inf, 3e4]),
    np.array([0.4, 0.0, math.inf, 4e4]),
)


def test_errors_of_noise_and_sampling_add_up_and_intervals_are_normal():
    np.testing.assert_allclose(SUMMARY.std[:2], [0.5, 1.0])
    expected = 2 * norm.sf([3.0, 2.0, 0.0, 20.0])
    np.testing.assert_allclose(SUMMARY.p_values, expected, rtol=1e-12)
    ends = SUMMARY.interval(0.9)
    np.testing.assert_allclose(ends[0], 1.5 + 0.5 * norm.ppf([0.05, 0.95]))
    assert ends[2].tolist() == [-math.inf, math.inf]


def test_a_summary_prints_as_an_aligned_table():
    lines = str(SUMMARY).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert set(lines[0]) == set(lines[-1]) == {"="}
    assert lines[1].split() == ["coef", "noise", "sampling", "z", "P>|z|", "[0.025", "0.975]"]
    names = [line[:34].strip() for line in lines[3:-1]]
    assert names == ["age", "a name that is longer than all ...", "kind is never", "intercept"]
    assert lines[3].split()[1:5] == ["1.5", "0.3", "0.4", "3.00"]
    assert lines[5].split()[3:] == ["0.25", "inf", "inf", "0.00", "1.000", "-inf", "inf"]
    # Every column ends at one place.
    ends = [
        [place for place in range(1, len(line)) if line[place - 1] != " " == line[place]]
        for line in (line + " " for line in lines[3:-1])
    ]
    assert len({tuple(row[-7:]) for row in ends}) == 1
    assert repr(SUMMARY) == str(SUMMARY)


@pytest.mark.parametrize("level", [0, 1, -0.5, 95, math.nan])
def test_a_level_outside_of_0_and_1_is_refused(level):
    with pytest.raises(ValueError, match="level"):
        SUMMARY.interval(level)


BUDGET = {"epsilon": 4.0, "delta": 1e-6}
COLUMNS = Columns({"a": (0, 1), "kind": ["x", "y", "never"]})


def _table(num_rows=3000):
    draw = np.random.default_rng(0)
    table = [
        [number, kind]
        for number, kind in zip(
            draw.uniform(size=num_rows), draw.choice(["x", "y"], num_rows), strict=True
        )
    ]
    labels = np.array([number for number, _ in table])
    return table, labels + 0.1 * draw.normal(size=num_rows)


def test_an_estimator_has_a_summary_of_its_coefficients_in_their_units():
    draw = np.random.default_rng(0)
    inputs = np.stack([draw.uniform(0, 100, 3000), draw.uniform(-1, 1, 3000)], axis=1)
    labels = 0.02 * inputs[:, 0] - inputs[:, 1] + 3 + 0.1 * draw.normal(size=3000)
    ranges = ([0, -1], [100, 1])
    model = DPLinearRegression(
        **BUDGET, input_range=ranges, label_range=(0, 8), noise_seed=2**200
    ).fit(inputs, labels)
    found = model.summary(0.99)
    assert found.names == ("0", "1", "intercept")
    assert found.level == 0.99
    assert "[0.005" in str(found)
    np.testing.assert_array_equal(model.coef_std_, found.std[:-1])
    np.testing.assert_array_equal(model.coef_interval(0.8), found.interval(0.8))
    # Level of 1e-5 for all three, and errors that would show if units were those of features.
    assert (np.abs(found.estimates - [0.02, -1, 3]) < 4.5 * found.std).all()
    assert (found.std < [0.004, 0.2, 0.4]).all()
    assert found.std[0] < 0.05 * found.std[1]
    for level in (0.0, 1.0):
        with pytest.raises(ValueError, match="0 < level < 1"):
            model.summary(level)


def test_of_a_category_without_rows_the_interval_is_infinite():
    table, labels = _table()
    model = DPLinearRegression(
        **BUDGET, columns=COLUMNS, label_range=(-1, 2), noise_seed=2**200
    ).fit(table, labels)
    ends = dict(zip((*model.coef_names_, "intercept"), model.coef_interval(), strict=True))
    assert ends["kind is never"].tolist() == [-math.inf, math.inf]
    for name in ("kind is x", "kind is y", "intercept", "a, -1 at 0 and 1 at 1"):
        assert np.isfinite(ends[name]).all()
    assert "inf" in str(model.summary())


REFUSED = {
    "additive": ({"features": "additive"}, None),
    "kernel": ({"features": "kernel"}, None),
    "statistics": ({"method": NoisyStatistics()}, None),
    "objective": ({"method": ObjectivePerturbation()}, None),
    "three classes": ({}, (0, 1, 2)),
}


@pytest.mark.parametrize("name", quick_and_slow(REFUSED, *(set(REFUSED) - {"kernel"})))
def test_what_has_no_errors_of_coefficients_has_no_summary(name):
    given, classes = REFUSED[name]
    table, labels = _table(500)
    given = {"columns": COLUMNS, **BUDGET, **given}
    if classes:
        model, labels = DPLogisticRegression(**given, classes=classes), np.arange(500) % 3
    else:
        model = DPLinearRegression(**given, label_range=(-1, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table, labels)
    for call in (model.summary, model.coef_interval):
        with pytest.raises(ValueError, match="expected features='linear', a method with a plan"):
            call()
    assert model.coef_std_ is None
