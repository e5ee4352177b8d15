"""Every public function and class carries an example, which runs and prints what it shows."""

import doctest
import inspect
import re

import pytest
from public_names import PUBLIC

# What compiles for longer than a tenth of a second or so, or draws a figure: all of some rooms, and
# elsewhere an example that asks for runs, predictions, fits or samples.
_DEAR_ROOMS = re.compile(r"jaxdp\.(algorithms|attacks|comparison|explorer|losses|plots|theory)\.")
_DEAR_CALLS = re.compile(
    r"\b(predict|simulate|plan|sweep|train|compare|fit|sample|features|from_arrays|audit\w*|vmap"
    r"|Linearised|TabularRegression|best_risks|required_\w+|\w*gradient_\w+|sum_over_devices"
    r"|PoissonSubsampledGaussian)\("
)


def _example(name):
    return (inspect.getdoc(PUBLIC[name]) or "").partition("Example:")[2]


def _parameter(name):
    is_dear = _DEAR_ROOMS.match(name) or _DEAR_CALLS.search(_example(name))
    return pytest.param(name, marks=[pytest.mark.slow] * bool(is_dear))


def _failures(example):
    test = doctest.DocTestParser().get_doctest(example, {}, "example", None, None)
    assert test.examples, "expected an example, got none"
    said = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    return "".join(said)


@pytest.mark.parametrize(
    "name", [_parameter(name) for name, thing in PUBLIC.items() if not inspect.isabstract(thing)]
)
def test_the_example_of_a_public_name_runs_and_prints_what_it_shows(name):
    failures = _failures(_example(name))
    assert not failures, failures


def test_a_wrong_example_is_found():
    assert "Expected" in _failures(">>> 1 + 1\n3\n")
