"""What the estimators share: data as scikit-learn checks them, and the learner's arguments."""

import math
import warnings
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted, validate_data

from jaxdp.kernels import (
    AbstractFeatureMap,
    AbstractKernel,
    Gaussian,
    RangedKernel,
    RangeScaling,
)

# Published with every release; not a number that somebody would choose as a secret.
PUBLIC_SEED = 20_220_501


def training_data(
    estimator: Any, X: Any, y: Any, *, y_numeric: bool
) -> tuple[Float[np.ndarray, "n dim"], np.ndarray]:
    """As scikit-learn checks them; the number and the names of the columns are noted."""
    checked: Any = validate_data(
        estimator, X, y, dtype=np.float64, y_numeric=y_numeric, ensure_min_samples=2
    )
    inputs, labels = checked
    return inputs, labels


def kernel_of(estimator: Any, dim: int) -> AbstractKernel:
    """The estimator's kernel on its inputs; every choice in it is free of the data."""
    radius, given, kernel = estimator.input_bound, estimator.input_range, estimator.kernel
    if radius is not None and given is not None:
        raise ValueError("expected input_bound or input_range, got both")
    if kernel is None:
        kernel = Gaussian(math.sqrt(dim) if radius is None else radius)
    if given is None:
        return kernel
    return RangedKernel(kernel, *_ranges(given, dim))


def feature_map_of(estimator: Any) -> AbstractFeatureMap | None:
    """The estimator's feature map, where it has one, of inputs in the given ranges."""
    given, features = estimator.input_range, estimator.feature_map
    if given is None or features is None:
        return features
    return RangeScaling(features, *_ranges(given, features.dim))


def _ranges(given: tuple[Any, Any], dim: int) -> list[np.ndarray]:
    """Both ends of the range of every column."""
    return [np.broadcast_to(np.asarray(end, np.float64), (dim,)) for end in given]


def budget_and_seeds(estimator: Any) -> dict[str, Any]:
    """The keywords of every learner's fit."""
    secret = estimator.random_state
    if secret is not None:
        if isinstance(secret, bool) or not isinstance(secret, (int, np.integer)):
            raise TypeError(
                "expected random_state to be None (noise from the operating system) or an int, "
                f"got {type(secret).__name__}"
            )
        warnings.warn(
            "random_state must stay secret: whoever knows it can take the noise off the release",
            UserWarning,
            stacklevel=3,
        )
    return {
        "epsilon": estimator.epsilon,
        "delta": estimator.delta,
        "public_seed": estimator.public_seed,
        "noise_seed": secret,
    }


def values_of(estimator: Any, X: Any) -> Float[np.ndarray, " m"]:
    """The released function at new inputs, which must be like those of the fit."""
    check_is_fitted(estimator)
    inputs = validate_data(estimator, X, dtype=np.float64, reset=False)
    return np.asarray(estimator.release_(inputs), np.float64)
