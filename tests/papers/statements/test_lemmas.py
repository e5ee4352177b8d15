"""The saved sides of the lemmas: every statement holds, and no wrong value passes."""

import functools

import numpy as np
import pytest

from experiments import registry
from experiments.harness import RESULTS, read
from experiments.statements import lemmas
from experiments.statements.judged import concentration, gaussian_weights, projection, sides


@functools.cache
def _saved():
    return read(RESULTS / registry.entry("lemmas").file)


def _false(dataset):
    return {claim for claim, holds in lemmas.claims(dataset).items() if not holds}


def test_every_saved_statement_holds():
    assert len(lemmas.claims(_saved())) == len(lemmas.STATEMENTS) == 41
    assert not _false(_saved())
    assert not set(_saved().statement.values) - set(lemmas.claims(_saved()))


def test_a_planted_wrong_value_is_rejected_in_every_row():
    saved = _saved()
    limited = np.isfinite(saved.low.values) | np.isfinite(saved.high.values)
    assert limited.all()
    for row in range(saved.sizes["side"]):
        low, high = float(saved.low[row]), float(saved.high[row])
        margin = 1e-15 + 1e-3 * np.abs([low, high])
        for wrong in (np.nan, low - margin[0], high + margin[1]):
            changed = saved.value.values.copy()
            changed[row] = wrong if np.isfinite(wrong) else np.nan
            assert _false(saved.assign(value=("side", changed))) == {saved.statement[row].item()}


def test_a_statement_without_its_numbers_does_not_hold():
    kept = _saved().statement.values != _saved().statement.values[0]
    assert _false(_saved().isel(side=kept)) == {_saved().statement[0].item()}


@pytest.mark.parametrize(
    "statement",
    [
        gaussian_weights.stein_identity,
        concentration.sums_of_vectors,
        projection.determinant,
        projection.squared_norms,
    ],
    ids=lambda one: one.__name__,
)
def test_the_saved_numbers_are_todays(statement):
    saved = _saved().isel(side=_saved().statement.values == lemmas._named(statement))
    found = list(statement())
    assert [side.words for side in found] == saved.words.values.tolist()
    for name in ("value", "low", "high"):
        values = [getattr(side, name) for side in found]
        np.testing.assert_allclose(values, saved[name], rtol=1e-6, atol=1e-9)


def _fails(found):
    return any(not side.low <= side.value <= side.high for side in found)


def test_a_wrong_constant_is_seen(monkeypatch):
    monkeypatch.setattr(gaussian_weights, "MU_3", 0.5 * gaussian_weights.MU_3)
    assert _fails(gaussian_weights.second_moment_along_a_step())
    monkeypatch.setattr(projection, "_ROUNDED", 0.9)
    assert _fails(projection.powers_of_operators())
    monkeypatch.setattr(concentration, "LOG", 0.001)
    assert _fails(concentration.sums_of_vectors())


def test_limits_are_those_of_the_worst_number_and_means_and_orders_are_told_from_wrong_ones():
    assert _fails([sides.at_most("a", [1.0, np.nan], [2.0, 5.0])])
    assert sides.at_most("a", [1.0, 3.0], [4.0, 2.0]) == ("a", 3.0, -np.inf, 2.0)
    assert sides.at_least("a", [1.0, 3.0], [4.0, 2.0]) == ("a", 1.0, 4.0, np.inf)
    draws = np.random.default_rng(0).standard_normal(10_000)
    assert not _fails(sides.mean("a", draws, 0.0, wrong=(0.1,)))
    assert _fails(sides.mean("a", draws, 0.1))
    assert _fails(sides.mean("a", draws, 0.0, wrong=(0.01,)))
    assert not _fails(sides.order("a", [1.0, 0.9, 1.1], (1, 2, 4), 1.0))
    # A number that grows, and an order with so much room that a smaller one would do.
    assert _fails(sides.order("a", [1.0, 2.0, 4.0], (1, 2, 4), 1.0))
    assert _fails(sides.order("a", [1.0, 0.5, 0.25], (1, 2, 4), 1.0))
