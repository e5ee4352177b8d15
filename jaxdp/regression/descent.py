"""Private descent of a linear function: clipped, noisy gradients, averaged over the last steps."""

import abc
import math
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float, Int

from jaxdp.privacy.secret.secret_noise import SecretNoise
from jaxdp.regression.descent_plan import (
    SQUARED,
    Curvature,
    DescentPlan,
    errors_and_echoes,
    of_classes,
)
from jaxdp.regression.ledger import Ledger
from jaxdp.regression.private_sums import (
    Magnitudes,
    PrivateRows,
    noisy_counts,
    released_gradient,
    released_magnitudes,
    released_mean,
    released_means,
    released_quantiles,
)

# Budget share of all releases of the residuals' scale, and their largest number. A histogram is
# worth its share if its noise is at most this share of the rows.
_SCALE_SHARE, _MOST_SCALES, _NOISE = 0.18, 8, 1 / 40
_START, _MOST_OF_START = 15.0, 0.4  # n mu that shows where labels are; its largest budget share
_LATEST = 0.8  # share of a stage's steps before its last release of the scale
_LAW = 0.75  # share of a descent's steps before the release of the law of the slopes of classes
_CLASS_SHARE = 0.02  # of the class counts, and again of the law of the slopes
_LEAST = 0.1  # of the curvature that a plan assumes, where noise hides what it is
_WIDE = 0.16, 0.5, 0.84  # a normal's mean less one standard deviation, its mean, and plus one


class AbstractSlopes(abc.ABC):
    """The private labels of a fit, and the derivatives of its loss."""

    labels: Float[np.ndarray, " n"]
    num_outputs: int
    curvature: Curvature
    offset: Float[np.ndarray, " outputs"]  # added to the outputs; public
    share: float = 0.0  # budget share of the releases of this class
    num_stages: int = 1  # number of descents, one from the end of the other; public

    @abc.abstractmethod
    def of(
        self, outputs: Float[np.ndarray, "rows outputs"], rows: slice = slice(None)
    ) -> Float[np.ndarray, "rows outputs"]:
        """The derivatives of the loss of these rows by their outputs."""

    @abc.abstractmethod
    def begin(self, ledger: Ledger, source: SecretNoise, num_scales: int, is_free: bool) -> None:
        """Release where the descent starts; `is_free` if the function has a constant.

        The budget of later releases of the scale is spent too. With no release of the scale there
        is no descent, and the labels' mean has the whole budget.
        """

    def enter(
        self,
        rows: PrivateRows,
        weights: Float[np.ndarray, "features outputs"] | None,
        stage: int,
        in_all: int,
    ) -> float:
        """Begin a stage of so many at these weights, and return the size of a slope there."""
        return 1.0

    @abc.abstractmethod
    def scale(
        self,
        rows: PrivateRows,
        weights: Float[np.ndarray, "features outputs"],
        num_steps: int,
        step: int,
    ) -> float:
        """The public size of a slope before a step, the unit of clip norms."""

    @abc.abstractmethod
    def law(self, bound: float, square: float) -> tuple[float, float, float]:
        """Mean curvature, mean square of clipped slopes, and curvature along the function.

        By the last release, for slopes clipped to a bound; `square` is the mean square of the
        function at the step `_LAW`.
        """


def num_scales(num_samples: int, mu: float) -> int:
    """The number of releases of the scale, by public numbers."""
    counts = _NOISE * num_samples * mu * math.sqrt(_SCALE_SHARE / 2)
    return min(max(int(counts**2), 3), _MOST_SCALES)


class SquaredSlopes(AbstractSlopes):
    """Residuals of labels within [-1, 1], with releases of their scale during the descent."""

    num_outputs, curvature, share = 1, SQUARED, _SCALE_SHARE

    def __init__(self, labels: Float[np.ndarray, " n"]):
        self.labels, self.offset = labels, np.zeros(1)
        self._mus: list[float] = []
        self._due: list[tuple[float, float]] = []
        self._found: Magnitudes | None = None
        self._scale = math.inf

    def of(self, outputs, rows=slice(None)):
        return outputs + self.offset - self.labels[rows, None]

    def begin(self, ledger, source, num_scales, is_free):
        if not num_scales:
            mu = ledger.spend_rest("histogram of the labels, for their mean")
            self.offset = np.array([released_mean(self.labels, mu, source)])
            return
        one = self.share / max(num_scales, 3)
        first = min(max(one, (_START / (len(self.labels) * ledger.mu)) ** 2), _MOST_OF_START)
        mu = ledger.spend("histogram of the labels", first)
        low, middle, high = released_quantiles(self.labels, _WIDE, mu, source)
        self._scale = max(high - low, 1e-9) / 2
        if is_free:
            self.offset = np.array([middle])
        else:
            self._scale = math.hypot(self._scale, middle)
        what = "histogram of the residuals' magnitudes"
        self._mus = [ledger.spend(what, one) for _ in range(num_scales - 1)]
        self.num_stages = 2 if self._mus else 1

    def enter(self, rows, weights, stage, in_all):
        count = len(self._mus) if stage + 1 == in_all else len(self._mus) // 3
        mus, self._mus = self._mus[:count], self._mus[count:]
        # With few rows the labels' own scale is the only one.
        if stage and mus:
            self._release(rows, weights, mus.pop(0))
        # Residuals shrink fastest at first.
        self._due = [(_LATEST * at / (len(mus) + 1), mu) for at, mu in enumerate(mus, 1)]
        return self._scale

    def _release(self, rows, weights, mu):
        residuals = self.of(rows.times(weights))[:, 0]
        self._found = released_magnitudes(residuals, mu, rows.source)
        self._scale = self._found.scale

    def scale(self, rows, weights, num_steps, step):
        due = [mu for at, mu in self._due if int(num_steps * at) == step]
        if due:
            # In a descent of few steps releases coincide, and share their budgets.
            self._release(rows, weights, math.hypot(*due))
        return self._scale

    def law(self, bound, square):
        inside = self.curvature.share(bound / self._scale)
        if self._found is None:
            return inside, min(self._scale, bound) ** 2, inside
        inside = max(self._found.share_within(bound), _LEAST * inside)
        return inside, self._found.mean_square(bound), inside


class ClassSlopes(AbstractSlopes):
    r"""Slopes w(p) (p - e) of k classes, bounded by one half: p predicted, e the row's own class.

    $w(p) = 1 / (2 \max_k |p - e_k|)$, with $|\cdot|$ for two classes the difference of the second
    probability. A weight of the prediction alone leaves the zero of the expected slope at the true
    probabilities, which a clipped slope does not.
    """

    share = 2 * _CLASS_SHARE

    def __init__(self, places: Int[np.ndarray, " n"], num_classes: int):
        self.num_outputs = 1 if num_classes == 2 else num_classes
        self.labels = places.astype(np.float64)
        if num_classes == 2:
            self.labels = np.where(places == 1, 1.0, -1.0)
        self._places, self._count = places, num_classes
        self.offset, self.curvature = np.zeros(self.num_outputs), of_classes(0.25)
        self._mu, self._of_stage, self._law = 0.0, 0.0, (0.2, 0.2, 0.0)

    def _chances(self, outputs):
        outputs = outputs + self.offset
        if self.num_outputs == 1:
            # Never overflows.
            second = 0.5 * (1 + np.tanh(outputs / 2))
            return second, 2 * np.maximum(second, 1 - second)
        chances = scipy.special.softmax(outputs, axis=1)
        squares = np.sum(chances**2, axis=1, keepdims=True) + 1
        return chances, 2 * np.sqrt(squares - 2 * chances.min(axis=1, keepdims=True))

    def of(self, outputs, rows=slice(None)):
        chances, most = self._chances(outputs)
        own = self._places[rows, None] == (1 if self.num_outputs == 1 else np.arange(self._count))
        return (chances - own) / most

    def begin(self, ledger, source, num_scales, is_free):
        what = "counts of the classes"
        mu = ledger.spend(what, _CLASS_SHARE) if num_scales else ledger.spend_rest(what)
        counts, std = noisy_counts(self._places, self._count, mu, source, "classes")
        shares = np.maximum(counts, std) / np.maximum(counts, std).sum()
        if is_free:
            logs = np.log(shares)
            self.offset = logs[1:] - logs[:1] if self.num_outputs == 1 else logs - logs.mean()
        if not num_scales:
            return
        self.curvature = of_classes(float(np.mean(shares * (1 - shares))))
        self._mu = ledger.spend("curvature and size of the slopes", _CLASS_SHARE)

    def enter(self, rows, weights, stage, in_all):
        self._of_stage = self._mu / math.sqrt(in_all) * (1 - 1e-12)
        return super().enter(rows, weights, stage, in_all)

    def scale(self, rows, weights, num_steps, step):
        if step == int(num_steps * _LAW):
            outputs = rows.times(weights)
            chances, most = self._chances(outputs)
            bends = np.mean(chances * (1 - chances) / most, axis=1)
            squares = np.sum(self.of(outputs) ** 2, axis=1)
            along = bends * np.mean(outputs**2, axis=1)
            values = np.stack([bends, squares, along], axis=1)
            self._law = released_means(values, self._of_stage, rows.source)
        return 1.0

    def law(self, bound, square):
        mean, size, along = self._law
        mean, size = max(mean, _LEAST * self.curvature.share(bound)), max(size, 0.0)
        # Noise does not make it larger than the mean, as it falls with the size of an output.
        return mean, size, float(np.clip(along / max(square, 1e-12), 0.1 * mean, mean))


class Stage(NamedTuple):
    """The public result of a descent: the average of its last half, and what is known of it.

    Modes are the axes of the plan, which are the same for all stages of a fit.
    """

    plan: DescentPlan
    average: Float[np.ndarray, "modes outputs"]
    noise_stds: Float[np.ndarray, " steps"]  # on each coordinate P x of each step's gradient
    curvature: float  # mean curvature of the loss, as clipping leaves it
    square: float  # mean square of the clipped slopes
    along: float  # curvature in the direction of the weights
    start: Float[np.ndarray, "features outputs"] | None = None  # weights; None for zeros

    @property
    def in_steps(self) -> Float[np.ndarray, "modes outputs"]:
        """The average in the coordinates P x of the steps."""
        return self.average / self.plan.units[:, None]

    @property
    def weights(self) -> Float[np.ndarray, "features outputs"]:
        """The average as weights of the features."""
        return self.plan.transform.T @ self.in_steps

    def left_and_noise(
        self, modes: Float[np.ndarray, " modes"]
    ) -> tuple[Float[np.ndarray, " modes"], Float[np.ndarray, " modes"]]:
        """The share of an initial error that is left, and the variance of the noise on P x.

        Args:
            modes: mean squares of P x along some directions.
        """
        left, echoes = errors_and_echoes(self.plan, modes * self.curvature)
        return left, self.noise_stds**2 @ echoes**2


def private_descent(
    rows: PrivateRows,
    slopes: AbstractSlopes,
    plan: DescentPlan,
    mu: float,
    start: Float[np.ndarray, "features outputs"] | None = None,
) -> Stage:
    """Descend on private rows with a public plan, and average the last half of the steps.

    In one pass each step has its own rows, and all cost as much as one; otherwise all share mu.
    """
    transform, num_steps, num_rows = plan.transform, plan.num_steps, len(rows.units)
    weights = np.zeros((len(transform), slopes.num_outputs))
    if start is not None:
        weights = np.linalg.pinv(transform.T) @ start
    speed, average = np.zeros_like(weights), np.zeros_like(weights)
    of_a_step = mu if plan.is_one_pass else mu / math.sqrt(num_steps) * (1 - 1e-12)
    scale, stds, known = 1.0, [], weights
    first, norms, source = num_steps // 2, rows.norms(transform), rows.source
    for step in range(num_steps):
        inputs_weights = transform.T @ weights
        # Each step has its own noise: with the same noise equal sums would show as equal.
        rows = rows._replace(source=source.hiding(step))
        scale = slopes.scale(rows, inputs_weights, num_steps, step)
        if step <= num_steps * _LAW:
            known = weights
        used = slice(None)
        if plan.is_one_pass:
            used = slice(step * num_rows // num_steps, (step + 1) * num_rows // num_steps)
        batch = rows._replace(units=rows.units[used])
        gradient, std = released_gradient(
            batch,
            slopes.of(batch.times(inputs_weights), used),
            transform,
            norms[used],
            clip_norm=plan.clip * scale * plan.typical_norm,
            typical_norm=plan.typical_norm,
            mu=of_a_step,
        )
        stds.append(std)
        speed = plan.momentum * speed + gradient
        weights = weights - plan.rate * speed
        if step >= first:
            average += (weights - average) / (step - first + 1)
    law = slopes.law(plan.clip * scale, plan.values * plan.units**2 @ np.mean(known**2, axis=1))
    return Stage(plan, average * plan.units[:, None], np.array(stds), *law, start)
