"""Private learners with the conventions of scikit-learn: fit, predict, score, clone, pipelines.

Every fit is a release of its own and spends its own budget. k-fold cross-validation fits k times
on overlapping rows, a grid search of g cells k g times and once more: such releases compose
(`jaxdp.privacy.compose`), and the score that a search chooses by is computed from the data without
any privacy. So that a choice costs nothing, use `ridge=jaxdp.kernels.SelectedRidge()` or data that
are public.

In a Pipeline, what is learnt from the data before them breaks the guarantee: a StandardScaler, PCA
or imputer lets one record change the inputs of all others. Maps that are fixed beforehand keep it;
for the scale of the columns there is `input_range`.

Left out: the announcement of an error and the running time are outside every guarantee here.
"""

import dataclasses
import math
import warnings
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from jaxdp.kernels import (
    AbstractFeatureMap,
    AbstractKernel,
    AbstractMarginLoss,
    AbstractRidgeRule,
    Gaussian,
    Logistic,
    PrivateKernelClassifier,
    PrivateKernelRidge,
    RangedKernel,
    RangeScaling,
    ReleasedFunction,
)
from jaxdp.privacy import Cost

# Published with every release; not a number that somebody would choose as a secret.
PUBLIC_SEED = 20_220_501
_CLASSES_READ = (
    "which two values the label takes was read from the data; it is taken to be public knowledge"
)


class DPKernelRidge(RegressorMixin, BaseEstimator):
    r"""Private kernel ridge regression: `jaxdp.kernels.PrivateKernelRidge` for scikit-learn.

    Args:
        epsilon: > 0, of the budget of one fit; neighbours differ in one record.
        delta: in (0, 1).
        label_bound: T > 0, public; labels beyond it are clipped, with a UserWarning at fit that
            the release does not mention. Predictions lie in [-T, T].
        input_bound: a public Euclidean norm to which longer rows are scaled down; needed where
            the kernel has no bound.
        input_range: (low, high), public ranges of the columns, each a number or one per column;
            they are mapped to [-1, 1]. Instead of `input_bound`.
        kernel: None for a Gaussian kernel of scale `input_bound`, or the root of the number of
            columns, which suits columns of about unit size.
        num_projections: M, how many random functions are fitted.
        num_features: L, of what these are made.
        ridge: a positive number, a rule of `jaxdp.kernels`, or None for the data-free rule.
        intercept_share: the part in [0, 1) of the budget spent on the mean label.
        residual_bound: of the labels less that mean; None for `label_bound`.
        feature_map: a public feature map instead of M random functions of the kernel.
        public_seed: what the features are drawn from; it is published.
        random_state: None for noise from the operating system. An int makes fits repeatable, and
            whoever knows it can take the noise off: a UserWarning says that it must stay secret.

    Attributes:
        release_: the `jaxdp.kernels.ReleasedFunction`, all that may be published.
        cost_: what it costs.
        n_features_in_, feature_names_in_: of the inputs at fit.

    `score` reads the data that it is given without privacy.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        label_bound: float,
        input_bound: float | None = None,
        *,
        input_range: tuple[Any, Any] | None = None,
        kernel: AbstractKernel | None = None,
        num_projections: int = 200,
        num_features: int = 2048,
        ridge: float | AbstractRidgeRule | None = None,
        intercept_share: float = 0.0,
        residual_bound: float | None = None,
        feature_map: AbstractFeatureMap | None = None,
        public_seed: int = PUBLIC_SEED,
        random_state: int | None = None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.label_bound = label_bound
        self.input_bound = input_bound
        self.input_range = input_range
        self.kernel = kernel
        self.num_projections = num_projections
        self.num_features = num_features
        self.ridge = ridge
        self.intercept_share = intercept_share
        self.residual_bound = residual_bound
        self.feature_map = feature_map
        self.public_seed = public_seed
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "DPKernelRidge":
        """Spend the budget on one release.

        Args:
            X: inputs, one a row.
            y: labels, one a row.

        Raises:
            ValueError, TypeError: data or arguments are not as described.
        """
        inputs, labels = _training_data(self, X, y, y_numeric=True)
        learner = PrivateKernelRidge(
            kernel=_kernel(self, inputs.shape[1]),
            num_projections=self.num_projections,
            num_features=self.num_features,
            label_bound=self.label_bound,
            ridge=self.ridge,
            intercept_share=self.intercept_share,
            input_bound=self.input_bound,
            feature_map=_scaled_map(self),
            residual_bound=self.residual_bound,
        )
        self.release_ = learner.fit(inputs, labels, **_budget_and_seeds(self))
        self.cost_: Cost = self.release_.cost
        return self

    def predict(self, X: Any) -> Float[np.ndarray, " m"]:
        """The released function at new inputs."""
        return _values(self, X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        # A few dozen records and a small epsilon: mostly noise.
        tags.regressor_tags.poor_score = True
        return tags


class DPKernelClassifier(ClassifierMixin, BaseEstimator):
    r"""Private classification into two classes: `jaxdp.kernels.PrivateKernelClassifier`.

    Args:
        epsilon, delta, input_bound, input_range, kernel, num_projections, num_features,
            feature_map, public_seed, random_state: as `DPKernelRidge`.
        classes: the two labels, public. None reads them from `y`: `cost_` then says that they are
            taken to be known.
        loss: a margin loss of `jaxdp.kernels`; None for `Logistic()`.
        ridge: lambda > 0; a smaller one than privacy needs is raised. None for the data-free rule.
        max_steps: of the solver; None for the bound that is known to be enough.
        tolerance: of the gradient's norm, which costs extra noise; None for the learner's own.

    Attributes:
        release_: the `jaxdp.kernels.ReleasedFunction`; positive scores stand for `classes_[1]`.
        cost_: what it costs.
        classes_: the two labels in ascending order.
        n_features_in_, feature_names_in_: of the inputs at fit.

    `score` reads the data that it is given without privacy.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        input_bound: float | None = None,
        *,
        classes: tuple[Any, Any] | None = None,
        input_range: tuple[Any, Any] | None = None,
        kernel: AbstractKernel | None = None,
        num_projections: int = 200,
        num_features: int = 2048,
        loss: AbstractMarginLoss | None = None,
        ridge: float | None = None,
        max_steps: int | None = None,
        tolerance: float | None = None,
        feature_map: AbstractFeatureMap | None = None,
        public_seed: int = PUBLIC_SEED,
        random_state: int | None = None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.input_bound = input_bound
        self.classes = classes
        self.input_range = input_range
        self.kernel = kernel
        self.num_projections = num_projections
        self.num_features = num_features
        self.loss = loss
        self.ridge = ridge
        self.max_steps = max_steps
        self.tolerance = tolerance
        self.feature_map = feature_map
        self.public_seed = public_seed
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "DPKernelClassifier":
        """Spend the budget on one release.

        Args:
            X: inputs, one a row.
            y: labels of two classes, one a row.

        Raises:
            ValueError, TypeError: data or arguments are not as described, or there are not two
                classes.
            RuntimeError: the solver did not reach its tolerance; nothing is released.
        """
        inputs, labels = _training_data(self, X, y, y_numeric=False)
        check_classification_targets(labels)
        self.classes_ = _two_classes(self.classes, labels)
        learner = PrivateKernelClassifier(
            kernel=_kernel(self, inputs.shape[1]),
            num_projections=self.num_projections,
            num_features=self.num_features,
            loss=Logistic() if self.loss is None else self.loss,
            ridge=self.ridge,
            max_steps=self.max_steps,
            **({} if self.tolerance is None else {"tolerance": self.tolerance}),
            input_bound=self.input_bound,
            feature_map=_scaled_map(self),
        )
        signs = np.where(labels == self.classes_[1], 1.0, -1.0)
        release = learner.fit(inputs, signs, **_budget_and_seeds(self))
        self.release_ = release if self.classes is not None else _assuming(release, _CLASSES_READ)
        self.cost_: Cost = self.release_.cost
        return self

    def decision_function(self, X: Any) -> Float[np.ndarray, " m"]:
        """The released score at new inputs: positive for `classes_[1]`."""
        return _values(self, X)

    def predict(self, X: Any) -> np.ndarray:
        """The class of each new input."""
        is_second = self.decision_function(X) > 0
        return self.classes_[is_second.astype(int)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags


def _training_data(
    estimator: Any, X: Any, y: Any, *, y_numeric: bool
) -> tuple[Float[np.ndarray, "n dim"], np.ndarray]:
    """As scikit-learn checks them; the number and the names of the columns are noted."""
    checked: Any = validate_data(
        estimator, X, y, dtype=np.float64, y_numeric=y_numeric, ensure_min_samples=2
    )
    inputs, labels = checked
    return inputs, labels


def _kernel(estimator: Any, dim: int) -> AbstractKernel:
    """The estimator's kernel on its inputs; every choice in it is free of the data."""
    radius, given, kernel = estimator.input_bound, estimator.input_range, estimator.kernel
    if radius is not None and given is not None:
        raise ValueError("expected input_bound or input_range, got both")
    if kernel is None:
        kernel = Gaussian(math.sqrt(dim) if radius is None else radius)
    if given is None:
        return kernel
    return RangedKernel(kernel, *_ranges(given, dim))


def _scaled_map(estimator: Any) -> AbstractFeatureMap | None:
    given, features = estimator.input_range, estimator.feature_map
    if given is None or features is None:
        return features
    return RangeScaling(features, *_ranges(given, features.dim))


def _ranges(given: tuple[Any, Any], dim: int) -> list[np.ndarray]:
    """Both ends of the range of every column."""
    return [np.broadcast_to(np.asarray(end, np.float64), (dim,)) for end in given]


def _budget_and_seeds(estimator: Any) -> dict[str, Any]:
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


def _values(estimator: Any, X: Any) -> Float[np.ndarray, " m"]:
    check_is_fitted(estimator)
    inputs = validate_data(estimator, X, dtype=np.float64, reset=False)
    return np.asarray(estimator.release_(inputs), np.float64)


def _two_classes(given: tuple[Any, Any] | None, labels: np.ndarray) -> np.ndarray:
    """The two classes in ascending order.

    Raises:
        ValueError: there are not two, or a label is neither.
    """
    found = np.unique(labels)
    classes = found if given is None else np.unique(np.asarray(given))
    if len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported: expected two classes, got "
            f"{len(classes)} classes"
        )
    if len(classes) < 2:
        raise ValueError(f"expected two classes, got {len(classes)} class")
    foreign = np.setdiff1d(found, classes)
    if len(foreign):
        raise ValueError(f"expected labels of the classes {classes.tolist()}, got {foreign[0]!r}")
    return classes


def _assuming(release: ReleasedFunction, line: str) -> ReleasedFunction:
    """The same release, with one more assumption in its cost."""
    statement = release.statement
    assumptions = (*statement.assumptions, line)
    return dataclasses.replace(
        release, statement=dataclasses.replace(statement, assumptions=assumptions)
    )
