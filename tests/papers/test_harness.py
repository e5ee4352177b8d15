"""What the figures share: sizes, datasets, tables, claims and the command."""

import dataclasses
import os
import subprocess
import sys
import types

import numpy as np
import pytest
import xarray
from helpers import assert_mean_close
from matplotlib.figure import Figure

from experiments import harness
from experiments.harness import Check
from experiments.harness.sources import Sources, sources


@dataclasses.dataclass(frozen=True)
class Config:
    count: int = 3
    names: tuple[str, ...] = ("a", "b")

    smoke = harness.size(count=1)


def test_work_is_spread_over_processes_of_one_thread_and_comes_back_in_order(monkeypatch, capsys):
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "7")
    names = ["OPENBLAS_NUM_THREADS", "PATH", "OMP_NUM_THREADS"]
    here = harness.spread(os.getenv, names, "item {}".format, fewest=4)
    assert here == ["7", os.environ["PATH"], "7"]
    apart = harness.spread(os.getenv, names, "item {}".format, fewest=3)
    assert apart == ["1", os.environ["PATH"], "1"]
    assert "3/3 item OMP_NUM_THREADS" in capsys.readouterr().err


def test_standard_errors_are_those_of_means():
    runs = np.random.default_rng(0).normal(size=(2000, 25))
    values = xarray.DataArray(runs, dims=("set", "run"))
    # Of a mean of 25 standard normals; its square is unbiased.
    squares = (harness.standard_error(values, "run") ** 2).values
    assert_mean_close(squares, 1 / 25, rejects=[1 / 24])
    np.testing.assert_allclose(harness.over_runs(runs.T)["standard_error"] ** 2, squares)
    # What was not run adds nothing, and is not counted.
    longer = values.pad(run=(0, 5), constant_values=np.nan)
    np.testing.assert_allclose(harness.standard_error(longer, "run") ** 2, squares)


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


def _at_hand(monkeypatch, commit, *modified):
    """What is at hand is that commit with these files modified."""
    found = Sources(commit, modified)
    # The package exports a function of the module's name.
    module = sys.modules["experiments.harness.command"]
    monkeypatch.setattr(module, "sources", lambda: found)


@pytest.mark.parametrize("good", [True, False])
def test_a_commands_status_says_whether_all_claims_hold(good, tmp_path, capsys):
    assert harness.command(_figure(good), ["--smoke", "--out", str(tmp_path)]) == int(not good)
    assert capsys.readouterr().out == f"{'true ' if good else 'FALSE'}  it is\n"
    saved = harness.read(tmp_path / "figure.nc")
    assert saved["count"] == 1
    assert saved.attrs["command"] == "python -m experiments.paper.figure --smoke"
    assert (tmp_path / "figure.png").exists()


def test_the_arguments_of_run_are_options_and_their_places_are_not_recorded(
    tmp_path, capsys, monkeypatch
):
    _at_hand(monkeypatch, "abc")

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


def test_a_modified_tree_is_refused_but_for_the_smoke_version(tmp_path, capsys, monkeypatch):
    _at_hand(monkeypatch, "abc-dirty", *(f"jaxdp/{name}.py" for name in "abcdefg"))
    runs = []
    figure = _figure(True, lambda config: runs.append(config) or xarray.Dataset({"good": True}))
    with pytest.raises(SystemExit):
        harness.command(figure, ["--out", str(tmp_path)])
    assert not runs
    assert not list(tmp_path.iterdir())
    message = capsys.readouterr().err
    for words in ("got 7 modified files (jaxdp/a.py, ", "jaxdp/e.py): commit them", "--smoke"):
        assert words in message
    assert harness.command(figure, ["--smoke", "--out", str(tmp_path)]) == 0
    _at_hand(monkeypatch, "abc")
    assert harness.command(figure, ["--out", str(tmp_path)]) == 0
    assert len(runs) == 2


def test_what_is_saved_is_drawn_again_and_nothing_runs(tmp_path):
    assert harness.command(_figure(True), ["--smoke", "--out", str(tmp_path)]) == 0
    (tmp_path / "figure.png").unlink()
    before = (tmp_path / "figure.nc").read_bytes()
    fails = _figure(True, lambda config: 1 / 0)
    assert harness.command(fails, ["--redraw", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "figure.png").exists()
    assert (tmp_path / "figure.nc").read_bytes() == before


def test_sources_are_a_commit_and_what_differs_from_it(tmp_path):
    def git(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    look = sources.__wrapped__
    assert look(tmp_path) == (None, ())
    git("init")
    results = tmp_path / "experiments" / "results"
    results.mkdir(parents=True)
    (tmp_path / ".gitignore").write_text("ignored\n")
    (results / "a.nc").write_text("1")
    (tmp_path / "code.py").write_text("1")
    git("add", ".")
    git("commit", "-m", "all")
    commit, modified = look(tmp_path)
    assert len(commit) == 12
    assert modified == ()
    # What runs write and what git ignores is no code.
    (tmp_path / "ignored").write_text("1")
    (results / "a.nc").write_text("2")
    (results / "b.nc").write_text("2")
    assert look(results) == (commit, ())
    (tmp_path / "code.py").write_text("2")
    (tmp_path / "new one.py").write_text("2")
    assert look(results) == (f"{commit}-dirty", ("code.py", "new one.py"))
