"""The command line in this process, for all tests of its commands."""

import functools

import pytest
from helpers import run_cli


@pytest.fixture
def run(capsys):
    """A function of a command's words: its exit status, what it prints, and its errors."""
    return functools.partial(run_cli, capsys)
