"""Public ranges and categories, and the features made of them."""

import math

import numpy as np
import pandas as pd
import pytest

from jaxdp.regression import ColumnFeatures, Columns

SPECS = {"age": (0, 10), "sex": ["f", "m"], "rooms": [1, 2, 3]}
TABLE = pd.DataFrame(
    {
        "rooms": [1, 2.0, None, 7],
        "age": [0.0, 9.99, np.nan, 50],
        "other": ["x", "y", "z", "w"],
        "sex": ["f", "m", None, "diverse"],
    }
)
CODES = [[0, 0, 0], [0.999, 1, 1], [-1, 3, 4], [1, 2, 3]]


def test_cells_become_places_in_ranges_and_numbers_of_categories():
    columns = Columns(SPECS)
    np.testing.assert_allclose(columns.codes(TABLE), CODES)
    rows = TABLE[["age", "sex", "rooms"]]
    np.testing.assert_allclose(columns.codes(rows.to_numpy()), CODES)
    np.testing.assert_allclose(columns.codes(rows.to_numpy().tolist()), CODES)
    kinds = rows.astype({"age": "Float64", "sex": "category", "rooms": "Int64"})
    np.testing.assert_allclose(columns.codes(kinds), CODES)


def test_codes_of_polars_are_those_of_pandas():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({name: TABLE[name].tolist() for name in TABLE})
    np.testing.assert_allclose(Columns(SPECS).codes(frame), CODES)


def test_a_rows_numbers_depend_on_that_row_alone():
    columns = Columns(SPECS)
    alone = [columns.codes(TABLE.iloc[[place]])[0] for place in range(len(TABLE))]
    np.testing.assert_array_equal(alone, columns.codes(TABLE))


@pytest.mark.parametrize("is_additive", [False, True])
def test_every_row_has_the_stated_norm(is_additive):
    columns = Columns(SPECS, bins=4, interactions=[("age", "sex")])
    features = ColumnFeatures(columns, is_additive)
    found = np.asarray(features(columns.codes(TABLE)))
    assert found.shape == (4, features.num_outputs)
    norms = np.linalg.norm(found, axis=1)
    assert features.norm_bound == math.sqrt(4 if is_additive else 3)
    assert norms.max() <= features.norm_bound * (1 + 1e-6)
    if is_additive:
        np.testing.assert_allclose(norms, features.norm_bound, rtol=1e-6)


def test_bins_categories_and_pairs_have_features_of_their_own():
    columns = Columns({"age": (0, 10), "sex": ["f", "m"]}, bins=2, interactions=[("age", "sex")])
    found = np.asarray(ColumnFeatures(columns, True)(columns.codes(TABLE)))
    places = [np.flatnonzero(row).tolist() for row in found]
    # Two bins and none; f, m, another and none; then the pairs.
    age, sex = np.array([0, 1, 2, 1]), np.array([0, 1, 3, 2])
    assert places == [[a, 3 + s, 7 + 4 * a + s] for a, s in zip(age, sex, strict=True)]


def test_numbers_are_themselves_in_a_linear_function():
    columns = Columns({"age": (0, 10)})
    found = ColumnFeatures(columns, False)(columns.codes([[0.0], [7.5], [math.nan], [99.0]]))
    np.testing.assert_allclose(found, [[-1, 0], [0.5, 0], [0, 1], [1, 0]])


WRONG = {
    "none": ({}, ValueError, "got none"),
    "no dictionary": ([("age", (0, 1))], TypeError, "a dictionary"),
    "an empty range": ({"age": (1, 1)}, ValueError, "low < high"),
    "an infinite range": ({"age": (0, math.inf)}, ValueError, "both finite"),
    "a triple": ({"age": (0, 1, 2)}, TypeError, "two numbers"),
    "no categories": ({"age": []}, TypeError, "a list of categories"),
    "a text": ({"age": "0-10"}, TypeError, "a list of categories"),
    "categories twice": ({"rooms": [1, 2, 1.0]}, ValueError, r"got 1\.0 twice"),
    "a number for a name": ({1: (0, 1)}, TypeError, "names of columns as texts"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_description_is_refused(name):
    given, kind, message = WRONG[name]
    with pytest.raises(kind, match=message):
        Columns(given)


@pytest.mark.parametrize("pair", [("age", "age"), ("age", "height")])
def test_interactions_are_of_two_columns(pair):
    with pytest.raises(ValueError, match="two columns that are named"):
        Columns(SPECS, interactions=[pair])


@pytest.mark.parametrize(
    ("table", "kind", "message"),
    [
        (TABLE[["age", "rooms"]], ValueError, "got none called"),
        (np.zeros((2, 2)), ValueError, r"rows of 3 columns, got shape \(2, 2\)"),
        (TABLE.assign(age="secret"), TypeError, "numbers in column 'age', got text"),
        (TABLE.assign(age=[[1]] * 4), TypeError, "numbers in column 'age', got other things"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_and_no_cell_shown(table, kind, message):
    with pytest.raises(kind, match=message) as caught:
        Columns(SPECS).codes(table)
    assert "secret" not in str(caught.value)
