"""Public facts about the features of any row: null directions, groups and lines."""

import numpy as np
import pytest

from jaxdp.kernels import ClippedFeatures, IdentityFeatures
from jaxdp.regression import ColumnFeatures, Columns, WithConstant
from jaxdp.regression.structure import _BEND, Structure

SPECS = {"a": (0, 10), "b": ["x", "y", "z"], "c": (-1, 1), "d": ["u", "v"]}
COLUMNS = {
    "missing cells": Columns(SPECS, bins=5),
    "complete columns": Columns(SPECS, bins=5, complete=["a", "b", "c", "d"]),
    "one complete": Columns(SPECS, bins=4, complete=["c"]),
    "interactions": Columns(SPECS, bins=3, interactions=[("a", "b"), ("c", "d")]),
}


def _codes(columns, count=500, seed=0):
    """Random rows, some of them with missing cells and categories that are not listed."""
    draw = np.random.default_rng(seed)
    cells = np.empty((count, 4), object)
    cells[:, 0], cells[:, 2] = draw.uniform(0, 10, count), draw.uniform(-1, 1, count)
    cells[:, 1], cells[:, 3] = draw.choice(list("xyzw"), count), draw.choice(list("uvw"), count)
    cells[:4, 0] = [0.0, 10.0, 5.0, 2.5]
    cells[draw.random((count, 4)) < 0.2] = None
    return columns.codes(cells)


def _rows(features, columns, **given):
    return np.asarray(features(_codes(columns, **given)), np.float64)


def _features(name, is_additive=True, has_constant=True):
    found = ColumnFeatures(COLUMNS[name], is_additive)
    return WithConstant(found, 1.0) if has_constant else found


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("is_additive", [True, False])
@pytest.mark.parametrize("has_constant", [True, False])
def test_rows_differ_in_no_direction_beyond_the_basis(name, is_additive, has_constant):
    features = _features(name, is_additive, has_constant)
    structure = Structure.of(features)
    rows = _rows(features, COLUMNS[name])
    if name == "complete columns":
        # A cell that is missing in a complete column counts as nothing: such rows are not normal.
        codes = np.nan_to_num(_codes(COLUMNS[name]))
        is_whole = (codes >= 0).all(axis=1) & (codes[:, [1]] < 3).all(axis=1)
        rows = rows[is_whole & (codes[:, 3] < 2)]
    elif name == "one complete":
        rows = rows[_codes(COLUMNS[name])[:, 2] >= 0]
    seen = np.linalg.matrix_rank(rows, tol=1e-4)
    assert len(structure.basis) == seen
    # What the basis does not see, no row has.
    back = np.linalg.pinv(structure.basis) @ structure.basis
    np.testing.assert_allclose(rows @ back.T, rows, atol=1e-5)


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("is_additive", [True, False])
def test_no_row_is_longer_than_the_bound_in_the_basis(name, is_additive):
    features = _features(name, is_additive)
    structure = Structure.of(features)
    rows = _rows(features, COLUMNS[name], count=2000) / features.norm_bound
    lengths = np.linalg.norm(rows @ structure.basis.T, axis=1)
    assert lengths.max() <= structure.bound * (1 + 1e-6)
    # Rows at the ends of ranges are near it: a bound without bends would not do.
    if is_additive and name == "complete columns":
        assert lengths.max() > 0.9 * structure.bound


def test_a_hat_counts_half_beside_the_line():
    """One column of numbers: a row at a knot has the length of its place and of one bend."""
    columns = Columns({"a": (0, 10)}, bins=5, complete=["a"])
    found = ColumnFeatures(columns, True).metric(_BEND)
    rows = np.eye(5)
    places = np.linspace(-1, 1, 5)
    np.testing.assert_allclose(np.diag(rows @ found @ rows.T), places**2 + 0.25)
    # A line from -1 to 1 with its bend is more than any zigzag of the same size.
    zigzag = np.array([1, -1, 1, -1, 1.0])
    assert places @ found @ places > 3 * (zigzag @ found @ zigzag) / 2


def _own_rows(name):
    """Rows of additive features and of linear ones, of the same cells."""
    codes = _codes(COLUMNS[name])
    whole = {"complete columns": [0, 1, 2, 3], "one complete": [2]}.get(name, [])
    is_in = np.ones(len(codes), bool)
    for at in whole:
        most = {1: 3, 3: 2}.get(at, 2)
        is_in &= (codes[:, at] >= 0) & (codes[:, at] < most)
    return [
        np.asarray(_features(name, is_additive)(codes[is_in]), np.float64)
        for is_additive in (True, False)
    ]


@pytest.mark.parametrize("name", ["missing cells", "complete columns", "one complete"])
def test_lines_are_the_linear_features_of_the_same_rows(name):
    lines = Structure.of(_features(name), tests_curves=True).lines
    basis = Structure.of(_features(name)).basis
    additive, linear = _own_rows(name)
    # Functions of the coordinates A x of lines give all linear features.
    seen = additive @ basis.T @ lines.rows.T
    np.testing.assert_allclose(seen @ lines.values.T, linear, atol=1e-5)
    # Weights of additive features that are a line are those of the linear ones.
    draw = np.random.default_rng(1)
    inner = draw.normal(size=len(lines.rows))
    weights = basis.T @ lines.rows.T @ inner
    np.testing.assert_allclose(linear @ (lines.weights @ weights), additive @ weights, atol=1e-5)
    # A curve is none.
    bent = draw.normal(size=additive.shape[1])
    assert np.abs(linear @ (lines.weights @ bent) - additive @ bent).max() > 0.1


@pytest.mark.parametrize("name", ["missing cells", "complete columns"])
def test_functions_in_the_test_of_curves_have_all_lines_and_smooth_bends(name):
    structure = Structure.of(_features(name), tests_curves=True)
    lines = structure.lines
    for degree, curves in zip((4, 2), lines.curves, strict=True):
        np.testing.assert_allclose(curves @ curves.T, np.eye(len(curves)), atol=1e-9)
        np.testing.assert_allclose(lines.rows @ curves.T @ curves, lines.rows, atol=1e-7)
        assert len(curves) == len(lines.rows) + 2 * (degree - 1)
    # A parabola of the first column, by its values at the knots, is among them.
    places = np.nan_to_num(ColumnFeatures(COLUMNS[name], True).places)
    owner = ColumnFeatures(COLUMNS[name], True).owner
    parabola = np.append(np.where(owner == 0, places**2, 0.0), 0.0)
    inside = np.linalg.pinv(structure.basis.T) @ parabola
    for curves, has_it in ((lines.curves[1], True), (lines.rows, False)):
        gap = np.linalg.norm(inside - curves.T @ (curves @ inside)) / np.linalg.norm(inside)
        assert (gap < 1e-6) == has_it


def test_lines_are_described_only_if_they_are_asked_for_and_there_are_curves():
    assert Structure.of(_features("missing cells")).lines is None
    assert Structure.of(_features("missing cells", False), True).lines is None
    assert Structure.of(_features("missing cells", True, False), True).lines is None
    texts = WithConstant(ColumnFeatures(Columns({"b": ["x", "y"]}), True), 1.0)
    assert Structure.of(texts, True).lines is None
    other = Structure.of(ClippedFeatures(IdentityFeatures(3), 1.0), True)
    assert (other.groups, other.constant, other.bound, other.lines) == ((), 0.0, 1.0, None)
    np.testing.assert_array_equal(other.basis, np.eye(3))
