"""Private linear and logistic regression by the conventions of scikit-learn."""

import dataclasses
import io
import warnings

import jax
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import DataConversionWarning

from jaxdp.estimators import DPLinearRegression, DPLogisticRegression
from jaxdp.privacy import gaussian_mu
from jaxdp.regression import (
    Automatic,
    Columns,
    NoisyStatistics,
    PrivateLinearClassifier,
    PrivateLinearRegression,
    load,
)
from jaxdp.regression.descent_plan import SQUARED

RANGES = ({"a": 0, "b": -1}, {"a": 10, "b": 1})
BUDGET = {"epsilon": 2.0, "delta": 1e-6}


def _frame(num_rows=3000, seed=0):
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": draw.uniform(0, 10, num_rows), "b": draw.uniform(-1, 1, num_rows)})
    return frame, 3 * frame.a - 2 * frame.b + 1 + 0.1 * draw.normal(size=num_rows)


def test_coefficients_are_in_the_units_of_the_columns():
    frame, labels = _frame()
    options = {"input_range": RANGES, "label_range": (-10, 40)}
    found = DPLinearRegression(**BUDGET, **options).fit(frame, labels)
    np.testing.assert_allclose(found.coef_, [3, -2], atol=0.3)
    assert found.coef_names_ == ("a", "b")
    assert found.intercept_ == pytest.approx(1, abs=0.5)
    expected = frame.to_numpy() @ found.coef_ + found.intercept_
    np.testing.assert_allclose(found.predict(frame), expected, rtol=1e-4, atol=1e-4)
    assert found.score(frame, labels) > 0.99
    assert found.cost_.epsilon == pytest.approx(2, rel=1e-6)
    assert found.release_.columns.inputs == ("a", "b")


def test_without_an_intercept_there_is_none():
    frame, labels = _frame()
    options = {"input_range": RANGES, "label_range": (-40, 40), "fit_intercept": False}
    found = DPLinearRegression(**BUDGET, **options).fit(frame, labels)
    assert len(found.release_.coefficients) == 2
    value = found.predict(pd.DataFrame({"a": [5.0], "b": [0.0]}))
    assert value == pytest.approx(0, abs=1e-5)


def test_additive_and_kernel_models_learn_a_curve_that_no_line_has():
    frame, _ = _frame()
    labels = np.sin(frame.a) + frame.b**2
    options = {"input_range": RANGES, "label_range": (-1, 2)}
    line = DPLinearRegression(**BUDGET, **options).fit(frame, labels)
    assert line.score(frame, labels) < 0.3
    for features, least in (("additive", 0.8), ("kernel", 0.4)):
        curve = DPLinearRegression(**BUDGET, **options, features=features).fit(frame, labels)
        assert curve.score(frame, labels) > least


def test_tables_with_text_and_missing_values_are_read_as_they_are():
    frame, labels = _frame()
    frame["c"] = np.where(labels > 15, "high", "low")
    frame.loc[::7, "c"] = None
    frame.loc[::5, "a"] = np.nan
    frame["income"] = np.where(labels > 15, "yes", "no")
    columns = Columns({"a": (0, 10), "b": (-1, 1), "c": ["low", "high"]})
    for features in ("linear", "additive", "kernel"):
        options = {"columns": columns, "features": features, "classes": ("no", "yes")}
        found = DPLogisticRegression(**BUDGET, **options)
        found.fit(frame[["c", "b", "a", "income"]], frame.income)
        assert found.score(frame, frame.income) > 0.9
        assert found.feature_names_in_.tolist() == ["a", "b", "c"]
        assert found.release_.columns.label == "income"


def test_a_forecast_reads_nothing_and_grows_with_what_is_spent():
    ranges = ([0, -1], [10, 1])
    found = [
        DPLinearRegression(epsilon, 1e-6, input_range=ranges).expected_score(num_rows, signal=0.8)
        for epsilon, num_rows in ((0.1, 300), (1.0, 300), (1.0, 30_000))
    ]
    assert 0 <= found[0].with_privacy < found[1].with_privacy < found[2].with_privacy < 0.8
    assert found[2].with_privacy > 0.79
    assert "guess" in found[0].assumes


def test_a_forecast_knows_the_loss_and_all_that_a_fit_spends():
    given = {"epsilon": 0.5, "delta": 1e-6, "input_range": ([0, -1], [10, 1])}
    regression = DPLinearRegression(**given, label_range=(0, 1))
    classes = DPLogisticRegression(**given, classes=(0, 1))
    learnt = DPLinearRegression(**given)
    found = [one.expected_score(2000).with_privacy for one in (classes, learnt, regression)]
    assert found == sorted(set(found))
    # Of a descent whose gradients have all but the moments' share, more would be left.
    sizes = {"num_features": 3, "num_outputs": 1, "num_samples": 2000, "mu": gaussian_mu(0.5, 1e-6)}
    shares = {"scale_share": 0.0, "other_share": 0.0, "signal": 0.5}
    more = Automatic().predicted_risk(**sizes, **shares, curvature=SQUARED)
    assert 0.5 - 2 * more > found[-1]


TEXTS = Columns({"b": ["x", "y"]})


@pytest.mark.parametrize(
    ("given", "num_rows", "expected"),
    [
        pytest.param({"input_range": RANGES}, 4500, "kernel", marks=pytest.mark.slow),
        ({"columns": TEXTS}, 3000, "linear"),
    ],
)
def test_automatic_features_are_chosen_by_public_numbers(given, num_rows, expected):
    frame, labels = _frame(num_rows)
    if given.get("columns") is TEXTS:
        frame["b"] = np.where(frame.b > 0, "x", "y")
    options = {"label_range": (-10, 40), "features": "automatic", "noise_seed": 1 << 255}
    found = []
    # Nothing of a table but its shape decides: one of another law has features of that kind too.
    for inputs, targets in ((frame, labels), (frame.iloc[[0] * num_rows], 0 * labels)):
        found.append(DPLinearRegression(**BUDGET, **given, **options).fit(inputs, targets))
        assert found[-1].features_ == expected
    named = DPLinearRegression(**found[0].get_params() | {"features": expected})
    named.fit(frame, labels)
    np.testing.assert_array_equal(named.predict(frame), found[0].predict(frame))
    assert named.release_.card == found[0].release_.card


def test_curves_are_tested_where_only_the_labels_have_a_scale():
    """Many categories and few rows: residuals have no release of their scale."""
    draw = np.random.default_rng(0)
    kinds = [f"kind {number}" for number in range(70)]
    frame = pd.DataFrame({"a": draw.uniform(size=3000), "b": draw.choice(kinds, 3000)})
    columns = Columns({"a": (0, 1), "b": kinds})
    options = {"columns": columns, "label_range": (-3, 3), "features": "automatic"}
    found = DPLinearRegression(0.9, 1e-5, **options).fit(frame, np.sin(6 * frame.a).to_numpy())
    told = [entry.what for entry in found.ledger_.entries]
    assert "histogram of the residuals' magnitudes" not in told
    assert "a test of curves" in told[-1]
    assert np.isfinite(found.predict(frame)).all()


REFUSED = [
    ({}, ValueError, "which are public, got neither"),
    ({"input_range": (0, 1), "columns": Columns({"a": (0, 1)})}, ValueError, "got both"),
    ({"input_range": (0, 10), "features": "cubic"}, ValueError, "features to be one of"),
    ({"columns": {"a": (0, 1)}}, TypeError, "regression.Columns"),
]


@pytest.mark.parametrize(("options", "kind", "message"), REFUSED, ids=[row[2] for row in REFUSED])
def test_what_is_wrong_is_refused(options, kind, message):
    frame, labels = _frame(20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(kind, match=message):
            DPLinearRegression(**{**BUDGET, **options}).fit(frame, labels)


NUMBERS = np.arange(200) % 2


def _same(frame):
    return frame


def _wide(frame):
    return pd.concat([frame.add_prefix(place) for place in "cdefg"], axis=1)[:8]


# What becomes of the table, its labels, the classes where they are such; and what is said of them.
BAD_TABLES = [
    (lambda frame: frame.assign(a="secret"), NUMBERS, None, "got text in column 'a'.*Columns"),
    (_wide, NUMBERS[:8], None, "no more columns than rows, got 10 columns of 8 rows"),
    (_same, pd.Series(NUMBERS, name="b"), None, "without the target, got 'b'"),
    (_same, [np.nan, 77] * 100, None, "y contains NaN"),
    (_same, NUMBERS[:-1], None, "inconsistent numbers"),
    (_same, ["secret", "lo"] * 100, ("lo", "hi"), "got 1 others"),
    (_same, ["lo", None] * 100, ("lo", "hi"), "missing ones"),
    (_same, NUMBERS, ("0", "1"), r"\['0', '1'\], got numbers, and the classes are texts"),
    (_same, ["secret", "1"] * 100, (0, 1), r"\[0, 1\], got texts, and the classes are numbers"),
]


@pytest.mark.parametrize(
    ("change", "labels", "classes", "message"), BAD_TABLES, ids=[row[-1] for row in BAD_TABLES]
)
def test_a_bad_table_is_refused_before_the_budget_is_spent_and_not_shown(
    change, labels, classes, message, monkeypatch
):
    for learner in (PrivateLinearRegression, PrivateLinearClassifier):
        monkeypatch.setattr(learner, "fit", lambda *_, **__: pytest.fail("spent"))
    frame, _ = _frame(200)
    estimator = (
        DPLinearRegression(**BUDGET, input_range=(-1, 10))
        if classes is None
        else DPLogisticRegression(**BUDGET, input_range=(-1, 10), classes=classes)
    )
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        estimator.fit(change(frame), labels)
    assert not any(cell in str(caught.value) for cell in ("secret", "77"))


def test_constant_columns_and_one_class_of_those_given_are_like_others():
    # Whether a column is constant, or a class empty, is private.
    frame, labels = _frame()
    constant = frame.assign(a=5.0)
    found = DPLinearRegression(**BUDGET, input_range=RANGES, label_range=(-10, 40))
    assert np.isfinite(found.fit(constant, labels).predict(constant)).all()
    found = DPLogisticRegression(**BUDGET, input_range=RANGES, classes=(0, 1))
    assert (found.fit(frame, np.ones(3000)).predict(frame) == 1).mean() > 0.9


@pytest.mark.parametrize("known", [{"columns": None}, {"input_range": None}])
def test_frames_of_polars_are_read_as_those_of_pandas(known):
    polars = pytest.importorskip("polars")
    frame, labels = _frame()
    table = polars.DataFrame({name: frame[name].to_numpy() for name in frame})
    options = {"input_range": RANGES, "columns": Columns({"a": (0, 10), "b": (-1, 1)})} | known
    found = DPLinearRegression(**BUDGET, **options, label_range=(-10, 40))
    found.fit(table, polars.Series("c", labels.to_numpy()))
    assert found.release_.columns.label == "c"
    np.testing.assert_allclose(found.predict(table), found.predict(frame))


def test_labels_and_predictions_stay_within_the_range_of_labels(tmp_path):
    frame, labels = _frame()
    found = DPLinearRegression(**BUDGET, input_range=RANGES, label_range=(5, 20))
    with pytest.warns(match="labels are beyond label_range"):
        found.fit(frame, labels)
    line = frame.to_numpy() @ found.coef_ + found.intercept_
    assert (line < 5).any()
    assert (line > 20).any()
    np.testing.assert_allclose(found.predict(frame), np.clip(line, 5, 20), rtol=1e-4)
    found.release_.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    with pytest.raises(ValueError, match="label_bound with low < high"):
        dataclasses.replace(again, label_bound=(20.0, 5.0))
    np.testing.assert_array_equal(np.asarray(again(frame), np.float64), found.predict(frame))
    rows = frame.to_numpy()
    np.testing.assert_allclose(jax.jit(again)(rows), found.predict(frame), rtol=1e-4)


def test_a_forecast_of_little_is_told_before_the_budget_is_spent():
    frame, labels = _frame(300)
    given = {"epsilon": 0.8, "delta": 1e-6, "input_range": RANGES, "label_range": (-10, 40)}
    found = DPLinearRegression(**given, features="additive")
    message = 'by a forecast that reads no record.*features="linear" would leave 0.4'
    # The warning is an error here, which nothing comes after.
    with pytest.raises(UserWarning, match=message):
        found.fit(frame, labels)
    assert not hasattr(found, "release_")
    with pytest.warns(match=message) as caught:
        found.fit(frame, labels)
    assert caught[0].filename == __file__
    # Neither enough for its features nor without a plan.
    for more in ({}, {"features": "additive", "method": NoisyStatistics()}):
        DPLinearRegression(**given, **more).fit(frame, labels)


COLUMNS = Columns({"a": (0, 10), "c": ["low", "high"]})


def _mixed(num_rows=300):
    frame, labels = _frame(num_rows)
    return frame.assign(c=np.where(labels > 15, "high", "low")), labels


@pytest.mark.parametrize("features", ["linear", "kernel"])
@pytest.mark.parametrize("known", [{"columns": COLUMNS}, {"input_range": RANGES}])
def test_a_saved_function_reads_the_table_as_the_estimator_does(features, known, tmp_path):
    frame, labels = _mixed() if "columns" in known else _frame(300)
    given = {"epsilon": 60.0, "delta": 1e-6, "features": features, "label_range": (-5, 40)}
    found = DPLinearRegression(**given, **known).fit(frame, labels)
    expected = found.predict(frame)
    found.release_.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    np.testing.assert_allclose(again(frame[frame.columns[::-1]]), expected, rtol=1e-6)
    if "input_range" in known:
        np.testing.assert_allclose(jax.jit(again)(frame.to_numpy()), expected, rtol=1e-4)
    # What a fit was given, not what the next one would be.
    found.set_params(columns=Columns({"a": (5, 6), "c": ["x"]}), input_range=None)
    np.testing.assert_array_equal(found.predict(frame), expected)


def test_rows_beyond_ranges_or_categories_are_told_of_once():
    frame, labels = _mixed()
    frame["c"] = frame["c"].where(frame.index > 4, "other")
    frame["a"] = frame["a"].where(frame.index > 2, 11)
    options = {"epsilon": 60.0, "delta": 1e-6, "label_range": (-5, 40)}
    for known, table, told in (
        ({"columns": COLUMNS}, frame, r"5 of 300 rows are beyond what.*\(a: 3, c: 5\).*curator"),
        ({"input_range": RANGES}, frame[["a", "b"]], r"3 of 300 rows are beyond what.*\(a: 3\)"),
    ):
        with pytest.warns(UserWarning, match=told) as caught:
            found = DPLinearRegression(**known, **options).fit(table, labels)
        assert [one.filename for one in caught] == [__file__]
        assert "beyond" not in str(found.cost_)


def test_a_category_that_a_reader_took_for_missing_is_told_to_the_curator(recwarn):
    draw = np.random.default_rng(0)
    kinds = ["EU", "NA", "AS"]
    written = pd.DataFrame({"where": draw.choice(kinds, 600), "x": draw.uniform(size=600)})
    labels = written["x"].to_numpy()
    columns = Columns({"where": kinds, "x": (0, 1)})
    estimator = DPLinearRegression(8.0, 1e-6, columns=columns, label_range=(0, 1))
    # A category may have no row, and rows may be missing.
    hidden = written.mask(draw.uniform(size=(600, 2)) < 0.2)
    for table in (written, written.replace("NA", "EU"), hidden):
        estimator.fit(table, labels)
    assert not recwarn.list
    read = pd.read_csv(io.StringIO(written.to_csv(index=False)), dtype=str)
    missing = f"'where' has the category 'NA', and {read['where'].isna().sum()} of 600 are missing"
    with pytest.warns(UserWarning, match=f"{missing}.*keep_default_na.*curator alone") as told:
        estimator.fit(read, labels)
    assert [warning.filename for warning in told] == [__file__]


def test_labels_are_read_alike_with_columns_and_with_ranges():
    frame, labels = _mixed()
    for known in ({"columns": COLUMNS}, {"input_range": (-1, 10)}):
        table = frame if "columns" in known else frame[["a", "b"]]
        found = DPLinearRegression(**BUDGET, **known, label_range=(-5, 40))
        with pytest.warns(DataConversionWarning):
            found.fit(table, labels.to_numpy()[:, None])
        assert found.predict(table).shape == (300,)
        for given, more, error, message in (
            (None, {}, ValueError, "y to be passed"),
            (labels[:-1], {}, ValueError, "inconsistent numbers of samples"),
            (labels, {"sample_weight": np.ones(300)}, TypeError, "no sample_weight: a weight"),
            (labels, {"weights": np.ones(300)}, TypeError, "no keywords besides X and y, got we"),
        ):
            with pytest.raises(error, match=message):
                found.fit(table, given, **more)


@pytest.mark.parametrize("classes", [("lo", "hi"), ("lo", "mid", "hi")])
def test_probabilities_add_up_and_a_loaded_classifier_gives_those_of_the_estimator(
    classes, tmp_path
):
    frame, labels = _frame()
    shares = np.arange(1, len(classes)) / len(classes)
    named = np.take(classes, np.digitize(labels, np.quantile(labels, shares)))
    found = DPLogisticRegression(**BUDGET, input_range=RANGES, classes=classes).fit(frame, named)
    chances = found.predict_proba(frame)
    np.testing.assert_allclose(chances.sum(axis=1), 1, rtol=1e-12)
    assert (found.classes_[chances.argmax(axis=1)] == found.predict(frame)).all()
    assert found.score(frame, named) > 0.85
    assert found.coef_.shape == ((2,) if len(classes) == 2 else (3, 2))
    found.release_.save(tmp_path / "model.npz")
    again, turned = load(tmp_path / "model.npz"), frame[["b", "a"]]
    np.testing.assert_array_equal(again.predict(turned), found.predict(frame))
    np.testing.assert_array_equal(again.predict_proba(turned), chances)
    with pytest.raises(ValueError, match=r"with the columns of the fit, a, b, got .* without 'b'"):
        again.predict_proba(frame[["a"]])
    # Of rows without names the classes have numbers.
    rows = frame.to_numpy()
    found.set_params(input_range=(-1, 10)).fit(rows, named)
    places = np.searchsorted(found.classes_, found.predict(rows))
    np.testing.assert_array_equal(found.release_.predict(rows), places)


def test_the_card_says_what_is_public_and_nothing_of_the_rows():
    frame, labels = _mixed()
    found = DPLinearRegression(**BUDGET, columns=COLUMNS, label_range=(-5, 40), features="additive")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cards = [found.fit(rows, labels).release_.card for rows in (frame, frame.assign(a=3.0))]
    spent = [f"{entry.share:.1%}  {entry.what}" for entry in found.ledger_.entries]
    public = ("from -5 to 40, a sum of one curve a column", "a: 0 to 10", "c: low, high", "300 ")
    assert [text for text in (*public, *spent) if text not in cards[0]] == []
    # Tables of one size and form: what the noise does, as learnt privately, alone differs.
    assert len({card.partition("noise_std")[0] for card in cards}) == 1
    assert found.release_.record.noise_std == tuple(found.noise_std_)
    ranged = DPLinearRegression(**BUDGET, input_range=RANGES).fit(frame[["a", "b"]], labels)
    assert "b: -1 to 1" in ranged.release_.card
    assert "range was learnt privately" in ranged.release_.card
