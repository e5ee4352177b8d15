"""A bar says that a program is compiled, estimates from what ran, and fits where it is written."""

import io

import pytest

from jaxdp.core.progress import Bar, listener_where_seen


class _Terminal(io.StringIO):
    def isatty(self):
        return True


class _Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def made(monkeypatch):
    """A bar on a terminal of 80 columns, its clock, and what is on the line now."""
    monkeypatch.setenv("COLUMNS", "80")
    stream, clock = _Terminal(), _Clock()

    def shown():
        return stream.getvalue().rpartition("\r")[2].rstrip(" ")

    return Bar("simulate", stream=stream, clock=clock), clock, shown


def test_it_says_that_the_first_block_is_compiled(made):
    bar, clock, shown = made
    assert shown() == "simulate: compiling"
    clock.now = 19.0
    bar.advance(0.01)
    # A block of a hundred took 19 seconds, of which nobody knows how many it ran.
    assert "compiled" in shown()
    assert "left" not in shown()


def test_the_estimate_leaves_the_compilation_out(made):
    bar, clock, shown = made
    clock.now = 19.0
    bar.advance(0.01)
    clock.now = 20.0
    bar.advance(0.11)
    # A tenth a second after the first block: 8.9 seconds for the rest, not 162.
    assert shown().endswith("| 0:20, 0:09 left")
    assert shown().startswith("simulate:  11 % |##  ")
    clock.now = 29.0
    bar.advance(1.0)
    assert shown().endswith("| 0:29")


def test_what_was_done_before_does_not_count_as_speed(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    stream, clock = _Terminal(), _Clock()
    bar = Bar("sweep", begun=0.5, stream=stream, clock=clock)
    assert stream.getvalue() == "\rsweep: 50 %, compiling"
    clock.now = 10.0
    bar.advance(0.6)
    clock.now = 20.0
    bar.advance(0.7)
    assert stream.getvalue().endswith("| 0:20, 0:30 left")


@pytest.mark.parametrize("columns", [20, 80])
def test_no_line_is_wider_than_the_terminal(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = _Terminal()
    bar = Bar("a rather long name", stream=stream, clock=_Clock())
    for share in (0.1, 0.5, 1.0):
        bar.advance(share)
    assert max(map(len, stream.getvalue().split("\r"))) < columns
    assert "\x1b" not in stream.getvalue()


def test_a_bar_is_ended_or_taken_back():
    for keep, expected in ((True, "\n"), (False, "\r")):
        stream = _Terminal()
        bar = Bar("run", stream=stream, keep=keep)
        bar.advance(1.0)
        bar.close()
        assert stream.getvalue().endswith(expected)
        bar.close()
        bar.advance(0.5)
        assert stream.getvalue().count("50 %") == 0
        assert stream.getvalue().count("\n") == keep


def test_in_a_file_or_a_pipe_there_are_whole_lines_and_few_of_them():
    stream, clock = io.StringIO(), _Clock()
    bar = Bar("run", stream=stream, clock=clock)
    for second in range(1, 101):
        clock.now = float(second)
        bar.advance(second / 100)
    bar.close()
    assert "\r" not in stream.getvalue()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "run: compiling"
    assert lines[1] == "run:  30 %, 0:30, 1:10 left"
    assert lines[-1] == "run: 100 %, 1:40"
    assert len(lines) == 5


def test_a_stream_that_nobody_reads_ends_no_run():
    stream = _Terminal()
    bar = Bar("run", stream=stream)
    stream.close()
    bar.advance(0.5)
    bar.close()


def test_where_a_person_looks_a_bar_needs_no_asking(monkeypatch):
    for stream, progress, is_shown in (
        (_Terminal(), None, True),
        (io.StringIO(), None, False),
        (_Terminal(), False, False),
        (io.StringIO(), True, True),
    ):
        monkeypatch.setattr("sys.stderr", stream)
        listener_where_seen(progress, "plan")(1.0)
        assert ("plan: compiling" in stream.getvalue()) == is_shown
