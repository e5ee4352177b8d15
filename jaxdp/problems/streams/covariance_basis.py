"""The eigenbasis of a table's covariance, and least squares in it.

It runs once, on the host, in float64, and reads the table without privacy.
"""

from typing import NamedTuple

import numpy as np

from jaxdp.data.standardisation import Table

# Directions with less than this share of the largest variance carry rounding, not data.
_RANK_TOLERANCE = 1e-10


class CovarianceBasis(NamedTuple):
    """Eigenvalues of the covariance, its eigenvectors in columns, and least squares therein."""

    spectrum: np.ndarray
    rotation: np.ndarray
    solution: np.ndarray


def covariance_basis(table: Table) -> CovarianceBasis:
    """Eigendecomposition of the inputs' covariance and the least-squares solution in that basis.

    Directions without variance get eigenvalue 0 and coefficient 0.
    """
    rows, dim = table.inputs.shape
    values, rotation = np.linalg.eigh(table.inputs.T @ table.inputs / rows)
    values, rotation = values[::-1], rotation[:, ::-1]
    values = np.where(values > _RANK_TOLERANCE * values[0], values, 0.0)
    values *= dim / values.sum()
    correlation = rotation.T @ (table.inputs.T @ table.labels) / rows
    solution = np.divide(correlation, values, out=np.zeros(dim), where=values > 0)
    return CovarianceBasis(values, rotation, solution)
