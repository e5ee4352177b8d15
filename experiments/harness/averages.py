"""Averages over independent runs, with the error of the mean."""

import numpy as np
import xarray
from jaxtyping import ArrayLike


def over_runs(runs: ArrayLike) -> dict[str, np.ndarray]:
    """Mean, standard deviation and standard error of the mean along the leading axis (ddof 1)."""
    values = np.asarray(runs, np.float64)
    std = values.std(axis=0, ddof=1)
    return {"mean": values.mean(axis=0), "std": std, "standard_error": std / len(values) ** 0.5}


def standard_error(values: xarray.DataArray, axis: str) -> xarray.DataArray:
    """Standard error of the mean along an axis of independent runs (ddof 1); NaN is no run."""
    return values.std(axis, ddof=1) / values.count(axis) ** 0.5
