"""Tables as people have them: `fit`, `predict` and `compare` read the same columns of each."""

import contextlib
import csv
import io
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaxdp.cli.commands.compare import scaled_table
from jaxdp.cli.entry import make_parser
from jaxdp.kernels import load

SMALL = ["--num-projections", "20", "--num-features", "32"]
BUDGET = ["--epsilon", "50", "--delta", "1e-5", "--input-range=0:10"]
RANDOM = np.random.default_rng(0)
INPUTS = np.round(RANDOM.uniform(0.1, 10, (256, 2)), 3) + 0.0001
LABELS = np.round(np.sin(INPUTS[:, 0] / 3) / 2, 5)
KINDS = INPUTS[:, 0] > 5


def _text(names, *columns, mark=",", first=""):
    """A table as a program would write it: with quotes where there have to be some."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=mark, lineterminator="\r\n")
    writer.writerows(([names] if names else []) + [*zip(*columns, strict=True)])
    return (first + text.getvalue()).encode()


def _blanks(names, *columns):
    return _text(names, *columns).replace(b",", b"  ")


# What the columns are called, and how the file is written.
FILES = {
    "years": (["2019", "2020", "2021"], _text),
    "quotes and line breaks": (['say "a"', "b\nc", 'y\n"'], _text),
    "a byte order mark": (["a", "b", "y"], lambda *args: _text(*args, mark=";", first="\ufeff")),
    "NumPy's comment": (["a", "b", "y"], lambda *args: b"# " + _blanks(*args)),
}


@pytest.mark.parametrize("kind", FILES)
def test_fit_predict_and_compare_read_the_same_columns(run, tmp_path, kind):
    names, write = FILES[kind]
    table, model = tmp_path / "table.csv", tmp_path / "model.npz"
    table.write_bytes(write(names, *INPUTS.T, LABELS))
    fit = ["fit", table, *BUDGET, *SMALL, "--target", names[2], "--label-bound", "1"]
    out = run.well(*fit, "--out", model, "--json")
    found = json.loads(out)
    assert (found["rows"], found["inputs"], found["target"]) == (256, names[:2], names[2])
    options = make_parser().parse_args(["compare", "--data", str(table), "--target", names[2]])
    vars(options).update(drop="", drop_constant=False, header=None)
    compared = scaled_table(options)
    assert (compared.input_names, compared.label_name) == (tuple(names[:2]), names[2])
    assert len(compared.labels) == 256
    # By name: the columns in another order, and one more in front of them.
    table.write_bytes(write([names[1], "more", names[0]], INPUTS[:9, 1], KINDS[:9], INPUTS[:9, 0]))
    out = run.well("predict", model, table)
    by_name = np.array(out.split()[1:], float)
    bare = _blanks if kind == "NumPy's comment" else write
    table.write_bytes(bare(None, *INPUTS[:9].T))
    run.refused("predict", model, table)
    by_place = np.array(run.well("predict", model, table, "--no-header").split()[1:], float)
    assert len(by_place) == 9
    np.testing.assert_allclose(by_name, by_place, rtol=1e-5)
    # The order matters: by their places they would be others.
    assert np.ptp(by_place) > 0.1


def test_a_file_of_ranges_is_read_as_a_table_is(run, tmp_path):
    (tmp_path / "table.csv").write_bytes(_text(["a, b", "2019", "y"], *INPUTS.T, LABELS))
    fit = ["fit", tmp_path / "table.csv", *BUDGET[:4], *SMALL, "--label-bound", "1", "--header"]
    fit += ["--out", tmp_path / "model.npz", "--input-range", tmp_path / "ranges.csv"]
    rows = ["2019", "a, b", "y"], [0, 1, 2], [20, 11, 12]
    (tmp_path / "ranges.csv").write_bytes(_text(None, *rows, mark=";", first="\ufeffsep=;\r\n"))
    run.well(*fit)
    scaling = load(tmp_path / "model.npz").features.base
    np.testing.assert_array_equal([scaling.low, scaling.high], [[1, 0], [11, 20]])
    (tmp_path / "model.npz").unlink()
    for low, message in (("1_0", "low < high of column '2019', got nan"), (30, "got 30 and 20")):
        (tmp_path / "ranges.csv").write_bytes(_text(None, rows[0], [low, 1, 2], rows[2]))
        assert message in run.refused(*fit)


@pytest.mark.parametrize(
    ("high", "low", "classes"),
    [
        ("nan", "null", "nan,null"),
        ("1.0", "0.0", "1,0"),
        ("a, b", 'c "d"', '"a, b","c ""d"""'),
    ],
)
def test_labels_come_as_they_are_written(run, tmp_path, high, low, classes):
    table, model = tmp_path / "table.csv", tmp_path / "model.npz"
    table.write_bytes(_text(["a", "b", "y"], *INPUTS.T, np.where(KINDS, high, low)))
    fit = ["fit", table, *BUDGET, *SMALL, "--classify", f"--classes={classes}", "--out", model]
    run.well(*fit)
    out = run.well("predict", model, table, "--json")
    names = next(csv.reader([classes]))
    agree = np.array(json.loads(out)["class"]) == np.where(KINDS, *names)
    assert agree.mean() > 0.85


def test_a_missing_label_is_no_class_called_nan(run, tmp_path):
    table = tmp_path / "table.csv"
    labels = np.where(KINDS, "nan", "no")
    labels[7] = ""
    table.write_bytes(_text(["a", "b", "y"], *INPUTS.T, labels))
    fit = ["fit", table, *BUDGET, *SMALL, "--classify", "--classes=nan,no"]
    err = run.refused(*fit, "--out", tmp_path / "model.npz")
    assert "column 'y', got 1 other labels, the first in data row 8" in err


def test_a_record_of_a_class_alone_is_not_taken_for_names(run, tmp_path):
    table = tmp_path / "table.csv"
    rows = _text(None, *INPUTS.T, np.where(KINDS, "rare", "no"))
    table.write_bytes(b",,rare\r\n" + rows)
    fit = ["fit", table, *BUDGET, *SMALL, "--classify", "--classes=rare,no"]
    fit += ["--out", tmp_path / "model.npz"]
    assert "called 'rare', as one of the classes is" in run.refused(*fit)
    table.write_bytes(b"a,b,rare\r\n" + rows)
    run.well(*fit, "--header")


@pytest.mark.parametrize("cell", ["1_0", "1,0"])
def test_digits_with_marks_in_them_are_text_for_all_commands(run, tmp_path, cell):
    table, model = tmp_path / "table.csv", tmp_path / "model.npz"
    fit = ["fit", table, *BUDGET, *SMALL, "--label-bound", "1", "--out", model]
    table.write_bytes(_text(["a", "b", "y"], *INPUTS.T, LABELS))
    assert run(*fit)[0] == 0
    inputs = INPUTS.astype(str).astype(object)
    inputs[3, 1] = cell
    table.write_bytes(_text(["a", "b", "y"], *inputs.T, LABELS))
    out = ["--out", tmp_path / "other.npz"]
    for command in ([*fit, *out], ["predict", model, table], ["compare", "--data", table]):
        assert "column 'b' holds text" in run.refused(*command)


SECRET = "731zq"
# What a cell that nobody is to see may look like; each has a part of the secret in it.
CELLS = st.one_of(
    st.sampled_from(
        ["731.25", "7_31", "731 25", "731,25", "2731-07-31", "731e999", "731j", "True"]
    ),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=4).map(
        lambda text: f"{text}{SECRET}{text}"
    ),
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cell=CELLS,
    place=st.tuples(st.sampled_from([0, 5]), st.sampled_from([0, 1, 2])),
    names=st.sampled_from([["a", "b", "y"], ["2019", "2020", "2021"], None]),
    mark=st.sampled_from([",", ";", "\t"]),
    given_options=st.sampled_from([[], ["--no-header"]]),
)
def test_no_error_or_warning_of_a_command_shows_a_cell(
    tmp_path_factory, private_models, cell, place, names, mark, given_options
):
    folder = tmp_path_factory.mktemp("cells")
    rows = [list(row) for row in zip(*INPUTS[:40].T, np.where(KINDS[:40], "hi", "lo"), strict=True)]
    rows[place[0]][place[1]] = cell
    table = folder / "table.csv"
    table.write_bytes(_text(names, *zip(*rows, strict=True), mark=mark))
    out = ["--out", folder / "never.npz"]
    commands = [
        ["fit", table, *BUDGET, *SMALL, "--label-bound", "1", *out],
        ["fit", table, *BUDGET, *SMALL, "--classify", "--classes", "hi,up", *out],
        *(["predict", model, table] for model in private_models),
        # Refused after the table is read.
        ["compare", "--data", table, "--num-steps", 2**31 - 1, "--out", folder],
    ]
    for command in commands:
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            status = _main([*command, *given_options])
        assert status in (0, 2)
        assert not any(part in said.getvalue() for part in ("731", "7_31", "zq"))


def _main(arguments):
    from jaxdp import cli

    return cli.main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def private_models(tmp_path_factory):
    """A model that knows names, and one that does not."""
    folder = tmp_path_factory.mktemp("models")
    for names, given_options in ((["a", "b", "y"], []), (None, ["--no-header"])):
        table = folder / "table.csv"
        table.write_bytes(_text(names, *INPUTS.T, LABELS))
        fit = ["fit", table, *BUDGET, *SMALL, "--label-bound", "1", *given_options]
        assert _main([*fit, "--out", folder / f"model{len(given_options)}.npz"]) == 0
    return [folder / "model0.npz", folder / "model1.npz"]
