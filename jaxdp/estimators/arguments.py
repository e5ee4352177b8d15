"""What the estimators share: data as scikit-learn checks them, and the learner's arguments."""

import dataclasses
import math
import reprlib
import warnings
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted, validate_data

from jaxdp.core.checks import host_number, require_positive
from jaxdp.estimators.earlier_steps import learnt_steps
from jaxdp.kernels import (
    AbstractFeatureMap,
    AbstractKernel,
    Columns,
    Gaussian,
    RangedKernel,
    RangeScaling,
    ReleasedFunction,
)
from jaxdp.kernels.base import require_feature_map, require_kernel
from jaxdp.kernels.features.public_features import is_placed
from jaxdp.kernels.release.fit_arguments import check_seeds
from jaxdp.kernels.release.table_inputs import require_no_text

# Published with every release; not a number that somebody would choose as a secret.
PUBLIC_SEED = 20_220_501


def training_data(
    estimator: Any, X: Any, y: Any, *, y_numeric: bool
) -> tuple[Float[np.ndarray, "n dim"], np.ndarray]:
    """As scikit-learn checks them; the number and the names of the columns are noted.

    Raises:
        TypeError: a column of the inputs is text; it is named.
    """
    require_no_text("X", X)
    checked: Any = validate_data(
        estimator, X, y, dtype=np.float64, y_numeric=y_numeric, ensure_min_samples=2
    )
    inputs, labels = checked
    return inputs, labels


def warn_before_data(estimator: Any) -> tuple[str, ...]:
    """Warnings of a fit that depend on no data, and what its guarantee needs beyond the usual.

    One where nothing says where the inputs lie, and one where a step of a Pipeline before the
    estimator learns from the records.
    """
    name = type(estimator).__name__
    given = estimator.input_bound is not None or estimator.input_range is not None
    if not given and not is_placed(estimator.kernel, estimator.feature_map):
        warnings.warn(
            f"{name} is given no input_range or input_bound, and on columns whose scale is not the "
            "kernel's what is released is noise: give the public ranges of the columns, "
            "input_range=(low, high), or input_bound=math.inf where public numbers have scaled "
            "them already",
            UserWarning,
            stacklevel=3,
        )
    steps = learnt_steps()
    if not steps:
        return ()
    learnt = ", ".join(steps)
    warnings.warn(
        f"{learnt} before {name} learns from the records, so that one of them changes the inputs "
        "of all others, and the whole is not private: scale by input_range, or freeze what was "
        "fitted to public data (sklearn.frozen.FrozenEstimator)",
        UserWarning,
        stacklevel=3,
    )
    return (f"what {learnt} learnt before the private fit came from public data alone",)


def completed(
    release: ReleasedFunction, columns: Columns | None, needed: tuple[str, ...]
) -> ReleasedFunction:
    """The release with the names of the columns and what else its guarantee needs."""
    statement = release.statement
    assumptions = (*statement.assumptions, *needed)
    return dataclasses.replace(
        release,
        statement=dataclasses.replace(statement, assumptions=assumptions),
        columns=columns,
    )


def learner_bound(estimator: Any) -> float:
    """The learner's input bound: infinite where none is given, of which the estimator warns."""
    return math.inf if estimator.input_bound is None else estimator.input_bound


def kernel_of(estimator: Any, dim: int) -> AbstractKernel:
    """The estimator's kernel on its inputs; every choice in it is free of the data.

    Raises:
        ValueError, TypeError: it, the bound or the ranges are not as described.
    """
    radius, given, kernel = estimator.input_bound, estimator.input_range, estimator.kernel
    if radius is not None and given is not None:
        raise ValueError("expected input_bound or input_range, got both")
    if radius is not None:
        _check_bound(radius)
    if kernel is None:
        is_scale = radius is not None and math.isfinite(radius)
        kernel = Gaussian(radius if is_scale else math.sqrt(dim))
    if given is None:
        return kernel
    require_kernel(kernel)
    return RangedKernel(kernel, *_ranges(given, dim))


def feature_map_of(estimator: Any) -> AbstractFeatureMap | None:
    """The estimator's feature map, where it has one, of inputs in the given ranges."""
    given, features = estimator.input_range, estimator.feature_map
    if given is None or features is None:
        return features
    require_feature_map("feature_map", features)
    return RangeScaling(features, *_ranges(given, features.dim))


def _check_bound(radius: Any) -> None:
    # Here, because the default kernel takes it for its scale and would call it by that name.
    require_positive("input_bound", host_number("input_bound", radius), infinite=True)


def _ranges(given: Any, dim: int) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, " dim"]]:
    """Both ends of the range of every column.

    Raises:
        TypeError: it is no pair, or not of numbers.
        ValueError: an end has another number of columns, or a range is empty.
    """
    expected = (
        "expected input_range to be (low, high), each a number or one for each of the "
        f"{dim} columns"
    )
    is_sequence = isinstance(given, (tuple, list)) or np.ndim(given) > 0
    if not is_sequence or len(given) != 2:
        raise TypeError(f"{expected}, got {reprlib.repr(given)}")
    low, high = (_of_columns(end, dim, expected) for end in given)
    if not (np.isfinite(low) & np.isfinite(high)).all():
        raise ValueError(f"expected finite numbers in input_range, got {reprlib.repr(given)}")
    if not (low < high).all():
        column = int((low < high).argmin())
        raise ValueError(
            f"expected input_range with low < high, got {low[column]} and {high[column]} in "
            f"column {column}"
        )
    return low, high


def _of_columns(end: Any, dim: int, expected: str) -> Float[np.ndarray, " dim"]:
    try:
        numbers = np.asarray(end)
        if numbers.dtype.kind in "US":
            raise TypeError
        return np.broadcast_to(numbers.astype(np.float64), (dim,))
    except (TypeError, ValueError) as error:
        raise type(error)(f"{expected}, got {reprlib.repr(end)}") from None


def budget_and_seeds(estimator: Any) -> dict[str, Any]:
    """The keywords of every learner's fit.

    Raises:
        TypeError: a seed is neither None nor an int.
        ValueError: one is out of its range, or they are the same.
    """
    public = PUBLIC_SEED if estimator.random_state is None else estimator.random_state
    check_seeds(public, estimator.noise_seed, public_name="random_state")
    return {
        "epsilon": estimator.epsilon,
        "delta": estimator.delta,
        "public_seed": public,
        "noise_seed": estimator.noise_seed,
    }


def values_of(estimator: Any, X: Any) -> Float[np.ndarray, "m ..."]:
    """The released function at new inputs, which must be like those of the fit."""
    check_is_fitted(estimator)
    inputs = validate_data(estimator, X, dtype=np.float64, reset=False)
    return np.asarray(estimator.release_(inputs), np.float64)
