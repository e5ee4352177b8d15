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
    r"""Private kernel ridge regression: `jaxdp.kernels.PrivateKernelRidge` for scikit-learn.

    Args:
        epsilon: > 0, of the budget of one fit; neighbours differ in one record.
        delta: in (0, 1).
        label_bound: T > 0, public; labels beyond it are clipped, with a UserWarning at fit that
            the release does not mention. Predictions lie in [-T, T].
        input_bound: a public Euclidean norm to which longer rows are scaled down; needed where
            the kernel has no bound. Infinity says that public numbers have scaled them already.
        input_range: (low, high), public ranges of the columns, each a number or one per column,
            by name where it is labelled (a series, a dictionary); they are mapped to [-1, 1].
            Instead of `input_bound`; without either, fit warns.
        kernel: None for a Gaussian kernel of scale `input_bound`, or the root of the number of
            columns, which suits columns of about unit size.
        num_projections: M, how many random functions are fitted.
        num_features: L, of what these are made.
        ridge: a positive number, a rule of `jaxdp.kernels`, or None for the data-free rule.
        intercept_share: the part in [0, 1) of the budget spent on the mean label.
        residual_bound: of the labels less that mean; None for `label_bound`.
        feature_map: public feature map, or function of one row, instead of M random functions of
            the kernel.
        random_state: the public randomness, of the features: an int that is published, or None for
            one that is always the same. This seed has no part in privacy.
        noise_seed: the secret randomness, of the noise: None for the operating system's. An int of
            at least 2^128 (`secrets.randbits(256)`) makes fits repeatable and must stay secret; a
            smaller one can be guessed, and the cost is infinite. scikit-learn pickles it
            with the estimator: hand on `release_`, never the estimator.

    Attributes:
        release_: the `jaxdp.kernels.ReleasedFunction`, all that may be published.
        cost_: what the last fit alone costs.
        n_features_in_, feature_names_in_: of the inputs at fit.

    Every fit spends the budget again, those of a grid search or cross-validation too. `score` reads
    the data that it is given without privacy.

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
            X: inputs, one a row; the names of a data frame's columns are public.
            y: labels, one a row.

        Warns:
            UserWarning: neither ranges nor a bound are given; said before the data are looked at.

        Raises:
            ValueError, TypeError: data or arguments are not as described.
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
