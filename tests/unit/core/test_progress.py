"""A bar of tqdm shows what is done, and no stream that fails ends the call it tells of."""

import io
import re

import pytest

from jaxdp.core.progress import is_seen, listening, listening_where_seen


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def _terminal(monkeypatch):
    """Standard error that is a terminal; pytest puts back what a fixture would have set."""
    stream = _Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    return stream


def test_a_bar_is_ended_or_taken_back(monkeypatch):
    terminal = _terminal(monkeypatch)
    for keep, expected in ((True, "100%[^\r]*\n$"), (False, "\r *\r$")):
        with listening(True, "run", keep=keep) as told:
            told(0.5)
            told(1.0)
        assert re.search(expected, terminal.getvalue())
        written = terminal.getvalue()
        told(0.7)
        assert terminal.getvalue() == written


def test_true_is_a_bar_on_standard_error_with_few_lines_in_a_file(capsys):
    with listening(True, "train", lambda share: f"epsilon {share}") as told:
        for step in range(101):
            told(step / 100)
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.count("\r") <= 3
    assert re.search(r"train: 100%.*, epsilon 1.0\n$", errors)


@pytest.mark.parametrize("progress", [None, False, print])
def test_a_function_is_told_itself_and_none_and_false_are_nobody(progress):
    with listening(progress, "train") as told:
        assert told is (progress or None)


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
        assert ("plan: " in stream.getvalue()) == is_shown


def test_a_call_that_raises_ends_its_line_and_hides_no_later_bar(monkeypatch):
    terminal = _terminal(monkeypatch)
    with pytest.raises(ZeroDivisionError), listening_where_seen(None, "plan") as told:
        told(is_seen() / 0)
    assert terminal.getvalue().endswith("\n")
    assert is_seen()


@pytest.mark.parametrize("progress", [False, True, lambda share: None])
def test_calls_within_show_no_bar_that_nobody_has_asked_for(monkeypatch, progress):
    _terminal(monkeypatch)
    with listening_where_seen(progress, "plan"):
        assert not is_seen()
    assert is_seen()
    with listening(None, "train"):
        assert is_seen()


class _Silent:
    """A stream that cannot say whether it is a terminal, and takes nothing."""

    def write(self, text):
        raise AttributeError


class _Broken(_Terminal):
    """A terminal that nobody reads any more."""

    def write(self, text):
        raise BrokenPipeError


def _closed():
    stream = _Terminal()
    stream.close()
    return stream


@pytest.mark.parametrize("stream", [None, _Silent(), _Broken(), _closed()])
def test_a_stream_that_is_missing_closed_or_broken_ends_no_call(monkeypatch, stream):
    monkeypatch.setattr("sys.stderr", stream)
    for progress in (None, True):
        with listening_where_seen(progress, "predict") as told:
            told(0.5)
            told(1.0)
