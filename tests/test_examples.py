"""Every public function and class carries an example, which runs and prints what it shows."""

import doctest
import inspect

import pytest
from public_names import PUBLIC

_NAMES = [name for name, thing in PUBLIC.items() if not inspect.isabstract(thing)]
# These compile for longer than a tenth of a second or so, or draw a figure.
_LONG: set[str] = set()


def _failures(example):
    test = doctest.DocTestParser().get_doctest(example, {}, "example", None, None)
    assert test.examples, "expected an example, got none"
    said = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    return "".join(said)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in _LONG)) for name in _NAMES]
)
def test_the_example_of_a_public_name_runs_and_prints_what_it_shows(name):
    found = inspect.getdoc(PUBLIC[name])
    assert found is not None
    assert "Example:" in found
    failures = _failures(found.partition("Example:")[2])
    assert not failures, failures


def test_a_wrong_example_is_found():
    assert "Expected" in _failures(">>> 1 + 1\n3\n")


def test_every_long_example_is_one_of_the_examples():
    assert set(_NAMES) >= _LONG
