"""Public facts about the features of a linear function: coordinates, groups, and lines."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from jaxdp.kernels.base import AbstractFeatureMap
from jaxdp.regression.columns import ColumnFeatures
from jaxdp.regression.features import WithConstant

# Degrees of the smoothest curves, which tell whether curves are better than lines.
_DEGREES = 4, 2
_BEND = 0.5  # length of a hat, beside lines and categories of length one


class Group(NamedTuple):
    """Features of one column, by index; or all lines and cells for missing numbers."""

    cells: Int[np.ndarray, " cells"]
    is_ordered: bool  # hats, in the order of their knots
    is_whole: bool  # whether they sum to 1 at every row
    is_line: Bool[np.ndarray, " cells"]  # places in ranges, of which all rows tell


class Lines(NamedTuple):
    """The functions without bends among those of additive features."""

    features: AbstractFeatureMap  # linear ones, of the same functions
    structure: "Structure"  # of these
    values: Float[np.ndarray, "lines functions"]  # of linear features, from those of `rows` A x
    weights: Float[np.ndarray, "lines features"]  # of linear features, from those of the features
    rows: Float[np.ndarray, "functions modes"]  # these functions, in coordinates A x
    curves: tuple[Float[np.ndarray, "functions modes"], ...]  # with those of low degree


class Structure(NamedTuple):
    """Public facts about the features of any row.

    Attributes:
        basis: A; in coordinates A x rows differ in all directions.
        groups: features of columns; without columns none.
        constant: value of the last feature if it is constant, else 0.
        bound: largest |A x| of a row x of norm one.
        unit: value of a cell in such a row.
        lines: functions without bends, if curves are wanted only if they are better.
    """

    basis: Float[np.ndarray, "modes features"]
    groups: tuple[Group, ...] = ()
    constant: float = 0.0
    bound: float = 1.0
    unit: float = 1.0
    lines: Lines | None = None

    @classmethod
    def of(cls, features: AbstractFeatureMap, tests_curves: bool = False) -> "Structure":
        """The structure of a feature map, which reads no record.

        With `tests_curves` the lines among additive features are described too.
        """
        size, constant, base = features.num_outputs, 0.0, features
        if isinstance(features, WithConstant):
            constant, base = features.constant, features.base
        if not isinstance(base, ColumnFeatures):
            return cls(np.eye(size), (), constant)
        basis, bound = _directions(base, size, constant), 1.0
        numbers = np.array(base.columns.is_number)
        if base.is_additive:
            # A hat counts little beside the line through all of them: what bends, bends little.
            metric = np.eye(size)
            metric[: base.num_outputs, : base.num_outputs] = base.metric(_BEND)
            # The root of the metric among directions in which rows differ.
            values, vectors = np.linalg.eigh(basis @ metric @ basis.T)
            basis = (vectors * np.sqrt(values)) @ vectors.T @ basis
            bound = math.sqrt(1 + numbers.sum() * _BEND**2 / features.norm_bound**2)
        groups = [
            Group(cells, bool(numbers[base.owner[cells[0]]]), True, np.zeros(len(cells), bool))
            for cells in base.groups
        ]
        others = set(range(len(base.owner))).difference(*(group.cells for group in groups))
        if others:
            cells = np.array(sorted(others))
            groups.append(Group(cells, False, False, base.is_line[cells]))
        found = cls(basis, tuple(groups), constant, bound, 1 / features.norm_bound)
        if base.is_additive and tests_curves and numbers.any() and constant:
            found = found._replace(lines=_lines(base, basis, constant))
        return found


def _directions(
    base: ColumnFeatures, size: int, constant: float
) -> Float[np.ndarray, "modes features"]:
    """Orthonormal directions in which rows differ: features of a column sum to the constant."""
    sums = [*((cells, None) for cells in base.groups), *base.sums]
    null = np.zeros((len(sums), size))
    for row, (cells, total) in zip(null, sums, strict=True):
        row[cells] = 1.0
        if total is not None:
            row[total] = -1.0
        elif constant:
            row[-1] = -1 / constant
    if not constant:
        # All columns sum to the same number.
        null[: len(base.groups)] -= null[:1]
    if not np.any(null):
        return np.eye(size)
    _, sizes, vectors = np.linalg.svd(null)
    return vectors[int(np.sum(sizes > 1e-9 * sizes[0])) :]


def _lines(base: ColumnFeatures, basis: Float[np.ndarray, "modes features"], constant) -> Lines:
    linear = WithConstant(ColumnFeatures(base.columns, False), constant)
    places, owner = base.places, base.owner
    is_hat = np.isfinite(places)
    numbers = np.unique(owner[is_hat])

    def curve(at, degree):
        own = np.polynomial.legendre.legval(places, np.eye(degree + 1)[degree])
        return np.where(is_hat & (owner == at), own, 0.0)

    others = np.eye(len(owner))[~is_hat]
    columns = np.append(owner[~is_hat], numbers)
    # In the order of the linear features: a line before the cell for missing values.
    values = np.vstack([others, [curve(at, 1) for at in numbers]])
    order = np.lexsort((np.arange(len(columns)) < len(others), columns))
    whole = np.zeros((linear.num_outputs, basis.shape[1]))
    whole[:-1, : len(owner)] = values[order]
    whole[-1, -1] = 1.0
    # A function of weights w is pinv(A') w in coordinates A x.
    back = np.linalg.pinv(basis.T)

    def span(weights):
        turned, sizes, _ = np.linalg.svd(back @ weights, full_matrices=False)
        return turned[:, sizes > 1e-6 * sizes[0]].T

    def with_bends(degree):
        bent = np.zeros((len(numbers) * (degree - 1), basis.shape[1]))
        bent[:, : len(owner)] = [curve(at, d) for at in numbers for d in range(2, degree + 1)]
        return span(np.vstack([whole, bent]).T)

    weights = np.linalg.pinv(back @ whole.T, rcond=1e-9) @ back
    curves = tuple(with_bends(degree) for degree in _DEGREES)
    rows = span(whole.T)
    # Rows differ only where A sees them: x = pinv(A) A x.
    values = whole @ np.linalg.pinv(basis) @ rows.T
    return Lines(linear, Structure.of(linear), values, weights, rows, curves)
