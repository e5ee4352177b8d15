"""The names of the front door that most people meet carry an example, and it runs."""

import doctest
import inspect

import pytest

import jaxdp

NAMES = [
    "Box",
    "Constant",
    "CorrelatedDPSGD",
    "Cost",
    "CoupledODE",
    "DPGD",
    "DiscreteRecursion",
    "DiscreteVolterra",
    "ExactCalibration",
    "FiniteDimension",
    "FixedFeatures",
    "Fluctuations",
    "FreeForm",
    "FromSteps",
    "FunctionSpace",
    "GaussianClosure",
    "Hyperbolic",
    "InputScales",
    "Iterates",
    "LinearRegression",
    "LogisticRegression",
    "OnePassDPSGD",
    "Optimal",
    "OrnsteinUhlenbeck",
    "PiecewiseLinear",
    "Polynomial",
    "PrivateOptimiser",
    "RandomFeatures",
    "Reduced",
    "TabularRegression",
    "Trajectory",
    "UnclippedRecursion",
    "UpperBound",
    "account",
    "clipped_gradient_sum",
    "compare",
    "hermite_coefficients",
    "per_sample_gradient_norms",
    "plan",
    "predict",
    "required_epsilon",
    "required_samples",
    "simulate",
    "sweep",
]
# These compile a search or two.
_LONG = {"FreeForm", "plan"}


def _failures(example):
    test = doctest.DocTestParser().get_doctest(example, {}, "example", None, None)
    assert test.examples, "expected an example, got none"
    said = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    return "".join(said)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in _LONG)) for name in NAMES]
)
def test_the_example_of_a_public_name_runs_and_prints_what_it_shows(name):
    found = inspect.getdoc(getattr(jaxdp, name))
    assert found is not None
    assert "Example:" in found
    failures = _failures(found.partition("Example:")[2])
    assert not failures, failures


def test_a_wrong_example_is_found():
    assert "Expected" in _failures(">>> 1 + 1\n3\n")
