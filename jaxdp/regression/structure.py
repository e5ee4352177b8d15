"""Public facts about the features of a linear function: sums that are constant, and a prior."""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from jaxdp.kernels.base import AbstractFeatureMap
from jaxdp.regression.columns import ColumnFeatures
from jaxdp.regression.features import WithConstant

_DEGREES = 4, 2  # of the smoothest bends
_BEND = 0.5  # length of a hat, beside lines and categories of length one


class Group(NamedTuple):
    """Features of one column, by index."""

    cells: Int[np.ndarray, " cells"]
    is_ordered: bool  # hats, in the order of their knots
    is_whole: bool  # whether they sum to 1 at every row


class Structure(NamedTuple):
    """What is public about the features of any row.

    Attributes:
        basis: rows span the directions in which features differ.
        groups: features of columns; without columns none.
        constant: value of the last feature if it is constant, else 0.
        num_features: number of features.
        lines: rows span the functions without bends, in coordinates A x; None if all are wanted.
        bound: largest |A x| of a row x of norm one, with A the basis.
    """

    basis: Float[np.ndarray, "modes features"]
    groups: tuple[Group, ...]
    constant: float
    num_features: int
    bound: float = 1.0
    lines: Float[np.ndarray, "lines modes"] | None = None
    smooth: Any = ()

    @classmethod
    def of(cls, features: AbstractFeatureMap, is_tested: bool = False) -> "Structure":
        """The structure of a feature map, which reads no record.

        `is_tested` says that curves are wanted only if they are better than lines.
        """
        size, constant, base = features.num_outputs, 0.0, features
        if isinstance(features, WithConstant):
            constant, base = features.constant, features.base
        if not isinstance(base, ColumnFeatures):
            return cls(np.eye(size), (), constant, size)
        sums = [(cells, None) for cells in base.groups] + base.sums
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
        basis = np.eye(size)
        if np.any(null):
            _, sizes, vectors = np.linalg.svd(null)
            basis = vectors[int(np.sum(sizes > 1e-9 * sizes[0])) :]
        if base.is_additive:
            # A hat counts little beside the line through all of them: what bends, bends little.
            metric = np.eye(size)
            metric[: base.num_outputs, : base.num_outputs] = base.metric(_BEND)
            # The root of the metric among directions in which rows differ.
            values, vectors = np.linalg.eigh(basis @ metric @ basis.T)
            basis = (vectors * np.sqrt(values)) @ vectors.T @ basis
        numbers = base.columns.is_number
        groups = [Group(cells, numbers[base.owner[cells[0]]], True) for cells in base.groups]
        others = set(range(len(base.owner))).difference(*(group.cells for group in groups))
        if others:
            groups.append(Group(np.array(sorted(others)), False, False))
        bound = 1.0
        if base.is_additive:
            bound = math.sqrt(1 + sum(numbers) * _BEND**2 / features.norm_bound**2)
        lines, smooth = None, ()
        if base.is_additive and is_tested and any(numbers):
            lines, *smooth = (_span(basis, base, degree, constant) for degree in (1, *_DEGREES))
        return cls(basis, tuple(groups), constant, size, bound, lines, smooth)


def _span(basis, base, degree, constant):
    """Rows that span functions of low degree in each column, in coordinates A x."""
    own = base.polynomials(degree)
    weights = np.zeros((basis.shape[1], own.shape[1] + 1))
    weights[: len(own), :-1] = own
    weights[-1, -1] = constant
    # Weights w are the function z w of a row: in coordinates A x it is pinv(A') w.
    turned, sizes, _ = np.linalg.svd(np.linalg.pinv(basis.T) @ weights, full_matrices=False)
    return turned[:, sizes > 1e-6 * sizes[0]].T
