r"""Predicted power of membership inference against a model, before it is trained.

The attacker holds the released weights, knows how they were trained and all rows but one, and tests
whether this one was used. The closures give a normal distribution of the weights with the row and
one without it (`theory.features.weight_law`). With $d$ the difference of the means and $S_1, S_0$
the covariances, the test is the best linear statistic for the mean of the two:

$$ w = \Bigl(\frac{S_0 + S_1}2\Bigr)^{-1}d, \qquad
   \mathrm{AUC} = \Phi\Bigl(\frac{w^\top d}{\sqrt{w^\top(S_0 + S_1)w}}\Bigr)
                = \Phi\Bigl(\sqrt{w^\top d/2}\Bigr), $$

with the errors of two normal numbers of unequal variance (a binormal ROC curve). For equal
covariances this is the likelihood ratio, the best of all tests. The prediction is an average case
for these rows, this record and the final weights; only `bound` is a guarantee.

Derived: test_predicted_membership.py, against 4,000 simulated runs with and without the row.
"""

import dataclasses
import math
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy
from jax.core import Tracer
from jaxtyping import ArrayLike, Float, Key

from jaxdp.algorithms.base import AbstractAlgorithm, require_pair
from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.core.checks import require_count, require_key, require_whole
from jaxdp.core.display import AbstractExplained, Explanation, Row
from jaxdp.core.keys import purpose_key, run_keys
from jaxdp.privacy import (
    GaussianMechanism,
    Release,
    largest_membership_auc,
    largest_true_positive_rate,
)
from jaxdp.privacy.adjacency import REPLACE_ONE, ZERO_OUT_ONE
from jaxdp.privacy.arguments import false_positive_rates
from jaxdp.problems.rows.features import AbstractFeatureProblem
from jaxdp.problems.rows.fixed_features import FixedFeatures
from jaxdp.theory.base import require_fixed_rows
from jaxdp.theory.features.weight_law import WeightLaw, read_weights, weight_law

# Number of rows, those that move the weights furthest to first order, among which the worst record
# is searched, and from which n only the first. In five settings with n = 150 and in two with more
# rows the first was the worst of all. From that n, with several outputs, the first order is
# computed for the rows that are first in its rough form: the largest area among these was within
# 0.0014 of that of all rows in four settings.
_CANDIDATES, _MANY_ROWS, _ROUGHLY_FIRST = 4, 1000, 128


class PredictedMembership(AbstractExplained, eqx.Module):
    """Predicted power of a membership test on the final model, and the proved bound on it.

    Attributes:
        record: index of the training row.
        separation: distance of the test statistic's means with and without it, in its std without.
        spread_ratio: the statistic's standard deviation with the record over that without.
        release: the proved guarantee of the run, for a record that contributes or does not.

    Example:
        >>> from jaxdp.attacks import PredictedMembership
        >>> from jaxdp.privacy import GaussianMechanism, Release
        >>> release = Release("noisy sums", "zero-out-one", GaussianMechanism(1.5))
        >>> print(f"{PredictedMembership(7, 1.0, 1.0, release).auc:.3f}")
        0.760
    """

    record: int = eqx.field(static=True)
    separation: float
    spread_ratio: float
    release: Release

    @property
    def auc(self) -> float:
        """Area under the test's ROC curve, 0.5 for guessing, 1 for certainty, at most `bound`."""
        area = float(scipy.special.ndtr(self.separation / np.hypot(1, self.spread_ratio)))
        return min(area, self.bound)

    @property
    def bound(self) -> float:
        """The proved bound on the area of any test of any record."""
        return largest_membership_auc(self.release)

    def true_positive_rate(self, false_positive_rate: ArrayLike) -> Float[np.ndarray, "..."]:
        """Share of the runs with the record that the test detects, at false positives in [0, 1]."""
        rate = false_positive_rates(false_positive_rate)
        place = self.separation + scipy.special.ndtri(rate)
        found = scipy.special.ndtr(place / self.spread_ratio)
        return np.minimum(found, self.true_positive_bound(rate))

    def true_positive_bound(self, false_positive_rate: ArrayLike) -> Float[np.ndarray, "..."]:
        """The proved bound on the true-positive rate of any test of any record."""
        return largest_true_positive_rate(self.release, false_positive_rate)

    def _explanation(self):
        rows = [
            Row("record", str(self.record), "index of the training row"),
            Row("auc", f"{self.auc:.3f}", "of the best test of the final weights; 0.5 is a guess"),
            Row("bound", f"{self.bound:.3f}", "of any test, proved"),
        ]
        for rate in (0.01, 0.001):
            value, most = self.true_positive_rate(rate), self.true_positive_bound(rate)
            meaning = f"records found at {rate:.1%} false alarms; at most {most:.2g}, proved"
            rows.append(Row("true_positive_rate", f"{value:.2g}", meaning))
        note = "predicted for these rows and this test: no guarantee, and as private as the rows"
        return Explanation("Predicted membership", tuple(rows), (note,))


def predicted_membership(
    problem: AbstractFeatureProblem,
    algorithm: AbstractAlgorithm | PrivateOptimiser,
    record: int | Literal["worst"],
) -> PredictedMembership:
    """Predict how well an attacker can decide from the final model if one record was trained on.

    Without the record, batches are divided by the same number. Against 4,000 simulated runs on
    features of a small CNN the area was within 0.014 with the logistic loss (n = 500, 18 cases),
    and 0.024 too high with the softmax loss (n = 60, one case). With several outputs other rows
    share quadrature nodes, which changed it by at most 0.0001 in 8 cases and by 0.001 in a ninth.
    If nearly every step clips the record, the prediction equals the bound. `jaxdp.predict` of the
    pair warns if its closure is unreliable. The result is private if the problem's rows are: use
    public rows of the same kind.

    Args:
        problem: features on fixed rows, which the closures cover, else NotCoveredError.
        algorithm: the training algorithm, with noise (else ValueError) and a proved guarantee.
        record: index of a training row, from 0; or "worst" for the most exposed one, searched among
            the four rows that move the weights furthest to first order, in units of their spread
            over runs; from n = 1,000 only the first of these is computed.

    Returns:
        The area, the true positives at any rate of false ones, and the proved bounds on both.

    Raises:
        ValueError: there is no noise.
        NotCoveredError: the closures do not cover the pair, or nothing is proved about the run.

    Example:
        >>> import jax, jaxdp
        >>> problem = jaxdp.RandomFeatures.sample(40, 20, 5, 30, key=jax.random.key(0))
        >>> algorithm = jaxdp.DPGD(0.02, 5.0, num_steps=20, noise_scale=1.0)
        >>> found = jaxdp.attacks.predicted_membership(problem, algorithm, 3)
        >>> print(f"{found.auc:.2f}, at most {found.bound:.2f}")
        0.55, at most 0.59
    """
    _require_concrete(problem, algorithm)
    if not isinstance(record, str):
        require_whole("record", record)
    elif record != "worst":
        raise ValueError(f'expected record to be an index or "worst", got {record!r}')
    reading = read_weights(problem, algorithm)
    if not isinstance(record, str) and not 0 <= record < problem.num_train:
        raise ValueError(f"expected 0 <= record < {problem.num_train}, got {record}")
    # Every algorithm that the closures cover has a noise multiplier.
    run: Any = algorithm
    if not float(run.noise_multiplier) > 0:
        raise ValueError("expected an algorithm with noise, got none: its weights tell everything")
    release = _in_or_out(algorithm.release())
    has_many, is_worst = problem.num_train >= _MANY_ROWS, isinstance(record, str)
    rows = np.arange(problem.num_train) if is_worst else np.asarray([record])
    if is_worst and has_many and reading.modes.outputs:
        rough = weight_law(reading, rows=rows, are_rough=True)
        rows = np.argsort(-rough.lengths())[:_ROUGHLY_FIRST]
    with_all = weight_law(reading, rows=rows, has_responses=is_worst)
    records = rows
    if is_worst:
        records = rows[np.argsort(-with_all.lengths())[: 1 if has_many else _CANDIDATES]]
    found = []
    for place in records.tolist():
        # The same rows have all nodes as in `with_all`, so that quadrature errors cancel.
        without = weight_law(reading, place, rows=rows, has_responses=False)
        found.append(PredictedMembership(place, *_separated(without, with_all), release))
    return max(found, key=lambda each: each.auc)


def predicted_loss_threshold_auc(
    problem: AbstractFeatureProblem,
    algorithm: AbstractAlgorithm | PrivateOptimiser,
    *,
    key: Key[Any, ""],
    num_sets: int = 16,
    num_models: int = 4,
) -> Float[np.ndarray, " sets"]:
    """Predict how well a loss threshold separates members from other rows, over random member sets.

    The attack knows no other record: rows with a loss below a threshold are called members. For
    each random choice of n members among the problem's training and test rows, models are drawn
    from the closure's distribution. A fixed set would also measure how its rows differ from others:
    for the first 500 rows of MNIST the area is 0.54 at any epsilon, for random ones 0.51.

    Args:
        problem, algorithm: the arguments of `predicted_membership`, with the same errors.
        key: random key of the member sets and of the models.
        num_sets, num_models: number of member sets, and of models drawn for each.

    Returns:
        For each member set the area under the ROC curve, a mean over the models. The mean over the
        sets is the prediction; their spread gives its standard error.

    Example:
        >>> import jax, jaxdp
        >>> from jaxdp.attacks import predicted_loss_threshold_auc
        >>> problem = jaxdp.RandomFeatures.sample(40, 40, 5, 30, key=jax.random.key(0))
        >>> algorithm = jaxdp.DPGD(0.02, 1.0, num_steps=50, noise_scale=1.0)
        >>> predicted_loss_threshold_auc(problem, algorithm, key=jax.random.key(1)).shape
        (16,)
    """
    _require_concrete(problem, algorithm)
    require_key(key)
    num_sets = require_count("num_sets", num_sets)
    num_models = require_count("num_models", num_models)
    require_fixed_rows(problem, algorithm)
    features = np.concatenate([problem.train_features(), problem.test_features()])
    labels = np.concatenate([problem.train_labels, problem.test_labels])
    order_key, draw_key = (purpose_key(key, purpose) for purpose in ("sampling", "noise"))
    generator = np.random.default_rng(np.asarray(jr.bits(draw_key, (4,), jnp.uint32)))
    areas = []
    for one in run_keys(order_key, num_sets):
        parts = np.split(np.asarray(jr.permutation(one, len(labels))), [problem.num_train])
        rows = [values[part] for part in parts for values in (features, labels)]
        reading = read_weights(FixedFeatures.from_arrays(*rows, loss=problem.loss), algorithm)
        members, others = _drawn_losses(reading, weight_law(reading), num_models, generator)
        areas.append(np.mean([_area(*pair) for pair in zip(members, others, strict=True)]))
    return np.asarray(areas)


def _separated(without: WeightLaw, with_all: WeightLaw) -> tuple[float, float]:
    """The statistic's separation, in units of its std without the row, and its spread ratio."""
    separation, variances = 0.0, np.zeros(2)
    for mean, other, covariance, kept in zip(
        with_all.means, without.means, with_all.covariances, without.covariances, strict=True
    ):
        moved = (mean - other)[..., None]
        weights = np.linalg.solve((covariance + kept) / 2, moved)
        turned = np.swapaxes(weights, 1, 2)
        separation += float((turned @ moved).sum())
        variances += [(turned @ part @ weights).sum() for part in (kept, covariance)]
    if not separation > 0:
        # The row has no effect, or the closure has overflowed.
        return (0.0, 1.0) if separation == 0 else (math.nan, math.nan)
    before, after = np.sqrt(variances)
    return separation / float(before), float(after / before)


def _in_or_out(release: Release) -> Release:
    """The guarantee for a record that contributes its clipped gradients or zero: half of mu."""
    if release.adjacency != REPLACE_ONE:
        return release
    # A sum then moves by at most C; replacing the record moves it by 2C.
    half = GaussianMechanism(release.mechanism.proved.mu / 2)
    return dataclasses.replace(release, adjacency=ZERO_OUT_ONE, mechanism=half)


def _drawn_losses(reading, law: WeightLaw, num_models: int, generator):
    """Losses of the training and of the test rows under drawn models, (models, n) each."""
    modes = reading.modes
    weights = law.draw(num_models, (modes.outputs or (1,))[0], generator)
    unseen = modes.unseen_factor.shape[1], weights.shape[2]
    fresh = np.sqrt(law.unseen) * generator.standard_normal((num_models, *unseen))
    train = np.asarray(modes.factor, np.float64) @ weights
    test = np.asarray(modes.test_factor, np.float64) @ weights
    test += np.asarray(modes.unseen_factor, np.float64) @ fresh
    for rows, labels in ((train, modes.train_labels), (test, modes.test_labels)):
        rows = rows if modes.outputs else rows[..., 0]
        yield np.stack([modes.loss.value(each, np.asarray(labels), xp=np) for each in rows])


def _area(members: np.ndarray, others: np.ndarray) -> float:
    """Probability that a member's loss is below another row's, ties counted by half."""
    ranked = np.sort(members)
    sides = [np.searchsorted(ranked, others, side) for side in ("left", "right")]
    return float(np.mean(sides)) / len(members)


def _require_concrete(problem: Any, algorithm: Any) -> None:
    require_pair(problem, algorithm)
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((problem, algorithm))):
        raise TypeError("expected known numbers, got traced ones: call it outside jit and vmap")
