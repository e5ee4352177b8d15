"""Estimators whose budget is a person's: which rows are used, and what the release says."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import jaxdp
from jaxdp.estimators import DPKernelClassifier, DPKernelRidge, DPLinearRegression
from jaxdp.estimators.arguments import rows_of_persons
from jaxdp.privacy import MembershipAdvantage, compose, gaussian_mu
from jaxdp.regression import Columns, ObjectivePerturbation

_RANDOM = np.random.default_rng(0)
_GROUPS = _RANDOM.permutation(np.repeat(np.arange(400), 1 + np.arange(400) % 5))
_INPUTS = _RANDOM.uniform(size=(len(_GROUPS), 2))
_LABELS = _INPUTS.sum(axis=1) + _RANDOM.uniform(-0.5, 0.5, len(_GROUPS))
_LINEAR = {"input_range": (0, 1), "label_range": (-1, 3)}


def _estimator(count=2, **options):
    return DPLinearRegression(2.0, 1e-5, **_LINEAR, rows_per_person=count, **options)


def test_each_person_has_k_rows_and_another_person_changes_no_others():
    names = np.array(["b", "a", "b", "c", "b", "a"])
    rows = rows_of_persons(_estimator(3), names, 6)
    assert rows.tolist() == [0, 2, 4, 1, 5, 1, 3, 3, 3]
    assert rows_of_persons(_estimator(1), names.tolist(), 6).tolist() == [0, 1, 3]
    # Person "a" is replaced by one with other rows, and more of them.
    table, other = np.array([10, 20, 11, 30, 12, 21]), np.array([10, 40, 11, 30, 12, 41, 42, 43])
    found = table[rows], other[rows_of_persons(_estimator(3), ["b", *"zbcbzzz"], 8)]
    assert (found[0] != found[1]).tolist() == [False] * 3 + [True] * 3 + [False] * 3


def test_the_budget_is_a_persons_and_the_card_says_so():
    frame = pd.DataFrame(_INPUTS, columns=["a", "b"])
    columns = Columns({"a": (0, 1), "b": (0, 1)}, complete=["a", "b"])
    by_columns = DPLinearRegression(2.0, 1e-5, label_range=(-1, 3), columns=columns)
    kernel = DPKernelRidge(2.0, 1e-5, 3.0, 1.5, num_projections=20, rows_per_person=3)
    budget = MembershipAdvantage(0.2)
    other = DPLinearRegression(budget, **_LINEAR, rows_per_person=3)
    for estimator in (_estimator(3), by_columns.set_params(rows_per_person=3), kernel, other):
        found = clone(estimator).fit(frame, _LABELS, groups=_GROUPS)
        cost, asked = (
            found.cost_,
            budget.largest_mu if estimator is other else gaussian_mu(2.0, 1e-5),
        )
        assert (1 - 1e-6) * asked < cost.mu <= asked
        assert (cost.records_per_person, found.release_.record.num_samples) == (3, 1200)
        assert "a person of whom at most 3 records are used" in found.release_.card
        assert "3 of each person's rows are used" in " ".join(cost.assumptions)
        with pytest.raises(ValueError, match="at most 3 records are used already"):
            jaxdp.account(found.release_, delta=1e-5, records_per_person=2)
        assert estimator is not other or budget.is_met_by(found.release_)
    # Three rows each at 1/3 of mu have the noise of one row each; sqrt(3) too little would show.
    few, many = (_estimator(count).fit(frame, _LABELS, _GROUPS) for count in (1, 3))
    assert np.median(many.noise_std_) == pytest.approx(np.median(few.noise_std_), rel=0.2)
    assert few.coef_std_ is not None
    counted = _estimator(np.int64(3)).fit(_INPUTS, _LABELS, groups=_GROUPS)
    assert counted.cost_.unit == "a person of whom at most 3 records are used"
    # A person's only row is not the same unit as a record.
    assert few.cost_.unit == "a person of whom at most 1 record is used"
    with pytest.raises(ValueError, match="the same unit"):
        compose(few.release_, _estimator(1).fit(frame, _LABELS).release_)
    with pytest.raises(ValueError, match="rows_per_person=1"):
        many.coef_interval()


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (None, "expected groups, which name"),
        ("person", "got str: 'person'"),
        (_GROUPS[:-1], "each of 1200 rows, got shape"),
        ([None, *_GROUPS[1:]], "without missing names"),
        (np.where(_GROUPS == 3, np.nan, _GROUPS), "without missing names"),
        ([np.datetime64("NaT"), *_GROUPS[1:]], "without missing names"),
        (np.ma.masked_equal(_GROUPS, 3), "without missing names"),
        (pd.Series(_GROUPS, dtype="Int64").where(_GROUPS != 3), "without missing names"),
        (np.where(_GROUPS == 3, "", _GROUPS.astype(str)), "without missing names"),
    ],
    ids=["none", "name", "too few", "None", "NaN", "NaT", "masked", "NA", "empty"],
)
def test_wrong_groups_are_refused_in_one_clear_error(groups, said):
    with pytest.raises(ValueError, match=said):
        _estimator().fit(_INPUTS, _LABELS, groups=groups)


def test_wrong_numbers_and_methods_without_a_proof_are_refused():
    for wrong, error in [(0, ValueError), (1.5, TypeError), (True, TypeError)]:
        with pytest.raises(error, match="rows_per_person"):
            _estimator(wrong).fit(_INPUTS, _LABELS, groups=_GROUPS)
    unproved = (
        _estimator(method=ObjectivePerturbation()),
        DPKernelClassifier(1.0, 1e-5, 1.0, classes=(0, 1), rows_per_person=2),
    )
    for estimator in unproved:
        with pytest.raises(ValueError, match="no proof covers several"):
            estimator.fit(_INPUTS, _LABELS > 1, groups=_GROUPS)
