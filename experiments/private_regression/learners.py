"""The results of every learner of the leaderboard on a split."""

import contextlib
from collections.abc import Iterator

import numpy as np
from scipy.special import softmax

from experiments.private_regression.competitors import (
    LINEAR,
    Rows,
    boosted_trees,
    boosting_budget,
    chances_without_privacy,
)
from experiments.private_regression.problems import Scored, Split, generator, number_of
from jaxdp.estimators import DPKernelRidge, DPLinearRegression, DPLogisticRegression
from jaxdp.kernels import ClippedFeatures, IdentityFeatures, SelectedRidge
from jaxdp.regression import (
    Automatic,
    Columns,
    FullBatch,
    NoisyStatistics,
    PlannedDPSGD,
    PrivateLinearRegression,
    Whitened,
)

OURS, FREE, CONSTANT, KERNEL = "Automatic", "no privacy", "constant", "DPKernelRidge"
# Its neighbours differ in a record more or less; the first has ours, and so an epsilon of its own.
BOOSTED, FAVOURED = "DP-EBM, replace-one", "DP-EBM, add-or-remove"
SINGLE = (Whitened, FullBatch, PlannedDPSGD, NoisyStatistics)
FEATURES = ("linear", "additive", "kernel")
# Competitors on the fresh tables, beside DP-EBM: the best ones of the others.
_BRIEF = ("boosted AdaSSP", "DP-GD, constant")
_LOGISTIC = ("objective perturbation", "output perturbation", "DP-GD, constant")
# DP-EBM takes minutes on designs with more numbers than this.
_MOST_BOOSTED = 500_000


def reached(
    split: Split, epsilons: tuple[float, ...], words: tuple, is_brief: bool, with_boosted: bool
) -> list[dict[str, Scored]]:
    """For each budget what every learner reaches.

    Args:
        split: the rows and their public facts.
        epsilons: the budgets.
        words: seed of all noise.
        is_brief: whether only Automatic and the competitors that were best elsewhere.
        with_boosted: whether DP-EBM too, if it is installed.
    """
    signals = _without_privacy(split)
    found = []
    for epsilon in epsilons:
        at = *words, epsilon
        one = {FREE: signals[split.has_texts]}
        if split.columns is not None:
            one[CONSTANT] = _constant(split)
        one |= dict(_linear(split, epsilon, at, _BRIEF if is_brief else tuple(LINEAR)))
        one |= dict(_ours(split, epsilon, at, signals, is_brief))
        if with_boosted and split.num_classes < 3:
            # Without the package there is no score.
            with contextlib.suppress(ImportError):
                one |= dict(_boosted(split, epsilon, at))
        found.append(one)
    return found


def _unit_labels(split: Split) -> tuple[np.ndarray, float, float]:
    """The labels mapped from their range to [-1, 1], its middle, and half its width."""
    low, high = split.label_range or (0.0, 1.0)
    middle, half = (low + high) / 2, (high - low) / 2
    return (np.clip(split.labels, low, high) - middle) / half, middle, half


def _logistic(split: Split, logits: np.ndarray) -> Scored:
    """The result of logits of the second of two classes."""
    chance = 0.5 * (1 + np.tanh(logits / 2))
    return Scored(split.score(logits), split.log_loss(np.column_stack([1 - chance, chance])))


def _constant(split: Split) -> Scored:
    """The result of the mean of the training labels, or of the shares of their classes."""
    count = len(split.wanted)
    if not split.is_class:
        return Scored(split.score(np.full(count, split.labels.mean())))
    shares = np.bincount(split.labels.astype(int), minlength=split.num_classes)
    return Scored(0.5, split.log_loss(np.tile(shares / shares.sum(), (count, 1))))


def _without_privacy(split: Split) -> dict[bool, Scored]:
    """The results of fits without privacy, by whether they are additive.

    Classes have the kind of the single methods alone: linear if no column has categories.
    """
    if split.is_class:
        kinds = [split.has_texts]
    else:
        kinds = [False] if split.columns is None else [False, True]
    labels, middle, half = _unit_labels(split)
    found = {}
    for is_additive in kinds:
        train, test, bound = split.matrices(is_additive)
        if split.num_classes > 2:
            rows = Rows(train, split.labels, bound, np.inf, 0.0, True, None)
            logits = test @ chances_without_privacy(rows).T
            chances = softmax(logits, axis=1)
            found[is_additive] = Scored(split.score(chances), split.log_loss(chances))
            continue
        rows = Rows(train, labels, bound, np.inf, 0.0, split.is_class, None)
        reached = test @ LINEAR[FREE](rows)
        found[is_additive] = (
            _logistic(split, reached)
            if split.is_class
            else Scored(split.score(middle + half * reached))
        )
    return found


def _linear(
    split: Split, epsilon: float, words: tuple, names: tuple[str, ...]
) -> Iterator[tuple[str, Scored]]:
    """The results of linear methods; if a column has categories, also on additive features."""
    if split.num_classes > 2:
        return
    labels, middle, half = _unit_labels(split)
    for is_additive in (False, True)[: 1 + split.has_texts]:
        train, test, bound = split.matrices(is_additive)
        for name in names:
            if name == FREE:
                continue
            title = f"{name}, additive" if is_additive else name
            random = generator(*words, title)
            rows = Rows(train, labels, bound, epsilon, split.delta, split.is_class, random)
            reached = test @ LINEAR[name](rows)
            if split.is_class and name in _LOGISTIC:
                yield title, _logistic(split, reached)
            else:
                yield title, Scored(split.score(middle + half * reached))


def _boosted(split: Split, epsilon: float, words: tuple) -> Iterator[tuple[str, Scored]]:
    """The results of DP-EBM; on designs only with our neighbours, and on the smaller ones."""
    budgets = {BOOSTED: boosting_budget(epsilon, split.delta), FAVOURED: epsilon}
    if split.columns is None:
        budgets.pop(FAVOURED)
        if split.train.size > _MOST_BOOSTED:
            return
    for name, given in budgets.items():
        found = boosted_trees(split, given, number_of(*words, name))
        if split.is_class:
            yield name, Scored(split.score(found[:, 1]), split.log_loss(found))
        else:
            yield name, Scored(split.score(found))


def _ours(
    split: Split, epsilon: float, words: tuple, signals: dict[bool, Scored], is_brief: bool
) -> Iterator[tuple[str, Scored]]:
    """The results of jaxdp: Automatic, and single methods with the competitors' features.

    Random features on tables with categories are left out: they would take longer than everything
    else together.
    """
    yield OURS, _fitted(split, epsilon, Automatic(), "automatic", words)
    for method in () if is_brief else SINGLE:
        if method is not NoisyStatistics or not split.is_class:
            features = "additive" if split.has_texts else "linear"
            yield method.__name__, _fitted(split, epsilon, method(), features, words)
    if split.columns is None:
        return
    for features in FEATURES[: 2 if split.has_texts else 3]:
        signal = None if split.is_class else signals.get(features == "additive")
        found = _fitted(split, epsilon, Automatic(), features, words, signal)
        yield f"{OURS}, {features}", found
    if is_brief:
        return
    train, test, _ = split.matrices()
    low, high = split.label_range or (0.0, 1.0)
    older = DPKernelRidge(
        epsilon,
        split.delta,
        (high - low) / 2,
        input_range=(-1, 1),
        num_features=512,
        intercept_share=0.1,
        ridge=SelectedRidge(),
        noise_seed=_seed(*words, KERNEL),
    )
    older.fit(train[:, :-1], split.labels - (low + high) / 2)
    yield KERNEL, Scored(split.score(older.predict(test[:, :-1]) + (low + high) / 2))


def _seed(*words) -> int:
    """A noise seed, as long as a secure one."""
    return number_of(*words) | 1 << 255


def _fitted(
    split: Split,
    epsilon: float,
    method,
    features: str,
    words: tuple,
    signal: Scored | None = None,
) -> Scored:
    """The result of an estimator on a table, or of the learner behind it on a design.

    With the result of the same kind without privacy it also has a forecast.
    """
    seed = _seed(*words, type(method).__name__, features)
    if split.columns is None:
        _, test, bound = split.matrices()
        bounded = ClippedFeatures(IdentityFeatures(test.shape[1]), bound)
        learner = PrivateLinearRegression(
            features=bounded, label_range=split.label_range, method=method
        )
        budget = {"epsilon": epsilon, "delta": split.delta, "noise_seed": seed}
        release = learner.fit(split.train, split.labels, **budget).release
        return Scored(split.score(test @ np.asarray(release.coefficients, float)))
    options = {"method": method, "noise_seed": seed, "features": features}
    if split.has_texts:
        options["columns"] = Columns(split.columns)
    else:
        options["input_range"] = tuple(np.array([*split.columns.values()], float).T)
    if split.is_class:
        classes = tuple(f"class {number}" for number in range(split.num_classes))
        estimator = DPLogisticRegression(epsilon, split.delta, classes=classes, **options)
        estimator.fit(split.train, np.array(classes)[split.labels.astype(int)])
        chances = estimator.predict_proba(split.test)
        # Chances of two classes may be equal where their logits are not.
        is_pair = split.num_classes == 2
        ranked = estimator.decision_function(split.test) if is_pair else chances
        return Scored(split.score(ranked), split.log_loss(chances))
    estimator = DPLinearRegression(epsilon, split.delta, label_range=split.label_range, **options)
    expected = np.nan
    if signal is not None and signal.score > 0:
        told = estimator.expected_score(len(split.labels), signal=signal.score)
        expected = told.with_privacy
    reached = estimator.fit(split.train, split.labels).predict(split.test)
    return Scored(split.score(reached), expected=expected)
