"""Public ranges and categories, and the features made of them."""

import datetime
import io
import math
from decimal import Decimal
from fractions import Fraction

import jax
import numpy as np
import pandas as pd
import pytest

from jaxdp.regression import ColumnFeatures, Columns

SPECS = {"age": (0, 10), "sex": ["f", "m"], "rooms": [1, 2, 3]}
TABLE = pd.DataFrame(
    {
        **{"rooms": [1, 2.0, None, 7], "age": [0.0, 9.99, np.nan, 50]},
        **{"other": ["x", "y", "z", "w"], "sex": ["f", "m", None, "diverse"]},
    }
)


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ("as", TypeError, "a list of pairs of names"),
        ({"age": "sex"}, TypeError, "a list of pairs of names"),
        ([("age", "age")], ValueError, "two columns that are named"),
        ([("age", "height")], ValueError, "two columns that are named"),
        ([None], ValueError, "two columns that are named"),
    ],
)
def test_interactions_are_a_list_of_pairs(given, kind, message):
    with pytest.raises(kind, match=message):
        Columns(SPECS, interactions=given)


CODES = [[0, 0, 0], [0.999, 1, 1], [-1, 3, 4], [1, 2, 3]]


def test_cells_become_places_in_ranges_and_numbers_of_categories():
    columns = Columns(SPECS)
    np.testing.assert_allclose(columns.codes(TABLE), CODES)
    rows = TABLE[["age", "sex", "rooms"]]
    np.testing.assert_allclose(columns.codes(rows.to_numpy()), CODES)
    np.testing.assert_allclose(columns.codes(rows.to_numpy().tolist()), CODES)
    kinds = rows.astype({"age": "Float64", "sex": "category", "rooms": "Int64"})
    np.testing.assert_allclose(columns.codes(kinds), CODES)


DAY = datetime.date(2020, 1, 2)
CELLS = {
    "a number": [2, 2.0, "2", "2.00", " 2.0", b"2", np.float32(2), Decimal("2.0"), Fraction(2)],
    "a fraction": [0.1, "0.1", ".10", np.float32(0.1), float(np.float32(0.1)), Decimal("0.1")],
    "a small number": [1e-5, "1e-05", "1E-5", "0.00001", np.float32(1e-5)],
    "a truth": [True, np.True_, "True", "true", "TRUE", 1, "1"],
    "a text": ["f", b"f", np.str_("f")],
    "a date": [
        *(DAY, datetime.datetime(2020, 1, 2), pd.Timestamp(DAY), np.datetime64(DAY)),
        *(np.datetime64(DAY, "ns"), "2020-01-02", "2020-01-02 00:00:00"),
    ],
    "a moment": ["2020-01-02T03:00+01:00", pd.Timestamp("2020-01-02 02:00", tz="UTC")],
    "beyond all floats": [math.inf, "inf", Decimal("inf"), Fraction(10**400, 3)],
    "missing": [None, math.nan, pd.NA, pd.NaT, np.datetime64("NaT"), "", "nan", "NaN", "NaT"],
}


LATE = datetime.timezone(datetime.timedelta(hours=-12))


EARLY = datetime.timezone(datetime.timedelta(hours=12))


BESIDE = ["?", None, 1.5, 7, True, DAY, pd.Timestamp(DAY), b"?", "nan"]
# None: not a category, but missing.
EXPECTED = dict.fromkeys(CELLS, 0.0) | {"missing": 2.0}


def _ways(cells):
    """Tables of one column with these cells, each of another type."""
    yield [[cell] for cell in cells]
    array = np.empty((len(cells), 1), object)
    array[:, 0] = cells
    yield array
    yield pd.DataFrame({"x": cells})
    yield pd.DataFrame({"x": pd.Series(cells, dtype=object)})


@pytest.mark.parametrize("kind", CELLS)
def test_a_cell_is_the_same_whatever_stands_beside_it_and_however_it_is_kept(kind):
    for category in CELLS[kind] if kind != "missing" else ["f"]:
        columns = Columns({"x": [category]})
        for cell in CELLS[kind]:
            found = [columns.codes(table)[0, 0] for table in _ways([cell])]
            for other in BESIDE:
                found += [columns.codes(table)[0, 0] for table in _ways([cell, other])]
            assert set(found) == {EXPECTED[kind]}


@pytest.mark.parametrize("cells", ["1 2 3", "True False True", "2020-01-01 2020-01-02 2020-01-01"])
def test_a_cell_that_a_files_reader_cannot_place_changes_no_other_cell(cells):
    cells = cells.split()
    columns = Columns({"x": cells[:2]})
    # It comes last: the type of the whole column is another one with it.
    tables = [
        pd.read_csv(io.StringIO("\n".join(["x", *cells, *more]) + "\n"), parse_dates=dates)
        for more in ([], ["?"], ["inf"])
        for dates in ([], ["x"] if "-" in cells[0] else [])
    ]
    codes = [columns.codes(table)[:3].tolist() for table in tables]
    assert codes == [codes[0]] * len(codes)
    array = np.array([[float(cells[0] == "1")], [math.nan]])
    texts = np.array([[array[0, 0]], [math.nan], ["?"]])
    np.testing.assert_array_equal(columns.codes(array), columns.codes(texts)[:2])


def test_a_number_in_a_range_is_found_from_its_cell_alone():
    columns = Columns({"x": (0, 4)})
    for cell in [*CELLS["a number"], "02", "2e0", "+2.", " 2"]:
        for other in (None, 1.5, "3", True, 10**400, "nan"):
            for table in (*_ways([cell]), *_ways([cell, other])):
                assert columns.codes(table)[0, 0] == 0.5
    assert columns.codes([[10**400], [-(10**400)], ["nan"]]).tolist() == [[1], [0], [-1]]


CODES_OF_TEXTS = [
    ["1_0", "10", "010", "+10", "1e1", "1\u0660", "\uff11\uff10", "10,0", "1 0"],
    ["9007199254740993", "9007199254740992", "9007199254740994"],
    ["Inf", "inf", "Infinity", "-inf", "INF"],
    ["2020-W01", "2019-12-30", "2020-01"],
    ["0.1000000000000000055511151231257827", "0.1"],
]


def test_identifiers_are_told_apart_to_every_digit_as_numbers_too():
    ids = [2**53, 2**53 + 1, 2**63 - 1]
    columns = Columns({"x": [*map(str, ids)]})
    for cells in (ids, np.array(ids), [*map(Decimal, ids)], pd.array(ids, dtype="Int64")):
        assert columns.codes(pd.DataFrame({"x": cells}))[:, 0].tolist() == [0, 1, 2]
    assert columns.codes([[2**53 + 2], [2**63], [10**400]])[:, 0].tolist() == [3, 3, 3]
    assert columns.in_words == ("9007199254740992, 9007199254740993, 9223372036854775807",)


@pytest.mark.parametrize("texts", CODES_OF_TEXTS, ids=lambda texts: texts[0])
def test_codes_that_are_written_differently_are_told_apart(texts):
    columns = Columns({"x": texts})
    assert columns.codes(pd.DataFrame({"x": texts})).ravel().tolist() == [*range(len(texts))]
    # Nor is one that is not listed taken for one that is.
    for text in texts:
        others = [each for each in texts if each != text]
        assert Columns({"x": others}).codes([[text]])[0, 0] == len(others)


def test_texts_that_python_alone_takes_for_numbers_are_refused_in_a_range():
    columns = Columns({"x": (0, 2000)})
    for text in ("1_000", "\uff11\uff10", "1\u0660", "1 000", "1,5"):
        with pytest.raises(TypeError, match="numbers in column 'x', got text"):
            columns.codes([[text]])


def test_masked_cells_are_missing():
    columns = Columns({"age": (0, 10), "rooms": ["1", "2"]})
    table = np.ma.array([[5, 1], [5, 1]], mask=[[0, 0], [1, 1]])
    assert columns.codes(table).tolist() == [[0.5, 0], [-1, 3]]
    assert columns.codes([[5, 1], [np.ma.masked] * 2]).tolist() == [[0.5, 0], [-1, 3]]


def test_traced_rows_are_cells_that_are_numbers():
    columns = Columns({"age": (0, 10), "rooms": [1, "x", 3]})
    table = np.array([[5, 1], [-3, 3], [30, 2], [math.nan, math.nan]])
    np.testing.assert_allclose(jax.jit(columns.codes)(table), columns.codes(table))


def test_frames_go_by_name_and_by_place_where_there_is_none():
    columns = Columns({"age": (0, 10), "rooms": ["1", "2"]})
    table = pd.DataFrame({"rooms": [2], "age": [5]})
    assert columns.codes(table).tolist() == [[0.5, 1]]
    assert columns.codes(pd.DataFrame([[5, 2]])).tolist() == [[0.5, 1]]
    counted = Columns({"0": (0, 10), "1": ["1", "2"]})
    assert counted.codes(table[["age", "rooms"]]).tolist() == [[0.5, 1]]


def test_which_rows_are_beyond_what_is_public():
    columns = Columns({"age": (0, 10), "sex": ["f", "m"]})
    table = [[5, "f"], [11, "f"], [-1, "m"], [None, None], [5, "x"], [0, "m"], [10, "m"]]
    read = columns.read(table)
    assert read.is_beyond.any(axis=1).tolist() == [False, True, True, False, True, False, False]
    assert read.is_beyond.sum(axis=0).tolist() == [2, 1]
    np.testing.assert_array_equal(read.codes, columns.codes(table))
    # A table that was read is not read again.
    assert columns.codes(read) is read.codes


BOTH = Columns(
    {"age": (0, 10), "sex": ["f", "m"], "height": (1, 2)},
    bins=5,
    interactions=[("age", "sex"), ("height", "age")],
    complete=["height"],
)


def _random_codes(columns, num_rows=300):
    """Codes of any cells, knots and missing ones among them, that a complete column can have."""
    draw, codes = np.random.default_rng(0), []
    for name, spec, is_number in zip(columns.names, columns.specs, columns.is_number, strict=True):
        is_complete = name in columns.complete
        if is_number:
            code = draw.uniform(size=num_rows)
            code[::3] = draw.integers(0, columns.bins, len(code[::3])) / (columns.bins - 1)
            if not is_complete:
                code[::7] = -1
        else:
            code = draw.integers(0, len(spec) + (0 if is_complete else 2), num_rows)
        codes.append(code)
    return np.stack(codes, axis=1).astype(np.float32)


def test_hats_are_the_linear_interpolation_between_knots():
    columns = Columns({"age": (20, 80)}, bins=7)
    features = ColumnFeatures(columns, is_additive=True)
    ages = np.linspace(20, 80, 200)
    found = np.asarray(features(columns.codes(ages[:, None])), np.float64)
    knots = columns.knots(0)
    np.testing.assert_allclose(knots, [20, 30, 40, 50, 60, 70, 80])
    hats = np.stack([np.interp(ages, knots, row) for row in np.eye(7)], axis=1)
    np.testing.assert_allclose(found[:, :7], hats, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-6)
    assert not found[:, 7].any()
    # Thus weights at the knots make any piecewise linear curve, a line among them.
    np.testing.assert_allclose(found[:, :7] @ (3 * knots - 5), 3 * ages - 5, rtol=1e-6)
    bent = np.sin(knots)
    np.testing.assert_allclose(found[:, :7] @ bent, np.interp(ages, knots, bent), atol=1e-5)


@pytest.mark.parametrize("is_additive", [False, True])
def test_the_norm_is_at_most_its_bound_and_attains_it_at_knots(is_additive):
    features = ColumnFeatures(BOTH, is_additive)
    found = np.asarray(features(_random_codes(BOTH)))
    assert found.shape == (300, features.num_outputs)
    assert features.norm_bound == math.sqrt(5 if is_additive else 3)
    norms = np.linalg.norm(found, axis=1)
    assert norms.max() <= features.norm_bound * (1 + 1e-6)
    assert norms.max() >= features.norm_bound * (1 - 1e-6)
    # Midway between knots a column adds half.
    middle = np.asarray(features(np.array([[0.125, 0, 0.5]])))
    squares = 0.5 + 1 + 1 + 0.5 + 0.5 if is_additive else 0.75**2 + 1
    np.testing.assert_allclose(np.sum(middle**2), squares, rtol=1e-6)


def test_knots_categories_and_pairs_have_features_of_their_own():
    columns = Columns({"age": (0, 10), "sex": ["f", "m"]}, bins=2, interactions=[("age", "sex")])
    features = ColumnFeatures(columns, True)
    found = np.asarray(features(columns.codes(TABLE.assign(age=[0, 2.5, np.nan, 50]))))
    ages = np.array([[1, 0, 0], [0.75, 0.25, 0], [0, 0, 1], [0, 1, 0]])
    sexes = np.eye(4)[[0, 1, 3, 2]]
    products = (ages[:, :, None] * sexes[:, None]).reshape(4, 12)
    np.testing.assert_allclose(found, np.hstack([ages, sexes, products]), rtol=1e-6)
    knots = ["age at 0", "age at 10", "age is missing"]
    kinds = ["sex is f", "sex is m", "sex is not listed", "sex is missing"]
    pairs = [f"{knot}, {kind}" for knot in knots for kind in kinds]
    assert features.names == (*knots, *kinds, *pairs)
    assert features.owner.tolist() == [0] * 3 + [1] * 4


@pytest.mark.parametrize("is_additive", [False, True])
def test_a_complete_column_has_no_feature_of_other_cells_and_counts_them(is_additive):
    given = {"age": (0, 10), "sex": ["f", "m"]}
    some, every = Columns(given, bins=3), Columns(given, bins=3, complete=["sex", "age"])
    assert (some.sizes, every.sizes) == ((4, 4), (3, 2))
    features = ColumnFeatures(every, is_additive)
    assert len(features.names) == features.num_outputs == 3 * is_additive + (not is_additive) + 2
    assert not any("missing" in name or "not listed" in name for name in features.names)
    listed, others = [[5, "f"], [0, "m"]], [[None, None], [5, "x"], [11, ""]]
    np.testing.assert_array_equal(every.codes(listed + others), some.codes(listed + others))
    kept = ["missing" not in n and "not" not in n for n in ColumnFeatures(some, is_additive).names]
    expected = ColumnFeatures(some, is_additive)(some.codes(listed + others))[:, np.array(kept)]
    found = np.asarray(features(every.codes(listed + others)))
    np.testing.assert_array_equal(found, expected)
    assert not found[2].any()
    assert not found[3:, -2:].any()
    is_beyond = every.read(listed + others).is_beyond
    assert is_beyond.tolist() == [[False] * 2] * 2 + [[True, True], [False, True], [True, True]]
    assert some.read(listed + others).is_beyond.sum() == 2
    assert repr(every).endswith("complete=('sex', 'age'))")


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        (["age", "weight"], ValueError, "complete to name columns, got 'weight'"),
        ("age", TypeError, "complete to be a list of names of columns"),
        (True, TypeError, "a list of names of columns"),
    ],
)
def test_complete_names_columns(given, kind, message):
    with pytest.raises(kind, match=message):
        Columns({"age": (0, 10)}, complete=given)


@pytest.mark.parametrize("is_additive", [False, True])
def test_public_sums_and_lengths_hold_at_every_row(is_additive):
    features, codes = ColumnFeatures(BOTH, is_additive), _random_codes(BOTH)
    found = np.asarray(features(codes), np.float64)
    whole = [0, 1, 2] if is_additive else [1]
    assert [features.owner[group].tolist() for group in features.groups] == [
        [place] * len(group) for place, group in zip(whole, features.groups, strict=True)
    ]
    for group in features.groups:
        np.testing.assert_allclose(found[:, group].sum(axis=1), 1, rtol=1e-6)
    # Both columns of both interactions have a sum for each of their cells.
    assert len(features.sums) == (6 + 4 + 5 + 6 if is_additive else 0)
    for cells, total in features.sums:
        np.testing.assert_allclose(found[:, cells].sum(axis=1), found[:, total], atol=1e-6)
    places = np.where(codes < 0, 0, 2 * codes - 1)[:, [0, 2]]
    is_line = np.array([", -1 at" in name for name in features.names])
    is_short = np.array([" at " in name for name in features.names]) & ~is_line
    is_short[len(features.owner) :] = True
    lengths = np.sum(places**2, axis=1) + np.sum(found[:, ~is_short & ~is_line] ** 2, axis=1)
    lengths += 0.3**2 * np.sum(found[:, is_short] ** 2, axis=1)
    metric = features.metric(0.3)
    np.testing.assert_allclose(np.sum(found @ metric * found, axis=1), lengths, rtol=1e-5)


def test_numbers_are_themselves_in_a_linear_function():
    columns = Columns({"age": (0, 10)})
    found = ColumnFeatures(columns, False)(columns.codes([[0.0], [7.5], [math.nan], [99.0]]))
    np.testing.assert_allclose(found, [[-1, 0], [0.5, 0], [0, 1], [1, 0]])
    names = ColumnFeatures(columns, False).names
    assert names == ("age, -1 at 0 and 1 at 10", "age is missing")


WRONG = {
    "none": ({}, ValueError, "got none"),
    "no dictionary": ([("age", (0, 1))], TypeError, "a dictionary"),
    "an empty range": ({"age": (1, 1)}, ValueError, "low < high"),
    "a date and a number": ({"day": (DAY, 18270)}, TypeError, "two numbers or two dates"),
    "a range as a list": (
        {"age": [17, 90]},
        ValueError,
        r"the tuple \(17, 90\), or as categories, the texts \['17', '90'\]",
    ),
    "what NumPy found": ({"sex": np.array(["secret"])}, TypeError, "not read off.*a ndarray"),
    "a text": ({"age": "0-10"}, TypeError, "a list of categories"),
    "a number for a name": ({1: (0, 1)}, TypeError, "as texts, got 1: '1' is read from a table's"),
    "one category twice": ({"rooms": [1, "1"]}, ValueError, "got '1' twice"),
    "a range too small": ({"age": (0, 5e-324)}, ValueError, "a width from 1e-30"),
    "a missing category": ({"rooms": [1, None]}, ValueError, "without missing values"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_description_is_refused(name):
    given, kind, message = WRONG[name]
    with pytest.raises(kind, match=message) as caught:
        Columns(given)
    assert "secret" not in str(caught.value)


WEEK = datetime.date(2020, 1, 1), datetime.date(2020, 1, 9)
ENDS = ("2020-01-01", "2020-01-09T00:00:00"), ("20200101", "20200109")


CELLS_OF_DAYS = {
    datetime.date(2020, 1, 5): 0.5,
    "2020-01-01T12:00": 1 / 16,
    "2020-01-02T01:00+01:00": 1 / 8,
    "20200103": 0.25,
    20200103: 0.25,
    np.float32(20200104): 0.375,
    "20200103T120000": 5 / 16,
    None: -1,
}


@pytest.mark.parametrize("ends", [WEEK, tuple(map(pd.Timestamp, WEEK)), *ENDS])
def test_a_range_of_dates_is_kept_as_dates_and_reads_them(ends):
    columns = Columns({"day": ends}, bins=2)
    assert (columns.specs, columns.is_date) == ((("2020-01-01", "2020-01-09"),), (True,))
    assert columns.in_words == ("2020-01-01 to 2020-01-09",)
    names = ColumnFeatures(columns, True).names
    assert names == ("day at 2020-01-01", "day at 2020-01-09", "day is missing")
    found = columns.read([[cell] for cell in CELLS_OF_DAYS])
    np.testing.assert_allclose(found.codes[:, 0], [*CELLS_OF_DAYS.values()], rtol=1e-12)
    assert not found.is_beyond.any()
    for unit in ("s", "ns"):
        times = pd.to_datetime(["2020-01-05", "2019-12-31", None]).as_unit(unit)
        for kept in (times, times.tz_localize("UTC"), times.astype(object)):
            found = columns.read(pd.DataFrame({"day": kept}))
            assert found.codes[:, 0].tolist() == [0.5, 0, -1]
            assert found.is_beyond[:, 0].tolist() == [False, True, False]


NO_DATES = [45000, 1704067200, 1704067200 * 10**9, 1610121300012, 20240231, -20240131, 20240131.5]
NO_DATES += [True, math.inf, 10**400, "2024", "1701020300", "20240131123000", "31/01/2024", "NA"]
NO_DATES += ["10000-01-01", "0000-01-01", "2024-W05-1", "\u0662\u0660240131"]


@pytest.mark.parametrize("cell", NO_DATES)
def test_what_may_be_seconds_or_day_numbers_is_refused_in_a_range_of_dates(cell):
    columns = Columns({"x": ("1970-01-01", "2200-01-01")})
    for table in _ways([cell]):
        with pytest.raises(TypeError, match=r"expected dates in column 'x'.*unit='ns'") as caught:
            columns.codes(table)
        assert caught.value.__context__ is None


ODD_DATES = {
    "early": [
        *(np.datetime64(-(2**62), "s"), np.datetime64(-(10**15), "Y"), np.datetime64(-1970, "Y")),
        *(datetime.datetime.min.replace(tzinfo=EARLY), datetime.date.min, pd.Timestamp.min),
        "0001-01-01T00:00+12:00",
    ],
    "late": [
        *(np.datetime64(2**62, unit) for unit in ("s", "D", "W")),
        *(np.datetime64(10**15, "M"), np.datetime64("10000-01-01")),
        *(datetime.datetime.max.replace(tzinfo=LATE), datetime.datetime.max),
        pd.Timestamp.max.tz_localize("UTC"),
        pd.Timestamp(np.datetime64("20000-01-01", "s")),
        "9999-12-31T23:59:59-12:00",
    ],
}


@pytest.mark.parametrize("kind", ODD_DATES)
def test_dates_that_other_types_cannot_hold_are_beyond_the_nearer_end(kind):
    columns = Columns({"x": WEEK})
    for cell in ODD_DATES[kind]:
        for table in _ways([cell]):
            found = columns.read(table)
            assert (found.codes[0, 0], found.is_beyond[0, 0]) == (float(kind == "late"), True)
        # Categories of them are one with themselves, and with no others.
        assert Columns({"x": [cell, "other"]}).codes([[cell], ["x"]])[:, 0].tolist() == [0, 2]


@pytest.mark.parametrize(
    ("table", "kind", "message"),
    [
        (TABLE[["age", "rooms"]], ValueError, "got none called"),
        (np.zeros((2, 2)), ValueError, r"rows of 3 columns, got shape \(2, 2\)"),
        (TABLE.assign(age="secret"), TypeError, "numbers in column 'age', got text.*to_numeric"),
        (TABLE.assign(sex=[np.ones(2)] * 4), TypeError, "column 'sex', got other things"),
        (pd.concat([TABLE, TABLE[["age"]]], axis=1), ValueError, r"that differ, got \['age'\]"),
        (dict(TABLE), ValueError, "a data frame or rows of 3 columns, got shape .* of a dict"),
        (
            [{"age": "secret"}] * 3,
            ValueError,
            r"got a list of dictionaries: pandas.DataFrame\(rows",
        ),
    ],
)
def test_a_table_that_does_not_fit_is_refused_and_no_cell_shown(table, kind, message):
    with pytest.raises(kind, match=message) as caught:
        Columns(SPECS).codes(table)
    assert "secret" not in str(caught.value)
