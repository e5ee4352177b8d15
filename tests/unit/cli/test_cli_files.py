"""The command line's files: written whole or not at all, never written over, never waited for."""

import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
from cli_tables import written

from jaxdp import cli, kernels, privacy

ROOT = pathlib.Path(__file__).parents[3]
FIT = ["--epsilon", "8", "--delta", "1e-5", "--label-bound", "1", "--input-range=-1:1"]
FIT += ["--num-projections", "4", "--num-features", "4"]


def _start(*arguments, limit="unlimited", **options):
    """The command in a process of its own, where no file may be longer than the limit."""
    shell = ["sh", "-c", f'ulimit -f {limit}; exec "$0" "$@"']
    command = [*shell, sys.executable, "-m", "jaxdp", *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen(command, cwd=ROOT, text=True, **streams)


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


def test_a_fit_that_fails_leaves_nothing(folder, run):
    (folder / "table.csv").write_text("a,b,y\n1,2,red\n")
    run.refused("fit", folder / "table.csv", *FIT, "--out", folder / "model.npz")
    assert _names(folder) == ["table.csv"]


def test_a_model_that_came_to_be_during_a_fit_is_not_written_over(folder, run, monkeypatch):
    out, save = folder / "model.npz", kernels.ReleasedFunction.save

    def late(release, path, **options):
        out.write_bytes(b"another's")
        save(release, path, **options)

    monkeypatch.setattr(kernels.ReleasedFunction, "save", late)
    status, printed, err = run("fit", folder / "table.csv", *FIT, "--out", out)
    assert (status, err.count("\n")) == (0, 1)
    assert "was written by another fit meanwhile; this release is in" in err
    assert out.read_bytes() == b"another's"
    [beside] = set(_names(folder)) - {"model.npz", "table.csv"}
    assert f"model: {folder / beside}" in printed or str(folder / beside) in printed
    assert kernels.load(folder / beside).cost.epsilon == pytest.approx(8, rel=1e-9)


def test_a_folder_that_cannot_be_written_to_is_found_before_the_noise(folder, run, monkeypatch):
    def drawn(*_, **__):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(privacy.SecretNoise, "words", drawn)
    run.refused("fit", folder / "table.csv", *FIT, "--out", "/proc/self/model.npz")


def _special(folder):
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    return [folder / "folder", folder / "pipe", "/dev/full", "/dev/null", "/proc/new"]


def test_an_out_that_is_no_file_in_a_folder_is_refused_at_once(folder, model, run):
    for out in _special(folder):
        commands = ["fit", folder / "table.csv", *FIT], ["predict", model, folder / "table.csv"]
        for command in commands:
            run.refused(*command, "--out", out)
    names = ["folder", "model.npz", "pipe", "table.csv"]
    assert _names(folder) == names
    assert (folder / "pipe").is_fifo()


@pytest.mark.parametrize("command", ["compare", "plan", "sweep", "reconstruct"])
def test_a_folder_that_cannot_take_the_files_is_refused_before_the_work(tmp_path, run, command):
    name = f"{command}.json"
    os.mkfifo(tmp_path / name)
    (tmp_path / "file").write_text("")
    for out in (tmp_path, tmp_path / "file", tmp_path / "file" / "folder", "/proc"):
        run.refused(command, "--out", out)
    assert _names(tmp_path) == sorted(["file", name])


def test_models_and_tables_that_are_no_files_are_refused_without_waiting(folder, model, run):
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    for path in (folder / "pipe", folder, folder / "loop", "/dev/zero", "/dev/stdin"):
        for given in (["predict", path, folder / "table.csv"], ["predict", model, path]):
            run.refused(*given)
        run.refused("fit", path, *FIT, "--out", folder / "new.npz")
        run.refused("reconstruct", path, "--num-samples", 2, "--out", folder)
