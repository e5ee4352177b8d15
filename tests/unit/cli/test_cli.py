"""The command line: help, `jaxdp compare` and `jaxdp explore`."""

import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from cli_tables import written

import jaxdp.explorer
from jaxdp.cli.entry import make_parser

COMMANDS = dict(make_parser()._subparsers._group_actions[0].choices)
SMALL = ["--dim", "20", "--num-runs", "4", "--seed", "1"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_every_option_and_no_default_that_says_nothing(run, command):
    out = run.well(command, "--help")
    assert not re.search(r"SUPPRESS|None|False|\[\]|\(\)", out)
    for action in COMMANDS[command]._actions:
        assert all(flag in out for flag in action.option_strings)
        if isinstance(action.default, int | float) and action.nargs != 0:
            assert f"[{action.default}]" in out


def test_the_help_and_the_version_are_said_without_importing_jax():
    asked = (
        "import sys; from jaxdp.cli import main\ntry: main(sys.argv[1:])\nexcept SystemExit: pass"
    )
    asked += "\nprint('jax' in sys.modules, 'numpy' in sys.modules)"
    for option in ("--help", "--version"):
        command = [sys.executable, "-c", asked, option]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert said.splitlines()[-1] == "False False"


@pytest.mark.slow
def test_a_prediction_that_has_no_end_is_told_in_one_line(run, tmp_path):
    assert "solver stopped" in run.refused("compare", *SMALL, "--peak", "1e30", "--out", tmp_path)


@pytest.mark.slow
def test_compare_prints_a_table_and_writes_its_files_with_its_options(run, tmp_path):
    given = (
        "--rho 2 --power 0 --num-steps 50 --delta 1e-6 --label-noise .1 --peak 1 --clip-scale .5"
    )
    out = run.well("compare", *SMALL, *given.split(), "--out", tmp_path / "new")
    for word in ("simulated", "ODE", "lower bound", "upper bound", "SDE", "final", "privacy:"):
        assert word in out
    assert f"picture: {tmp_path / 'new' / 'compare.png'}" in out
    assert (tmp_path / "new" / "compare.png").stat().st_size > 10_000
    found = json.loads((tmp_path / "new" / "compare.json").read_text())
    assert [path.endswith((".png", ".json")) for path in found["files"]] == [True, True]
    simulated, predicted = found["simulated"], found["predicted"]
    assert found["gap"] == pytest.approx(abs(simulated["final_risk"] - predicted["final_risk"]))
    assert simulated["standard_error"] > 0
    assert set(found["beside"]) == {"lower bound", "upper bound", "SDE"}
    assert found["beside"]["lower bound"]["final_risk"] < predicted["final_risk"]
    assert found["num_steps"] == 50
    assert found["cost"]["mu"] == 2
    assert found["cost"]["delta"] == 1e-6
    assert (found["options"]["peak"], found["options"]["clip_scale"]) == (1, 0.5)
    # AC Proposition 5: the jump of a constant schedule, 2 (c eta gamma / rho)^2.
    jump = predicted["final_risk"] - predicted["risk"][-1]
    assert jump == pytest.approx(2 * (0.5 * 1 * 0.4 / 2) ** 2, rel=1e-3)


@pytest.mark.slow
def test_a_table_is_compared_with_its_surrogate(run, tmp_path):
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(300, 3)) * [1, 100, 0.01]
    labels = inputs @ [1, 0.01, 100] + 0.3 * rng.normal(size=300)
    path = written(tmp_path / "table.csv", ["a", "b", "c", "price"], *inputs.T, labels)
    options = ["--target", "price", "--num-runs", "4", "--out"]
    out = run.well("compare", "--data", path, *options, tmp_path)
    assert "surrogate" in out
    assert "non-privately" in out
    assert "centring and scaling the data by itself, is not included" in out
    found = json.loads((tmp_path / "compare.json").read_text())
    assert (found["dim"], found["num_steps"]) == (3, 150)
    assert (found["target"], found["inputs"]) == ("price", ["a", "b", "c"])
    assert "target: price; inputs: a, b, c" in out
    # The columns' units do not matter: the surrogate explains most of the label.
    assert found["predicted"]["risk"][0] > 0.4


def test_explore_serves_what_its_options_say(run, monkeypatch):
    served = []
    monkeypatch.setattr(jaxdp.explorer, "serve", lambda **given: served.append(given))
    options = ["--port", "0", "--origin", "lab:80", "--origin", "b:1", "--no-browser"]
    assert run("explore", *options) == (0, "", "")
    assert run("explore")[0] == 0
    first, second = served
    assert (first["origins"], first["port"], first["is_shown"]) == (["lab:80", "b:1"], 0, False)
    assert (second["origins"], second["address"], second["is_shown"]) == ([], "127.0.0.1", True)


def test_only_the_widgets_need_panel():
    room = pathlib.Path(jaxdp.explorer.__file__).parent
    for name in ("__init__", "fields", "files", "serving", "studies"):
        text = (room / f"{name}.py").read_text()
        assert not re.search(r"^(import|from) (panel|bokeh)", text, re.M), name
