"""The command line in this process, for all tests of its commands."""

import functools

import pytest
from helpers import run_cli


class Command:
    """Calls give a command's exit status, what it prints, and its errors."""

    def __init__(self, capsys):
        self._run = functools.partial(run_cli, capsys)

    def __call__(self, *words):
        return self._run(*words)

    def well(self, *words):
        """What a command prints that ends well and without a warning."""
        status, out, err = self._run(*words)
        assert (status, err) == (0, "")
        return out

    def refused(self, *words):
        """The only line of a command that is refused."""
        status, out, err = self._run(*words)
        assert (status, out, err.count("\n")) == (2, "", 1), words
        return err


@pytest.fixture
def run(capsys):
    """A function of a command's words."""
    return Command(capsys)
