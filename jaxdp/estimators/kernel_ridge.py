"""Private kernel ridge regression as an estimator."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator

from jaxdp.estimators.arguments import (
    HidesNoiseSeed,
    PrivateRegressorMixin,
    budget_and_seeds,
    completed,
    learner_arguments,
    training_data,
    values_of,
    warn_without_range,
)
from jaxdp.kernels import AbstractKernel, PrivateKernelRidge
from jaxdp.kernels.release.tables import columns_of
from jaxdp.kernels.ridge.rules import AbstractRidgeRule
from jaxdp.privacy import Cost


@dataclasses.dataclass(eq=False, repr=False)
class DPKernelRidge(HidesNoiseSeed, PrivateRegressorMixin, BaseEstimator):
    """Private kernel ridge regression: `jaxdp.kernels.PrivateKernelRidge` for scikit-learn.

    Every fit spends the budget again, also within a grid search or cross-validation. `score` reads
    its data without privacy.

    Args:
        epsilon, delta: budget of one fit, > 0 and in (0, 1); neighbours differ in one record.
        label_bound: public bound T > 0; labels beyond it are clipped, with a UserWarning that the
            release does not mention. Predictions are in [-T, T].
        input_bound: public Euclidean norm to which longer rows are scaled down, for kernels without
            bound; infinity if public numbers have scaled the rows already.
        input_range: (low, high), public ranges of the columns, mapped to [-1, 1]: each a number or
            one per column, by name if labelled. Instead of `input_bound`; fit warns without either.
        kernel: a kernel; None for a Gaussian one with scale `input_bound`, or else the root of the
            number of columns.
        num_projections: number M of fitted random functions.
        num_features: number L of features that make these functions.
        ridge: a positive number, a rule of `jaxdp.kernels`, or None for the data-free rule.
        intercept_share: share in [0, 1) of the budget for the mean label.
        residual_bound: bound of the labels minus their mean; None for `label_bound`.
        feature_map: public feature map, or function of one row, instead of M random functions.
        random_state: int, published, that draws the features; None for a fixed one.
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

    epsilon: float
    delta: float
    label_bound: float
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
    # A formatter of dataclasses would show it, though `repr` does not.
    noise_seed: int | None = dataclasses.field(default=None, repr=False)

    def fit(self, X: Any, y: Any) -> "DPKernelRidge":
        """Spend the budget on one release.

        Args:
            X: inputs, one row each; a data frame's column names are public.
            y: labels, one per row.

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
        release = learner.fit(inputs, labels, **budget_and_seeds(self))
        self.release_ = completed(release, columns)
        self.cost_: Cost = self.release_.cost
        return self

    def predict(self, X: Any) -> Float[np.ndarray, " m"]:
        """The released function at new inputs."""
        return values_of(self, X)
