r"""Tables of known coefficients, and the estimates that one has of them without privacy.

Columns of numbers fill [0, 1], their public range, unless the kind says otherwise. Coefficients
times the deviation of their column are evenly spaced. The signal has variance 1, the noise of
labels too.
"""

import functools
from typing import Any, NamedTuple

import numpy as np
import pandas
from jaxtyping import Float
from scipy.optimize import brentq
from scipy.special import expit, ndtr

from jaxdp.estimators import DPLinearRegression, DPLogisticRegression
from jaxdp.regression import Columns

_OFFSET = 2.0  # mean of labels
_CORRELATION = 0.6  # of normal numbers in neighbouring columns
_DENSE = (0.4, 0.5)  # where the first column is, if it is concentrated
_RARE = 0.05  # share of the second class
_STRONG = 3.0  # deviation of a strong signal
_SKEW = 0.6  # deviation of the logarithm of a skewed label's mean
_SHARES = {
    "first": (0.4, 0.3, 0.2, 0.1),
    "second": (0.35, 0.25, 0.15, 0.12, 0.08, 0.05),
}
_NEWTON_STEPS = 10
# Relative size of eigenvalues that are zero: the cells of a column sum to the constant.
_RANK = 1e-9


class Setting(NamedTuple):
    """Tables of one kind and size, fitted under one budget.

    Attributes:
        kind: "independent", "correlated", "concentrated", "skewed noise", "skewed label",
            "rare", "strong", "categories" or "empty cells". The last two have two columns of texts;
            no cell is missing, and of "categories" this is public.
        num_rows: n.
        dim: number of columns.
        epsilon: budget; delta is n^-1.1.
        is_class: whether labels are classes.
    """

    kind: str
    num_rows: int
    dim: int
    epsilon: float
    is_class: bool = False

    def __str__(self):
        model = "logistic" if self.is_class else "linear"
        return f"{model}, {self.kind}, n = {self.num_rows}, d = {self.dim}, ε = {self.epsilon:g}"

    def estimator(self, noise_seed: int) -> Any:
        """The private estimator with its public facts."""
        facts: dict[str, Any] = {"delta": self.num_rows**-1.1, "noise_seed": noise_seed}
        if self.has_texts:
            specs: dict[str, Any] = {name: (0.0, 1.0) for name in self.numbers}
            specs |= {name: _keys(name) for name in _SHARES}
            complete = [*specs] if self.kind == "categories" else []
            facts["columns"] = Columns(specs, complete=complete)
        else:
            facts["input_range"] = (0.0, 1.0)
        if self.is_class:
            return DPLogisticRegression(self.epsilon, classes=(0, 1), **facts)
        return DPLinearRegression(self.epsilon, **facts)

    @property
    def has_texts(self) -> bool:
        """Whether there are columns of categories."""
        return self.kind in ("categories", "empty cells")

    @property
    def numbers(self) -> list[str]:
        """Names of the columns of numbers."""
        if not self.has_texts:
            return [str(place) for place in range(self.dim)]
        return [f"number {place}" for place in range(self.dim - len(_SHARES))]

    @property
    def names(self) -> list[str]:
        """The estimator's names of the coefficients that have rows."""
        if not self.has_texts:
            return self.numbers
        lines = [f"{name}, -1 at 0 and 1 at 1" for name in self.numbers]
        return lines + [f"{name} is {key}" for name in _SHARES for key in _keys(name)]


class Table(NamedTuple):
    """A table, and what is to be learnt of it.

    Attributes:
        inputs: array, or data frame.
        labels: numbers or classes.
        features: columns in the units of the coefficients, the constant last.
        centring: map that moves the mean over the rows of each column of categories to the
            intercept.
        truth: the population's coefficients, the intercept last.
    """

    inputs: Any
    labels: np.ndarray
    features: Float[np.ndarray, "n features"]
    centring: Float[np.ndarray, "features features"]
    truth: Float[np.ndarray, " features"]

    def without_privacy(self, is_class: bool) -> tuple[np.ndarray, np.ndarray]:
        """Estimates of least squares or of largest likelihood, and their standard deviations."""
        features, labels = self.features, self.labels
        if is_class:
            weights = np.zeros(features.shape[1])
            for _ in range(_NEWTON_STEPS):
                chance = expit(features @ weights)
                covariance = _inverse((features.T * (chance * (1 - chance))) @ features)
                weights = weights + covariance @ (features.T @ (labels - chance))
        else:
            inverse = _inverse(features.T @ features)
            weights = inverse @ (features.T @ labels)
            freedom = len(labels) - np.linalg.matrix_rank(inverse, rtol=_RANK, hermitian=True)
            covariance = inverse * np.sum((labels - features @ weights) ** 2) / freedom
        covariance = self.centring @ covariance @ self.centring.T
        return self.centring @ weights, np.sqrt(np.diag(covariance))


def draw(setting: Setting, random: np.random.Generator) -> Table:
    """A table of a setting."""
    count, weights = setting.num_rows, _weights(setting)
    numbers = _numbers(setting, count, random)
    inputs, features, centring = numbers, numbers, np.eye(len(weights))
    if setting.has_texts:
        texts = {name: random.choice(len(p), count, p=p) for name, p in _SHARES.items()}
        cells = [np.eye(len(_SHARES[name]))[codes] for name, codes in texts.items()]
        features = np.hstack([2 * numbers - 1, *cells])
        start = numbers.shape[1]
        for one in cells:
            place = np.arange(start, start + one.shape[1])
            centring[np.ix_(place, place)] -= one.mean(axis=0)
            centring[-1, place] += one.mean(axis=0)
            start += len(place)
        words = {name: np.array(_keys(name))[codes] for name, codes in texts.items()}
        inputs = pandas.DataFrame(dict(zip(setting.numbers, numbers.T, strict=True)) | words)
    features = np.column_stack([features, np.ones(count)])
    signal = features @ weights
    if setting.is_class:
        labels = (random.random(count) < expit(signal)).astype(int)
    elif setting.kind == "skewed label":
        curve, weights = _curved(setting.dim)
        # Student's t with 5 degrees of freedom has the variance 5/3.
        heavy = random.standard_t(5, count) * np.sqrt(3 / 5)
        labels = np.exp((numbers - 0.5) @ curve) + _SKEW * heavy
    elif setting.kind == "skewed noise":
        labels = signal + random.exponential(size=count) - 1
    else:
        labels = signal + random.normal(size=count)
    return Table(inputs, labels, features, centring, centring @ weights)


def _keys(name: str) -> list[str]:
    return [f"key {place}" for place in range(len(_SHARES[name]))]


def _inverse(square: np.ndarray) -> np.ndarray:
    return np.linalg.pinv(square, rcond=_RANK, hermitian=True)


def _numbers(setting: Setting, count: int, random: np.random.Generator) -> np.ndarray:
    """The columns of numbers, with uniform margins."""
    dim = len(setting.numbers)
    if setting.kind == "correlated":
        normal = random.normal(size=(count, dim))
        return ndtr(normal @ np.linalg.cholesky(_correlations(dim)).T)
    numbers = random.random((count, dim))
    if setting.kind == "concentrated":
        low, high = _DENSE
        numbers[:, 0] = low + (high - low) * numbers[:, 0]
    return numbers


def _correlations(dim: int) -> np.ndarray:
    """Correlations of normal numbers, of which the columns are ranks."""
    places = np.arange(dim)
    return _CORRELATION ** np.abs(places[:, None] - places)


@functools.cache
def _weights(setting: Setting) -> np.ndarray:
    """The coefficients of the signal, the constant last."""
    dim = len(setting.numbers)
    shape, stds, centres = np.linspace(-1, 1, dim), np.full(dim, 12**-0.5), np.full(dim, 0.5)
    own = np.eye(dim)
    if setting.kind == "concentrated":
        low, high = _DENSE
        stds[0], centres[0] = (high - low) * stds[0], (low + high) / 2
    if setting.kind == "correlated":
        # Pearson's correlation of ranks of normal numbers.
        own = 6 / np.pi * np.arcsin(_correlations(dim) / 2)
    variance = float(shape @ own @ shape)
    effects, mean = [], 0.0
    if setting.has_texts:
        # In units of the place from -1 to 1.
        stds, centres = 2 * stds, np.zeros(dim)
        for shares in map(np.array, _SHARES.values()):
            effect = np.linspace(-1, 1, len(shares))
            effects.append(effect)
            mean += float(shares @ effect)
            variance += float(shares @ (effect - shares @ effect) ** 2)
    weights = np.concatenate([shape / stds, *effects])
    size = (_STRONG if setting.kind == "strong" else 1.0) / np.sqrt(variance)
    middle = float(centres @ weights[:dim]) + mean
    offset = 0.0 if setting.is_class else _OFFSET
    if setting.kind == "rare":
        signal = size * (_numbers(setting, 100_000, np.random.default_rng(0)) - 0.5) @ weights
        offset = brentq(lambda shift: np.mean(expit(signal + shift)) - _RARE, -20.0, 0.0)
    return np.append(size * weights, offset - size * middle)


def _curved(dim: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Coefficients b of a label's mean exp(b'(x - 1/2)), and those of its best linear function.

    Columns are independent, so with $M(b) = E e^{b(x - 1/2)} = 2 \sinh(b/2)/b$ the slopes are
    $12 M'(b_j) \prod_{k \ne j} M(b_k)$.
    """
    shape = np.linspace(-1, 1, dim)
    curve = _SKEW * np.sqrt(12 / (shape @ shape)) * shape
    means = 2 * np.sinh(curve / 2) / curve
    slopes = 12 * (np.cosh(curve / 2) - means) / curve * means.prod() / means
    return curve, np.append(slopes, means.prod() - slopes.sum() / 2)
