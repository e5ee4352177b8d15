"""Ctrl-C, readers that go away, and the folder of compiled programs: the command as a process."""

import os
import pathlib
import random
import signal
import stat
import subprocess
import sys
import time

import pytest

from jaxdp.cli import entry, programs

ROOT = pathlib.Path(__file__).parents[2]
# Ctrl-C is heard though the tests run in the background, where it is not.
_MAIN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from jaxdp.cli import main
print("started", file=sys.stderr, flush=True)
sys.exit(main())
"""
INTERRUPTED = 130, "jaxdp: interrupted\n"


def _start(code, *arguments):
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    process = subprocess.Popen(command, cwd=ROOT, text=True, **streams)
    assert process.stderr is not None
    # Before, Ctrl-C is the interpreter's.
    assert process.stderr.readline() == "started\n"
    return process


def _interrupted(process, *, after=0.0):
    """Status and standard error of a process that gets Ctrl-C."""
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


def _files(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_ctrl_c_ends_a_command_with_status_130_and_no_traceback(tmp_path):
    process = _start(_MAIN, "compare", "--out", tmp_path)
    assert _interrupted(process, after=1.0) == INTERRUPTED
    assert _files(tmp_path) == []


@pytest.mark.slow
def test_ctrl_c_at_any_time_ends_a_comparison_without_a_traceback_or_a_crash(tmp_path, monkeypatch):
    """At the times of its imports, its first compilations, its runs and its picture."""
    # Every one of them compiles its programs.
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    chosen, small = random.Random(0), ["--dim", "100", "--num-runs", "4"]
    ended = []
    for number in range(4):
        out = tmp_path / str(number)
        process = _start(_MAIN, "compare", *small, "--out", out)
        # One time of each quarter of ten seconds.
        found = _interrupted(process, after=(number + chosen.random()) * 10 / 4)
        # An interpreter that is ending has given its signals back, and has written all.
        is_done = found == (-signal.SIGINT, "") and (out / "compare.json").exists()
        ended.append((0, "") if is_done else found)
    # A quick machine may be done before, but not with its compilations.
    assert set(ended) <= {INTERRUPTED, (0, "")}
    assert ended.count(INTERRUPTED) >= 2
    assert {*_files(tmp_path)} <= {"compare.png", "compare.json"}


def test_ctrl_c_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        entry._end_by_interrupts()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--help"], ["predict", "no", "file"]], ids=" ".join)
def test_a_reader_that_has_gone_is_no_error(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "jaxdp", *arguments]
    for streams in ({"stdout": writing, "stderr": subprocess.PIPE}, {"stderr": writing}):
        ran = subprocess.run(command, cwd=ROOT, text=True, timeout=100, **streams)
        assert "Error" not in (ran.stderr or "")
        assert "Exception" not in (ran.stderr or "")
        assert ran.returncode in (0, 2, 141)
    os.close(writing)


ACCOUNT = ["account", "one-pass", "--rho", "1"]


def _said(home, *arguments):
    """What `jaxdp` says in a process of its own, whose cache is in this home."""
    kept = {"HOME": str(home), "PATH": os.environ["PATH"], "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "jaxdp", *arguments]
    return subprocess.run(command, env=kept, capture_output=True, text=True, check=True)


def test_programs_are_kept_in_a_folder_of_the_user_alone(tmp_path):
    said = _said(tmp_path, *ACCOUNT)
    folder = tmp_path / ".cache" / "jaxdp"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert len(list(folder.iterdir())) > 0
    assert said.stderr == ""


def test_no_cache_leaves_none_wherever_it_stands(tmp_path):
    for arguments in ("--version --no-cache", "--no-cache --version"):
        assert _said(tmp_path, *arguments.split()).stdout
        assert not (tmp_path / ".cache").exists()
    assert _said(tmp_path, "--version").stdout
    assert (tmp_path / ".cache").exists()


def test_a_folder_that_others_can_write_to_keeps_nothing(tmp_path):
    folder = tmp_path / ".cache" / "jaxdp"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    said = _said(tmp_path, *ACCOUNT)
    assert list(folder.iterdir()) == []
    (line,) = said.stderr.splitlines()
    assert line.startswith("jaxdp: warning: no compiled program is kept: expected ")
    assert said.stdout


@pytest.mark.parametrize(
    ("arguments", "is_read"),
    [
        ("fit t.csv --target y", True),
        ("compare --data t.csv", True),
        ("compare --data=t.csv", True),
        ("compare --dim 5", False),
    ],
)
def test_programs_of_a_users_rows_are_not_kept(arguments, is_read):
    assert entry._reads_rows(arguments.split()) == is_read


def test_a_link_is_no_folder_of_the_user(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv(programs.VARIABLE, str(tmp_path / "link"))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    with pytest.raises(PermissionError, match="its user alone"):
        programs.keep_programs()


def test_what_is_not_asked_for_is_forgotten_and_the_users_own_choice_stands(tmp_path, monkeypatch):
    monkeypatch.setenv(programs.VARIABLE, str(tmp_path))
    for name in ("JAX_COMPILATION_CACHE_DIR", *programs._SETTINGS):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    old, new = tmp_path / "old", tmp_path / "new"
    for path, age in ((old, 31), (new, 29)):
        path.touch()
        os.utime(path, (path.stat().st_atime - age * 24 * 3600,) * 2)
    tmp_path.chmod(0o700)
    programs.keep_programs()
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "mine")
    programs.keep_programs()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "mine"
