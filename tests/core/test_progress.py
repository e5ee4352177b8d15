"""A bar says that a program is compiled, estimates from what ran, and fits where it is written."""

import io
import time

import pytest

from jaxdp.core.progress import Bar, is_seen, listening, listening_where_seen, waiting


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


def test_true_is_a_bar_on_standard_error(capsys):
    with listening(True, "train") as told:
        told(0.5)
        told(1.0)
    assert capsys.readouterr() == ("", "train: compiling\ntrain: 100 %, 0:00\n")
    for progress, expected in ((None, None), (False, None), (print, print)):
        with listening(progress, "train") as told:
            assert told is expected


def test_where_a_person_looks_a_bar_needs_no_asking(monkeypatch):
    for stream, progress, is_shown in (
        (_Terminal(), None, True),
        (io.StringIO(), None, False),
        (_Terminal(), False, False),
        (io.StringIO(), True, True),
    ):
        monkeypatch.setattr("sys.stderr", stream)
        with listening_where_seen(progress, "plan") as told:
            told(1.0)
        assert ("plan: compiling" in stream.getvalue()) == is_shown


def test_the_clock_runs_while_nothing_is_told(monkeypatch):
    monkeypatch.setattr("jaxdp.core.progress._TICK", 0.01)
    stream, clock = _Terminal(), _Clock()
    bar = Bar("forecast", stream=stream, clock=clock)
    clock.now = 1.0
    bar.advance(0.5)
    clock.now = 21.0
    _until(lambda: "50 %" in stream.getvalue() and "0:21" in stream.getvalue())
    bar.close()
    written = stream.getvalue()
    clock.now = 22.0
    time.sleep(0.05)
    assert stream.getvalue() == written


def _until(holds):
    for _ in range(1000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("expected it within ten seconds")


def test_a_short_wait_shows_nothing_and_a_long_one_is_taken_back(monkeypatch):
    stream = _Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    with waiting(None, "predict"):
        pass
    assert stream.getvalue() == ""
    monkeypatch.setattr("jaxdp.core.progress._TICK", 0.01)
    with waiting(True, "predict"):
        _until(lambda: "predict: running, 0:00" in stream.getvalue())
    assert stream.getvalue().endswith("\r")


def test_a_call_that_raises_ends_its_line_and_hides_no_later_bar(monkeypatch):
    stream = _Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    with pytest.raises(ZeroDivisionError), listening_where_seen(None, "plan") as told:
        told(is_seen() / 0)
    assert stream.getvalue().endswith("\n")
    assert is_seen()


@pytest.mark.parametrize("progress", [False, lambda share: None])
def test_who_wants_no_bar_has_none_of_the_calls_within(monkeypatch, progress):
    monkeypatch.setattr("sys.stderr", _Terminal())
    with listening_where_seen(progress, "plan"):
        assert not is_seen()
    with waiting(False, "predict"):
        assert not is_seen()
    assert is_seen()


def test_one_line_shows_one_bar(monkeypatch):
    stream = _Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr("jaxdp.core.progress._TICK", 0.01)
    with listening_where_seen(None, "plan"):
        with waiting(None, "predict"):
            time.sleep(0.05)
        _until(lambda: "plan: compiling, 0:00" in stream.getvalue())
    assert "predict" not in stream.getvalue()


class _Silent:
    """A stream that cannot say whether it is a terminal."""

    def write(self, text):
        raise AttributeError


@pytest.mark.parametrize("stream", [None, _Silent()])
def test_without_standard_error_no_bar_is_shown_and_the_call_goes_on(monkeypatch, stream):
    monkeypatch.setattr("sys.stderr", stream)
    assert not is_seen()
    for progress in (None, True):
        with listening_where_seen(progress, "predict") as told:
            told(0.5)
