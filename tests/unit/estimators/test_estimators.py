"""The scikit-learn face: conventions, what its seeds mean, and what a fit releases."""

import math
import pickle
import re
import warnings

import equinox as eqx
import jax
import numpy as np
import pandas
import pytest
from helpers import Unreadable
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import jaxdp
from jaxdp.estimators import (
    DPKernelClassifier,
    DPKernelRidge,
    DPLinearRegression,
    DPLogisticRegression,
)
from jaxdp.estimators.arguments import PUBLIC_SEED

SMALL = {"num_projections": 20, "num_features": 32}
ROWS = 1024
RANDOM = np.random.default_rng(0)
INPUTS = RANDOM.uniform(-1, 1, (ROWS, 2))
LABELS = np.sin(2 * INPUTS[:, 0]) / 2 + 0.05 * RANDOM.normal(size=ROWS)
KINDS = np.where(INPUTS[:, 0] > 0, "right", "left")

# As secret as `secrets.randbits(256)`, if it did not stand here.
NOISE_SEED = 2**200 + 3


def _ridge(**settings):
    return DPKernelRidge(5.0, 1e-5, **{"label_bound": 1.0, **_with_defaults(settings)})


def _classifier(**settings):
    given = {"classes": ("left", "right"), **settings}
    return DPKernelClassifier(5.0, 1e-5, **_with_defaults(given))


def _with_defaults(settings):
    """Small sizes; the inputs lie in the unit square, unless a range is given."""
    bound = {} if "input_range" in settings else {"input_bound": math.inf}
    return {**SMALL, **bound, **settings}


@pytest.fixture(scope="module")
def ridge():
    return _ridge().fit(INPUTS, LABELS)


@pytest.fixture(scope="module")
def classifier():
    return _classifier().fit(INPUTS, KINDS)


def test_predictions_are_the_released_function(ridge):
    np.testing.assert_array_equal(ridge.predict(INPUTS), np.asarray(ridge.release_(INPUTS)))
    assert np.abs(ridge.predict(100 * INPUTS)).max() <= 1
    assert ridge.n_features_in_ == 2
    assert ridge.release_.public_seed == PUBLIC_SEED
    with pytest.raises(ValueError, match="expecting 2 features"):
        ridge.predict(INPUTS[:, :1])


def test_a_fit_costs_its_budget(ridge, classifier):
    for estimator in (ridge, classifier):
        assert estimator.cost_ == estimator.release_.cost
        assert estimator.cost_.epsilon == pytest.approx(5, rel=1e-6)
        assert estimator.cost_.epsilon <= 5


def test_something_is_learnt(ridge, classifier):
    assert ridge.score(INPUTS, LABELS) > 0.5
    assert classifier.score(INPUTS, KINDS) > 0.9
    # The same rows with other labels: the score tells.
    other = np.random.default_rng(1).permutation(ROWS)
    assert ridge.score(INPUTS, LABELS[other]) < 0
    assert classifier.score(INPUTS, KINDS[other]) < 0.6


def test_the_estimator_is_the_learner():
    own = {"ridge": 0.01, "intercept_share": 0.2, "residual_bound": 0.7}
    learner = jaxdp.kernels.PrivateKernelRidge(
        jaxdp.kernels.Gaussian(np.sqrt(2)), **SMALL, **own, label_bound=1.0, input_bound=math.inf
    )
    given = {"epsilon": 5.0, "delta": 1e-5, "public_seed": PUBLIC_SEED, "noise_seed": NOISE_SEED}
    release = learner.fit(INPUTS, LABELS, **given)
    found = _ridge(**own, noise_seed=NOISE_SEED).fit(INPUTS, LABELS).release_
    np.testing.assert_array_equal(found.coefficients, release.coefficients)
    assert found.intercept == release.intercept != 0


def test_random_state_is_public_and_noise_seed_is_the_secret():
    fits = [_ridge(noise_seed=NOISE_SEED).fit(INPUTS, LABELS) for _ in range(2)]
    first, again = (fit.release_ for fit in fits)
    np.testing.assert_array_equal(first.coefficients, again.coefficients)
    other = _ridge(random_state=1, noise_seed=NOISE_SEED).fit(INPUTS, LABELS)
    assert other.release_.public_seed == 1
    assert not np.array_equal(other.release_.features(INPUTS), first.features(INPUTS))
    assert other.cost_.epsilon == first.cost.epsilon <= 5


def test_with_a_public_state_alone_no_two_fits_have_the_same_noise(ridge):
    again = _ridge().fit(INPUTS, LABELS)
    assert not np.array_equal(again.release_.coefficients, ridge.release_.coefficients)
    first, second = (_ridge(random_state=1).fit(INPUTS, LABELS) for _ in range(2))
    assert first.cost_.epsilon <= 5
    assert not np.array_equal(first.release_.coefficients, second.release_.coefficients)


@pytest.mark.parametrize("estimator", [_ridge, _classifier])
def test_no_print_or_notebook_shows_the_noise_seed(estimator):
    made = estimator(noise_seed=NOISE_SEED)
    copied = clone(made)
    for shown in (made, copied, make_pipeline(made)):
        # Formatters of dataclasses do not go by `repr`.
        texts = repr(shown), str(shown), shown._repr_html_(), f"{shown.get_params()}"
        for text in (*texts, eqx.tree_pformat(made)):
            assert str(NOISE_SEED) not in text
            assert hex(NOISE_SEED) not in text
    assert copied.noise_seed == NOISE_SEED
    assert copied.set_params(noise_seed=5).noise_seed == 5
    assert pickle.loads(pickle.dumps(copied)).noise_seed == 5


@pytest.mark.parametrize("estimator", [_ridge, _classifier])
def test_a_noise_seed_that_can_be_guessed_costs_infinity(estimator):
    labels = LABELS if estimator is _ridge else KINDS
    cost = estimator(noise_seed=2**128 - 1).fit(INPUTS, labels).cost_
    assert (cost.epsilon, cost.mu, cost.is_certified) == (math.inf, None, False)
    assert "secrets.randbits(256)" in str(cost)


def _labelled(kind, values):
    import xarray

    return {
        "series": lambda: pandas.Series(values),
        "dictionary": lambda: values,
        "array of xarray": lambda: xarray.DataArray([*values.values()], {"name": [*values]}),
    }[kind]()


@pytest.mark.parametrize("names", [["age", "share"], [2020, 2019]])
@pytest.mark.parametrize("kind", ["series", "dictionary", "array of xarray"])
def test_labelled_ranges_go_by_the_names_of_the_columns(kind, names):
    table = pandas.DataFrame(INPUTS * [50, 0.5], columns=names)
    low, high = np.array([-50, -0.5]), np.array([50, 0.5])
    rows = INPUTS[:20] * [50, 0.5]

    def features(*ends):
        fitted = _ridge(input_range=ends).fit(table, LABELS).release_.features
        return fitted, np.asarray(fitted(rows))

    # The lines of a book of columns, in an order of its own and with one more.
    ends = [_labelled(kind, {names[1]: end[1], "more": 7, names[0]: end[0]}) for end in (low, high)]
    (_, expected), (_, by_name) = features(low, high), features(*ends)
    np.testing.assert_array_equal(by_name, expected)
    assert np.abs(features(low[::-1], high[::-1])[1] - expected).max() > 0.01
    np.testing.assert_array_equal(features(-50, ends[1])[0].base.low, [-50, -50])
    unknown = r"by column names if it is labelled, got labels"
    for end, columns in ((_labelled(kind, {names[0]: 1, "more": 2}), table), (ends[1], INPUTS)):
        with pytest.raises(ValueError, match=unknown):
            _ridge(input_range=(-60, end)).fit(columns, LABELS)


@pytest.mark.parametrize("made", [list, tuple, np.array], ids=["list", "tuple", "array"])
def test_ranges_of_two_columns_that_may_be_lows_and_highs_as_well_are_refused(made):
    for inner in ((-1, 1), (0, 10)), ([-1, 1], [0, 10]):
        with pytest.raises(ValueError, match="may also be a range for each of two columns"):
            _ridge(input_range=made(inner)).fit(INPUTS, LABELS)
    # One of the two readings has an empty range, or the ends are arrays.
    for low, high in ([0, 0], [10, 100]), ([-1, -1], [1, 1]), (np.array([-1, 1]), np.array([0, 9])):
        found = _ridge(input_range=(low, high)).fit(INPUTS, LABELS)
        np.testing.assert_array_equal(found.release_.features.base.low, low)


def test_three_classes_have_a_score_each_and_the_largest_names_the_class():
    kinds = np.array(["low", "middle", "high"])[np.digitize(INPUTS[:, 0], (-0.4, 0.4))]
    classes = ("high", "low", "middle")
    settings = {"epsilon": 50.0, "classes": classes, "noise_seed": NOISE_SEED}
    found = _classifier(classes=classes).set_params(**settings).fit(INPUTS, kinds)
    np.testing.assert_array_equal(found.classes_, classes)
    scores = found.decision_function(INPUTS)
    assert scores.shape == (ROWS, 3)
    np.testing.assert_array_equal(found.predict(INPUTS), found.classes_[scores.argmax(axis=1)])
    assert found.score(INPUTS, kinds) > 0.8
    assert found.cost_.epsilon <= 50.0
    # Of two classes the softmax loss gives one score too, as scikit-learn's classifiers do.
    two = _classifier(loss=jaxdp.losses.Softmax(2)).fit(INPUTS, KINDS)
    assert two.decision_function(INPUTS[:5]).shape == (5,)
    assert two.score(INPUTS, KINDS) > 0.8
    with pytest.raises(ValueError, match=r"expected a loss of 3 classes, got .* of 2"):
        _classifier(classes=classes, loss=jaxdp.losses.Logistic()).fit(INPUTS, kinds)


@pytest.mark.usefixtures("callers_line")
def test_classes_that_are_read_off_the_labels_cost_infinity(classifier):
    # The class of one record, which its neighbour lacks, is one of the released function's.
    kinds = KINDS.astype(object)
    kinds[3] = "rare"
    for labels, classes in ((KINDS, ["left", "right"]), (kinds, ["left", "rare", "right"])):
        with pytest.warns(UserWarning, match="epsilon is infinite: .* give classes=") as seen:
            found = _classifier(classes=None).fit(INPUTS, labels)
        assert [warning.filename for warning in seen] == [__file__]
        assert found.classes_.tolist() == classes
        assert (found.cost_.epsilon, found.cost_.is_certified) == (math.inf, False)
        assert found.cost_ == found.release_.cost
        assert "read off the labels" in str(found.cost_)
    # Where they are given, a table without one of them has the same budget.
    given = _classifier(classes=("left", "rare", "right")).fit(INPUTS, KINDS)
    assert given.classes_.tolist() == classes
    assert given.cost_.epsilon == pytest.approx(5, rel=1e-6)


PAIR = r"expected input_range to be \(low, high\)"
BOOK = pandas.DataFrame({"low": [0, 1], "high": [1, 9]}, index=["a", "b"])
KERNEL = {"kernel": jaxdp.kernels.Gaussian, "input_range": (-1, 1)}
OF_BOTH = [
    ({"ridge": "auto"}, TypeError, "expected ridge to be .*, got .*'auto'"),
    (KERNEL, TypeError, "expected kernel .*, got the class Gaussian"),
    ({"input_range": (1, 0)}, ValueError, "input_range with low < high, got 1.0 and 0.0"),
    ({"input_range": (-1, [1, 1, 1])}, ValueError, r"input_range .* 2 columns, got \[1, 1, 1\]"),
    *(({"input_range": one}, TypeError, PAIR) for one in (BOOK, BOOK.low, {"low": 0, "high": 1})),
    ({"random_state": 2**200, "noise_seed": 2**200}, ValueError, "random_state"),
    ({"noise_seed": PUBLIC_SEED}, ValueError, "noise_seed"),
]


@pytest.mark.parametrize(
    ("made", "labels"), [(_ridge, LABELS), (_classifier, KINDS)], ids=["ridge", "classifier"]
)
@pytest.mark.parametrize(("settings", "error", "message"), OF_BOTH, ids=lambda value: "")
def test_wrong_arguments_are_refused_at_fit_as_they_were_given(
    made, labels, settings, error, message
):
    known = {name: settings[name] for name in settings if name not in ("epsilon", "delta")}
    estimator = made(**known).set_params(**settings)
    with pytest.raises(error, match=message):
        estimator.fit(INPUTS, labels)


NO_NUMBERS = np.where(np.arange(ROWS) % 5 == 1, None, np.arange(ROWS) % 2)
MIXED = "expected classes that are all texts or all numbers"
MISSING = "expected labels without missing ones, but y contains NaN, None or NA: drop these rows"


@pytest.mark.filterwarnings("ignore:epsilon is infinite")
@pytest.mark.parametrize(
    ("classes", "labels", "message"),
    [
        (None, LABELS, "Unknown label type"),
        (("left", "up"), KINDS, r"of the classes \['left', 'up'\], got 1 others"),
        (("up", "up"), KINDS, "expected classes that differ, got 2"),
        ({0, 1}, KINDS, "expected classes to be a list of labels, .* got set"),
        ("ab", KINDS, "expected classes to be a list of labels, .* got str"),
        ((None, 1), KINDS, MIXED),
        ((0, 1), NO_NUMBERS, MISSING),
    ],
    ids=lambda value: "",
)
def test_other_classes_are_refused(classes, labels, message):
    with pytest.raises((ValueError, TypeError), match=message):
        _classifier(classes=classes).fit(INPUTS, labels)


@pytest.mark.usefixtures("callers_line")
@pytest.mark.parametrize("made", [_ridge, _classifier])
def test_without_ranges_a_fit_warns_once_before_it_looks_at_the_data(made):
    estimator = made(input_bound=None)
    with (
        pytest.warns(UserWarning, match="no input_range or input_bound") as seen,
        pytest.raises(OSError, match="looked at"),
    ):
        estimator.fit(Unreadable(), LABELS)
    assert len(seen) == 1
    with pytest.warns(UserWarning, match="no input_range or input_bound") as seen:
        estimator.fit(INPUTS, LABELS if made is _ridge else KINDS)
    assert len(seen) == 1
    assert seen[0].filename == __file__


@pytest.mark.parametrize("given", [{}, {"input_range": (-1, 1)}], ids=["alone", "in a range"])
def test_a_function_of_a_row_may_replace_the_kernel(given):
    """A user's function says where its inputs lie: nothing is warned of."""
    found = _ridge(input_bound=None, feature_map=jax.numpy.sin, **given).fit(INPUTS, LABELS)
    assert found.release_.coefficients.shape == (INPUTS.shape[1],)


@pytest.mark.parametrize(
    ("made", "labels"), [(_ridge, LABELS), (_classifier, KINDS)], ids=["ridge", "classifier"]
)
def test_a_cost_says_that_steps_before_the_fit_are_not_covered(made, labels, tmp_path):
    estimator = make_pipeline(StandardScaler(), made()).fit(INPUTS, labels)[-1]
    needed = r"by a step of a Pipeline or by hand .*, came from public data"
    (said,) = [line for line in estimator.cost_.assumptions if re.search(needed, line)]
    estimator.release_.save(tmp_path / "model.npz")
    assert said in jaxdp.kernels.load(tmp_path / "model.npz").cost.assumptions


WIDE, PATHS = {"input_range": (-200.0, 200.0)}, {"num_projections": 10, "num_features": 16}
ESTIMATORS = [
    DPKernelRidge(1.0, 1e-5, 1e3, **PATHS, noise_seed=NOISE_SEED),
    DPKernelClassifier(1.0, 1e-3, **PATHS, noise_seed=NOISE_SEED),
    DPLinearRegression(5.0, 1e-6, **WIDE, label_range=(-1e3, 1e3), noise_seed=7),
    DPLogisticRegression(5.0, 1e-6, **WIDE, noise_seed=7),
]


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_scikit_learn_finds_no_fault(estimator):
    from sklearn.utils.estimator_checks import check_estimator

    reason = "float32 products of blocks of other shapes round otherwise, in the seventh digit"
    expected = {"check_methods_subset_invariance": reason}
    options = {"expected_failed_checks": expected, "on_fail": None, "on_skip": None}
    with warnings.catch_warnings():
        # The checks provoke warnings on purpose.
        warnings.simplefilter("ignore")
        found = check_estimator(estimator, **options)
    checks = {status: [] for status in ("passed", "failed", "skipped", "xfail")}
    for result in found:
        checks[result["status"]].append((result["check_name"], result["exception"]))
    assert not checks["failed"]
    assert {name for name, _ in checks["skipped"]} <= {"check_array_api_input"}
    assert len(checks["passed"]) >= 45
