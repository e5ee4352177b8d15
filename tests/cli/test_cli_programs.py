"""The command line keeps compiled programs where its user alone can write, or none."""

import os
import pathlib
import stat
import subprocess
import sys

import pytest

from jaxdp.cli import entry, programs

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
    for arguments in ("completion bash --no-cache", "--no-cache completion bash"):
        assert _said(tmp_path, *arguments.split()).stdout
        assert not (tmp_path / ".cache").exists()
    assert _said(tmp_path, "completion", "bash").stdout
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
        ("predict m.npz t.csv", True),
        ("compare --data t.csv", True),
        ("compare --data=t.csv", True),
        ("compare --dim 5", False),
        ("", False),
    ],
)
def test_programs_of_a_users_rows_are_not_kept(arguments, is_read):
    assert entry._reads_rows(arguments.split()) == is_read


def test_the_demo_keeps_its_programs():
    makefile = pathlib.Path(__file__).parents[2] / "Makefile"
    _, _, after = makefile.read_text().partition("\ndemo:")
    command, *arguments = after.splitlines()[1].split()
    assert command == "$(BIN)/jaxdp"
    assert not entry._reads_rows(arguments)
    assert entry._NO_CACHE not in arguments


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
