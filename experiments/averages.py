"""Averages over independent runs, with the error of the mean."""

import numpy as np
from jaxtyping import ArrayLike


def over_runs(runs: ArrayLike) -> dict[str, np.ndarray]:
    """Mean, standard deviation and standard error of the mean along the leading axis (ddof 1)."""
    values = np.asarray(runs, np.float64)
    std = values.std(axis=0, ddof=1)
    return {"mean": values.mean(axis=0), "std": std, "standard_error": std / len(values) ** 0.5}
