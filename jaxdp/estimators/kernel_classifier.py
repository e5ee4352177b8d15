"""Private classification by a kernel as an estimator."""

from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from jaxdp.core.checks import require_kind
from jaxdp.estimators.arguments import (
    budget_and_seeds,
    completed,
    feature_map_of,
    kernel_of,
    learner_bound,
    training_data,
    values_of,
    warn_before_data,
)
from jaxdp.estimators.hidden_seed import HidesNoiseSeed
from jaxdp.kernels import (
    AbstractFeatureMap,
    AbstractKernel,
    PrivateKernelClassifier,
)
from jaxdp.kernels.release.columns import columns_of
from jaxdp.losses import AbstractMarginLoss, Logistic
from jaxdp.privacy import Cost

_CLASSES_READ = (
    "which two values the label takes was read from the data; it is taken to be public knowledge"
)


class DPKernelClassifier(HidesNoiseSeed, ClassifierMixin, BaseEstimator):
    r"""Private classification into two classes: `jaxdp.kernels.PrivateKernelClassifier`.

    Args:
        epsilon, delta, input_bound, input_range: as `DPKernelRidge`.
        kernel, num_projections, num_features, feature_map: likewise.
        random_state, noise_seed: likewise.
        classes: the two labels, public. None reads them from `y`: `cost_` then says that they are
            taken to be known.
        loss: a margin loss of `jaxdp.losses`: `Logistic()` (None) or `HuberHinge`.
        ridge: lambda > 0; a smaller one than privacy needs is raised. None for the data-free rule.
        max_steps: of the solver; None for the bound that is known to be enough.
        tolerance: of the gradient's norm, which costs extra noise; None for the learner's own.

    Attributes:
        release_: the `jaxdp.kernels.ReleasedFunction`; positive scores stand for `classes_[1]`.
        cost_: what it costs.
        classes_: the two labels in ascending order.
        n_features_in_, feature_names_in_: of the inputs at fit.

    In a grid search or cross-validation every fit spends its own budget, and `cost_` is that of
    one fit alone. `predict` checks the names of columns, and `release_` takes a data frame's
    columns by name.

    `score` reads the data that it is given without privacy.

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
        random_state: int | None = None,
        noise_seed: int | None = None,
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
        self.random_state = random_state
        self.noise_seed = noise_seed

    def fit(self, X: Any, y: Any) -> "DPKernelClassifier":
        """Spend the budget on one release.

        Args:
            X: inputs, one a row; the names of a data frame's columns are public.
            y: labels of two classes, one a row.

        Warns:
            UserWarning: as `DPKernelRidge.fit`.

        Raises:
            ValueError, TypeError: data or arguments are not as described, or there are not two
                classes.
            RuntimeError: the solver did not reach its tolerance; nothing is released.
        """
        needed = warn_before_data(self)
        inputs, labels = training_data(self, X, y, y_numeric=False)
        check_classification_targets(labels)
        self.classes_ = _two_classes(self.classes, labels)
        loss = Logistic() if self.loss is None else self.loss
        require_kind("loss", loss, AbstractMarginLoss, "jaxdp.losses.Logistic()")
        columns = columns_of(X, y, tuple(self.classes_))
        learner = PrivateKernelClassifier(
            kernel=kernel_of(self, inputs.shape[1]),
            num_projections=self.num_projections,
            num_features=self.num_features,
            loss=loss,
            ridge=self.ridge,
            max_steps=self.max_steps,
            **({} if self.tolerance is None else {"tolerance": self.tolerance}),
            input_bound=learner_bound(self),
            feature_map=feature_map_of(self),
        )
        signs = np.where(labels == self.classes_[1], 1.0, -1.0)
        release = learner.fit(inputs, signs, **budget_and_seeds(self))
        needed += () if self.classes is not None else (_CLASSES_READ,)
        self.release_ = completed(release, columns, needed)
        self.cost_: Cost = self.release_.cost
        return self

    def decision_function(self, X: Any) -> Float[np.ndarray, " m"]:
        """The released score at new inputs: positive for `classes_[1]`."""
        return values_of(self, X)

    def predict(self, X: Any) -> np.ndarray:
        """The class of each new input."""
        is_second = self.decision_function(X) > 0
        return self.classes_[is_second.astype(int)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.noise_seed is None
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags


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
    if len(classes) < 2 and given is not None and np.size(given) == 2:
        raise ValueError(f"expected two classes that differ, got {classes.tolist()[0]!r} twice")
    if len(classes) < 2:
        raise ValueError(f"expected two classes, got {len(classes)} class")
    foreign = np.setdiff1d(found, classes)
    if len(foreign):
        raise ValueError(
            f"expected labels of the classes {classes.tolist()}, got {foreign.tolist()[0]!r}"
        )
    return classes
