"""Learners on real tables: the smoke run on tables like the real ones, and what can be false."""

import numpy as np
import pytest

from experiments import command, report
from experiments.private_kernel_learning import public_tables
from experiments.private_kernel_learning import uci_tables as figure

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Concrete whose strength is smooth in its mixture, and a census that money decides."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "uci").mkdir()
    random = np.random.default_rng(4)
    *ranges, _ = public_tables._RANGES["concrete"]
    low, high = np.array(ranges, float).T
    unit = random.uniform(-1, 1, (600, len(low)))
    strength = 50 + 30 * np.sin(2 * unit[:, 0]) + 3 * random.normal(size=600)
    table = np.column_stack([low + (unit + 1) / 2 * (high - low), strength])
    np.savetxt(folder / "uci" / "concrete.txt", table, fmt="%.5f")
    words = {place: text.split() for place, text in public_tables._ADULT_CATEGORIES.items()}
    numbers = public_tables._ADULT_NUMBERS
    lines = []
    for _ in range(600):
        row = ["?"] * 14
        for place, (least, most) in numbers.items():
            row[place] = str(random.integers(least, most + 1))
        for place, names in words.items():
            row[place] = random.choice([*names, "?"])
        lines.append(", ".join([*row, ">50K" if int(row[4]) > 11 else "<=50K"]))
    (folder / "uci" / "adult.csv").write_text("\n".join(lines) + "\n\n")
    return folder


@pytest.fixture(scope="module")
def saved(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("results")
    options = ["--smoke", "--out", str(folder), "--data", str(data)]
    assert command.main(figure, options, folders={"data": "folder"}) == 0
    assert (folder / "uci_tables.png").stat().st_size > 10_000
    return command.read(folder / "uci_tables.nc")


def test_every_claim_of_the_smoke_version_holds(saved):
    assert all(figure.claims(saved).values()), figure.checks(saved)


def test_each_claim_can_be_false(saved):
    """Errors of the certified learners, twenty times as large, bear out nothing."""
    is_certified = saved.learner.str.startswith("certified")
    worse = saved.assign(error=saved.error * np.where(is_certified, 20, 1)[:, None, None])
    claims = figure.claims(worse)
    assert claims
    assert not any(claims.values()), claims


def test_the_report_has_a_row_for_every_learner_that_applies(saved):
    text, _ = report.page({"uci_tables": saved}, "results")
    for learner in saved.learner.values:
        assert f"| {learner} |" in text
    assert "nan" not in text


def test_units_are_public(data):
    """A record's inputs are the same, whatever the other records are."""
    for name in ("concrete", "adult"):
        whole, first = (public_tables.load(data, name, most) for most in (None, 10))
        np.testing.assert_array_equal(whole.inputs[:10], first.inputs)
        np.testing.assert_array_equal(whole.labels[:10], first.labels)
        assert np.abs(whole.inputs).max() <= 1
        assert np.abs(whole.labels).max() <= whole.label_bound
