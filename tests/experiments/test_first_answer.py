"""The benchmark of first answers counts programs and tells their seconds apart."""

import pathlib

import pytest

from experiments.benchmarks.first_answer import seconds_of, table
from experiments.benchmarks.first_answer_process import _covered

_TREE = pathlib.Path(__file__).parents[2]


def test_spans_within_others_count_once():
    assert _covered([(0.0, 2.0), (0.5, 1.0), (1.5, 3.0), (4.0, 5.0)]) == pytest.approx(4.0)


def test_a_warm_command_compiles_nothing_and_parts_make_up_the_whole():
    case = "jaxdp account one-pass --rho 1"
    cold, warm = seconds_of(case, _TREE)
    assert cold["compiled"] == cold["programs"] == warm["programs"] > 0
    assert warm["compiled"] == 0
    for each in (cold, warm):
        parts = sum(each[name] for name in ("importing", "tracing", "compiling", "running"))
        assert parts == pytest.approx(each["seconds"])
    lines = table({(case, "cold", "this"): [cold], (case, "warm", "this"): [warm]}).splitlines()
    assert [line.split(" | ")[1] for line in lines[2:]] == ["cold", "warm"]
