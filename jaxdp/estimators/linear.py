"""Private linear and logistic regression as estimators."""

import abc
import dataclasses
import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import jax.random as jr
import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from jaxdp.core.checks import (
    given_array,
    host_number,
    require_count,
    require_kind,
    require_positive,
)
from jaxdp.core.display import in_full
from jaxdp.core.terminals import printable
from jaxdp.estimators.arguments import (
    PUBLIC_SEED,
    PrivateClassifierMixin,
    PrivateEstimator,
    PrivateRegressorMixin,
    completed,
    ranges_of,
    refuse_keywords,
    require_one_row,
    row_budget,
    rows_and_labels,
    rows_of_persons,
    training_data,
    values_of,
)
from jaxdp.estimators.kernel import all_classes, require_alike, warn_without_classes, without_proof
from jaxdp.estimators.rows_for_width import assumed_covariance, rows_for_width
from jaxdp.estimators.summary import CoefficientSummary
from jaxdp.kernels import ClippedFeatures, Gaussian, IdentityFeatures
from jaxdp.kernels.base import AbstractFeatureMap
from jaxdp.kernels.functions.bounded import RangeScaling
from jaxdp.kernels.release.released_function import chances
from jaxdp.kernels.release.tables import ColumnNames, columns_of
from jaxdp.privacy import Cost
from jaxdp.privacy.budgets import warn_of_budget
from jaxdp.regression import (
    Automatic,
    ColumnFeatures,
    Columns,
    ObjectivePerturbation,
    PrivateLinearClassifier,
    PrivateLinearRegression,
    WithConstant,
)
from jaxdp.regression.columns import CodedTable
from jaxdp.regression.descent import ClassSlopes, SquaredSlopes
from jaxdp.regression.descent_plan import SQUARED, Curvature, of_classes
from jaxdp.regression.features import ComposedFeatures
from jaxdp.regression.learners import LinearFit, checked_label_range, range_share
from jaxdp.regression.ledger import Ledger
from jaxdp.regression.methods import AbstractDescentMethod, AbstractMethod, can_test, is_hopeless

_KINDS = {
    "linear": "linear in the columns",
    "additive": "a sum of one curve a column",
    "kernel": "of random functions of all columns",
}
# Scale of the kernel over the norm of its inputs, and its number of random waves. Chosen on five
# tables of the UCI repository: more features cost more noise than they explain.
_SCALE, _NUM_WAVES = 0.7, 100
_SIGNAL, _LITTLE = 0.5, 0.1  # assumed explained share, and the forecast up to which fit warns
# "automatic" takes random functions of numbers if n mu is so many times their number.
_OF_WAVES = 9.0
_MOST_FEATURES = 400  # with fewer there may be more of them than rows
_MANY_MISSING = 0.1  # share of missing cells that may belong to a category without rows
_GUESSED = (
    "features of equal size and no correlation, labels of one scale, and the guessed share of "
    "their variance; it uses no number of the table"
)


class ExpectedScore(NamedTuple):
    """The expected result of a budget, from public numbers and a guessed signal."""

    num_samples: int
    without_privacy: float  # guessed share of the labels' variance that a linear function explains
    with_privacy: float  # remaining share, by the plan of the descent
    assumes: str  # assumptions, in words


@dataclasses.dataclass(eq=False, repr=False)
class _LinearEstimator(PrivateEstimator, BaseEstimator):
    """The shared part of both estimators: public features, a fit, its attributes."""

    _: dataclasses.KW_ONLY
    input_range: tuple[Any, Any] | None = None
    columns: Columns | None = None
    features: str = "linear"
    fit_intercept: bool = True
    method: AbstractMethod | None = None

    @abc.abstractmethod
    def _planned_for(self, num_samples: int) -> tuple[int, Curvature, float, float]:
        """Outputs k, the loss's curvature, budget shares of all scales and of earlier releases."""

    @property
    @abc.abstractmethod
    def _learns(self) -> str:
        """The learnt function, in the words of a model card."""

    def _check_features(self) -> None:
        """Refuse wrong features before reading the table."""
        kinds = (*_KINDS, "automatic")
        if self.features not in kinds:
            raise ValueError(f"expected features to be one of {kinds}, got {self.features!r}")
        if (self.columns is None) == (self.input_range is None):
            came = "neither" if self.columns is None else "both"
            raise ValueError(
                f"expected input_range=(low, high) or columns=jaxdp.regression.Columns(...), which "
                f"are public, got {came}"
            )
        if self.columns is not None:
            require_kind("columns", self.columns, Columns, "a jaxdp.regression.Columns")

    def _chosen(self, names: Sequence[str], num_samples: int) -> tuple[str, AbstractFeatureMap]:
        """The kind of the features and their map, chosen without the data if "automatic"."""
        if self.features != "automatic":
            return self.features, self._public_features(names, self.features)
        mu = float(row_budget(self).largest_mu)
        numbers = [True] * len(names) if self.columns is None else self.columns.is_number
        kind = "additive"
        if all(numbers) and num_samples * mu >= _OF_WAVES * 2 * _NUM_WAVES:
            kind = "kernel"
        elif not any(numbers) or not can_test(3 * len(names), num_samples, mu):
            kind = "linear"
        return kind, self._public_features(names, kind)

    def _public_features(self, names: Sequence[str], kind: str) -> AbstractFeatureMap:
        """The features of a row, with these names of columns if `columns` is None."""
        is_additive, columns = kind == "additive", self.columns
        if is_additive and columns is None:
            low, high = ranges_of(self.input_range, names)
            ends = zip(low.tolist(), high.tolist(), strict=True)
            # Arrays without columns have no missing values.
            columns = Columns(dict(zip(names, ends, strict=True)), complete=names)
        if columns is not None:
            found = ColumnFeatures(columns, is_additive)
        else:
            unit = ClippedFeatures(IdentityFeatures(len(names)), math.sqrt(len(names)))
            found = RangeScaling(unit, *ranges_of(self.input_range, names))
        if kind == "kernel":
            kernel, key = Gaussian(_SCALE * found.norm_bound), jr.key(PUBLIC_SEED)
            waves = kernel.features(_NUM_WAVES, found.num_outputs, key=key)
            found = ComposedFeatures(waves, found)
        # In a linear function as large as a column, so that the intercept is like other weights.
        constant = 0.3 if kind == "kernel" else 1.0
        return WithConstant(found, constant) if self.fit_intercept else found

    def _read(self, X, y, groups, *, y_numeric):
        """The checked table, the labels, the features of a row, and all names."""
        row_budget(self)
        if isinstance(self._method(), ObjectivePerturbation):
            require_one_row(self)
        self._check_features()
        if self.columns is None:
            inputs, labels, names = training_data(self, X, y, y_numeric=y_numeric)
            low, high = ranges_of(self.input_range, names)
            is_beyond = (inputs < low) | (inputs > high)
        else:
            names = self.columns.names
            inputs = self.columns.read(X)
            is_beyond = inputs.is_beyond
            _, labels = rows_and_labels(self, inputs.codes, y, y_numeric=y_numeric)
            for told in _missing_in_words(self.columns, inputs.codes):
                _warn_the_curator(told)
            self.n_features_in_ = len(names)
            vars(self).pop("feature_names_in_", None)
            if hasattr(X, "columns"):
                self.feature_names_in_ = np.asarray(names, dtype=object)
        rows = rows_of_persons(self, groups, len(labels))
        labels, is_beyond = labels[rows], is_beyond[rows]
        if isinstance(inputs, CodedTable):
            inputs = CodedTable(inputs.codes[rows], is_beyond)
        else:
            inputs = inputs[rows]
        self.features_, features = self._chosen(names, len(labels))
        self._reads_cells = self.columns is not None
        target = getattr(y, "name", None)
        target = target if isinstance(target, str) else None
        if target in names:
            raise ValueError(f"expected columns without the target, got {target!r} among them")
        # With `columns` only those; the target may be among the others.
        called = (
            columns_of(X, y) if self.columns is None else ColumnNames(self.columns.names, target)
        )
        if len(names) > len(labels):
            raise ValueError(
                f"expected no more columns than rows, got {len(names)} columns of {len(labels)} "
                "rows: the noise would be more than what is learnt"
            )
        if features.num_outputs > max(len(labels), _MOST_FEATURES):
            raise ValueError(
                f"expected no more features than rows, got {features.num_outputs} features for "
                f"{len(labels)} rows: take features='linear', fewer columns or fewer bins"
            )
        self._warn_of_little(features, names, len(labels))
        if is_beyond.any():
            counts = zip(names, is_beyond.sum(axis=0), strict=True)
            told = printable(", ".join(f"{name}: {count}" for name, count in counts if count))
            _warn_the_curator(
                f"{is_beyond.any(axis=1).sum()} of {len(labels)} rows are beyond what input_range "
                f"or columns say ({told}): they count as the nearer end, as another category, or "
                "in complete columns as nothing"
            )
        return inputs, labels, features, called

    def _keep(self, fit: LinearFit, names: ColumnNames | None, groups: Any) -> None:
        known, features = fit.release.record, fit.release.features
        assert known is not None
        if self.features == "automatic" and self.features_ == "additive":
            base = features.base if isinstance(features, WithConstant) else features
            is_bent = isinstance(base, ColumnFeatures) and base.is_additive
            self.features_ = "additive" if is_bent else "linear"
        inputs = names.inputs if names else tuple(map(str, range(features.dim)))
        if self.columns is not None:
            words = self.columns.in_words
        else:
            ends = zip(*ranges_of(self.input_range, inputs), strict=True)
            words = [f"{in_full(low)} to {in_full(high)}" for low, high in ends]
        record = dataclasses.replace(
            known,
            learnt=f"{self._learns}, {_KINDS[self.features_]}",
            forecast=self._forecast_in_words(features, known.num_samples),
            inputs=tuple(zip(inputs, words, strict=True)),
            ledger=tuple((one.share, one.mu, one.what) for one in fit.ledger.entries),
            noise_std=tuple(fit.noise_std.tolist()),
            has_logits=is_classifier(self),
        )
        release = completed(self, fit.release, names, groups)
        self.release_ = dataclasses.replace(release, record=record)
        self.ledger_: Ledger = fit.ledger
        self.noise_std_ = fit.noise_std
        self.cost_: Cost = self.release_.cost
        turn, self.coef_names_ = self._to_columns(features, inputs)
        found = turn @ np.asarray(self.release_.coefficients, np.float64)
        self.coef_ = found[:-1].T
        self.intercept_ = np.asarray(self.release_.intercept, np.float64) + found[-1]
        self._summary = self.coef_std_ = None
        # Of curves the descent learns too little for an unbiased estimate, and several rows of a
        # person do not err independently.
        is_simple = self.features_ == "linear" and self.rows_per_person == 1
        if is_simple and fit.known is not None and self.coef_.ndim == 1:
            assert self.coef_names_ is not None
            known = turn @ fit.known.weights[:, 0]
            known[-1] += float(self.release_.intercept)
            # The constant, which is the last feature, always has rows.
            rows = np.append(fit.known.has_rows[: len(known) - 1], True)
            stds = [
                np.where(rows, np.sqrt(np.maximum(np.diag(turn @ part @ turn.T), 0)), math.inf)
                for part in (fit.known.noise, fit.known.sampling)
            ]
            known = np.where(rows, known, math.nan)
            called = (*self.coef_names_, "intercept")
            self._summary = CoefficientSummary(called, known, stds[0], stds[1])
            self.coef_std_ = self._summary.std[:-1]

    def _to_columns(
        self, features: AbstractFeatureMap, columns: Sequence[str]
    ) -> tuple[Float[np.ndarray, "coefficients features"], tuple[str, ...] | None]:
        """The map from weights of features to coefficients and an intercept, and their names."""
        turn, base = np.eye(features.num_outputs), features
        constant = np.zeros(features.num_outputs)
        if isinstance(features, WithConstant):
            base, constant[-1], turn = features.base, features.constant, turn[:-1]
        if isinstance(base, RangeScaling):
            low, high = (np.asarray(end, np.float64) for end in (base.low, base.high))
            constant[: len(low)] -= (low + high) / (high - low)
            turn = turn * (2 / (high - low))[:, None]
            return np.vstack([turn, constant]), tuple(columns)
        names_of = base.names if isinstance(base, ColumnFeatures) else None
        return np.vstack([turn, constant]), names_of

    def summary(self, level: float = 0.95) -> CoefficientSummary:
        """Estimate each coefficient with its errors; prints as a table.

        Estimates are those of the released function without its shrinkage, and so are their errors
        the larger. In a column of categories each is the difference from the column's mean
        over the rows, by noisy counts. This is post-processing of the release: it costs nothing.

        Args:
            level: confidence level of the intervals, in (0, 1).

        Returns:
            The coefficients, the intercept last.

        Raises:
            ValueError: features that are not linear, a method without a plan, more than two
                classes, several rows of a person, or a fit of the labels' mean alone.
        """
        check_is_fitted(self)
        if self._summary is None:
            raise ValueError(
                "expected features='linear', a method with a plan, at most two classes, "
                "rows_per_person=1 (several rows of a person do not err independently), and a "
                "budget that is enough for more than the labels' mean, got features="
                f"{self.features_!r}, rows_per_person={self.rows_per_person} and "
                f"{self._method()!r}"
            )
        self._summary.interval(level)
        return dataclasses.replace(self._summary, level=float(level))

    def coef_interval(self, level: float = 0.95) -> Float[np.ndarray, "coefficients 2"]:
        """Confidence intervals of the coefficients, in their units; the intercept's is the last.

        See `summary`. In 14 of 18 simulated settings of 500 tables, 95 % intervals covered with a
        probability of 0.92 to 0.975, in the mean over coefficients. Outside: a column whose rows
        are in a tenth of its range (0.27 for its coefficient at 5,000 rows and epsilon 1); one row
        in twenty of the second class (0.916); log odds of deviation 3 (0.987); and columns with
        cells that no row has, which make intervals far too wide: name them in `complete`.

        Args:
            level: probability that an interval contains the coefficient of infinitely many rows
                without noise.

        Returns:
            Lower and upper ends; infinite for features without rows that stand out of the noise.

        Raises:
            ValueError: as for `summary`.
        """
        return self.summary(level).interval(level)

    def _values(self, X: Any) -> Float[np.ndarray, "m ..."]:
        """The released function at new inputs."""
        check_is_fitted(self)
        if self._reads_cells:
            return np.asarray(self.release_(X), np.float64)
        return values_of(self, X)

    def _method(self) -> AbstractMethod:
        return Automatic() if self.method is None else self.method

    def expected_score(self, num_samples: int, *, signal: float = 0.5) -> ExpectedScore:
        """Predict the explained variance for n rows, without reading or spending anything.

        Args:
            num_samples: number n of rows, with `rows_per_person` of them for each person.
            signal: guessed share, in (0, 1], of the variance of labels or best logits that the
                features explain.

        Returns:
            A guess for features of equal size and no correlation, and normal residuals; for
            "automatic" additive features, all of the budget on these. Its mean error on
            the regression tables of the leaderboard was 0.06, 0.03 and 0.01 of R^2 for linear
            features at epsilon 0.5, 1 and 4, and 0.15, 0.18 and 0.11 for additive ones.

        Raises:
            ValueError: `input_range` does not tell the number of columns, or the method has no
                plan.
        """
        count = require_count("num_samples", num_samples, least=2)
        signal = host_number("signal", signal)
        if not 0 < signal <= 1:
            raise ValueError(f"expected 0 < signal <= 1, got {signal}")
        warn_of_budget(row_budget(self), count, stacklevel=2)
        self._check_features()
        _, features = self._chosen(_columns_in(self.input_range), count)
        return ExpectedScore(count, signal, self._left(features, count, signal), _GUESSED)

    def _left(self, features: AbstractFeatureMap, num_samples: int, signal: float) -> float:
        """The share of the labels' variance that the plan leaves of a signal."""
        method = self._method()
        if not isinstance(method, AbstractDescentMethod):
            raise ValueError(f"expected a method with a plan, got {type(method).__name__}")
        num_outputs, curvature, scale_share, other_share = self._planned_for(num_samples)
        risk = method.predicted_risk(
            num_features=features.num_outputs,
            num_outputs=num_outputs,
            num_samples=num_samples,
            mu=row_budget(self).largest_mu,
            curvature=curvature,
            scale_share=scale_share,
            other_share=other_share,
            signal=signal,
        )
        return max(0.0, signal - 2 * risk)

    def _forecast_in_words(self, features: AbstractFeatureMap, num_samples: int) -> str:
        """The forecast for the model card; empty if the method has no plan."""
        if not isinstance(self._method(), AbstractDescentMethod):
            return ""
        return (
            f"of {_SIGNAL} of the labels' variance, if so much is explained without privacy, "
            f"{self._left(features, num_samples, _SIGNAL):.2f} is left; a guess from the budget "
            "and n alone"
        )

    def _warn_of_little(self, features: AbstractFeatureMap, names: Any, num_samples: int) -> None:
        """Warn before the budget is spent, from public numbers, if a forecast leaves little."""
        if not isinstance(self._method(), AbstractDescentMethod):
            return
        if self.fit_intercept and is_hopeless(num_samples, row_budget(self).largest_mu):
            warnings.warn(
                f"{num_samples} rows and this budget are enough for the labels' mean alone, which "
                "all predictions will be: more rows or a larger epsilon help",
                UserWarning,
                stacklevel=4,
            )
            return
        if self.features == "automatic" and self.features_ == "additive":
            # Lines are learnt unless curves are better.
            features = self._public_features(names, "linear")
        left = self._left(features, num_samples, _SIGNAL)
        if left > _LITTLE:
            return
        of_lines = self._left(self._public_features(names, "linear"), num_samples, _SIGNAL)
        instead = f'; features="linear" would leave {of_lines:.2f}' if of_lines > left else ""
        warnings.warn(
            f"if {features.num_outputs} features explained {_SIGNAL} of the variance, {left:.2f} "
            f"would be left at this budget and {num_samples} rows, by a forecast that reads no "
            f"record: this may be no better than a constant. More rows, a larger epsilon or fewer "
            f"columns, bins and categories help{instead}",
            UserWarning,
            stacklevel=4,
        )


@dataclasses.dataclass(eq=False, repr=False)
class DPLinearRegression(PrivateRegressorMixin, _LinearEstimator):
    """Private linear regression, or an additive model, of a table with public ranges.

    Every fit spends the budget again, also within `cross_val_score` and `GridSearchCV`, whose
    scores read the data without privacy.

    Args:
        epsilon, delta: budget of one fit, > 0 and in (0, 1); neighbours differ in one record. Or,
            without delta, a budget such as `jaxdp.privacy.MembershipAdvantage(0.1)`.
        input_range: (low, high), public ranges of the columns, each a number or one per column, by
            name if labelled; values beyond count as the nearer end, with a warning.
        columns: `jaxdp.regression.Columns` instead, for tables with text and missing values.
        features: "linear"; "additive", a piecewise linear curve for each column on the knots of its
            range, with the interactions of `columns`; "kernel", 200 random features of a Gaussian
            kernel on the columns; or "automatic". That is linear with few rows, by public numbers;
            kernel if all columns are numbers and rows are many; and otherwise additive, if a
            private test within the fit says that curves are worth their noise, or else linear.
        label_range: (low, high), public; labels and predictions beyond are clipped, labels with a
            warning. None for a range that a part of the budget buys
            (`jaxdp.regression.PrivateLinearRegression`); an error asks for one if too few labels
            differ from zero, or if they are too far from it for their differences.
        fit_intercept: whether the function has a constant.
        method: a method of `jaxdp.regression`: `Automatic()` (None), `Whitened()`, `FullBatch()`,
            `PlannedDPSGD()`, `NoisyStatistics()` or `ObjectivePerturbation()`.
        rows_per_person, noise_seed: see `DPKernelRidge`.

    Attributes:
        coef_, intercept_: coefficients of the columns in their own units (linear, `input_range`),
            or else of the features. In a column of categories, and in a curve, each is the
            difference from the column's mean over the rows, by noisy counts, which the intercept
            has. A category without rows is drawn to that mean.
        coef_names_: description of each coefficient's feature; None for "kernel".
        coef_std_: standard deviation of the error of each unbiased coefficient of `summary`, from
            noise and sampling, in units of `coef_`; None if `summary` refuses.
        features_: kind of the features, as "automatic" chose it.
        ledger_: releases of the fit with their shares of the budget, in order.
        noise_std_: standard deviation of the noise on each coefficient of `release_`; without the
            sampling error, and too small for features without rows.
        release_, cost_, n_features_in_, feature_names_in_: see `DPKernelRidge`.

    Example:
        >>> import numpy as np
        >>> from jaxdp.estimators import DPLinearRegression
        >>> inputs = np.random.default_rng(0).uniform(size=(2000, 2))
        >>> estimator = DPLinearRegression(1.0, 1e-6, input_range=(0, 1), label_range=(0, 2))
        >>> estimator = estimator.fit(inputs, inputs.sum(axis=1))
        >>> estimator.predict(inputs[:3]).shape, estimator.cost_.is_certified
        ((3,), True)
    """

    _: dataclasses.KW_ONLY
    label_range: tuple[float, float] | None = None

    def _planned_for(self, num_samples):
        mu = float(row_budget(self).largest_mu)
        learnt = min(range_share(num_samples, mu), 0.4) if self.label_range is None else 0.0
        return 1, SQUARED, SquaredSlopes.share, learnt

    @property
    def _learns(self):
        if self.label_range is None:
            return "least squares of labels whose range was learnt privately"
        low, high = self.label_range
        return f"least squares of labels from {in_full(low)} to {in_full(high)}"

    def fit(self, X: Any, y: Any, groups: Any = None, **others: Any) -> "DPLinearRegression":
        """Spend the budget on one release.

        Args:
            X: inputs, one row each; a data frame's column names are public.
            y: labels, one per row.
            groups: name of each row's person, or None (default) if every row is a person's only
                one; see `rows_per_person`.
            others: none; a `sample_weight` would change the sensitivity.

        Warns:
            UserWarning: values or labels are beyond their public ranges, or categories are not
                listed, with numbers for the curator only; or a forecast, before anything is spent,
                is hardly better than a constant.
        """
        refuse_keywords(others)
        label_range = checked_label_range(self.label_range)
        inputs, labels, features, names = self._read(X, y, groups, y_numeric=True)
        if label_range is not None:
            _warn_of_labels_beyond(labels, label_range)
        learner = PrivateLinearRegression(
            features=features,
            label_range=label_range,
            method=self._method(),
            tests_curves=self.features == "automatic",
        )
        budget = {"epsilon": row_budget(self), "noise_seed": self.noise_seed}
        self._keep(learner.fit(inputs, labels, **budget), names, groups)
        return self

    def required_rows(
        self, width: float, *, coefficient: str, residual_std: float, level: float = 0.95
    ) -> int:
        """The number of rows at which a coefficient's interval has a width, before any is read.

        It assumes linear features, places of numbers spread evenly over their ranges, categories of
        equal frequency, independent columns without missing values, and normal residuals. On such
        tables of three columns (epsilon 1, eight fits each) intervals had the asked width at 9,330
        rows, and were 1.1 times as wide at 1,012.

        Args:
            width: width of the interval, in units of the coefficient, > 0.
            coefficient: a name of `coef_names_`, or "intercept".
            residual_std: guessed standard deviation of the residuals, in units of the labels, > 0.
            level: confidence level, in (0, 1).

        Returns:
            The number of rows, to half a percent.

        Raises:
            ValueError: an argument is not as above, or no number of rows up to 10^9 is enough.
        """
        residual = host_number("residual_std", residual_std)
        require_positive("residual_std", residual)
        row_budget(self)
        self._check_features()
        names = _columns_in(self.input_range) if self.columns is None else self.columns.names
        features, method = self._public_features(names, "linear"), self._method()
        if not isinstance(method, AbstractDescentMethod):
            raise ValueError(f"expected a method with a plan, got {type(method).__name__}")
        turn, called = self._to_columns(features, names)
        known = [*(called or ()), "intercept"]
        if coefficient not in known:
            raise ValueError(f"expected a coefficient among {known}, got {coefficient!r}")
        mu, row = float(row_budget(self).largest_mu), turn[known.index(coefficient)]

        def variance(count):
            _, _, scale_share, other_share = self._planned_for(count)
            covariance = assumed_covariance(
                method,
                features,
                num_samples=count,
                mu=mu,
                # At the start half of the labels' variance is residual.
                sizes=(math.sqrt(2) * residual, residual),
                scale_share=scale_share + other_share,
            )
            return float(row @ covariance @ row)

        return rows_for_width(variance, width, level)

    def predict(self, X: Any) -> Float[np.ndarray, " m"]:
        """The released function at new inputs."""
        return self._values(X)


@dataclasses.dataclass(eq=False, repr=False)
class DPLogisticRegression(PrivateClassifierMixin, _LinearEstimator):
    """Private logistic regression, or an additive model, of two classes or more.

    Arguments, attributes and warnings are those of `DPLinearRegression`, without `label_range`.

    Args:
        epsilon, delta, input_range, columns, features: see `DPLinearRegression`.
        classes: public labels; None reads them off `y`, and the epsilon of `cost_` is infinite.
        fit_intercept, method, rows_per_person, noise_seed: see `DPLinearRegression`.

    Attributes:
        classes_: labels in ascending order.
        coef_: one row for each of k > 2 classes.

    Example:
        >>> import numpy as np
        >>> from jaxdp.estimators import DPLogisticRegression
        >>> inputs = np.random.default_rng(0).uniform(size=(2000, 2))
        >>> labels = np.where(inputs.sum(axis=1) > 1, "high", "low")
        >>> estimator = DPLogisticRegression(
        ...     1.0, 1e-6, input_range=(0, 1), classes=("low", "high")
        ... ).fit(inputs, labels)
        >>> estimator.predict_proba(inputs[:3]).shape
        (3, 2)
    """

    _: dataclasses.KW_ONLY
    classes: tuple[Any, ...] | None = None
    _learns: ClassVar[str] = "logistic regression"

    def _planned_for(self, num_samples):
        count = len(() if self.classes is None else self.classes)
        return 1 if count <= 2 else count, of_classes(0.25), ClassSlopes.share, 0.0

    def fit(self, X: Any, y: Any, groups: Any = None, **others: Any) -> "DPLogisticRegression":
        """Spend the budget on one release; see `DPLinearRegression.fit`. Labels are classes."""
        refuse_keywords(others)
        warn_without_classes(self.classes)
        if y is not None:
            require_alike("labels", given_array("y", y).ravel())
        inputs, labels, features, names = self._read(X, y, groups, y_numeric=False)
        self.classes_ = all_classes(self.classes, labels)
        places = np.searchsorted(self.classes_, labels)
        learner = PrivateLinearClassifier(
            features=features,
            num_classes=len(self.classes_),
            method=self._method(),
            tests_curves=self.features == "automatic",
        )
        if names is not None:
            names = dataclasses.replace(names, classes=tuple(map(str, self.classes_)))
        budget = {"epsilon": row_budget(self), "noise_seed": self.noise_seed}
        fit = learner.fit(inputs, places, **budget)
        if self.classes is None:
            fit = dataclasses.replace(fit, release=without_proof(fit.release))
        self._keep(fit, names, groups)
        return self

    def decision_function(self, X: Any) -> Float[np.ndarray, "m ..."]:
        """The logit of `classes_[1]` at new inputs; k scores for k > 2 classes."""
        return self._values(X)

    def predict_proba(self, X: Any) -> Float[np.ndarray, "m classes"]:
        """The model's probability of each class at new inputs.

        Noise makes logits too large, and a short descent too small: in simulations (1,000 to 20,000
        rows, 10 and 50 columns, epsilon 1 and 4) the best factor for new rows was 0.5 to 2.3.
        """
        return chances(self._values(X))

    def predict(self, X: Any) -> np.ndarray:
        """The class of each new input."""
        # First, as it checks that the estimator is fitted.
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]


def _columns_in(given: Any) -> list[str]:
    """Names for as many columns as there are public ranges."""
    if given is None:
        return []
    for end in given if isinstance(given, (tuple, list, np.ndarray)) else ():
        if hasattr(end, "keys"):
            return list(map(str, end.keys()))
        if np.ndim(end) == 1:
            return [str(place) for place in range(len(end))]
    raise ValueError(
        "expected input_range with a number for each column, such as ([0, 0, 0], [1, 10, 1]), as a "
        "forecast reads no table to count the columns; got one for all"
    )


def _missing_in_words(columns: Columns, codes: np.ndarray) -> Iterator[str]:
    """A warning for each column with a category without rows and many missing cells."""
    known = zip(columns.names, columns.specs, columns.is_number, codes.T, strict=True)
    for name, spec, is_number, column in known:
        missing = (column == len(spec) + 1).sum()
        absent = [key for place, key in enumerate(spec) if not (column == place).any()]
        if not is_number and absent and missing >= _MANY_MISSING * len(column):
            yield (
                f"no row of column {name!r} has the category {absent[0]!r}, and {missing} of "
                f"{len(column)} are missing: pandas.read_csv takes NA, None and null for missing "
                "unless keep_default_na=False"
            )


def _warn_of_labels_beyond(labels, label_range) -> None:
    low, high = label_range
    beyond = int(((labels < low) | (labels > high)).sum())
    if beyond:
        _warn_the_curator(
            f"{beyond} of {len(labels)} labels are beyond label_range and are clipped"
        )


def _warn_the_curator(what: str) -> None:
    said = f"{what}; this is for the curator alone: the number is not private"
    warnings.warn(said, UserWarning, stacklevel=4)
