"""What the figures share: sizes, datasets, tables, claims and the command."""

import dataclasses
import types

import numpy as np
import pytest
import xarray
from helpers import assert_mean_close
from matplotlib.figure import Figure

from experiments import harness
from experiments.harness import Check


@dataclasses.dataclass(frozen=True)
class Config:
    count: int = 3
    names: tuple[str, ...] = ("a", "b")

    smoke = harness.size(count=1)


def test_other_sizes_are_the_config_with_some_fields_changed():
    assert Config.smoke() == Config(count=1)
    assert [field.name for field in dataclasses.fields(Config)] == ["count", "names"]


def test_a_dataset_has_its_variables_on_their_axes():
    dataset = harness.dataset(
        {"name": ("a", "b"), "place": np.arange(3.0)},
        {"name": {"first": [1, 2]}, ("name", "place"): {"both": np.ones((2, 3))}, (): {"one": 5}},
        {"seed": 4},
    )
    assert dataset.first.dims == ("name",)
    assert dataset.both.dims == ("name", "place")
    assert dataset.one.item() == 5
    assert dataset.name.values.tolist() == ["a", "b"]
    assert dataset.attrs == {"seed": 4}
    in_seconds = harness.in_units(dataset, first="s", place="m")
    assert in_seconds.first.attrs == {"units": "s"}
    assert in_seconds.place.attrs == {"units": "m"}


def test_an_empty_dataset_is_nan_and_is_filled_in_place():
    axes = {"name": ("a", "b"), "run": 3}
    dataset = harness.empty(axes, {("name", "run"): ["error", "loss"], "name": ["least"]})
    assert dataset.error.isnull().all()
    assert dataset.error.dtype == np.float64
    assert set(dataset.coords) == {"name"}
    dataset.error[1, 2] = 7.0
    assert dataset.error.sum() == 7
    assert dataset.loss.isnull().all()
    assert dataset.least.shape == (2,)


def test_a_table_has_a_line_for_each_row_and_refuses_a_row_of_another_length():
    lines = harness.table(["n", "risk"], [[1, "0.5"], (2, "0.25")]).split("\n")
    assert lines == ["| n | risk |", "|---|---|", "| 1 | 0.5 |", "| 2 | 0.25 |"]
    with pytest.raises(ValueError, match=r"expected 2 cells, got \[1\]"):
        harness.table(["n", "risk"], [[1]])


def test_standard_errors_are_those_of_means():
    runs = np.random.default_rng(0).normal(size=(2000, 25))
    values = xarray.DataArray(runs, dims=("set", "run"))
    # Of a mean of 25 standard normals; its square is unbiased.
    squares = (harness.standard_error(values, "run") ** 2).values
    assert_mean_close(squares, 1 / 25)
    with pytest.raises(AssertionError):
        assert_mean_close(squares, 1 / 24)
    np.testing.assert_allclose(harness.over_runs(runs.T)["standard_error"] ** 2, squares)


def test_two_checks_of_the_same_words_are_refused():
    claims = harness.claims_of(lambda dataset: [Check("it is", "", bool(dataset.good))] * 2)
    with pytest.raises(ValueError, match="different words"):
        claims(xarray.Dataset({"good": True}))


def _figure(good, run=None):
    """A module like a figure's, of which the one claim holds or not."""
    figure = types.ModuleType("experiments.paper.figure")
    figure.__spec__ = types.SimpleNamespace(name=figure.__name__)
    checks = lambda dataset: [Check("it is", "", bool(dataset.good))]  # noqa: E731
    given = {
        "Config": Config,
        "run": run or (lambda config: xarray.Dataset({"good": good, "count": config.count})),
        "claims": harness.claims_of(checks),
        "plot": lambda dataset: Figure(),
        "FOLDERS": {"data": "a folder", "other": "another"},
    }
    vars(figure).update(given)
    return figure


@pytest.mark.parametrize("good", [True, False])
def test_a_commands_status_says_whether_all_claims_hold(good, tmp_path, capsys):
    assert harness.command(_figure(good), ["--smoke", "--out", str(tmp_path)]) == int(not good)
    assert capsys.readouterr().out == f"{'true ' if good else 'FALSE'}  it is\n"
    saved = harness.read(tmp_path / "figure.nc")
    assert saved["count"] == 1
    assert saved.attrs["command"] == "python -m experiments.paper.figure --smoke"
    assert (tmp_path / "figure.png").exists()


def test_the_arguments_of_run_are_options_and_their_places_are_not_recorded(tmp_path, capsys):
    def run(config, data, other=None):
        assert data == tmp_path
        return xarray.Dataset({"good": other is None})

    figure, out = _figure(True, run), ["--out", str(tmp_path)]
    assert harness.command(figure, [*out, "--data", str(tmp_path)]) == 0
    attrs = harness.read(tmp_path / "figure.nc").attrs
    assert attrs["command"] == "python -m experiments.paper.figure --data DATA"
    assert str(tmp_path) not in str(attrs)
    for wrong in (out, [*out, "--data", str(tmp_path), "--paper"]):
        with pytest.raises(SystemExit):
            harness.command(figure, wrong)
    assert "unrecognized arguments: --paper" in capsys.readouterr().err


def test_a_module_that_is_imported_runs_nothing():
    harness.main("experiments.paper.figure")
