"""Whatever standard output and error are, a command does its work and ends with its own status."""

import contextlib
import dataclasses
import errno
import io
import subprocess
import sys

import pytest

from jaxdp import cli, kernels
from jaxdp.cli.streams import standard_streams
from jaxdp.core.terminals import printable

ACCOUNT = ["account", "one-pass", "--rho", "1"]
# A title, a screen that is cleared, a C1 sequence, and letters that run backwards.
OBEYED = "\x1b]0;owned\x07\x1b[2J\x9b1m\u202ecod.exe"


class _Bare:
    """A stream that can only be written to."""

    def __init__(self, error=None):
        self.error, self.texts = error, []

    def write(self, text):
        if self.error:
            raise self.error
        self.texts.append(text)


class _Late(_Bare):
    """A stream whose buffer cannot be emptied."""

    def write(self, text):
        pass

    def flush(self):
        raise self.error


def _closed():
    stream = io.StringIO()
    stream.close()
    return stream


FULL, LEFT = OSError(errno.ENOSPC, "No space left on device"), BrokenPipeError()
STREAMS = {
    "none": (lambda: None, 0),
    "closed": (_closed, 0),
    "bare": (_Bare, 0),
    "full": (lambda: _Bare(FULL), 2),
    "full at the end": (lambda: _Late(FULL), 2),
    "left": (lambda: _Late(LEFT), 141),
    "left at once": (lambda: _Bare(LEFT), 141),
    "ascii": (lambda: io.TextIOWrapper(io.BytesIO(), "ascii"), 0),
}


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A folder with a table whose names no other encoding than Unicode's can write."""
    monkeypatch.chdir(tmp_path)
    names = "größe", f"Δ{OBEYED}", f"łatwy\u2028{OBEYED}"
    rows = [",".join(f'"{name}"' for name in ("größe", names[1], "y"))]
    rows += [f"{i / 50},{i % 7},{names[2] if i % 50 > 25 else 'b'}" for i in range(100)]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n", "utf-8")
    known = f'{{"größe": {{"range": [0, 2]}}, "y": {{"categories": ["b", "{names[2]}"]}}}}'
    escaped = known.encode("ascii", "backslashreplace").decode()
    for mark in "\x1b\x07\x9b":
        escaped = escaped.replace(mark, f"\\u{ord(mark):04x}")
    (tmp_path / "c.json").write_text(escaped.replace("\\x", "\\u00"), "utf-8")
    return tmp_path


FIT = ["fit", "--data", "t.csv", "--target", "y", "--columns", "c.json", "--epsilon", "4", "--out"]


@pytest.mark.parametrize("name", STREAMS)
def test_a_command_whose_budget_is_spent_ends_well_on_any_standard_output(table, name):
    made, status = STREAMS[name]
    stream, errors = made(), io.StringIO()
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(errors):
        assert cli.main([*FIT, "m.npz"]) == 0
    assert kernels.load("m.npz").columns.inputs == ("größe",)
    assert ("No space left" in errors.getvalue()) == name.startswith("full")
    assert ("see m.npz" in errors.getvalue()) == name.startswith("full")
    # A command whose only result is what it prints tells that it is lost.
    with contextlib.redirect_stdout(made()), contextlib.redirect_stderr(errors):
        assert cli.main(["predict", "m.npz", "t.csv"]) == status
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(made()):
        assert cli.main(ACCOUNT) == 0
        assert cli.main(["account", "one-pass", "--rho", "-1"]) == 2


def test_no_name_of_a_table_or_a_model_reaches_the_terminal_as_a_command(table, run):
    said = [run("columns", "t.csv")]
    said += [run(*FIT, "m.npz"), run("predict", "m.npz", "t.csv")]
    assert [status for status, _, _ in said] == [0, 0, 0]
    said += [run("predict", "m.npz", "c.json"), run("predict", "c.json", "t.csv")]
    said += [run("compare", "--data", "t.csv", "--target", OBEYED)]
    said += [run(*FIT[:4], OBEYED, *FIT[5:], "n.npz")]
    for status, out, err in said:
        assert printable(out) == out
        assert printable(err) == err
        assert status in (0, 2)
    assert r"\x1b]0;owned\x07\x1b[2J\x9b1m\u202ecod.exe" in said[0][1]
    # In Python too: the card of a file, and what it lacks.
    release = kernels.load("m.npz")
    assert printable(release.card) == release.card
    assert r"\x1b[2J" in release.card
    forged = dataclasses.replace(release.cost, assumptions=(f"{OBEYED}\nprivacy: nothing",))
    assert printable(str(forged)) == str(forged)
    assert len(str(forged).splitlines()) == 3


def test_what_no_terminal_reads_is_in_the_encoding_that_the_commands_read(monkeypatch):
    below = io.TextIOWrapper(io.BytesIO(), "cp1252")
    monkeypatch.setattr(sys, "stdout", below)
    with standard_streams(is_process=True):
        print("größe łatwy \udcff")
    assert below.buffer.getvalue().decode() == "größe łatwy \\udcff\n"
    seen = io.TextIOWrapper(io.BytesIO(), "cp1252")
    monkeypatch.setattr(seen, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", seen)
    with standard_streams(is_process=True) as output:
        assert output.isatty()
        print("größe łatwy")
    assert seen.buffer.getvalue() == "größe \\u0142atwy\n".encode("cp1252")


_OPENED = """
import os, sys
from jaxdp.cli.streams import standard_streams
with standard_streams(is_process=True):
    print("nowhere")
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
    os.write(2, b"nowhere")
os.write(file, str(file).encode())
"""


def test_no_file_gets_the_place_of_a_closed_stream(tmp_path):
    # Not by `subprocess`, which cannot close them.
    command = 'exec "$0" -c "$1" "$2" 0<&- 1>&- 2>&-'
    subprocess.run(
        ["sh", "-c", command, sys.executable, _OPENED, str(tmp_path / "file")], check=True
    )
    assert int((tmp_path / "file").read_text()) > 2
