"""Reading a user's table: what is read, and one line for what is not."""

import zipfile

import numpy as np
import pytest

from jaxdp.data.datasets import read_inputs, read_table, read_whole_table

VALUES = np.round(np.random.default_rng(0).normal(size=(30, 3)), 4)
ROWS = "\n".join(",".join(map(str, row)) for row in VALUES)


def _write(tmp_path, text, name="table.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


FORMS = {
    "header": "a,b,c\n" + ROWS,
    "bare": ROWS,
    "semicolons": "a;b;c\n" + ROWS.replace(",", ";"),
    "white space": "  " + ROWS.replace(",", " \t ").replace("\n", " \n  "),
    "numpy header": "# a b c\n" + ROWS.replace(",", " "),
    "windows": "\ufeffa,b,c\r\n" + ROWS.replace("\n", "\r\n"),
}


@pytest.mark.parametrize("form", FORMS)
def test_reads_every_form(tmp_path, form):
    table = read_table(_write(tmp_path, FORMS[form]))
    np.testing.assert_array_equal(table.inputs, VALUES[:, :2])
    np.testing.assert_array_equal(table.labels, VALUES[:, 2])


def test_target_by_name_and_by_number_and_dropped_columns(tmp_path):
    path = _write(tmp_path, "a,b,c\n" + ROWS)
    by_name = read_table(path, "a", drop=["c"])
    assert by_name.input_names == ("b",)
    assert by_name.label_name == "a"
    np.testing.assert_array_equal(by_name.labels, VALUES[:, 0])
    np.testing.assert_array_equal(read_table(path, "-2").labels, VALUES[:, 1])
    np.testing.assert_array_equal(read_table(path, 0).labels, VALUES[:, 0])


UNCLEAR = "the first line may be names or data; say header or no header"
WHOLE = "\n".join(",".join(map(str, row)) for row in np.rint(9 * VALUES).astype(int))
INDEXED = "\n".join(f"{place},{row}" for place, row in enumerate(WHOLE.splitlines()))


@pytest.mark.parametrize(
    ("first", "rows", "options", "study", "fit"),
    [
        ("a,b,c", ROWS, {}, True, True),
        ("2019,2020,2021", ROWS, {}, None, None),
        ("2019,2020,2021", ROWS, {"target": "2021"}, True, True),
        ("2019,2020,2021", ROWS, {"header": True}, True, True),
        ("2019,2020,2021", ROWS, {"header": False}, False, False),
        ("2,1,0", WHOLE, {"target": "2", "drop": [1], "header": True}, True, True),
        (",0,1,2", INDEXED, {}, True, None),
        # These may be a row of data.
        ("0,1,2", WHOLE, {}, None, None),
        ("400,410,fat", ROWS, {"target": "fat"}, True, True),
        ("2020-01,2020-02,2020-03", ROWS, {}, None, None),
        ("# 1,2,3", ROWS, {}, True, True),
    ],
)
def test_a_header_is_said_or_told_by_names_that_are_asked_for(
    tmp_path, first, rows, options, study, fit
):
    """Whether the first line is a header for a study and for a fit; None where both refuse."""
    path = _write(tmp_path, f"{first}\n{rows}")
    for read, is_header in ((read_table, study), (read_whole_table, fit)):
        if is_header is None:
            with pytest.raises(ValueError, match=UNCLEAR):
                read(path, **options)
        else:
            table = read(path, **options)
            assert len(table.labels) == len(VALUES) + (not is_header)
            assert (table.label_name in first.split(",")) or not is_header


@pytest.mark.parametrize(
    ("text", "has_header"),
    [
        ("country,2019,2020\nAT,.5,1.5\nBE,2.5,.1\n", True),
        ("country,2019,2020\nAT,5,15\nBE,25,1\n", None),
        ("5.1,3.5,setosa\n4.9,3.2,setosa\n", False),
        ("39,Gov,77516\n50,Self,83311\n17,Gov,83312\n", False),
        ("39,Gov,77516\n50,Self,83311\n", None),
    ],
)
def test_words_and_numbers_above_words_are_names_where_that_is_clear(tmp_path, text, has_header):
    path = _write(tmp_path, text)
    messages = {True: "column 'country' holds text", False: "'[12]' holds text", None: UNCLEAR}
    with pytest.raises(ValueError, match=messages[has_header]):
        read_table(path)
    with pytest.raises(ValueError, match=UNCLEAR):
        read_whole_table(path)


def test_columns_are_found_by_name_and_by_place_where_that_is_said(tmp_path):
    path = _write(tmp_path, "30,20,x\n1,2,z\n3,4,w\n")
    np.testing.assert_array_equal(read_inputs(path, ["20", "30"]), [[2, 1], [4, 3]])
    path = _write(tmp_path, "1,2\n3,4\n")
    with pytest.raises(ValueError, match="no columns '20', '30' among its 2"):
        read_inputs(path, ["20", "30"])
    np.testing.assert_array_equal(read_inputs(path, ["20", "30"], header=False), [[1, 2], [3, 4]])
    with pytest.raises(ValueError, match="no columns '20', '30', '40' among its 2"):
        read_inputs(path, ["20", "30", "40"], header=False)
    # Of a function without names: the table's own names are no data.
    np.testing.assert_array_equal(read_inputs(path, ["0", "1"]), [[1, 2], [3, 4]])
    path = _write(tmp_path, "b,a\n1,2\n3,4\n")
    np.testing.assert_array_equal(read_inputs(path, ["0", "1"]), [[1, 2], [3, 4]])
    # What may be the numbers of columns may be a row.
    for text in ("400,410\n.1,.2\n", "0,1\n1,0\n"):
        with pytest.raises(ValueError, match=UNCLEAR):
            read_inputs(_write(tmp_path, text), ["0", "1"])
    path = _write(tmp_path, "0\n.5\n1\n")
    with pytest.raises(ValueError, match=UNCLEAR):
        read_inputs(path, ["0"])
    np.testing.assert_array_equal(read_inputs(path, ["0"], header=False), [[0], [0.5], [1]])


def test_a_name_that_stands_twice_is_refused_where_it_is_asked_for(tmp_path):
    path = _write(tmp_path, "a,a,c\n" + ROWS)
    for options in ({"target": "a"}, {"drop": ["a"]}):
        with pytest.raises(ValueError, match="the name 'a' appears 2 times; rename it"):
            read_table(path, **options)


def test_reads_npz_of_columns_and_of_blocks(tmp_path):
    np.savez(tmp_path / "blocks.npz", inputs=VALUES[:, :2], labels=VALUES[:, 2])
    np.savez(tmp_path / "columns.npz", a=VALUES[:, 0], b=VALUES[:, 1], y=VALUES[:, 2])
    for name in ("blocks.npz", "columns.npz"):
        table = read_table(tmp_path / name)
        np.testing.assert_array_equal(table.inputs, VALUES[:, :2])
        np.testing.assert_array_equal(table.labels, VALUES[:, 2])
    np.testing.assert_array_equal(read_table(tmp_path / "columns.npz", "b").labels, VALUES[:, 1])


def test_scaled_has_unit_variance(tmp_path):
    table = read_table(_write(tmp_path, ROWS)).scaled()
    np.testing.assert_allclose(table.inputs.std(0), 1)
    np.testing.assert_allclose([table.labels.mean(), table.labels.std()], [0, 1], atol=1e-12)


def test_constant_columns_are_left_out_when_asked(tmp_path):
    text = "a,k,c\n" + "\n".join(f"{row[0]},5,{row[2]}" for row in VALUES)
    path = _write(tmp_path, text)
    assert read_table(path, drop_constant=True).input_names == ("a",)
    advice = "column 'k' never varies; leave out columns with drop_constant=True"
    with pytest.raises(ValueError, match=advice):
        read_table(path)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "the file is empty"),
        (
            "a,b,c\n1,,3\n" + ROWS,
            {},
            "column 'b' with missing .*1 in the first, from data row 1.*drop=\\[\"1\"\\]",
        ),
        ("a,b,c\n1,red,3\n" + ROWS, {}, "column 'b' holds text; .*drop=\\[\"1\"\\]$"),
        ("a,b,c\n1,2,red\n" + ROWS, {}, "the target 'c' holds text; choose another"),
        ("a,b,c\n1,2,3,4\n" + ROWS, {}, "rows of unequal length .*3 fields in line 2, saw 4"),
        ("a,b,c\n1,2,3\n4,5,7", {}, "too few rows: 2 for 2 columns, at least 8 needed"),
        ("a,b,c\n" + ROWS, {"target": "d"}, "no column 'd'; there are 3: a, b, c"),
        ("a,b\n" + "\n".join(f"{row[0]},5" for row in VALUES), {}, "the target 'b' never varies"),
    ],
)
def test_bad_tables_end_with_one_line(tmp_path, text, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_table(_write(tmp_path, text), **options)
    assert "\n" not in str(caught.value)


def test_files_that_are_no_tables_are_refused(tmp_path):
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)) * 4)
    (tmp_path / "text.npz").write_text("not a zip")
    np.savez(tmp_path / "pickle.npz", inputs=np.asarray([{}, []], dtype=object))
    np.savez(tmp_path / "cube.npz", inputs=np.zeros((2, 2, 2)))
    np.savez(tmp_path / "uneven.npz", a=np.zeros(3), b=np.zeros(4))
    np.savez(tmp_path / "words.npz", a=np.asarray(["x", "y"]))
    for name, message in [
        ("binary.csv", "not a text file"),
        ("text.npz", "damaged, or no archive of NumPy"),
        ("pickle.npz", "pickled objects in "),
        ("cube.npz", "one or two dimensions"),
        ("uneven.npz", "unequal length"),
        ("words.npz", "expected numbers"),
        ("missing.csv", "no such file"),
        (".", "not a file"),
    ]:
        with pytest.raises(ValueError, match=message):
            read_table(tmp_path / name)


def test_a_cell_longer_than_a_cell_may_be_is_refused_by_the_name_of_the_file(tmp_path):
    for text in (f"a,{'b' * 200_000},y\n1,2,3\n", f"a,b,y\n{'1' * 200_000},2,3\n"):
        (tmp_path / "table.csv").write_text(text)
        with pytest.raises(ValueError, match=r"table\.csv: not a table \(field larger"):
            read_table(tmp_path / "table.csv")


def test_archives_that_are_no_tables_are_refused_by_the_name_of_the_file(tmp_path):
    path = tmp_path / "table.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes", "not an array")
    with pytest.raises(ValueError, match=r"table\.npz: not a readable .* notes is no array"):
        read_table(path)
    np.savez(path, inputs=np.ones((9, 2)), labels=np.ones(9))
    whole = path.read_bytes()
    directory = whole.index(b"PK\x01\x02")
    # Encrypted, and packed by a method that nobody knows.
    for place, value in ((directory + 8, 1), (directory + 10, 99)):
        path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=r"table\.npz: not a readable \.npz"):
            read_table(path)
