r"""Private linear regression and classification: one fit, one ledger, one released function.

*Proof.* A fit is a sequence of Gaussian mechanisms on the same rows, each with a fixed share of
$\mu^2$ (`Ledger`; sensitivities: `private_sums`): without a label range histograms of the labels;
for regression a histogram of the labels and up to seven of residuals, for classes their counts and
the means of three numbers of each row; second moments in rounds that share one entry; and sums of
clipped gradients that share another with a test of curves and second moments for them, or in one
pass use disjoint rows and cost as much as one sum. Everything else is computed from these and
public numbers, which alone fix the number of releases and their shares. `ObjectivePerturbation`
ends with another mechanism and proves its own composition. Neighbours differ in one row; n, the
columns, their ranges and the classes are public.
"""

import abc
import dataclasses
import math
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from jaxdp.core.checks import described, host_array, require_count, require_kind
from jaxdp.kernels import AbstractFeatureMap, ReleasedFunction
from jaxdp.kernels.base import require_feature_map
from jaxdp.kernels.release.private_learner import FitRequest
from jaxdp.privacy import AbstractBudget, ApproximateDP, GaussianMechanism, Release
from jaxdp.regression.descent import AbstractSlopes, ClassSlopes, SquaredSlopes
from jaxdp.regression.known import Known
from jaxdp.regression.ledger import Ledger
from jaxdp.regression.methods import AbstractMethod, Automatic, ObjectivePerturbation
from jaxdp.regression.private_sums import PrivateRows, released_distribution, released_magnitudes

_RANGE = 6.0  # standard deviations in a learnt label range
_ZOOMS, _NARROW = 3, 1.0  # closer looks at labels in less than this part of a range of length 2
_FILLED, _NEARLY = 4.0, 0.9  # standard deviations of a filled bin's count; share of the labels
# A histogram shows labels if n mu is this, with its least share; the largest share of all of them.
_SEEN, _LEAST_SHARE, _MOST_SHARE = 34.0, 0.01, 0.4
_LARGEST_LABEL = float(np.finfo(np.float32).max)
_LEAST_MU = 2.0**-23  # per feature or output: with less the grid is half of some release's noise
_CERTIFIED = (
    "sums are computed without rounding and released with exact normal noise, rounded to a grid of "
    "their own"
)
_PUBLIC_SEED = 20_220_501  # published; draws no features here
_PUBLIC = "the number of records, the columns, their ranges and the classes are public"


def checked_label_range(given: Any) -> tuple[float, float] | None:
    """A public range of labels as two numbers, or None; ValueError or TypeError otherwise."""
    if given is None:
        return None
    ends = host_array("both ends of label_range", given)
    if ends.shape != (2,):
        raise ValueError(f"expected label_range to be a pair (low, high), got {described(given)}")
    low, high = ends.tolist()
    if not -_LARGEST_LABEL <= low < high <= _LARGEST_LABEL:
        raise ValueError(
            f"expected label_range with low < high, both finite in float32, got ({low}, {high})"
        )
    return low, high


def range_share(num_samples: int, mu: float) -> float:
    """The budget share of a learnt label range, by public numbers."""
    one = max(_LEAST_SHARE, (_SEEN / (num_samples * mu)) ** 2)
    return (_ZOOMS + 1) * one


def _learnt_range(labels: Float[np.ndarray, " n"], ledger: Ledger, source) -> tuple[float, float]:
    share = range_share(len(labels), ledger.mu)
    if share > _MOST_SHARE:
        raise ValueError(
            "expected label_range=(low, high): with so few rows this budget cannot learn one"
        )
    share /= _ZOOMS + 1
    mu = ledger.spend("histogram of the labels' magnitudes", share)
    found = released_magnitudes(labels, mu, source, half_octaves=(-120, 120))
    high = float(_RANGE * found.scale)
    low, is_one_bin = -high, False
    for zoom in range(_ZOOMS):
        # Equal counts of two ranges have noise of their own.
        own = source.hiding("range", zoom)
        # Labels far from 0 are in few of the bins of a range about 0.
        mu = ledger.spend("histogram of the labels, for a range", share)
        counts, ends = released_distribution(_in_range(labels, low, high), mu, own)
        # Only bins that no noise fills, if they have nearly all labels.
        filled = np.flatnonzero(counts > _FILLED * math.sqrt(2) / mu)
        first, last = (filled[0], filled[-1] + 1) if len(filled) else (0, len(counts))
        least, most = float(ends[first]), float(ends[last])
        is_whole = counts[first:last].sum() > _NEARLY * len(labels)
        is_one_bin = is_whole and last - first == 1
        if is_whole and 3 * (most - least) < _NARROW:
            middle, bound = (low + high) / 2, (high - low) / 2
            low = middle + bound * (2 * least - most)
            high = middle + bound * (2 * most - least)
    if is_one_bin:
        raise ValueError(
            "expected label_range=(low, high): the labels' distance from 0 is too large, beside "
            "their differences, for a range to be learnt"
        )
    return low, high


def _in_range(labels: Float[np.ndarray, " n"], low: float, high: float) -> Float[np.ndarray, " n"]:
    """Labels from -1 to 1, clipped to a range."""
    return (np.clip(labels, low, high) - (low + high) / 2) / ((high - low) / 2)


def _checked_num_classes(count: Any) -> int:
    return require_count("num_classes", count, least=2)


class LinearFit(eqx.Module):
    """The public result of a fit: the function, its ledger, and the errors of its coefficients."""

    release: ReleasedFunction
    ledger: Ledger = eqx.field(static=True)
    noise_std: Float[np.ndarray, " features"]  # of the coefficients of the function
    known: Known | None  # unbiased coefficients and their errors; None without a plan


class _AbstractLinearLearner(eqx.Module):
    """A learner of a linear function of public features."""

    features: eqx.AbstractVar[AbstractFeatureMap]
    method: eqx.AbstractVar[AbstractMethod]
    tests_curves: eqx.AbstractVar[bool]

    def __check_init__(self):
        require_feature_map("features", self.features)
        if not math.isfinite(self.features.norm_bound):
            raise ValueError(
                "expected features with a public bound: wrap them in ClippedFeatures(map, bound)"
            )
        expected = "a method, such as jaxdp.regression.Automatic()"
        require_kind("method", self.method, AbstractMethod, expected)

    @property
    def _num_outputs(self) -> int:
        """The number of outputs or of classes."""
        return 1

    @abc.abstractmethod
    def _slopes(self, labels, ledger: Ledger, source) -> tuple[AbstractSlopes, float, float]:
        """The loss at the labels, a known intercept, and the unit of the function."""

    def fit(
        self,
        inputs: Any,
        labels: Any,
        *,
        epsilon: float | AbstractBudget,
        delta: float | None = None,
        noise_seed: int | None = None,
    ) -> LinearFit:
        """Learn from a table; `AbstractPrivateLearner.fit` has the arguments.

        The released function is a value within the labels' range, the logit of class 1, or k > 2
        scores. ValueError if too few labels differ from zero to learn a range: releases until then
        are spent.
        """
        budget = {"epsilon": epsilon, "delta": delta, "noise_seed": noise_seed}
        if self.features.reader is not None:
            inputs = self.features.reader.codes(inputs)
        request = FitRequest.checked(
            inputs, labels, public_seed=_PUBLIC_SEED, warning=None, **budget
        )
        if isinstance(self.method, ObjectivePerturbation):
            expected = "an ApproximateDP, or epsilon and delta, for ObjectivePerturbation"
            require_kind("the budget", request.budget, ApproximateDP, expected)
        mu = float(request.budget.largest_mu)
        size = max(self.features.num_outputs, self._num_outputs)
        if not _LEAST_MU * size <= mu < math.inf:
            raise ValueError(
                "expected a budget whose noise 64 bits can hold, got "
                f"{request.budget!r} for {size} features or classes"
            )
        if request.dim != self.features.dim:
            raise ValueError(f"expected inputs of {self.features.dim} columns, got {request.dim}")
        source = request.noise()
        ledger = Ledger(mu, (request.epsilon, request.delta))
        slopes, intercept, scale = self._slopes(request.targets, ledger, source)
        rows = PrivateRows.of(self.features, request.table, source, self.tests_curves)
        learnt = self.method.learnt(rows, slopes, ledger)
        lines, features = rows.structure.lines, self.features
        if learnt.is_straight and lines is not None:
            features = lines.features
        # Weights are for the rows over their bound in the descent.
        unit = scale / self.features.norm_bound
        weights, noise_std = learnt.weights * unit, learnt.noise_std * unit
        offset = intercept + scale * np.atleast_1d(learnt.offset)
        statement = learnt.statement or Release(
            "noisy sums over the records, and the linear function made of them",
            "replace-one",
            source.proved(GaussianMechanism(mu)),
            source.assumptions(_CERTIFIED),
            is_certified=not source.is_guessable,
        )
        statement = dataclasses.replace(statement, assumptions=(_PUBLIC, *statement.assumptions))
        is_regression = isinstance(slopes, SquaredSlopes)
        release = request.released(
            features,
            request.in_precision(weights if weights.shape[1] > 1 else weights[:, 0]),
            statement,
            intercept=request.in_precision(offset if len(offset) > 1 else offset[0]),
            label_bound=(intercept - scale, intercept + scale) if is_regression else None,
        )
        known = learnt.known and learnt.known.times(unit)
        return LinearFit(release, ledger, noise_std, known)


class PrivateLinearRegression(_AbstractLinearLearner):
    """Private least squares on public features.

    Args:
        features: feature map with a finite norm bound; a constant feature makes the intercept.
        label_range: (low, high), public; labels beyond it are clipped. With None a part of the
            budget buys one, by noisy quantiles of the nonzero magnitudes: plus or minus six
            standard deviations by the median, or three by the largest, if that is more; or a part
            of it, if a histogram shows that labels are in a small one.
        method: how the weights are fitted; `Automatic()` chooses by public numbers.
        tests_curves: whether additive features are used only if a private test says that curves
            are better than lines; otherwise the released function has linear features.

    Example:
        >>> import numpy as np
        >>> from jaxdp.kernels import ClippedFeatures, IdentityFeatures
        >>> from jaxdp.regression import PrivateLinearRegression
        >>> features = ClippedFeatures(IdentityFeatures(2), 1.5)
        >>> learner = PrivateLinearRegression(features, label_range=(0.0, 2.0))
        >>> inputs = np.random.default_rng(0).uniform(size=(500, 2))
        >>> fit = learner.fit(inputs, inputs.sum(axis=1), epsilon=2.0, delta=1e-5)
        >>> fit.release(inputs[:3]).shape, len(fit.ledger.entries)
        ((3,), 5)
    """

    features: AbstractFeatureMap
    label_range: tuple[float, float] | None = eqx.field(static=True, converter=checked_label_range)
    method: AbstractMethod = Automatic()
    tests_curves: bool = eqx.field(static=True, default=False, kw_only=True)

    def _slopes(self, labels, ledger, source):
        if self.label_range is None:
            low, high = _learnt_range(labels, ledger, source)
        else:
            low, high = self.label_range
        middle, bound = (low + high) / 2, (high - low) / 2
        return SquaredSlopes(_in_range(labels, low, high)), middle, bound


class PrivateLinearClassifier(_AbstractLinearLearner):
    """Private logistic regression of two classes or more on public features.

    Args:
        features: feature map with a finite norm bound; a constant feature makes the intercept.
        num_classes: number of classes k >= 2, public; labels are numbers from 0 to k - 1.
        method: the learning method.
        tests_curves: see `PrivateLinearRegression`.

    Example:
        >>> import numpy as np
        >>> from jaxdp.kernels import ClippedFeatures, IdentityFeatures
        >>> from jaxdp.regression import PrivateLinearClassifier
        >>> features = ClippedFeatures(IdentityFeatures(2), 1.5)
        >>> inputs = np.random.default_rng(0).uniform(size=(500, 2))
        >>> labels = (inputs.sum(axis=1) > 1).astype(int)
        >>> fit = PrivateLinearClassifier(features).fit(inputs, labels, epsilon=2.0, delta=1e-5)
        >>> fit.release(inputs[:3]).shape
        (3,)
    """

    features: AbstractFeatureMap
    num_classes: int = eqx.field(static=True, default=2, converter=_checked_num_classes)
    method: AbstractMethod = Automatic()
    tests_curves: bool = eqx.field(static=True, default=False, kw_only=True)

    @property
    def _num_outputs(self):
        return self.num_classes

    def _slopes(self, labels, ledger, source):
        count = self.num_classes
        if not np.isin(labels, np.arange(count)).all():
            raise ValueError(f"expected labels from 0 to {count - 1}, got others")
        places = labels.astype(np.int64)
        return ClassSlopes(places, count), 0.0, 1.0
