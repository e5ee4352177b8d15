r"""Other methods for a private table and a budget, each in a few lines of NumPy.

Neighbours differ in one record, as everywhere here. A release of sensitivity s with normal noise of
standard deviation $s/\mu$ is $\mu$-GDP; such releases compose by the root of the sum of squares.
Rows have norms of at most B, a public bound. Labels are in [-1, 1] after subtraction of the middle
of their public range, or are -1 and +1 for two classes. If a method needs a bound on labels or
slopes it has a private scale, like the estimators of jaxdp: a twentieth of $\mu^2$ buys the median
magnitude of the labels, which are clipped to three times the corresponding normal deviation.

Solutions of convex problems are treated as exact, and normal draws as real numbers: both favour
these methods. Rates and numbers of steps that papers leave open were chosen on other splits of the
same tables.
"""

import functools
import importlib
import importlib.metadata
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq, minimize
from sklearn.linear_model import LogisticRegression

from jaxdp.privacy import gaussian_mu

Matrix = Float[np.ndarray, "n d"]
Vector = Float[np.ndarray, " d"]
# Share of mu^2 for the scale of the labels; share of epsilon and delta if a proof is not in GDP.
_SCALE_SHARE = 0.05
_ROUNDS, _STEPS = 10, 100


class Rows(NamedTuple):
    """Private rows and labels, and their public facts.

    Attributes:
        features: rows with norms of at most `bound`.
        labels: values in [-1, 1]; -1 and +1 for classes.
        bound: B.
        epsilon, delta: the budget.
        is_class: True for logistic losses.
        random: generator of the noise.
    """

    features: Matrix
    labels: Float[np.ndarray, " n"]
    bound: float
    epsilon: float
    delta: float
    is_class: bool
    random: Any

    @property
    def mu(self) -> float:
        """The budget in Gaussian DP."""
        return float(gaussian_mu(self.epsilon, self.delta))

    def released(self, value: np.ndarray, sensitivity: float, mu: float) -> np.ndarray:
        """The value with normal noise."""
        return value + sensitivity / mu * self.random.standard_normal(np.shape(value))


def scale_of(rows: Rows, mu: float) -> float:
    """A noisy normal standard deviation of the labels; 1 for classes, whose labels have size 1."""
    if rows.is_class:
        return 1.0
    # Half octaves from 2^-12; one record moves two counts by one.
    with np.errstate(divide="ignore"):
        places = np.clip(np.floor(2 * np.log2(np.abs(rows.labels))) + 24, 0, 24).astype(int)
    counts = rows.released(np.bincount(places, minlength=25), math.sqrt(2), mu)
    above = np.cumsum(counts[::-1])[::-1]
    place = max(np.flatnonzero(above >= len(rows.labels) / 2), default=0)
    return 2.0 ** ((place - 23.5) / 2) / 0.6745


def _clipped(rows: Rows) -> tuple[Rows, float, float]:
    """Rows with labels clipped to a private bound, that bound, and the rest of mu."""
    if rows.is_class:
        return rows, 1.0, rows.mu
    most = min(1.0, 3 * scale_of(rows, rows.mu * math.sqrt(_SCALE_SHARE)))
    labels = np.clip(rows.labels, -most, most)
    return rows._replace(labels=labels), most, rows.mu * math.sqrt(1 - _SCALE_SHARE)


def noisy_gram(rows: Rows, mu: float) -> tuple[np.ndarray, float]:
    r"""X'X with noise, and the noise's standard deviation off the diagonal.

    One record moves the diagonal and $\sqrt 2$ times the upper triangle by at most $\sqrt 2 B^2$.
    """
    upper = np.triu_indices(rows.features.shape[1])
    weights = np.where(upper[0] == upper[1], 1, math.sqrt(2))
    exact = (rows.features.T @ rows.features)[upper]
    gram = np.zeros((upper[0].max() + 1,) * 2)
    found = rows.released(weights * exact, math.sqrt(2) * rows.bound**2, mu) / weights
    gram[upper] = gram.T[upper] = found
    return gram, rows.bound**2 / mu


def noisy_statistics(rows: Rows) -> Vector:
    """Least squares on noisy X'X and X'y, half the budget each; ridge: the noise's spectral edge.

    Source: Vu and Slavkovic (2009); Dwork, Talwar, Thakurta and Zhang (2014).
    """
    rows, most, mu = _clipped(rows)
    gram, std = noisy_gram(rows, mu / math.sqrt(2))
    values, vectors = np.linalg.eigh(gram)
    right = rows.released(rows.features.T @ rows.labels, 2 * rows.bound * most, mu / math.sqrt(2))
    damped = np.maximum(values, 0) + 2 * std * math.sqrt(len(values))
    return vectors @ (vectors.T @ right / damped)


def _adaptive(rows: Rows, mu: float) -> np.ndarray:
    """Noisy X'X plus the ridge of AdaSSP, each with this mu; AdaSSP's constant is rho = 0.05."""
    gram, std = noisy_gram(rows, mu)
    size, tail = len(gram), math.sqrt(math.log(6 / rows.delta))
    least = np.linalg.eigvalsh(rows.features.T @ rows.features)[0]
    # One record moves every eigenvalue by at most B^2.
    found = rows.released(np.array(least), rows.bound**2, mu) - tail * rows.bound**2 / mu
    ridge = std * math.sqrt(size * math.log(2 * size**2 / 0.05)) - max(0.0, float(found))
    return gram + max(0.0, ridge) * np.eye(size)


def adassp(rows: Rows) -> Vector:
    """Adaptive sufficient statistics: the ridge is as small as a noisy least eigenvalue allows.

    A third of mu^2 each for X'X, X'y and that eigenvalue. Source: Wang (2018), Algorithm 2, with
    its three releases composed in Gaussian DP as in Tang et al. (2023).
    """
    rows, most, mu = _clipped(rows)
    third = mu / math.sqrt(3)
    right = rows.released(rows.features.T @ rows.labels, 2 * rows.bound * most, third)
    return np.linalg.solve(_adaptive(rows, third), right)


def boosted_adassp(rows: Rows) -> Vector:
    """AdaSSP repeated on clipped residuals: ten rounds share the third for X'y.

    Residuals are clipped to one standard deviation of the labels. Source: Tang et al. (2023), whose
    hundred rounds did worse on other splits of every table, and better on one large design.
    """
    scale = scale_of(rows, rows.mu * math.sqrt(_SCALE_SHARE))
    third = rows.mu * math.sqrt((1 - (not rows.is_class) * _SCALE_SHARE) / 3)
    inverse = np.linalg.inv(_adaptive(rows, third))
    weights = np.zeros(rows.features.shape[1])
    for _ in range(_ROUNDS):
        residuals = np.clip(rows.labels - rows.features @ weights, -scale, scale)
        right = rows.features.T @ residuals
        found = rows.released(right, 2 * rows.bound * scale, third / math.sqrt(_ROUNDS))
        weights = weights + inverse @ found
    return weights


def _loss(rows: Rows, width: float) -> tuple[Callable, float]:
    """Huber's loss of this width, or the logistic loss: value, slopes, and maximal curvature."""
    labels = rows.labels
    if rows.is_class:
        return lambda at: (
            np.logaddexp(0, -labels * at).sum(),
            -labels * 0.5 * (1 - np.tanh(labels * at / 2)),
        ), 0.25

    def huber(at):
        left = at - labels
        slopes = np.clip(left, -width, width)
        return np.sum(slopes * (left - slopes / 2)), slopes

    return huber, 1.0


def _minimiser(rows: Rows, loss: Callable, ridge: float, linear: np.ndarray) -> Vector:
    """The minimiser of the sum of losses + ridge / 2 |w|^2 + linear . w."""

    def objective(weights):
        value, slopes = loss(rows.features @ weights)
        gradient = rows.features.T @ slopes + ridge * weights + linear
        return value + ridge / 2 * weights @ weights + linear @ weights, gradient

    options = {"maxiter": 400, "ftol": 1e-13, "gtol": 1e-7}
    return minimize(objective, 0 * linear, jac=True, method="L-BFGS-B", options=options).x


def perturbation(epsilon: float, delta: float) -> tuple[float, float]:
    r"""Objective perturbation's noise over the sensitivity, and its ridge over L B^2.

    *Proof.* Let b be the noise that gives w. Its density under one table, divided by that under a
    neighbour, is at most $(1 + L B^2/\Delta) \exp((2\langle b, g\rangle + |g|^2)/(2\sigma^2))$: the
    curvature of one record has rank one, and g, the difference of two gradients, has norm at most s
    and lies in the plane of the two records. In this plane b has a norm above $t\sigma$,
    $t = \sqrt{2 \ln(1/\delta)}$, with probability $\delta$. So it suffices that
    $\ln(1 + L B^2/\Delta) + a t + a^2/2 \le \epsilon$ for $a = s/\sigma$; each part gets half, as
    in Kifer, Smith and Thakurta (2012), who bound more loosely and count records that are added.
    """
    tail = math.sqrt(2 * math.log(1 / delta))
    shift = math.sqrt(tail**2 + epsilon) - tail
    # 1 / (exp(epsilon / 2) - 1), without overflow.
    return 1 / shift, -math.exp(-epsilon / 2) / math.expm1(-epsilon / 2)


def objective_perturbation(rows: Rows) -> Vector:
    """The minimiser of a perturbed sum of Huber's losses, three deviations wide, or logistic ones.

    The ridge is at least a fifth of the noise's norm, divided by the norm of coefficients that
    predict H, the largest slope, at a row of norm B. The smaller ridge that privacy needs
    (`perturbation`) was worse on other splits of the small tables.
    """
    epsilon, delta, width = rows.epsilon, rows.delta, 1.0
    if not rows.is_class:
        share = _SCALE_SHARE * epsilon, 0.1 * delta
        epsilon, delta = epsilon - share[0], delta - share[1]
        width = min(1.0, 3 * scale_of(rows, float(gaussian_mu(*share))))
    noise, ridge = perturbation(epsilon, delta)
    loss, curvature = _loss(rows, width)
    size = rows.features.shape[1]
    ridge = rows.bound**2 * max(ridge * curvature, 0.4 * noise * math.sqrt(size))
    linear = rows.released(np.zeros(size), 2 * rows.bound * width, 1 / noise)
    return _minimiser(rows, loss, ridge, linear)


def output_perturbation(rows: Rows) -> Vector:
    r"""The minimiser of the losses of `objective_perturbation` and a ridge, with noise.

    Two minimisers are at most $2 B H/\Delta$ apart, with H the largest slope. $\Delta$ is
    $n B^2 (n\mu)^{-2/3}$, the order at which the ridge and the noise cost the same.
    Source: Chaudhuri, Monteleoni and Sarwate (2011).
    """
    _, width, mu = _clipped(rows)
    loss, _ = _loss(rows, width)
    count, size = rows.features.shape
    ridge = count * rows.bound**2 * (count * mu) ** (-2 / 3)
    exact = _minimiser(rows, loss, ridge, np.zeros(size))
    return rows.released(exact, 2 * rows.bound * width / ridge, mu)


def descent(rows: Rows) -> Vector:
    """A hundred full batches of clipped gradients, averaged over the last half: DP-GD.

    The clip is 0.6 times the gradient norm of a row of norm B with a slope of one standard
    deviation. The rate is 3 over the curvature of such a row, far above the average curvature.
    """
    scale = scale_of(rows, rows.mu * math.sqrt(_SCALE_SHARE))
    mu = rows.mu * math.sqrt((1 - (not rows.is_class) * _SCALE_SHARE) / _STEPS)
    loss, curvature = _loss(rows, math.inf)
    clip, rate = 0.6 * scale * rows.bound, 3 / (curvature * rows.bound**2)
    norms, count = np.linalg.norm(rows.features, axis=1), len(rows.labels)
    weights = average = np.zeros(rows.features.shape[1])
    for step in range(_STEPS):
        _, slopes = loss(rows.features @ weights)
        slopes = slopes * np.minimum(1, clip / np.maximum(norms * np.abs(slopes), 1e-300))
        total = rows.released(rows.features.T @ slopes, 2 * clip, mu)
        weights = weights - rate / count * total
        if step >= _STEPS // 2:
            average = average + (weights - average) / (step - _STEPS // 2 + 1)
    return average


def without_privacy(rows: Rows) -> Vector:
    """Least squares, or logistic regression with a small ridge that makes it unique."""
    if rows.is_class:
        loss, _ = _loss(rows, math.inf)
        return _minimiser(rows, loss, 0.1, np.zeros(rows.features.shape[1]))
    return np.linalg.lstsq(rows.features, rows.labels, rcond=None)[0]


def chances_without_privacy(rows: Rows) -> Float[np.ndarray, "classes d"]:
    """Coefficients of each class in the logistic regression of several, with a small ridge."""
    learner = LogisticRegression(C=10, fit_intercept=False, max_iter=2000)
    return learner.fit(rows.features, rows.labels).coef_


# Linear methods: functions from `Rows` to the coefficients.
LINEAR: dict[str, Callable[[Rows], Vector]] = {
    "AdaSSP": adassp,
    "boosted AdaSSP": boosted_adassp,
    "noisy statistics": noisy_statistics,
    "objective perturbation": objective_perturbation,
    "output perturbation": output_perturbation,
    "DP-GD, constant": descent,
    "no privacy": without_privacy,
}


def boosting_budget(epsilon: float, delta: float) -> float:
    r"""The epsilon for DP-EBM, whose neighbours have one record more or less.

    DP-EBM spends a tenth on counts of bins and the rest on sums of residuals, half of delta each.
    A replaced record moves the counts by $\sqrt 2$ times as much as an added one, and the sums by
    at most twice as much. So under replace-one it is $\sqrt{2\mu_1^2 + 4\mu_2^2}$-GDP.
    """
    wanted = float(gaussian_mu(epsilon, delta))

    def excess(given: float) -> float:
        bins, sums = (float(gaussian_mu(share * given, delta / 2)) for share in (0.1, 0.9))
        return math.sqrt(2 * bins**2 + 4 * sums**2) - wanted

    return float(brentq(excess, 1e-6 * epsilon, 2 * epsilon))  # pyright: ignore[reportArgumentType]


def boosted_trees(split: Any, epsilon: float, seed: int) -> Float[np.ndarray, "m ..."]:
    """Predictions, or chances of both classes, of DP-EBM (Nori et al., 2021; `interpret-core`).

    It has its defaults and the same public ranges, in whose middle missing numbers are put. Its
    bins of categories come from the data, which it does not account for.

    Args:
        split: a `Split` of numbers or of two classes.
        epsilon: its own; `boosting_budget` gives the one for replaced records.
        seed: of its noise.
    """
    privacy = importlib.import_module("interpret.privacy")
    numbers = {
        place: spec
        for place, spec in enumerate((split.columns or {}).values())
        if not isinstance(spec, list)
    }
    size = split.train.shape[1]
    if split.columns is None:
        numbers = dict.fromkeys(range(size), (-4.0, 4.0))
    types = ["continuous" if place in numbers else "nominal" for place in range(size)]
    common = {
        "feature_types": types,
        "privacy_bounds": numbers,
        "epsilon": epsilon,
        "delta": split.delta,
        "random_state": seed % 2**31,
        "n_jobs": 1,
    }
    train, test = split.train, split.test
    if split.has_texts:
        given = [sum(numbers[place]) / 2 if place in numbers else "?" for place in range(size)]
        train, test = (
            np.where(rows == None, np.array(given, object), rows)  # noqa: E711
            for rows in (train, test)
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if split.is_class:
            learner = privacy.DPExplainableBoostingClassifier(**common)
            return learner.fit(train, split.labels.astype(int)).predict_proba(test)
        low, high = split.label_range
        more = {"privacy_target_min": low, "privacy_target_max": high}
        return (
            privacy.DPExplainableBoostingRegressor(**common, **more)
            .fit(train, split.labels)
            .predict(test)
        )


@functools.cache
def standing(package: str, module: str) -> str:
    """The state of a package in words: not installed, not importable, or its version."""
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return f"{package} is not installed"
    try:
        importlib.import_module(module)
    except Exception as error:
        beside = importlib.metadata.version("scikit-learn")
        first = str(error).split("(")[0].strip()
        return f"{package} {version} does not import under scikit-learn {beside}: {first}"
    return f"{package} {version}"
