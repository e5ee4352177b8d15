"""Private kernel ridge regression and classification as estimators."""

import dataclasses
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets

from jaxdp.core.checks import given_array, require_kind
from jaxdp.estimators.arguments import (
    PrivateClassifierMixin,
    PrivateEstimator,
    PrivateRegressorMixin,
    budget_and_seeds,
    completed,
    learner_arguments,
    refuse_missing_labels,
    require_one_row,
    rows_of_persons,
    training_data,
    values_of,
    warn_without_range,
)
from jaxdp.kernels import (
    AbstractKernel,
    PrivateKernelClassifier,
    PrivateKernelRidge,
    ReleasedFunction,
)
from jaxdp.kernels.release.tables import columns_of
from jaxdp.kernels.ridge.rules import AbstractRidgeRule
from jaxdp.losses import Logistic, Softmax
from jaxdp.losses.base import AbstractClassificationLoss
from jaxdp.privacy import Cost, Release, Unproved

_CLASSES_READ = (
    "the classes are read off the labels, so that the release may name a class of one record "
    "alone: give classes=, which are public"
)


@dataclasses.dataclass(eq=False, repr=False)
class DPKernelRidge(PrivateEstimator, PrivateRegressorMixin, BaseEstimator):
    """Private kernel ridge regression: `jaxdp.kernels.PrivateKernelRidge` for scikit-learn.

    Every fit spends the budget again, also within a grid search or cross-validation. `score` reads
    its data without privacy.

    Args:
        epsilon, delta: budget of one fit, > 0 and in (0, 1); neighbours differ in one record. Or,
            without delta, a budget such as `jaxdp.privacy.MembershipAdvantage(0.1)`.
        label_bound: public bound T > 0; labels beyond it are clipped, with a UserWarning that the
            release does not mention. Predictions are in [-T, T].
        input_bound: public Euclidean norm to which longer rows are scaled down, for kernels without
            bound; infinity if public numbers have scaled the rows already.
        input_range: (low, high), public ranges of the columns, mapped to [-1, 1]: each a number or
            one per column, by name if labelled. Instead of `input_bound`; fit warns without either.
        kernel: a kernel; None for a Gaussian one with scale `input_bound`, or else the root of the
            number of columns.
        num_projections, num_features: number M of fitted random functions, and L of their features.
        ridge: a positive number, a rule of `jaxdp.kernels`, or None for the data-free rule.
        intercept_share: share in [0, 1) of the budget for the mean label.
        residual_bound: bound of the labels minus their mean; None for `label_bound`.
        feature_map: public feature map, or function of one row, instead of M random functions.
        random_state: int, published, that draws the features; None for a fixed one.
        rows_per_person: number k of rows of each person that are used if `fit` gets `groups`, the
            first ones, repeated in turn if there are fewer; public, default 1. The budget is then
            a person's, and each row gets 1/k of its mu. As each person counts alike, noise on
            means does not depend on k: take as many rows as persons commonly have.
        noise_seed: secret seed of the noise; None for the operating system's randomness. An int of
            at least 2^128 (`secrets.randbits(256)`) makes fits repeatable; smaller ones have
            infinite cost. It is pickled with the estimator: share `release_` only.

    Attributes:
        release_: the `jaxdp.kernels.ReleasedFunction`, the only part that may be published.
        cost_: privacy cost of the last fit alone.
        n_features_in_, feature_names_in_: number and names of the inputs at fit.

    Example:
        >>> import numpy as np
        >>> from jaxdp.estimators import DPKernelRidge
        >>> inputs = np.linspace(-1, 1, 200)[:, None]
        >>> options = {"label_bound": 1.0, "input_bound": 1.0, "num_projections": 20}
        >>> estimator = DPKernelRidge(epsilon=2.0, delta=1e-5, **options)
        >>> estimator = estimator.fit(inputs, np.sin(3 * inputs[:, 0]))
        >>> estimator.predict(inputs[:3]).shape, estimator.cost_.is_certified
        ((3,), True)
    """

    label_bound: float | None = None
    input_bound: float | None = None
    _: dataclasses.KW_ONLY
    input_range: tuple[Any, Any] | None = None
    kernel: AbstractKernel | None = None
    num_projections: int = 200
    num_features: int = 2048
    ridge: float | AbstractRidgeRule | None = None
    intercept_share: float = 0.0
    residual_bound: float | None = None
    feature_map: Callable[[Any], Any] | None = None
    random_state: int | None = None

    def fit(self, X: Any, y: Any, groups: Any = None) -> "DPKernelRidge":
        """Spend the budget on one release.

        Args:
            X: inputs, one row each; a data frame's column names are public.
            y: labels, one per row.
            groups: name of each row's person, or None (default) if every row is a person's only
                one; see `rows_per_person`.

        Warns:
            UserWarning: neither ranges nor a bound are given; before the data are read.
        """
        warn_without_range(self)
        inputs, labels, names = training_data(self, X, y, y_numeric=True)
        columns = columns_of(X, y)
        learner = PrivateKernelRidge(
            label_bound=self.label_bound,
            intercept_share=self.intercept_share,
            residual_bound=self.residual_bound,
            **learner_arguments(self, names),
        )
        rows = rows_of_persons(self, groups, len(labels))
        release = learner.fit(inputs[rows], labels[rows], **budget_and_seeds(self))
        self.release_ = completed(self, release, columns, groups)
        self.cost_: Cost = self.release_.cost
        return self

    def predict(self, X: Any) -> Float[np.ndarray, " m"]:
        """The released function at new inputs."""
        return values_of(self, X)


@dataclasses.dataclass(eq=False, repr=False)
class DPKernelClassifier(PrivateEstimator, PrivateClassifierMixin, BaseEstimator):
    """Private classification into two or more classes: `jaxdp.kernels.PrivateKernelClassifier`.

    Args:
        epsilon, delta, input_bound, input_range, kernel: arguments as in `DPKernelRidge`.
        num_projections, num_features, feature_map: arguments as in `DPKernelRidge`.
        random_state, noise_seed: arguments as in `DPKernelRidge`.
        rows_per_person: 1, as no proof covers several rows of a person here.
        classes: public labels; None reads them off `y`, and the epsilon of `cost_` is infinite.
        loss: margin loss for two classes, default `jaxdp.losses.Logistic()`; or `Softmax(k)`, the
            default for k > 2.
        ridge: lambda > 0, raised if privacy needs more; None for the data-free rule.
        max_steps: largest number of Newton steps, before gradient steps; None for the learner's.
        tolerance: gradient norm at the end, which costs extra noise; None for the learner's.

    Attributes:
        release_: the `jaxdp.kernels.ReleasedFunction`; a positive score is for `classes_[1]`, and
            the largest of several scores for its class.
        classes_: labels in ascending order.
        cost_, n_features_in_, feature_names_in_: see `DPKernelRidge`.

    Example:
        >>> import numpy as np
        >>> from jaxdp.estimators import DPKernelClassifier
        >>> inputs = np.linspace(-1, 1, 200)[:, None]
        >>> labels = np.where(inputs[:, 0] > 0, "up", "down")
        >>> options = {"input_bound": 1.0, "classes": ("down", "up"), "num_projections": 20}
        >>> estimator = DPKernelClassifier(epsilon=2.0, delta=1e-5, **options).fit(inputs, labels)
        >>> estimator.classes_.tolist(), estimator.predict(inputs[:3]).shape
        (['down', 'up'], (3,))
    """

    input_bound: float | None = None
    _: dataclasses.KW_ONLY
    classes: tuple[Any, ...] | None = None
    input_range: tuple[Any, Any] | None = None
    kernel: AbstractKernel | None = None
    num_projections: int = 200
    num_features: int = 2048
    loss: AbstractClassificationLoss | None = None
    ridge: float | None = None
    max_steps: int | None = None
    tolerance: float | None = None
    feature_map: Callable[[Any], Any] | None = None
    random_state: int | None = None

    def fit(self, X: Any, y: Any, groups: Any = None) -> "DPKernelClassifier":
        """Spend the budget on one release; see `DPKernelRidge.fit`. Labels are of two classes or
        more.

        Raises:
            ValueError: the number of classes is not the loss's, or `rows_per_person` is not 1.
            RuntimeError: the loss is not convex or bounded as it states.
        """
        require_one_row(self)
        warn_without_range(self)
        warn_without_classes(self.classes)
        if y is not None:
            # First, as scikit-learn takes pandas' missing values for texts.
            require_alike("labels", given_array("y", y).ravel())
        inputs, labels, names = training_data(self, X, y, y_numeric=False)
        rows = rows_of_persons(self, groups, len(labels))
        inputs, labels = inputs[rows], labels[rows]
        self.classes_ = all_classes(self.classes, labels)
        loss = _loss(self.loss, len(self.classes_))
        columns = columns_of(X, y, tuple(self.classes_))
        learner = PrivateKernelClassifier(
            loss=loss,
            max_steps=self.max_steps,
            **({} if self.tolerance is None else {"tolerance": self.tolerance}),
            **learner_arguments(self, names),
        )
        targets = np.asarray(loss.class_labels)[np.searchsorted(self.classes_, labels)]
        release = learner.fit(inputs, targets, **budget_and_seeds(self))
        if self.classes is None:
            release = without_proof(release)
        self.release_ = completed(self, release, columns, groups)
        self.cost_: Cost = self.release_.cost
        return self

    def decision_function(self, X: Any) -> Float[np.ndarray, "m ..."]:
        """The released score at new inputs, positive for `classes_[1]`; k scores for k classes."""
        scores = values_of(self, X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1:] == (2,) else scores

    def predict(self, X: Any) -> np.ndarray:
        """The class of each new input."""
        scores = self.decision_function(X)
        places = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[places]


def warn_without_classes(classes: Any) -> None:
    """Warn if the classes would be read off private labels; reads no data."""
    if classes is None:
        warnings.warn(f"epsilon is infinite: {_CLASSES_READ}", UserWarning, stacklevel=3)


def without_proof(release: ReleasedFunction) -> ReleasedFunction:
    """The release of a fit that read the classes off its labels, without a proof."""
    stated = release.statement
    nothing = Release(stated.what, stated.adjacency, Unproved(_CLASSES_READ))
    return dataclasses.replace(release, statement=nothing)


def _loss(given: Any, num_classes: int) -> AbstractClassificationLoss:
    """The given loss, or by default the one for this number of classes."""
    if given is None:
        return Logistic() if num_classes == 2 else Softmax(num_classes)
    expected = "jaxdp.losses.Logistic() or Softmax(k)"
    require_kind("loss", given, AbstractClassificationLoss, expected)
    of = len(given.class_labels)
    if of != num_classes:
        raise ValueError(
            f"expected a loss of {num_classes} classes, got {type(given).__name__} of {of}"
        )
    return given


def all_classes(given: Any, labels: np.ndarray) -> np.ndarray:
    """The classes in ascending order."""
    if given is None:
        check_classification_targets(labels)
        classes = np.unique(labels)
    else:
        if np.ndim(given) != 1:
            kind = type(given).__name__
            raise TypeError(f"expected classes to be a list of labels, such as (0, 1), got {kind}")
        require_alike("classes", given)
        classes = np.unique(np.asarray(given))
        if len(classes) < np.size(given):
            raise ValueError(f"expected classes that differ, got {np.size(given)} with repetitions")
    if len(classes) < 2:
        raise ValueError(f"expected two classes or more, got {len(classes)} class")
    found = np.unique(labels)
    foreign = np.setdiff1d(found, classes)
    if len(foreign):
        kinds = ["numbers" if part.dtype.kind in "biuf" else "texts" for part in (classes, found)]
        alike = kinds[0] == kinds[1]
        came = f"{len(foreign)} others" if alike else f"{kinds[1]}, and the classes are {kinds[0]}"
        raise ValueError(f"expected labels of the classes {classes.tolist()}, got {came}")
    return classes


def require_alike(name: str, values: Iterable[Any]) -> None:
    """Raise TypeError unless all values are texts, or all are of one other ordered kind."""
    if name == "labels":
        refuse_missing_labels(np.asarray(values))
    texts = [isinstance(value, str) for value in values]
    if not all(texts) and (any(texts) or np.asarray(list(values)).dtype == object):
        raise TypeError(
            f"expected {name} that are all texts or all numbers, got a mixture or missing ones"
        )
