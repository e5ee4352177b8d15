"""Problems of the leaderboard: tables with their public facts, and Gaussian designs.

The six tables of `TABLES` are those on which methods were chosen; `FRESH` has thirteen more.

Ranges and categories are from the tables' descriptions, or else round numbers for the possible
values of a quantity; the comments say which. The round numbers of concrete, wine and protein were
chosen by somebody who had seen the tables' extremes.
"""

import csv
import functools
import hashlib
import math
import pathlib
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from sklearn.metrics import roc_auc_score

from experiments.private_kernel_learning.public_tables import ADULT_CATEGORIES, RANGES
from experiments.private_regression.fresh_tables import FRESH, read_fresh
from experiments.tables import read
from jaxdp.regression import ColumnFeatures, Columns, WithConstant

# Ranges of the columns in their order, then of the label: those of `public_tables` (round numbers
# if the descriptions state none), or those that the descriptions state.
_RANGES: dict[str, list[tuple[float, float]]] = {
    # Yeh (1998), UCI 165, states "Age: day (1~365)" and no other range.
    # Cortez et al. (2009), UCI 186, of wine, states "score between 0 and 10"; the others are round
    # numbers around the limits that law sets (volatile acidity 1.2, sulphur dioxide 200, alcohol
    # 15). Delve, family kin: angles of an arm of eight links, within 90 degrees to either side;
    # the label is a distance without a stated range: a guess. Rana (2013), UCI 265, of protein:
    # three areas and functions of them, a distance, penalties; "RMSD: 0 to 21 Angstrom".
    **RANGES,
    "concrete": [*RANGES["concrete"][:-2], (1, 365), RANGES["concrete"][-1]],
    # Tufekci (2014), UCI 294. The page states the ranges of temperature, vacuum, pressure,
    # humidity and energy.
    "power-plant": [
        *((1.81, 37.11), (25.36, 81.56), (992.89, 1033.30), (25.56, 100.16), (420.26, 495.76)),
    ],
}
# Kohavi (1996), UCI 2, `adult.names`: its lists of categories; "?" is missing. It has no ranges of
# numbers: the survey top-codes ages at 90 and gains at 99,999, and has at most 99 hours a week; 16
# levels of schooling. Left out: the survey's weight, and schooling in words.
_CENSUS: dict[str, Any] = {
    "age": (17, 90),
    "workclass": ADULT_CATEGORIES[1],
    "fnlwgt": None,
    "education": None,
    "education-num": (1, 16),
    "marital-status": ADULT_CATEGORIES[5],
    "occupation": ADULT_CATEGORIES[6],
    "relationship": ADULT_CATEGORIES[7],
    "race": ADULT_CATEGORIES[8],
    "sex": ADULT_CATEGORIES[9],
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
    "native-country": "United-States Cambodia England Puerto-Rico Canada Germany "
    "Outlying-US(Guam-USVI-etc) India Japan Greece South China Cuba Iran Honduras Philippines Italy"
    " Poland Jamaica Vietnam Mexico Portugal Ireland France Dominican-Republic Laos Ecuador Taiwan "
    "Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand Yugoslavia El-Salvador "
    "Trinadad&Tobago Peru Hong Holand-Netherlands",
}
_RICH = ">50K"
TABLES = (
    *("concrete", "wine-quality-red", "power-plant", "kin8nm", "protein-tertiary-structure"),
    "adult",
)
# Public bound on the norm of a design's rows, over the root of d. Labels have variance about 1.
_NORM, _LABELS = 1.4, (-4.0, 4.0)
_NUM_TEST = 4000
# A smaller probability counts as this one.
_LEAST_CHANCE = 1e-9


class Scored(NamedTuple):
    """The result of a learner on the test rows; NaN where it has none.

    Attributes:
        score: `Split.score`.
        log_loss: `Split.log_loss`.
        expected: the score that a forecast of public numbers and the true signal told.
    """

    score: float
    log_loss: float = math.nan
    expected: float = math.nan


class Split(NamedTuple):
    """Training rows and test rows, and their public facts.

    Attributes:
        train, test: inputs; with categories, arrays of numbers, texts, and None if missing.
        labels: labels of the training rows; numbers of classes, from 0.
        wanted: labels of the test rows; for a design without noise.
        columns: argument of `Columns`; None for a design, which has a public bound on row norms.
        label_range: public range of the labels; None for classes.
        num_classes: number of classes; 0 for a label that is a number.
    """

    train: np.ndarray
    labels: Float[np.ndarray, " n"]
    test: np.ndarray
    wanted: Float[np.ndarray, " m"]
    columns: dict[str, Any] | None
    label_range: tuple[float, float] | None
    num_classes: int = 0

    @property
    def delta(self) -> float:
        """n to the power -1.1."""
        return len(self.labels) ** -1.1

    @property
    def is_class(self) -> bool:
        """True if labels are classes."""
        return self.num_classes > 0

    @property
    def has_texts(self) -> bool:
        """True if a column has categories."""
        return any(isinstance(one, list) for one in (self.columns or {}).values())

    def matrices(self, is_additive: bool = False) -> tuple[np.ndarray, np.ndarray, float]:
        """Features of the training and of the test rows, and a public bound on a row's norm.

        A number is mapped from its range to [-1, 1], or to functions on 16 bins; a category has its
        own feature; a missing number is 0 and has another; the last feature is 1. Longer rows of a
        design are scaled down to the bound.
        """
        if self.columns is None:
            bound = _NORM * math.sqrt(self.train.shape[1])
            norms = np.linalg.norm(self.train, axis=1, keepdims=True)
            return self.train * np.minimum(1, bound / norms), self.test, bound
        if self.has_texts or is_additive:
            columns = Columns(self.columns)
            features = WithConstant(ColumnFeatures(columns, is_additive), 1.0)
            train, test = (
                np.asarray(features(columns.codes(rows)), float) for rows in (self.train, self.test)
            )
            return train, test, features.norm_bound
        low, high = np.array([*self.columns.values()], float).T
        scaled = (
            np.clip((rows - low) / (high - low) * 2 - 1, -1, 1) for rows in (self.train, self.test)
        )
        train, test = (np.column_stack([rows, np.ones(len(rows))]) for rows in scaled)
        return train, test, math.sqrt(len(low) + 1)

    def score(self, predicted: Float[np.ndarray, "m ..."]) -> float:
        """AUC for classes; else the explained share of the variance, at least -1.

        Of several classes it is the mean of each against the rest, by its probability. Predictions
        are clipped to the public range of the labels, which costs nothing.
        """
        if self.label_range is None:
            predicted = np.nan_to_num(predicted)
            if predicted.ndim == 1:
                return float(roc_auc_score(self.wanted, predicted))
            pairs = enumerate(predicted.T)
            return float(np.mean([roc_auc_score(self.wanted == one, of) for one, of in pairs]))
        if self.columns is not None:
            predicted = np.clip(np.nan_to_num(predicted), *self.label_range)
        left = np.mean((predicted - self.wanted) ** 2) / np.var(self.wanted)
        return float(max(-1.0, 1 - left)) if np.isfinite(left) else -1.0

    def log_loss(self, chances: Float[np.ndarray, "m classes"]) -> float:
        """Mean of minus the logarithm of the probability of the test rows' classes."""
        own = chances[np.arange(len(chances)), self.wanted.astype(int)]
        return float(-np.mean(np.log(np.maximum(own, _LEAST_CHANCE))))


class Design(NamedTuple):
    r"""Gaussian rows whose covariance has a geometric spectrum, and a linear function with noise.

    The coefficients have the same magnitude in every direction of the spectrum, $R(0) = 0.5$, and
    label noise has standard deviation 0.3.

    Attributes:
        dim: d.
        ratio: n over d.
        kappa: the largest eigenvalue over the least; their mean is 1.
    """

    dim: int
    ratio: int
    kappa: float

    def __str__(self):
        return f"d={self.dim}, n/d={self.ratio}, kappa={self.kappa:g}"

    def split(self, random: np.random.Generator) -> Split:
        """New rows in a new basis."""
        values = np.geomspace(1, 1 / self.kappa, self.dim)
        values /= values.mean()
        basis, _ = np.linalg.qr(random.normal(size=(self.dim, self.dim)))
        # y = sum of sign z sqrt(lambda) c over the modes z: its variance is 2 R(0) = 1.
        signs = random.choice([-1.0, 1.0], self.dim) / math.sqrt(self.dim)
        modes = random.normal(size=(self.dim * self.ratio + _NUM_TEST, self.dim)) * np.sqrt(values)
        signal, rows = modes @ signs, modes @ basis.T
        labels = signal[_NUM_TEST:] + 0.3 * random.normal(size=self.dim * self.ratio)
        return Split(rows[_NUM_TEST:], labels, rows[:_NUM_TEST], signal[:_NUM_TEST], None, _LABELS)


def generator(*words: Any) -> np.random.Generator:
    """A random generator seeded by some words."""
    return np.random.default_rng(number_of(*words))


def number_of(*words: Any) -> int:
    """A 256-bit hash of some words."""
    return int(hashlib.sha256("/".join(map(str, words)).encode()).hexdigest(), 16)


def table_split(data: pathlib.Path, name: str, share: float, random: np.random.Generator) -> Split:
    """A table's rows in random order, the first share of them for the test."""
    inputs, labels, *facts = _table(data, name)
    order = random.permutation(len(labels))
    test, train = np.split(order, [round(share * len(order))])
    return Split(inputs[train], labels[train], inputs[test], labels[test], *facts)


@functools.cache
def _table(data: pathlib.Path, name: str) -> tuple[Any, ...]:
    """Inputs and labels, and the public columns, label range and number of classes."""
    if name in FRESH:
        classes = FRESH[name].classes
        return *read_fresh(data, name), None if classes else FRESH[name].labels, len(classes)
    if name != "adult":
        *columns, label_range = _RANGES[name]
        table = read(data, name)
        named = dict(zip(table.input_names, columns, strict=True))
        return table.inputs, table.labels, named, label_range, 0
    with (data / "uci" / "adult.csv").open(newline="") as file:
        rows = np.array([row for row in csv.reader(file, skipinitialspace=True) if row], object)
    rows[rows == "?"] = None
    kept = [place for place, spec in enumerate(_CENSUS.values()) if spec is not None]
    columns = {
        name: spec.split() if isinstance(spec, str) else spec
        for name, spec in _CENSUS.items()
        if spec is not None
    }
    return rows[:, kept], (rows[:, -1] == _RICH).astype(float), columns, None, 2
