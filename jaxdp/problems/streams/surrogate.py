r"""A table's Gaussian or elliptical surrogate: covariance and scales of its rows, not private.

Scales are estimated from the rows' lengths. In units of the table's own covariance a row $x = \sqrt
s\,\Sigma^{1/2} g$ has the square $q = x^\top\Sigma^{-1}x = s\,\chi^2_d$. The distribution of s is
the one that makes the observed q most likely, on a few fixed values, by expectation-maximisation
(the nonparametric maximum likelihood of Kiefer and Wolfowitz, 1956). Each q is taken in the
covariance of all *other* rows, because its own row would reduce it.

Mean error of the predicted final risk on synthetic tables (8, 50 and 300 columns, 1000 and 20,000
rows, five distributions of s, three settings of rate, clip and privacy):

| values of s | mean | largest |
|---|---|---|
| twelve | 1.3 % | 7.1 %, of which 6.4 % are due to the table's own rows |
| eight, sixteen | 2.2 %, 1.3 % | |
| bins of rows, without deconvolution | 7.1 % | 26 % |
| Gaussian surrogate | | 57 % |

Derived: test_scale_estimate.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from jaxdp.data.standardisation import Table
from jaxdp.problems.streams.input_scales import InputScales

# Directions with less than this share of the largest variance carry rounding, not data.
_RANK_TOLERANCE = 1e-10
_NUM_VALUES = 12
# The values span the range between these quantiles of the rows' squares.
_ENDS = (0.002, 0.998)
# The row at the mean has a square of zero, which is not a scale.
_SMALLEST_SHARE = 1e-6
# Most groups of neighbouring squares, which are averaged.
_NUM_GROUPS, _NUM_ITERATIONS = 400, 300
# Largest leverage, of a row that alone spans a direction.
_LARGEST_LEVERAGE = 1 - 1e-6


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


def estimated_scales(whitened: Float[np.ndarray, "rows rank"]) -> InputScales:
    """The most likely distribution of the scale, from centred rows with identity covariance."""
    rows, rank = whitened.shape
    leverage = np.minimum(np.sum(whitened**2, axis=1) / rows, _LARGEST_LEVERAGE)
    # x' S^-1 x with S of the other rows, up to a constant factor.
    squares = np.sort(leverage / (1 - leverage))
    # Without interpolation, so that no row far from all others sets an end.
    low, high = np.quantile(squares, _ENDS, method="lower")
    values = np.geomspace(max(low, _SMALLEST_SHARE * high), high, _NUM_VALUES)
    groups = np.array_split(squares, min(_NUM_GROUPS, rows))
    counts = np.array([len(group) for group in groups]) / rows
    means = np.array([group.mean() for group in groups])
    # The estimated covariance adds its spread to the chi-square's.
    degrees = rank * (1 - rank / rows)
    weights = _most_likely(values, means, counts, degrees)
    return InputScales(values / (values @ weights), weights)


def _most_likely(values, squares, counts, degrees) -> Float[np.ndarray, " values"]:
    """Probabilities of the values, by expectation-maximisation."""
    logs = -degrees / 2 * (np.log(values)[None] + squares[:, None] / values[None])
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights = np.full(len(values), 1 / len(values))
    for _ in range(_NUM_ITERATIONS):
        shares = likelihood * weights
        weights = counts @ (shares / shares.sum(axis=1, keepdims=True))
    return weights / weights.sum()
