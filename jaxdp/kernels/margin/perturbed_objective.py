r"""The objective whose minimiser is released: its value, its derivatives, and their rounding.

The noise on the released coefficients has to hide how far they are from the exact minimiser, which
the gradient's norm tells; so the rounding of the gradient in float64 is bounded here. All is
computed on the host, a block of rows at a time, in float64 whatever the features' type.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from jaxdp.losses.lipschitz import AbstractLipschitzLoss

_Vector = Float[np.ndarray, " coefficients"]
_ROWS = 4096
_UNIT = 2.0**-53


class Point(NamedTuple):
    """A vector of coefficients, the objective there and its gradient."""

    coefficients: _Vector
    value: float
    gradient: _Vector


class PerturbedObjective(eqx.Module):
    r"""$\frac1n\sum_i \ell(y_i, \beta\cdot z_i) + \frac\lambda2\|\beta\|^2 + b\cdot\beta/n$.

    A loss of k outputs has a matrix of coefficients, (M, k); it is handed about as a vector.

    Args:
        features: z, of norm at most `input_bound` each; float32 or float64, widened block by block.
        labels: y, as the loss takes them.
        loss: $\ell$.
        ridge: $\lambda$ > 0.
        linear_term: b.
        input_bound: B.
        label_bound: T, of labels that a residual f - y is made of; 0 where none is.
    """

    features: Float[np.ndarray, "n outputs"]
    labels: Float[np.ndarray, " n"]
    loss: AbstractLipschitzLoss
    ridge: float
    linear_term: _Vector
    input_bound: float
    label_bound: float = 0.0

    def at(self, coefficients: _Vector) -> Point:
        """The objective and its gradient."""
        total, slope_sum = 0.0, np.zeros_like(coefficients)
        for rows, labels in self._blocks():
            predictions = self._predictions(rows, coefficients)
            total += float(self.loss.value_at(predictions, labels).sum())
            slope_sum += (rows.T @ self.loss.slope_at(predictions, labels)).ravel()
        n = len(self.labels)
        quadratic = self.ridge / 2 * coefficients @ coefficients
        value = total / n + quadratic + self.linear_term @ coefficients / n
        gradient = slope_sum / n + self.ridge * coefficients + self.linear_term / n
        return Point(coefficients, float(value), gradient)

    def curvature(self, coefficients: _Vector) -> Float[np.ndarray, "coefficients coefficients"]:
        """The second derivative; where it jumps, one between its limits."""
        total = np.zeros((len(coefficients), len(coefficients)))
        for rows, labels in self._blocks():
            predictions = self._predictions(rows, coefficients)
            weights = self.loss.curvature_at(predictions, labels)
            if weights.ndim == 1:
                # A product with its own transpose takes half the work.
                scaled = np.sqrt(weights)[:, None] * rows
                total += scaled.T @ scaled
            else:
                _add_blocks(total, rows, weights)
        return total / len(self.labels) + self.ridge * np.eye(len(coefficients))

    def gradient_norm(self, point: Point) -> float:
        """A bound on the norm of the true gradient: the computed one and its rounding."""
        computed = float(np.linalg.norm(point.gradient)) * (
            1 + 2 * self._gamma(len(point.gradient))
        )
        return computed + self.gradient_rounding(float(np.linalg.norm(point.coefficients)))

    def gradient_rounding(self, norm: float) -> float:
        r"""How far rounding may take the gradient at coefficients of this norm.

        With $\gamma_k = ku/(1 - ku)$ for a sum of k products in any order: predictions are off by
        $\gamma_M B\|\beta\|$ (the norm of all outputs), residuals by $u(B\|\beta\| + T)$ more, and
        slopes by $c_2$ times that and $(64 + k)uc_1$ for k outputs, each on a row of norm at most
        B; the sum over n rows by $\gamma_{k + n/k} c_1 B$ of its mean, for blocks of k rows; the
        three terms and their sum by 8u of their norms.
        Source: Higham (2002), Sections 3.1 and 3.5.
        """
        n, bound, loss = len(self.labels), self.input_bound, self.loss
        predictions = self._gamma(self.features.shape[1]) * bound * norm
        if self.label_bound:
            predictions += 1.01 * _UNIT * (bound * norm + self.label_bound)
        outputs = loss.num_outputs or 0
        slopes = loss.smoothness * predictions + (64 + outputs) * _UNIT * loss.lipschitz
        sums = self._gamma(min(n, _ROWS) + math.ceil(n / _ROWS)) * loss.lipschitz
        terms = loss.lipschitz * bound + self.ridge * norm + self._linear_norm / n
        return 1.01 * ((slopes + sums) * bound + 8 * _UNIT * terms)

    @property
    def coefficient_bound(self) -> float:
        r"""A bound on the minimiser's norm that depends on b and the constants alone.

        $\lambda\|\beta\| \le c_1B + \|b\|/n$ as the gradient is zero, and, as the loss is not
        negative, $\frac\lambda2\|\beta\|^2 - \|\beta\|\|b\|/n \le \ell(y, 0)$, which for a convex
        loss of a residual is largest at y = T or -T.
        """
        pull = self._linear_norm / len(self.labels)
        ends = np.asarray([-self.label_bound, self.label_bound])
        nothing = self._predictions(np.zeros((2, self.features.shape[1])), 0 * self.linear_term)
        start = float(np.max(self.loss.value_at(nothing, ends)))
        lipschitz = self.loss.lipschitz * self.input_bound + pull
        return min(lipschitz, pull + math.sqrt(pull**2 + 2 * self.ridge * start)) / self.ridge

    @property
    def smoothness(self) -> float:
        r"""$\lambda + c_2 B^2$, at least the gradient's Lipschitz constant."""
        return self.ridge + self.loss.smoothness * self.input_bound**2

    def num_accelerated_steps(self, tolerance: float) -> int:
        r"""How many accelerated steps are enough in exact arithmetic, from no farther than zero.

        $1 + \sqrt\kappa \ln(9 L^2(L + \lambda) D^2/(\lambda\tau^2))$, $\kappa = L/\lambda$, with
        $D = (c_1B + \|b\|/n)/\lambda$ a bound on the distance. After t steps the objective is
        within $\frac{L + \lambda}2 D^2 e^{-(t-1)/\sqrt\kappa}$ of its minimum (Bubeck), at this
        point and the one before, hence both within
        $\sqrt{2/\lambda}$ times its root of the minimiser; the extrapolated point, whose gradient
        is looked at, within three times that.
        """
        smoothness, ridge = self.smoothness, self.ridge
        pull = self.loss.lipschitz * self.input_bound + self._linear_norm / len(self.labels)
        # Logarithms of each: their product may overflow.
        ratio = 2 * math.log(3 * smoothness / ridge) + math.log1p(smoothness / ridge)
        ratio += 2 * (math.log(pull) - math.log(tolerance))
        return 1 + math.ceil(math.sqrt(smoothness / ridge) * max(ratio, 1.0))

    def _predictions(self, rows: np.ndarray, coefficients: _Vector) -> np.ndarray:
        outputs = self.loss.num_outputs
        return rows @ (coefficients if outputs is None else coefficients.reshape(-1, outputs))

    @property
    def _linear_norm(self) -> float:
        return float(np.linalg.norm(self.linear_term))

    @staticmethod
    def _gamma(terms: int) -> float:
        return terms * _UNIT / (1 - terms * _UNIT)

    def _blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, len(self.labels), _ROWS):
            rows = slice(start, start + _ROWS)
            yield np.asarray(self.features[rows], np.float64), self.labels[rows]


def _add_blocks(
    total: Float[np.ndarray, "coefficients coefficients"],
    rows: Float[np.ndarray, "n outputs"],
    weights: Float[np.ndarray, "n k k"],
) -> None:
    """Add the sum over the rows of $zz^T$ times a matrix each, of all pairs of outputs."""
    size, outputs = rows.shape[1], weights.shape[1]
    blocks = total.reshape(size, outputs, size, outputs)
    for first in range(outputs):
        for second in range(first + 1):
            product = rows.T @ (weights[:, first, second, None] * rows)
            blocks[:, first, :, second] += product
            if second != first:
                blocks[:, second, :, first] += product.T
