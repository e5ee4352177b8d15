"""Shared parts of the estimators: the secret seed, checked data, the learners' arguments."""

import dataclasses
import math
import reprlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y, validate_data

from jaxdp.core.checks import (
    described,
    given_array,
    host_number,
    refuse_collections,
    require_count,
    require_positive,
    require_shape,
)
from jaxdp.kernels import ColumnNames, Gaussian, ReleasedFunction
from jaxdp.kernels.features.public_features import is_placed
from jaxdp.kernels.release.released_function import check_seeds
from jaxdp.kernels.release.tables import in_order, real_array
from jaxdp.privacy import AbstractBudget, GaussianDP, gaussian_epsilon
from jaxdp.privacy.budgets import budget_of

PUBLIC_SEED = 20_220_501  # published with every release
# A fit cannot see the steps before it, so every cost states this.
ROWS_ALONE = (
    "every row was made from its own record alone: everything learnt before the fit, by a step of "
    "a Pipeline or by hand (a scale, principal components, imputed values), came from public data"
)
_PERSONS = (
    "neighbours differ in all rows of one person, as groups name the persons; {count} of each "
    "person's rows are used, the first ones, repeated if there are fewer; the number of persons is "
    "public"
)


class _HiddenInt(int):
    """A whole number that is not printed."""

    def __repr__(self):
        return "<a seed>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)


@dataclasses.dataclass(eq=False, repr=False)
class PrivateEstimator:
    """The first base class of all estimators: their arguments, and a `noise_seed` not printed."""

    epsilon: float | AbstractBudget
    delta: float | None = None
    _: dataclasses.KW_ONLY
    rows_per_person: int = 1
    # A formatter of dataclasses would show it, though `repr` does not.
    noise_seed: int | None = dataclasses.field(default=None, repr=False)

    def get_params(self: Any, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name, for scikit-learn."""
        # scikit-learn prints these, and makes copies with them: hidden seeds stay as they are.
        params = BaseEstimator.get_params(self, deep=deep)
        seed = params["noise_seed"]
        if isinstance(seed, int) and not isinstance(seed, (bool, _HiddenInt)):
            params["noise_seed"] = _HiddenInt(seed)
        return params


def training_data(
    estimator: Any, X: Any, y: Any, *, y_numeric: bool
) -> tuple[Float[np.ndarray, "n dim"], np.ndarray, Sequence[str]]:
    """Inputs, labels and names of the columns, noted in the estimator as scikit-learn does."""
    # Numbers first: scikit-learn's errors show unreadable values.
    inputs = _real_rows(X)
    validate_data(estimator, X, skip_check_array=True)
    inputs, labels = rows_and_labels(estimator, inputs, y, y_numeric=y_numeric)
    names = getattr(X, "columns", range(inputs.shape[1]))
    return inputs, labels, [str(name) for name in names]


def rows_and_labels(
    estimator: Any, inputs: Any, y: Any, *, y_numeric: bool
) -> tuple[Float[np.ndarray, "n dim"], np.ndarray]:
    """Numeric inputs and as many labels, as scikit-learn checks them."""
    labels: Any = None
    if y is not None:
        labels = given_array("y", y)
        # NumPy may make texts of a list, such as "nan".
        refuse_missing_labels(np.asarray(y, object) if isinstance(y, list) else labels)
        labels = real_array("y", y) if y_numeric else labels
    if np.asarray(labels).dtype.kind == "c":
        raise ValueError("Complex data not supported: expected real or text labels y")
    return check_X_y(inputs, labels, ensure_min_samples=2, estimator=estimator)


def refuse_missing_labels(labels: np.ndarray) -> None:
    """Raise ValueError for labels that are NaN, None or NA."""
    if _has_missing(labels):
        raise ValueError(
            "expected labels without missing ones, but y contains NaN, None or NA: drop these "
            "rows, or fill in public values"
        )


def _has_missing(values: np.ndarray) -> bool:
    """Whether a value is masked, NaN, None, NaT or NA."""
    if values.dtype.kind in "fcmM":
        return bool(np.ma.is_masked(values) or np.isnan(values).any())
    # By name: pandas' NA cannot be compared.
    return np.ma.is_masked(values) or any(
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, (float, np.generic)) and value != value)
        for value in (values.ravel() if values.dtype == object else ())
    )


def rows_of_persons(estimator: Any, groups: Any, num_rows: int) -> Any:
    r"""Places of exactly k = `rows_per_person` rows of each person; all rows without `groups`.

    They are a person's first k rows, repeated in turn if there are fewer, in the order of the
    persons' first rows.

    *Proof.* A person's k rows depend on no other person's. So if all rows of one person are
    replaced by any other number of rows of another, who takes the same place in the order of the
    persons, k of the kP rows are replaced; the number P of persons is public. A learner that is
    $(\mu/k)$-GDP for one row is $\mu$-GDP for k of them (Dong, Roth and Su 2022, Theorem 2.14).
    """
    count = require_count("rows_per_person", estimator.rows_per_person)
    if groups is None:
        if count > 1:
            raise ValueError(
                f"expected groups, which name the person of each row, with rows_per_person={count}"
            )
        return slice(None)
    # NumPy would make texts of missing names in a list, and forget a mask.
    names = np.asarray(groups, object) if isinstance(groups, list) else np.ma.asanyarray(groups)
    if names.shape != (num_rows,):
        came = described(groups) if isinstance(groups, str) else f"shape {names.shape}"
        raise ValueError(
            f"expected groups to name the person of each of {num_rows} rows, got {came}"
        )
    # An empty text is a missing cell of a file that is read with keep_default_na=False.
    if _has_missing(names) or any(name == "" for name in names.tolist()):
        raise ValueError(
            "expected groups without missing names, but they contain masked ones, NaN, None, NA or "
            "empty texts: give each of these rows a person, or drop them"
        )
    rows: dict[Any, list[int]] = {}
    for place, name in enumerate(names.tolist()):
        known = rows.setdefault(name, [])
        if len(known) < count:
            known.append(place)
    return np.array([known[turn % len(known)] for known in rows.values() for turn in range(count)])


def row_budget(estimator: Any) -> AbstractBudget:
    """The budget of a row for which the rows of a person together keep the estimator's budget."""
    budget = budget_of(estimator.epsilon, estimator.delta)
    count = require_count("rows_per_person", estimator.rows_per_person)
    if count == 1:
        return budget
    delta = float(budget.stated[1])
    # Less by more than the conversions round.
    mu = float(budget.largest_mu) / count * (1 - 1e-9)
    # Epsilon may be 0 for a small mu.
    return budget_of(epsilon, delta) if (epsilon := gaussian_epsilon(mu, delta)) else GaussianDP(mu)


def require_one_row(estimator: Any) -> None:
    """Raise ValueError for several rows of a person; no proof covers them."""
    if require_count("rows_per_person", estimator.rows_per_person) > 1:
        raise ValueError(
            f"expected rows_per_person=1, got {estimator.rows_per_person}: no proof covers several "
            "rows of a person in objective perturbation"
        )


def refuse_keywords(given: Mapping[str, Any]) -> None:
    """Raise TypeError for further keywords of a fit; for weights with the reason."""
    if "sample_weight" in given:
        raise TypeError(
            "expected no sample_weight: a weight changes how far one record moves the sums, and "
            "the noise is calibrated to records that count alike"
        )
    if given:
        raise TypeError(f"expected no keywords besides X and y, got {', '.join(given)}")


def _real_rows(X: Any) -> Any:
    """The inputs in float64, two-dimensional."""
    if isinstance(X, list) and X and isinstance(X[0], Mapping):
        raise ValueError(
            "expected a data frame or rows X, got a list of dictionaries: pandas.DataFrame(X) "
            "makes a table of them"
        )
    if given_array("X", X).dtype.kind == "c":
        raise ValueError("Complex data not supported: expected real numbers X")
    inputs = np.asarray(real_array("X", X), np.float64)
    if inputs.ndim != 2:
        raise ValueError(
            f"expected X of shape (rows, columns), got {inputs.shape}. Reshape your data: "
            "X.reshape(-1, 1) makes one column, X.reshape(1, -1) one row"
        )
    if np.isnan(inputs).any():
        # scikit-learn would advise an estimator that is not private.
        raise ValueError(
            "expected finite numbers, but X contains NaN: fill missing values by public numbers, "
            "or use DPLinearRegression or DPLogisticRegression with columns="
            "jaxdp.regression.Columns(...), which have a place for missing values"
        )
    return inputs


def warn_without_range(estimator: Any) -> None:
    """Warn if no argument bounds the inputs; reads no data."""
    given = estimator.input_bound is not None or estimator.input_range is not None
    if not given and not is_placed(estimator.kernel, estimator.feature_map):
        warnings.warn(
            f"{type(estimator).__name__} is given no input_range or input_bound: the release is "
            "noise if the scale of the columns is not the kernel's. Give the public ranges of the "
            "columns, input_range=(low, high), or input_bound=math.inf if public numbers have "
            "scaled them already",
            UserWarning,
            stacklevel=3,
        )


def completed(
    estimator: Any, release: ReleasedFunction, columns: ColumnNames | None, groups: Any
) -> ReleasedFunction:
    """The release with its unit, the names of the columns, and the assumptions on its rows."""
    count = int(estimator.rows_per_person)
    stated, lines = release.statement.for_groups(count), (ROWS_ALONE,)
    if groups is not None:
        stated = dataclasses.replace(stated, records_per_person=count)
        lines = (*lines, _PERSONS.format(count=count))
    return dataclasses.replace(
        release,
        statement=dataclasses.replace(stated, assumptions=(*stated.assumptions, *lines)),
        columns=columns,
    )


def learner_arguments(estimator: Any, names: Sequence[str]) -> dict[str, Any]:
    """The shared arguments of the private kernel learners, chosen without the data."""
    radius, given, kernel = estimator.input_bound, estimator.input_range, estimator.kernel
    if radius is not None:
        # Here, as the default kernel would call it scale.
        require_positive("input_bound", host_number("input_bound", radius), infinite=True)
    if kernel is None:
        is_known = radius is not None and math.isfinite(radius)
        kernel = Gaussian(radius if is_known else math.sqrt(len(names)))
    return {
        "kernel": kernel,
        "num_projections": estimator.num_projections,
        "num_features": estimator.num_features,
        "ridge": estimator.ridge,
        "input_bound": math.inf if radius is None and given is None else radius,
        "input_range": None if given is None else ranges_of(given, names),
        "feature_map": estimator.feature_map,
    }


def ranges_of(
    given: Any, names: Sequence[str]
) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, " dim"]]:
    """The two ends of the range of every column, by name if they are labelled."""
    expected = (
        "expected input_range to be (low, high), each a number or one for each of the "
        f"{len(names)} columns"
    )
    is_array = hasattr(given, "shape") and not _is_labelled(given) and given.ndim > 0
    is_sequence = isinstance(given, (tuple, list)) or is_array
    if not is_sequence or len(given) != 2:
        raise TypeError(f"{expected}, got {_shown(given)}")
    low, high = (_of_columns(end, names, expected) for end in given)
    if not (np.isfinite(low) & np.isfinite(high)).all():
        raise ValueError(f"expected finite numbers in input_range, got {_shown(given)}")
    if not (low < high).all():
        column = int((low < high).argmin())
        raise ValueError(
            f"expected input_range with low < high, got {low[column]} and {high[column]} in "
            f"column {names[column]}"
        )
    are_lists = is_array or all(isinstance(end, (tuple, list)) for end in given)
    if are_lists and len(names) == 2 and low[0] < low[1] and high[0] < high[1]:
        raise ValueError(
            f"{expected}; {_shown(given)} may also be a range for each of two columns: give low "
            "and high as NumPy arrays, or by name"
        )
    return low, high


def _of_columns(end: Any, names: Sequence[str], expected: str) -> Float[np.ndarray, " dim"]:
    if _is_labelled(end) and getattr(end, "ndim", 1) == 1:
        series = end.to_series() if hasattr(end, "dims") else end
        labels = [str(label) for label, _ in series.items()]
        values = dict(zip(labels, [value for _, value in series.items()], strict=True))
        if len(values) == len(labels) and values.keys() >= set(names):
            end = [values[name] for name in names]
        # A series without labels has the numbers from 0.
        elif labels != [str(i) for i in range(len(names))]:
            raise ValueError(
                f"{expected}, by column names if it is labelled, got labels "
                f"{reprlib.repr(labels)} for columns {reprlib.repr(names)}"
            )
    refuse_collections("input_range", end)
    try:
        numbers = np.asarray(end)
        if numbers.dtype.kind in "US":
            raise TypeError
        return np.broadcast_to(numbers.astype(np.float64), (len(names),))
    except Exception as error:
        # Other libraries raise errors of many kinds.
        kind = ValueError if isinstance(error, ValueError) else TypeError
    raise kind(f"{expected}, got {_shown(end)}")


def _is_labelled(value: Any) -> bool:
    """Whether the entries have names: in a dictionary, a pandas series, an xarray array."""
    # Lists have a method index.
    has_index = not callable(getattr(value, "index", len))
    return isinstance(value, Mapping) or has_index or hasattr(value, "dims")


def _shown(given: Any) -> str:
    """Ranges in full, as they are public; arrays, which may be the records, only described."""
    return described(given) if hasattr(given, "shape") else reprlib.repr(given)


def budget_and_seeds(estimator: Any) -> dict[str, Any]:
    """The keywords of every learner's fit."""
    public = PUBLIC_SEED if estimator.random_state is None else estimator.random_state
    check_seeds(public, estimator.noise_seed, public_name="random_state")
    return {
        "epsilon": row_budget(estimator),
        "delta": None,
        "public_seed": public,
        "noise_seed": estimator.noise_seed,
    }


def values_of(estimator: Any, X: Any) -> Float[np.ndarray, "m ..."]:
    """The released function at new inputs, with the columns of the fit."""
    check_is_fitted(estimator)
    inputs = _real_rows(X)
    validate_data(estimator, X, skip_check_array=True, reset=False)
    ordered = in_order(X, estimator.release_.columns)
    if ordered is not X:
        inputs = _real_rows(ordered)
    inputs = check_array(inputs, input_name="X", estimator=estimator)
    return np.asarray(estimator.release_(inputs), np.float64)


def score_numbers(name: str, values: Any) -> np.ndarray | None:
    """Labels or weights as numbers: scikit-learn's errors show unreadable values."""
    return None if values is None else np.atleast_1d(real_array(name, values))


class PrivateRegressorMixin(RegressorMixin):
    """The score and the tags of private regressions."""

    noise_seed: Any

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2, the explained share of the variance of `y`; reads them without privacy."""
        weights = score_numbers("sample_weight", sample_weight)
        return super().score(X, score_numbers("y", y), weights)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.noise_seed is None
        # Few records and a small epsilon: mostly noise.
        tags.regressor_tags.poor_score = True
        return tags


class PrivateClassifierMixin(ClassifierMixin):
    """The score and the tags of private classifiers."""

    noise_seed: Any

    def score(self: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows with the right class; reads them without privacy."""
        # scikit-learn's error for labels of another type shows them.
        predicted, labels = self.predict(X), given_array("y", y).ravel()
        require_shape("y", labels, predicted.shape)
        weights = score_numbers("sample_weight", sample_weight)
        return float(np.average(predicted == labels, weights=weights))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.noise_seed is None
        tags.classifier_tags.poor_score = True
        return tags
