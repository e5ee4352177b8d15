"""The errors that a fit states, on tables whose best coefficients are known."""

import math

import numpy as np
import pytest
from helpers import assert_std_close
from scipy.stats import binom

from jaxdp.kernels import ClippedFeatures, IdentityFeatures
from jaxdp.regression import (
    ColumnFeatures,
    Columns,
    PrivateLinearClassifier,
    PrivateLinearRegression,
    WithConstant,
    known,
)
from jaxdp.regression.structure import Structure

NUM_FITS, DIM = 60, 8
TRUE = np.array([0.3, -0.2, 0.1, 0.2, -0.1, 0.0, 0.1, -0.2])


def _errors(is_class=False):
    """Standardised errors of fits of fresh Gaussian tables."""
    # Hardly a row is clipped.
    features = WithConstant(ClippedFeatures(IdentityFeatures(DIM), 5.0), 1.0)
    found = []
    # Of classes errors are those of a linear model, which few rows have not.
    num_rows = 4000 if is_class else 2000
    for seed in range(NUM_FITS):
        draw = np.random.default_rng(seed)
        inputs = draw.normal(size=(num_rows, DIM))
        outputs = inputs @ TRUE
        if is_class:
            learner, scale = PrivateLinearClassifier(features), 1.5
            labels = (draw.random(num_rows) < 1 / (1 + np.exp(-outputs * scale))).astype(int)
        else:
            learner, scale = PrivateLinearRegression(features, (-2.0, 2.0)), 1.0
            labels = outputs + 0.3 * draw.normal(size=num_rows)
        fit = learner.fit(
            inputs, labels, epsilon=3.0 if is_class else 1.5, delta=1e-6, noise_seed=2**200 + seed
        )
        noise, sampling = fit.known.noise, fit.known.sampling
        std = np.sqrt(np.diag(noise) + np.diag(sampling))[:DIM]
        found.append((fit.known.weights[:DIM, 0] - scale * TRUE) / std)
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("is_class", [False, True])
def test_standardised_errors_of_known_coefficients_are_standard_normals(is_class):
    z = _errors(is_class).ravel()
    # Numbers of a fit are nearly independent.
    assert abs(z.mean()) < 4 / math.sqrt(len(z))
    assert_std_close(z, 1, bias=0.05)
    for wrong in (1.36, 1 / 1.36):
        with pytest.raises(AssertionError):
            assert_std_close(z * wrong, 1, bias=0.05)
    covered = int(np.sum(np.abs(z) < 1.645))
    low, high = binom.ppf([1e-5, 1 - 1e-5], len(z), 0.9)
    assert low <= covered <= high
    assert not low <= np.sum(np.abs(z) < 1.645 / 1.8) <= high


KINDS = ["x", "y", "never"]
TABLE = Columns({"a": (-1, 1), "kind": KINDS})


def _fit(seed, num_rows=4000, epsilon=2.0):
    draw = np.random.default_rng(seed)
    numbers, kinds = draw.uniform(-1, 1, num_rows), draw.choice(["x", "x", "y"], num_rows)
    labels = 5 + numbers + np.where(kinds == "y", 2.0, 0.0) + 0.3 * draw.normal(size=num_rows)
    table = list(zip(numbers, kinds, strict=True))
    learner = PrivateLinearRegression(WithConstant(ColumnFeatures(TABLE, False), 1.0), (0.0, 20.0))
    fit = learner.fit(table, labels, epsilon=epsilon, delta=1e-6, noise_seed=2**200 + seed)
    return fit, np.array(kinds), labels


def _predicted(fit, kind):
    return float(fit.release([(0.0, kind)])[0])


@pytest.mark.slow
def test_a_category_without_rows_is_near_its_columns_mean_and_nothing_is_known_of_it(monkeypatch):
    seeds = range(12)
    gaps, raw, spread = [], [], []
    for seed in seeds:
        fit, kinds, labels = _fit(seed)
        means = [labels[kinds == kind].mean() for kind in "xy"]
        middle, half = labels.mean(), np.ptp(means) / 2
        # x, y, never, not listed, missing; after the number and its missing cell.
        assert fit.known.has_rows.tolist()[:5] == [True, False, True, True, False]
        gaps.append(abs(_predicted(fit, "never") - middle) / half)
        spread.append(abs(_predicted(fit, "y") - means[1]) / half)
    # A noisy count may stand out by chance: not in all fits.
    assert np.median(gaps) < 0.2
    assert max(spread) < 0.4
    monkeypatch.setattr(
        known, "_with_empty_cells", lambda turn, noise, stages, *_: turn @ stages[-1].weights
    )
    for seed in seeds:
        fit, _, labels = _fit(seed)
        raw.append(abs(_predicted(fit, "never") - labels.mean()) / half)
    assert np.median(raw) > 2


def test_counts_that_noise_hides_draw_no_cell(monkeypatch):
    drawn, draws = [], known._with_empty_cells

    def raw(turn, noise, stages, *given):
        weights = turn @ stages[-1].weights
        drawn.append(np.any(draws(turn, noise, stages, *given)[2:7] != weights[2:7]))
        return weights

    monkeypatch.setattr(known, "_with_empty_cells", raw)
    for most in (known._HIDDEN, 0.0):
        monkeypatch.setattr(known, "_HIDDEN", most)
        _fit(0)
    assert drawn == [True, False]


def test_a_column_is_centred_by_noisy_counts_and_no_prediction_changes(monkeypatch):
    fit, kinds, _ = _fit(0)
    # Of cells that have rows: others are drawn to the mean.
    table = [(number, kind) for number in (-1, 0.3) for kind in "xy"]
    counts = np.array([np.mean(kinds == kind) for kind in ("x", "y")])
    weights = np.asarray(fit.release.coefficients, np.float64)[2:4]
    # Of five cells three are empty: their noisy counts are small.
    error = 0.05 * np.abs(weights).max()
    assert abs(counts @ weights) < error
    monkeypatch.setattr(known, "_centring", lambda structure, squares: np.eye(len(squares)))
    raw, _, _ = _fit(0)
    np.testing.assert_allclose(raw.release(table), fit.release(table), atol=2e-3)
    assert abs(counts @ np.asarray(raw.release.coefficients)[2:4]) > 3 * error


def test_centring_moves_each_columns_mean_to_the_constant():
    features = WithConstant(ColumnFeatures(TABLE, True), 2.0)
    structure = Structure.of(features)
    draw = np.random.default_rng(0)
    squares = draw.uniform(0.1, 1, features.num_outputs)
    squares[-2] = 0.0
    weights = draw.normal(size=features.num_outputs)
    turn = known._centring(structure, squares)
    moved = turn @ weights
    codes = TABLE.codes([(0.3, "x"), (None, "y"), (-1, "other"), (1, None)])
    rows = np.asarray(features(codes), np.float64)
    np.testing.assert_allclose(rows @ moved, rows @ weights, atol=1e-5)
    for group in structure.groups:
        assert abs(squares[group.cells] @ moved[group.cells]) < 1e-12
        assert abs(squares[group.cells] @ weights[group.cells]) > 1e-3
    np.testing.assert_allclose(turn @ turn, turn, atol=1e-12)
