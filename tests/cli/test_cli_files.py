"""The command line's files: claimed before a fit, written whole or not at all, never waited for."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from cli_tables import written

from jaxdp import cli, kernels

ROOT = pathlib.Path(__file__).parents[2]
# Ctrl-C is heard though the tests run in the background, where it is not.
_MAIN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from jaxdp.cli import main
sys.exit(main())
"""
FIT = ["--epsilon", "8", "--delta", "1e-5", "--label-bound", "1", "--input-range=-1:1"]
FIT += ["--num-projections", "4", "--num-features", "4"]


def _start(*arguments):
    """The command in a process of its own."""
    command = [sys.executable, "-c", _MAIN, *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, text=True, **streams)


def _wait_for(path):
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until, f"{path} never came"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a table to learn from, and a function of it."""
    folder = tmp_path_factory.mktemp("made")
    columns = np.random.default_rng(0).uniform(-1, 1, (3, 64)).round(3)
    written(folder / "table.csv", "aby", *columns)
    out = str(folder / "model.npz")
    assert cli.main(["fit", str(folder / "table.csv"), *FIT, "--out", out]) == 0
    return folder


@pytest.fixture
def folder(made, tmp_path):
    """A copy of the table."""
    shutil.copy(made / "table.csv", tmp_path)
    return tmp_path


@pytest.fixture
def model(made, folder):
    """A copy of the function beside it."""
    return pathlib.Path(shutil.copy(made / "model.npz", folder))


def _names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.slow
def test_of_two_fits_at_once_one_is_refused_before_it_looks_at_the_data(folder):
    out = folder / "model.npz"
    fits = [_start("fit", folder / "table.csv", *FIT, "--out", out) for _ in range(2)]
    ended = [(fit.communicate(timeout=100)[1], fit.returncode) for fit in fits]
    assert sorted(status for _, status in ended) == [0, 2]
    [(refused, _)] = [each for each in ended if each[1] == 2]
    assert refused.count("\n") == 1
    assert "exists" in refused
    assert kernels.load(out).label_bound == 1
    assert _names(folder) == ["model.npz", "table.csv"]


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)]
)
def test_a_fit_that_is_stopped_leaves_nothing_that_blocks_without_saying_so(folder, run, number):
    out, claim = folder / "model.npz", folder / "model.npz.claim"
    fit = _start("fit", folder / "table.csv", *FIT, "--out", out)
    _wait_for(claim)
    fit.send_signal(number)
    _, err = fit.communicate(timeout=60)
    if number == signal.SIGINT:
        assert (fit.returncode, err) == (130, "jaxdp: interrupted\n")
    else:
        # A table that is not there: it is not looked at.
        (folder / "table.csv").write_text("")
        status, _, err = run("fit", folder / "table.csv", *FIT, "--out", out)
        assert (status, err.count("\n")) == (2, 1)
        assert f"{claim} exists: another process is making {out}; if none is" in err
        claim.unlink()
    assert _names(folder) == ["table.csv"]


def test_a_fit_that_fails_gives_its_claim_back(folder, run):
    (folder / "table.csv").write_text("a,b,y\n1,2,red\n")
    status, _, err = run("fit", folder / "table.csv", *FIT, "--out", folder / "model.npz")
    assert (status, err.count("\n")) == (2, 1)
    assert _names(folder) == ["table.csv"]


def test_a_model_that_came_to_be_during_a_fit_is_not_written_over(folder, run, monkeypatch):
    out, save = folder / "model.npz", kernels.ReleasedFunction.save

    def late(release, path, **options):
        out.write_bytes(b"another's")
        save(release, path, **options)

    monkeypatch.setattr(kernels.ReleasedFunction, "save", late)
    status, _, err = run("fit", folder / "table.csv", *FIT, "--out", out)
    assert (status, err.count("\n")) == (2, 1)
    assert "model.npz exists; a release that was paid for is not overwritten" in err
    assert out.read_bytes() == b"another's"
    assert _names(folder) == ["model.npz", "table.csv"]


def _special(folder):
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    return [folder / "folder", folder / "pipe", "/dev/full", "/dev/null", "/proc/new"]


def test_an_out_that_is_no_file_in_a_folder_is_refused_at_once(folder, model, run):
    for out in _special(folder):
        commands = ["fit", folder / "table.csv", *FIT], ["predict", model, folder / "table.csv"]
        for command in commands:
            status, printed, err = run(*command, "--out", out)
            assert (status, printed, err.count("\n")) == (2, "", 1), out
    names = ["folder", "model.npz", "pipe", "table.csv"]
    assert _names(folder) == names
    assert (folder / "pipe").is_fifo()


@pytest.mark.parametrize("command", ["compare", "plan", "sweep", "reconstruct"])
def test_a_folder_that_cannot_take_the_files_is_refused_before_the_work(tmp_path, run, command):
    name = f"{command}.json"
    os.mkfifo(tmp_path / name)
    (tmp_path / "file").write_text("")
    for out in (tmp_path, tmp_path / "file", tmp_path / "file" / "folder", "/proc"):
        status, printed, err = run(command, "--out", out)
        assert (status, printed, err.count("\n")) == (2, "", 1), out
    assert _names(tmp_path) == sorted(["file", name])


def test_models_and_tables_that_are_no_files_are_refused_without_waiting(folder, model, run):
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    for path in (folder / "pipe", folder, folder / "loop", "/dev/zero", "/dev/stdin"):
        for given in (["predict", path, folder / "table.csv"], ["predict", model, path]):
            status, printed, err = run(*given)
            assert (status, printed, err.count("\n")) == (2, "", 1), path
        status, _, err = run("fit", path, *FIT, "--out", folder / "new.npz")
        assert (status, err.count("\n")) == (2, 1), path
        status, _, err = run("reconstruct", path, "--num-samples", 2, "--out", folder)
        assert (status, err.count("\n")) == (2, 1), path
