"""Private descent of a linear function: clipped, noisy gradients, averaged over the last steps."""

import abc
import math
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float, Int

from jaxdp.privacy import Release
from jaxdp.regression.descent_plan import LOGISTIC, SQUARED, Curvature, DescentPlan
from jaxdp.regression.ledger import Ledger
from jaxdp.regression.private_sums import PrivateRows, released_gradient, released_scale

_SCALE_SHARE = 0.06  # budget share of each of up to three releases of the residuals' scale


class Learnt(NamedTuple):
    """The public result of a private fit."""

    weights: Float[np.ndarray, "features outputs"]  # for features divided by their bound
    noise_std: Float[np.ndarray, " features"]  # on each weight, as planned
    statement: Release | None = None  # of all releases; None for the Gaussian DP of the ledger


class AbstractSlopes(abc.ABC):
    """The private labels of a fit, and the derivatives of its loss."""

    labels: Float[np.ndarray, " n"]
    num_outputs: int
    curvature: Curvature
    share: float = 0.0  # budget share of a release of the scale

    @abc.abstractmethod
    def of(
        self, outputs: Float[np.ndarray, "rows outputs"], rows: slice = slice(None)
    ) -> Float[np.ndarray, "rows outputs"]:
        """The derivatives of the loss of these rows by their outputs."""

    def begin(self, ledger: Ledger, num_scales: int) -> None:
        """Spend the budget of this many releases of the scale."""
        del ledger, num_scales

    def scale(
        self,
        rows: PrivateRows,
        weights: Float[np.ndarray, "features outputs"],
        num_steps: int,
        step: int,
    ) -> float:
        """The public size of a slope before a step, the unit of clip norms."""
        return 1.0


class SquaredSlopes(AbstractSlopes):
    """Residuals of labels within [-1, 1], with releases of their scale during the descent."""

    num_outputs, curvature, share = 1, SQUARED, _SCALE_SHARE

    def __init__(self, labels: Float[np.ndarray, " n"]):
        self.labels = labels
        self._mus: list[float] = []
        self._scale = math.inf

    def of(self, outputs, rows=slice(None)):
        return outputs - self.labels[rows, None]

    def begin(self, ledger, num_scales):
        what = "histogram of the residuals' magnitudes"
        self._mus = [ledger.spend(what, self.share) for _ in range(num_scales)]

    def scale(self, rows, weights, num_steps, step):
        due = [mu for place, mu in enumerate(self._mus) if num_steps * place // 4 == step]
        if due:
            residuals = self.of(rows.times(weights))[:, 0]
            # In a descent of fewer than four steps releases coincide, and share their budgets.
            self._scale = released_scale(residuals, math.hypot(*due), rows.source)
        return self._scale


class LogisticSlopes(AbstractSlopes):
    """Probability of the second of two classes, minus 1 for rows of this class."""

    num_outputs, curvature = 1, LOGISTIC

    def __init__(self, places: Int[np.ndarray, " n"]):
        self._is_second = (places == 1)[:, None]
        self.labels = np.where(places == 1, 1.0, -1.0)

    def of(self, outputs, rows=slice(None)):
        # Never overflows.
        return 0.5 * (1 + np.tanh(outputs / 2)) - self._is_second[rows]


class SoftmaxSlopes(AbstractSlopes):
    """Probabilities of k classes, minus 1 for the row's own."""

    curvature = LOGISTIC

    def __init__(self, places: Int[np.ndarray, " n"], num_classes: int):
        self.num_outputs, self.labels = num_classes, places.astype(np.float64)
        self._own = np.eye(num_classes)[places]

    def of(self, outputs, rows=slice(None)):
        return scipy.special.softmax(outputs, axis=1) - self._own[rows]


def private_descent(
    rows: PrivateRows, slopes: AbstractSlopes, plan: DescentPlan, mu: float
) -> Learnt:
    """Descend on private rows with a public plan; return the average of the last half of the steps.

    In one pass each step has its own rows, and all cost as much as one; otherwise all share mu.
    """
    transform, num_steps, num_rows = plan.transform, plan.num_steps, len(rows.units)
    weights = np.zeros((len(transform), slopes.num_outputs))
    speed, average = np.zeros_like(weights), np.zeros_like(weights)
    of_a_step = mu if plan.is_one_pass else mu / math.sqrt(num_steps) * (1 - 1e-12)
    scale = 1.0
    first, norms, source = num_steps // 2, rows.norms(transform), rows.source
    for step in range(num_steps):
        inputs_weights = transform.T @ weights
        # Each step has its own noise: with the same noise equal sums would show as equal.
        rows = rows._replace(source=source.hiding(step))
        scale = slopes.scale(rows, inputs_weights, num_steps, step)
        used = slice(None)
        if plan.is_one_pass:
            used = slice(step * num_rows // num_steps, (step + 1) * num_rows // num_steps)
        batch = rows._replace(units=rows.units[used])
        gradient = released_gradient(
            batch,
            slopes.of(batch.times(inputs_weights), used),
            transform,
            norms[used],
            clip_norm=plan.clip * scale * plan.typical_norm,
            typical_norm=plan.typical_norm,
            mu=of_a_step,
        )
        speed = plan.momentum * speed + gradient
        weights = weights - plan.rate * speed
        if step >= first:
            average += (weights - average) / (step - first + 1)
    return Learnt(transform.T @ average, scale * plan.noise_std)
