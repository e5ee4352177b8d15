"""Tables that are checked, centred and scaled on the host in float64, without privacy."""

from typing import Any, NamedTuple

import numpy as np

from jaxdp.core.checks import host_array, require_host, require_real, require_scalar

LARGEST_VALUE = 1e100  # squares of larger numbers may overflow float64


class Table(NamedTuple):
    """Centred inputs, whose covariance has trace dim, and centred labels, in float64."""

    inputs: np.ndarray
    labels: np.ndarray
    input_means: np.ndarray
    label_mean: float
    scale: float  # factor of the inputs minus their means


def standardise(inputs: Any, labels: Any) -> Table:
    """Check a table, centre it and scale its inputs by one number."""
    inputs, labels = host_array("inputs", inputs), host_array("labels", labels)
    if inputs.ndim != 2 or labels.shape != inputs.shape[:1]:
        raise ValueError(
            "expected inputs of shape (rows, dim) and labels of shape (rows,), "
            f"got {inputs.shape} and {labels.shape}"
        )
    rows, dim = inputs.shape
    if dim == 0:
        raise ValueError("expected at least one input column, got none")
    for name, values in (("inputs", inputs), ("labels", labels)):
        bad = np.count_nonzero(~(np.abs(values) < LARGEST_VALUE))
        if bad:
            raise ValueError(
                f"expected finite {name}, got {bad} missing, infinite or larger than "
                f"{LARGEST_VALUE:g}"
            )
    # Each half of the rows must determine a least-squares solution.
    if rows < 2 * (dim + 2):
        raise ValueError(
            f"expected at least {2 * (dim + 2)} rows for {dim} columns, got {rows}: use more rows "
            "or fewer columns"
        )
    constant = np.flatnonzero(inputs.max(axis=0) == inputs.min(axis=0))
    if constant.size:
        raise ValueError(
            f"expected columns that vary, got {constant.size} constant ones (number "
            f"{', '.join(map(str, constant[:5]))}{', ...' if constant.size > 5 else ''}): drop them"
        )
    if labels.max() == labels.min():
        raise ValueError("expected labels that vary, got a constant")
    input_means, label_mean = inputs.mean(axis=0), float(labels.mean())
    centred = inputs - input_means
    scale = float(np.sqrt(rows * dim / np.sum(centred**2)))
    return Table(scale * centred, labels - label_mean, input_means, label_mean, scale)


class ColumnScaling(NamedTuple):
    """Columns minus `means`, times `factors`: statistics of training rows, without privacy."""

    means: np.ndarray
    factors: np.ndarray

    def __call__(self, rows: Any) -> np.ndarray:
        """The rows scaled, in their own precision."""
        require_real("rows", rows)
        rows = np.asarray(rows)
        dtype = rows.dtype if rows.dtype.kind == "f" else np.float64
        return ((rows - self.means) * self.factors).astype(dtype)


def column_scaling(rows: Any, *, floor: float = 0.1) -> ColumnScaling:
    """Return a scaling of each column to mean 0 and variance 1, with a bound on its factors.

    A constant column becomes 0 on all rows; one with a small standard deviation is divided by the
    floor.

    Args:
        rows: training rows, (rows, columns), finite.
        floor: least divisor, as a share of the columns' root mean square deviation, >= 0.

    Returns:
        A function of rows, with the training rows' `means` and `factors`.

    Raises:
        ValueError: the rows are not a table, or the floor is negative or not finite.

    Example:
        >>> import numpy as np
        >>> from jaxdp.data import column_scaling
        >>> scaled = column_scaling(np.array([[1.0, 5.0], [3.0, 5.0]]))
        >>> scaled(np.array([[2.0, 5.0], [4.0, 7.0]])).round(3).tolist()
        [[0.0, 0.0], [2.0, 0.0]]
    """
    require_host("floor", floor)
    require_scalar("floor", floor)
    if not 0 <= floor < np.inf:
        raise ValueError(f"expected a finite floor >= 0, got {floor}")
    require_host("rows", rows)
    require_real("rows", rows)
    rows = np.asarray(rows)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"expected rows of shape (rows, columns), got {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError("expected finite rows, got NaN or infinite entries")
    deviations = rows.std(axis=0, dtype=np.float64)
    varies = rows.max(axis=0) > rows.min(axis=0)
    divisors = np.maximum(deviations, floor * np.sqrt(np.mean(deviations**2)))
    factors = np.divide(1.0, divisors, out=np.zeros(len(divisors)), where=varies)
    return ColumnScaling(rows.mean(axis=0, dtype=np.float64), factors)
