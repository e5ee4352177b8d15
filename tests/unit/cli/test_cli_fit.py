"""`jaxdp fit` and `jaxdp predict`: what they write and print."""

import dataclasses
import json
import os

import numpy as np
import pytest
from cli_tables import written

from jaxdp import cli, kernels, regression

SMALL = ["--num-projections", "20", "--num-features", "32"]
BUDGET = ["--epsilon", "8", "--delta", "1e-5"]
RANGE = ["--input-range", "0:10"]
REGRESSION = [*BUDGET, *RANGE, "--label-bound", "1"]
RANDOM = np.random.default_rng(0)
INPUTS = np.round(RANDOM.uniform(0, 10, (512, 2)), 4)
LABELS = np.round(np.sin(INPUTS[:, 0] / 3) / 2, 5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table, the function fitted on it, and a classifier."""
    folder = tmp_path_factory.mktemp("models")
    first, second = INPUTS.T
    table = written(folder / "table.csv", "aby", first, second, LABELS)
    common = [*BUDGET, *SMALL, *RANGE]
    fit = ["fit", str(table), *common, "--target", "y", "--label-bound", "1"]
    assert cli.main([*fit, "--out", str(folder / "model.npz")]) == 0
    kinds = np.where(first > 5, "high", "low")
    table = written(folder / "kinds.csv", ["kind", "a", "b"], kinds, first, second)
    fit = ["fit", str(table), *common, "--target", "kind", "--classify", "--classes", "low,high"]
    assert cli.main([*fit, "--out", str(folder / "kinds.npz")]) == 0
    return folder


def test_predictions_as_a_file_and_as_one_json_object(folder, run, tmp_path):
    model, table, out_file = folder / "model.npz", folder / "table.csv", tmp_path / "found.csv"
    status, out, _ = run("predict", model, table, "--json", "--out", out_file)
    found = json.loads(out)
    assert status == 0
    assert (found["rows"], found["target"], found["files"]) == (512, "y", [str(out_file)])
    assert found["cost"]["epsilon"] == pytest.approx(8, rel=1e-6)
    cells = out_file.read_text().splitlines()[1:]
    np.testing.assert_array_equal(np.array(cells, float), found["prediction"])


def test_classes_are_named_and_go_with_the_sign_of_the_score(folder, run):
    out = run.well("predict", folder / "kinds.npz", folder / "kinds.csv")
    name, *rows = out.splitlines()
    assert name == "class,score"
    classes, scores = zip(*(row.split(",") for row in rows), strict=True)
    signs = np.array(scores, float) > 0
    assert len({*zip(classes, signs, strict=True)}) == 2
    agree = np.mean(np.array(classes) == np.where(INPUTS[:, 0] > 5, "high", "low"))
    assert agree > 0.9


def test_the_largest_of_several_scores_names_the_class(folder, run, tmp_path):
    three = np.array([[1.0, 0.0, -1.0]] * 20, np.float32)
    three[:, 1] += np.linspace(-2, 2, 20)
    for names, expected in ((("a", "b", "c"), ("a", "b", "c")), (None, ("0", "1", "2"))):
        binary = kernels.load(folder / "kinds.npz")
        columns = dataclasses.replace(binary.columns, classes=names)
        release = dataclasses.replace(binary, coefficients=three, columns=columns)
        release.save(tmp_path / "three.npz", overwrite=True)
        out = run.well("predict", tmp_path / "three.npz", folder / "kinds.csv", "--json")
        found, scores = json.loads(out), np.asarray(release(INPUTS))
        assert found["class"] == [expected[place] for place in scores.argmax(axis=1)]
        for place, name in enumerate(expected):
            np.testing.assert_allclose(found[f"score {name}"], scores[:, place], rtol=1e-6)


def test_fit_says_what_it_costs_in_one_json_object(folder, run, tmp_path):
    out_file = tmp_path / "model.npz"
    arguments = [*BUDGET, *SMALL, "--label-bound", "0.25", "--intercept-share", "0.2", "--ridge"]
    arguments += ["0.5", "--public-seed", "4", "--scale", "3", "--drop", "b", "--out", out_file]
    arguments += ["--input-bound", "inf"]
    status, out, err = run("fit", folder / "table.csv", *arguments, "--json")
    found = json.loads(out)
    assert status == 0
    assert (found["rows"], found["inputs"], found["target"]) == (512, ["a"], "y")
    assert found["cost"]["epsilon"] <= 8
    assert found["files"] == [str(out_file)]
    # Whoever holds the data is told of clipped labels; the file is not.
    assert err.count("\n") == 1
    assert "beyond label_bound = 0.25" in err
    assert b"beyond label_bound" not in out_file.read_bytes()
    release = kernels.load(out_file)
    assert (release.label_bound, release.public_seed) == (0.25, 4)
    assert release.columns == kernels.ColumnNames(("a",), "y")
    assert release.intercept != 0
    scales = np.linalg.norm(release.features.base.base.frequencies, axis=1) * 3
    assert scales.max() < 6


def test_which_lines_are_rows_does_not_depend_on_the_numbers(run, tmp_path):
    # Told from its numbers, the first line of this table would be a header.
    bare = written(tmp_path / "bare.csv", "", [0, *INPUTS[:, 0]], [1, *LABELS])
    arguments = [*SMALL, *REGRESSION, "--out", tmp_path / "m.npz", "--json"]
    _, out, _ = run("fit", bare, *arguments, "--no-header")
    assert json.loads(out)["rows"] == 513
    (tmp_path / "m.npz").unlink()
    err = run.refused("fit", bare, *arguments)
    assert "the first line may be names or data; say header or no header" in err


@pytest.mark.parametrize(
    ("read", "link"),
    [("table.csv", None), ("ranges.csv", os.symlink), ("model.npz", os.link), ("new.csv", None)],
)
def test_no_file_that_is_read_is_written_over(folder, run, tmp_path, read, link):
    for name in ("table.csv", "model.npz"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    written(tmp_path / "new.csv", "ab", [1], [2])
    written(tmp_path / "ranges.csv", "", "ab", [0, 0], [10, 10])
    before, out = (tmp_path / read).read_bytes(), tmp_path / read
    if link is not None:
        out = tmp_path / "linked"
        link(tmp_path / read, out)
    given = [tmp_path / "table.csv", *REGRESSION, "--input-range", tmp_path / "ranges.csv"]
    command = ["fit", *given] if read in ("table.csv", "ranges.csv") else ["predict"]
    given = [] if command[0] == "fit" else [tmp_path / "model.npz", tmp_path / "new.csv"]
    err = run.refused(*command, *given, "--out", out)
    assert f"expected --out to be another file than {tmp_path / read}, got {out}" in err
    assert (tmp_path / read).read_bytes() == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,c\n1,2\n", "no column 'b' among its 2; expected columns 'a', 'b', or as many"),
        ("a,b,a\n1,2,3\n", "column 'a' more than once"),
    ],
)
def test_tables_that_do_not_fit_the_model_are_refused(folder, run, tmp_path, text, message):
    (tmp_path / "new.csv").write_text(text)
    err = run.refused("predict", folder / "model.npz", tmp_path / "new.csv")
    assert message in err


def test_a_model_of_columns_reads_texts_and_missing_cells_of_a_file(run, tmp_path):
    columns = regression.Columns({"a": (0, 10), "c": ["none", "NA", 7]})
    rows = [[place % 10, ("none", "NA", 7, "else")[place % 4]] for place in range(200)]
    learner = regression.PrivateLinearRegression(
        regression.ColumnFeatures(columns, is_additive=True), (0, 10)
    )
    labels = [float(row[0]) for row in rows]
    fit = learner.fit(rows, labels, epsilon=4.0, delta=1e-5)
    known = kernels.ColumnNames(("a", "c"))
    release = dataclasses.replace(fit.release, columns=known)
    release.save(tmp_path / "model.npz")
    cells = ["7", "none", "NA", "7.0", "?", ""], [1, "", 20, 3.5, "NA", 4]
    new = written(tmp_path / "new.csv", "ca", *cells)
    status, out, err = run("predict", tmp_path / "model.npz", new)
    table = [[1, 7], [None, "none"], [20, "NA"], [3.5, 7], [None, "?"], [4, None]]
    with pytest.warns(UserWarning, match=r"^2 of 6 rows .* not list \(a: 1, c: 1\)") as caught:
        expected = release(table)
    np.testing.assert_array_equal(np.array(out.split()[1:], np.float32), expected)
    assert (status, err) == (0, f"jaxdp: warning: {caught[0].message}\n")
    new = written(tmp_path / "new.csv", "ca", ["none"], ["secret"])
    err = run.refused("predict", tmp_path / "model.npz", new)
    assert "column 'a' holds text" in err
    assert "secret" not in err


def test_a_column_names_the_persons_whose_budget_it_is(run, tmp_path):
    names = [f"p{place // 2}" for place in range(512)]
    table = written(tmp_path / "t.csv", ["who", "a", "b", "y"], names, *INPUTS.T, LABELS)
    known = tmp_path / "columns.json"
    known.write_text('{"a": {"range": [0, 10]}, "b": {"range": [0, 10]}, "y": {"range": [-1, 1]}}')
    persons = ["--groups", "who", "--rows-per-person", "2", "--epsilon", "8", "--delta", "1e-5"]
    for options in (["--columns", known], [*SMALL, *RANGE, "--label-bound", "1"]):
        out = tmp_path / f"{len(options)}.npz"
        told = run.well("fit", table, *persons, *options, "--target", "y", "--out", out)
        assert "a person of whom at most 2 records are used" in told
        assert kernels.load(out).cost.records_per_person == 2
    fit = ["fit", table, *persons, "--columns", known, "--target", "y", "--out", tmp_path / "n.npz"]
    assert "no column 'x' for --groups" in run.refused(*fit, "--groups", "x")
    names[7] = ""
    written(table, ["who", "a", "b", "y"], names, *INPUTS.T, LABELS)
    assert "without missing names" in run.refused(*fit)
