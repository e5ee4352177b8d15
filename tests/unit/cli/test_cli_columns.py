"""`jaxdp columns`, and `jaxdp fit` of the columns that its file describes."""

import json

import numpy as np
import pandas as pd
import pytest

from jaxdp import regression

BUDGET = ["--epsilon", "8"]
NAMES = ["age", "degree", "pay", "income"]
KNOWN = {
    "age": {"range": [17, 90]},
    "degree": {"categories": ["none", "bachelor", 7]},
    "pay": {"range": [0, 60]},
    "income": {"categories": ["low", "middle", "high"]},
}


def _frame(num_rows=400):
    draw = np.random.default_rng(0)
    age = draw.uniform(17, 90, num_rows).round(2)
    degree = draw.choice(["none", "bachelor", "7"], num_rows, p=[0.5, 0.3, 0.2])
    pay = (age / 3 + 15 * (degree == "7")).round(2)
    income = np.take(["low", "middle", "high"], np.digitize(pay, [15, 30]))
    return pd.DataFrame(dict(zip(NAMES, (age, degree, pay, income), strict=True)))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A table with missing cells, and what is publicly known of its columns."""
    monkeypatch.chdir(tmp_path)
    frame = _frame()
    frame.loc[::9, "age"] = np.nan
    frame.loc[::7, "degree"] = ""
    frame.to_csv("table.csv", index=False)
    (tmp_path / "columns.json").write_text(json.dumps(KNOWN))
    return tmp_path


def _fit(run, *more, target="income", known="columns.json", data="table.csv"):
    given = ["--data", data, "--target", target, "--columns", known]
    return run("fit", *given, *(more if "--epsilon" in more else [*BUDGET, *more]))


def test_no_value_of_the_table_is_in_the_template_or_printed(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    secrets = "31.41592", "27182", "zarathustra", "1789-07-14"
    rows = [",".join(secrets), ",".join([*"12", "", "2000-01-01"])] * 60
    (tmp_path / "table.csv").write_text("\n".join(["a,b,name,born", *rows]) + "\n")
    out = run.well("columns", "table.csv")
    text = (tmp_path / "columns.json").read_text()
    kinds = {"a": "range", "b": "range", "name": "categories", "born": "range"}
    found = json.loads(text)
    assert {name: next(iter(entry)) for name, entry in found.items()} == kinds
    assert [list(entry.values()) for entry in found.values()] == [[[None, None]]] * 2 + [
        [[]],
        [["YYYY-MM-DD"] * 2],
    ]
    # Nor does the size of the table or of a column's cells tell in what is written.
    (tmp_path / "other.csv").write_text("a,b,name,born\n7,8,x,19990101\n")
    run("columns", "other.csv", "--out", "other.json")
    assert (tmp_path / "other.json").read_text() == text
    _, printed, _ = run("columns", "table.csv", "--out", "third.json", "--json")
    assert json.loads(printed)["columns"] == found
    for secret in (*secrets, "60", "120"):
        assert not any(secret in shown for shown in (text, out, printed))
    assert "do not publish this template" in " ".join(out.split())
    # A record that may be taken for names is not written; what was filled in is kept.
    (tmp_path / "bare.csv").write_text("zarathustra,3\nzarathustra,4\n")
    status, out, err = run("columns", "bare.csv", "--out", "bare.json")
    assert (status, out, "zarathustra" in err) == (2, "", False)
    assert "columns.json exists" in run.refused("columns", "table.csv")


def test_an_unfilled_template_is_refused_with_the_columns_to_fill(folder, run):
    run("columns", "table.csv", "--out", "template.json")
    err = _fit(run.refused, known="template.json")
    assert "fill in the ranges and categories of 'age', 'degree', 'pay', 'income'" in err


@pytest.mark.parametrize("kind", ["--logistic", "--additive"])
def test_classes_of_a_table_with_text_and_gaps_are_learnt_and_predicted(folder, run, kind):
    out = _fit(run.well, kind)
    release = regression.load("model.npz")
    assert release.card in out
    assert release.columns.inputs == ("age", "degree", "pay")
    for text in ("degree: none, bachelor, 7", "400", "low, high, middle", "of 0.5 of", "at most"):
        assert text.replace("low, high, middle", "high, low, middle") in out
    assert (kind == "--additive") == ("one curve a column" in out)
    frame = pd.read_csv("table.csv")
    found = release.predict(frame[["income", "pay", "degree", "age"]])
    assert np.mean(found == frame.income) > 0.6
    assert np.mean(found == np.roll(frame.income, 1)) < 0.5
    out = run.well("predict", "model.npz", "table.csv", "--json")
    printed = json.loads(out)
    assert printed["class"] == found.tolist()
    chances = release.predict_proba(frame)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    for name, column in zip(release.columns.classes, chances.T, strict=True):
        np.testing.assert_allclose(printed[f"probability {name}"], column, atol=1e-6)


def test_a_range_of_the_target_makes_a_regression_of_the_columns_that_are_described(folder, run):
    known = {name: KNOWN[name] for name in ("degree", "pay", "age")}
    (folder / "few.json").write_text(json.dumps(known), "utf-8-sig")
    arguments = ["--linear", "--delta", "1e-5", "--json"]
    out = _fit(run.well, *arguments, target="pay", known="few.json")
    found, release = json.loads(out), regression.load("model.npz")
    assert (found["inputs"], found["target"], found["rows"]) == (["degree", "age"], "pay", 400)
    assert found["card"] == release.card
    assert release.cost.delta == 1e-5
    frame = pd.read_csv("table.csv")
    errors = release.predict(frame) - frame.pay
    assert np.square(errors).mean() < 0.7 * frame.pay.var()
    with pytest.raises(ValueError, match="got none called"):
        release.predict(frame[["degree"]])
    # Of numbers that are classes, as the file has them.
    known["pay"] = {"categories": [0, 1]}
    (folder / "few.json").write_text(json.dumps(known))
    pd.read_csv("table.csv").assign(pay=(frame.pay > 25) * 1.0).to_csv("coded.csv", index=False)
    more = ["--out", "coded.npz"]
    _fit(run.well, *more, target="pay", known="few.json", data="coded.csv")
    assert set(regression.load("coded.npz").predict(frame)) == {"0", "1"}


def _changed(**columns):
    return json.dumps({name: spec for name, spec in {**KNOWN, **columns}.items() if spec})


REFUSED = {
    "budget first": (["--epsilon", "0", "--target", "zzz"], None, "epsilon"),
    "no file": (["--columns", "none.json"], None, "none.json: no such file"),
    "another target": (["--target", "zzz"], None, "no target 'zzz' among age, degree, pay, inc"),
    "linear classes": (["--linear"], None, "'income', got --linear, which is for a range"),
    "no JSON": ([], "age: 17", "line 1 column 1 (char 0); expected a JSON object"),
    "a target of dates": (
        ["--target", "age"],
        _changed(age={"range": ["2020-01-01", "2020-12-31"]}),
        "expected a target of numbers or categories, got the range of dates of 'age'",
    ),
    "numbers in a range of dates": (
        [],
        _changed(age={"range": ["2020-01-01", "2020-12-31"]}),
        "expected dates in column 'age', whose range is of dates, such as",
    ),
    "one class": ([], _changed(income={"categories": ["low"]}), "two classes or more of 'income'"),
    "a column that is not there": (
        [],
        _changed(height={"range": [0, 3]}),
        "no column 'height' among its 4",
    ),
    "text without categories": (
        [],
        _changed(degree={"range": [0, 1]}),
        "numbers where a column has a range; column 'degree' holds text",
    ),
    "a label of no class": (
        [],
        _changed(income={"categories": ["low", "high"]}),
        "labels of 'income' are missing or no category of it, the first in data row",
    ),
    "a label that is missing": (["--target", "age"], None, "45 labels of 'age' are missing or no"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_ends_with_one_line_and_no_model(name, folder, run):
    arguments, known, message = REFUSED[name]
    if known is not None:
        (folder / "columns.json").write_text(known, errors="surrogateescape")
    status, out, err = _fit(run, *arguments)
    assert (status, out) == (2, "")
    assert message in err.splitlines()[-1]
    assert err.count("\n") == 1
    # No cell is shown.
    assert "bachelor" not in err
    assert not (folder / "model.npz").exists()


def test_all_that_is_public_is_checked_before_the_table_is_looked_at(folder, run):
    (folder / "table.csv").unlink()
    for arguments, known, message in REFUSED.values():
        of_the_table = "holds text", "labels of", "'height'", "dates in column"
        if any(text in message for text in of_the_table):
            continue
        known = known or json.dumps(KNOWN)
        (folder / "columns.json").write_text(known, errors="surrogateescape")
        _, _, err = _fit(run, *arguments)
        assert message in err
    (folder / "columns.json").write_text(json.dumps(KNOWN))
    assert "table.csv: no such file" in _fit(run)[2]


DATES = {"seen": {"range": ["2020-01-01", "2024-12-31"]}, "y": {"range": [-1, 1]}}


def test_a_range_of_dates_is_filled_in_fitted_and_predicted(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(0, 1800, 3), "D")
    frame = pd.DataFrame({"seen": seen.strftime("%Y%m%d"), "y": np.arange(600) / 300 - 1})
    frame.loc[5:6, "seen"] = ["", "NA"]
    frame.to_csv("t.csv", index=False)
    assert run("columns", "t.csv")[0] == 0
    assert json.loads((tmp_path / "columns.json").read_text())["seen"]["range"] == [
        "YYYY-MM-DD",
        "YYYY-MM-DD",
    ]
    (tmp_path / "columns.json").write_text(json.dumps(DATES))
    out = _fit(run.well, target="y", data="t.csv")
    assert "seen: 2020-01-01 to 2024-12-31" in out
    out = run.well("predict", "model.npz", "t.csv", "--json")
    found = np.array(json.loads(out)["prediction"])
    assert np.corrcoef(found, frame.y)[0, 1] > 0.98
    # As in Python.
    frame["seen"] = seen
    release = regression.load("model.npz")
    np.testing.assert_allclose(release.predict(frame)[10:], found[10:], rtol=1e-6)
    (tmp_path / "new.csv").write_text("seen\n45000\n")
    err = run.refused("predict", "model.npz", "new.csv")
    assert "new.csv: expected dates in column 'seen'" in err
