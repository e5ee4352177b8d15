"""No error or warning of an estimator shows a cell or a label, nor does an error chained to it."""

import contextlib
import datetime
import decimal
import functools
import math
import warnings

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxdp
from jaxdp.estimators import DPKernelClassifier, DPKernelRidge, DPLinearRegression
from jaxdp.regression import Columns

RANDOM = np.random.default_rng(0)
ROWS = 40
INPUTS = RANDOM.uniform(-1, 1, (ROWS, 2))
LABELS = {"ridge": RANDOM.uniform(-1, 1, ROWS), "classifier": np.where(INPUTS[:, 0] > 0, "b", "a")}
SMALL = {"num_projections": 5, "num_features": 8}


def _made(kind, **more):
    given_options = {"input_bound": math.inf, **SMALL, **more}
    if kind == "ridge":
        return DPKernelRidge(5.0, 1e-5, 1.0, **given_options)
    return DPKernelClassifier(5.0, 1e-5, **{"classes": ("a", "b"), **given_options})


@pytest.fixture(scope="module")
def fitted():
    return {kind: _made(kind).fit(INPUTS, labels) for kind, labels in LABELS.items()}


class Secret:
    """A cell that writes itself out, and refuses to be a number in words that show it."""

    def __repr__(self):
        return "731zq"

    def __float__(self):
        raise ValueError(f"no number: {self!r}")


CELLS = st.one_of(
    st.text(max_size=3).map(lambda text: f"{text}731zq{text}"),
    st.sampled_from(
        [
            "731.25",
            b"731zq",
            731.25,
            731.25j,
            Secret(),
            {"731zq": 1},
            ["731zq"],
            10**400 + 731,
            datetime.datetime(2731, 7, 31),
            decimal.Decimal("731.25"),
            np.float64(731e300) * 10,
        ]
    ),
)


def _tables(cell):
    """The inputs with a cell, and a cell in place of them, as users hold them."""
    import pandas

    cells = INPUTS.astype(object)
    cells[3, 1] = cell
    rows = cells.tolist()
    one = [cell] * ROWS
    yield from (cells, rows, one, cell, INPUTS[:, 0] * 731, [rows])
    yield pandas.DataFrame({"x": INPUTS[:, 0], "z": pandas.Series(cells[:, 1])})
    if isinstance(cell, str):
        texts = INPUTS.astype(np.dtypes.StringDType())
        texts[3, 1] = cell
        yield from (texts, np.array(one))
        yield pandas.DataFrame({"x": INPUTS[:, 0], "z": pandas.Categorical(one)})
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        yield np.array(rows)


def _columns(kind, cell):
    """The labels with a cell, and nothing but cells."""
    import pandas

    labels = LABELS[kind].astype(object)
    labels[3] = cell
    yield from (labels, labels.tolist(), [cell] * ROWS, cell, pandas.Series(labels, name="y"))
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        yield np.array(labels.tolist())


def _said(call, *arguments):
    """All that a call says: its warnings, its error, and the errors that this one handled."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call(*arguments)
            error = None
        except Exception as raised:
            error = raised
    said = [str(warning.message) for warning in caught]
    while error is not None:
        said += [str(error), repr(error)]
        error = error.__cause__ or error.__context__
    return said


@settings(max_examples=25)
@given(cell=CELLS)
def test_no_error_or_warning_shows_a_cell_or_a_label(fitted, cell):
    for kind, labels in LABELS.items():
        known = fitted[kind]
        calls = []
        for table in _tables(cell):
            calls += [(_made(kind).fit, table, labels), (known.predict, table)]
            calls += [(known.release_, table), (known.score, table, labels)]
        for column in _columns(kind, cell):
            calls += [(_made(kind).fit, INPUTS, column), (known.score, INPUTS, column)]
            calls += [(known.score, INPUTS, labels, column)]
        for call in calls:
            assert not [line for line in _said(*call) if "731" in line or "zq" in line]


def test_a_leak_in_a_chained_error_or_a_warning_would_be_found():
    def chained():
        warnings.warn("cell 731", UserWarning, stacklevel=1)
        try:
            float("731zq")
        except ValueError:
            raise ValueError("no number") from None

    assert sum("731" in line for line in _said(chained)) == 3


def test_scores_are_those_of_scikit_learn(fitted):
    from sklearn.metrics import accuracy_score, r2_score

    weights = RANDOM.uniform(size=ROWS)
    for kind, measure in (("ridge", r2_score), ("classifier", accuracy_score)):
        found = fitted[kind].score(INPUTS, LABELS[kind], weights)
        expected = measure(LABELS[kind], fitted[kind].predict(INPUTS), sample_weight=weights)
        assert found == pytest.approx(expected)
    assert fitted["classifier"].score(INPUTS, np.arange(ROWS)) == 0
    with pytest.raises(ValueError, match=r"expected y of shape \(40\), got \(39,\)"):
        fitted["classifier"].score(INPUTS, LABELS["classifier"][1:])


@pytest.mark.parametrize("cell", [None, math.nan, np.float32("nan")])
def test_missing_labels_are_called_so_with_what_to_do(cell):
    import pandas

    known = {"columns": Columns({"0": (-1, 1), "1": (-1, 1)}), "label_range": (-1, 1)}
    made = {kind: _made(kind) for kind in LABELS} | {"linear": DPLinearRegression(1, 1e-5, **known)}
    for kind, estimator in made.items():
        labels = LABELS.get(kind, LABELS["ridge"]).astype(object)
        labels[3] = cell
        columns = [labels, labels.tolist(), pandas.Series(labels)]
        if kind != "classifier":
            columns += [labels.astype(float), pandas.Series(labels, dtype="Float64")]
        for column in columns:
            with pytest.raises(ValueError, match="y contains NaN, None or NA: drop these rows, or"):
                estimator.fit(INPUTS, column)


def test_rows_that_are_dictionaries_are_called_so(fitted):
    rows = [{"x": 731.0, "z": 1.0}] * ROWS
    for kind, labels in LABELS.items():
        for call in (fitted[kind].predict, functools.partial(_made(kind).fit, y=labels)):
            with pytest.raises(ValueError, match=r"list of dictionaries: pandas\.DataFrame\(X\)"):
                call(rows)


def test_predictions_tell_of_cells_that_the_columns_do_not_list(tmp_path):
    import pandas

    columns = Columns({"x": (-1, 1), "kind": ["a", "b"], "z": (-1, 1)}, complete=["z"])
    table = pandas.DataFrame({"x": INPUTS[:, 0], "kind": LABELS["classifier"], "z": INPUTS[:, 1]})
    model = DPLinearRegression(5.0, 1e-5, columns=columns, label_range=(-1, 1), features="linear")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*this budget are enough for the")
        model.fit(table, LABELS["ridge"])
    model.release_.save(tmp_path / "model.npz")
    loaded = jaxdp.regression.load(tmp_path / "model.npz")
    odd = table.astype(object)
    odd.loc[:1, "kind"], odd.loc[1, "x"], odd.loc[2, "x"], odd.loc[4, "z"] = (
        "731zq",
        731,
        None,
        None,
    )
    calls = [model.predict, lambda odd: model.score(odd, LABELS["ridge"]), loaded, loaded.predict]
    for call in calls:
        call(table)
        with pytest.warns(UserWarning, match="3 of 40 rows .*x: 1, kind: 2, z: 1") as caught:
            call(odd)
        assert [warning.filename for warning in caught] == [__file__]
        assert not any(part in str(caught[0].message) for part in ("731", "zq"))
    # Traced rows say nothing, as they have no values yet.
    numbers = jax.numpy.array([[9.0, 9.0, 9.0]])
    jax.jit(loaded)(numbers)
