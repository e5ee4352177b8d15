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

from jaxdp.losses.margin import AbstractMarginLoss

_Vector = Float[np.ndarray, " outputs"]
_ROWS = 4096
_UNIT = 2.0**-53


class Point(NamedTuple):
    """A vector of coefficients, the objective there and its gradient."""

    coefficients: _Vector
    value: float
    gradient: _Vector


class PerturbedObjective(eqx.Module):
    r"""$\frac1n\sum_i \ell(y_i\beta\cdot z_i) + \frac\lambda2\|\beta\|^2 + b\cdot\beta/n$.

    Args:
        features: z, of norm at most `input_bound` each; float32 or float64, widened block by block.
        labels: y, -1 or +1.
        loss: $\ell$.
        ridge: $\lambda$ > 0.
        linear_term: b.
        input_bound: B.
    """

    features: Float[np.ndarray, "n outputs"]
    labels: Float[np.ndarray, " n"]
    loss: AbstractMarginLoss
    ridge: float
    linear_term: _Vector
    input_bound: float

    def at(self, coefficients: _Vector) -> Point:
        """The objective and its gradient."""
        total, slope_sum = 0.0, np.zeros_like(coefficients)
        for rows, labels in self._blocks():
            margins = labels * (rows @ coefficients)
            total += float(self.loss.value_of_margin(margins).sum())
            slope_sum += rows.T @ (labels * self.loss.slope_of_margin(margins))
        n = len(self.labels)
        quadratic = self.ridge / 2 * coefficients @ coefficients
        value = total / n + quadratic + self.linear_term @ coefficients / n
        gradient = slope_sum / n + self.ridge * coefficients + self.linear_term / n
        return Point(coefficients, float(value), gradient)

    def curvature(self, coefficients: _Vector) -> Float[np.ndarray, "outputs outputs"]:
        """The second derivative; where it jumps, one between its limits."""
        total = np.zeros((len(coefficients), len(coefficients)))
        for rows, labels in self._blocks():
            weights = self.loss.curvature_of_margin(labels * (rows @ coefficients))
            # A product with its own transpose takes half the work.
            scaled = np.sqrt(weights)[:, None] * rows
            total += scaled.T @ scaled
        return total / len(self.labels) + self.ridge * np.eye(len(coefficients))

    def gradient_norm(self, point: Point) -> float:
        """A bound on the norm of the true gradient: the computed one and its rounding."""
        computed = float(np.linalg.norm(point.gradient)) * (
            1 + 2 * self._gamma(len(point.gradient))
        )
        return computed + self.gradient_rounding(float(np.linalg.norm(point.coefficients)))

    def gradient_rounding(self, norm: float) -> float:
        r"""How far rounding may take the gradient at coefficients of this norm.

        With $\gamma_k = ku/(1 - ku)$ for a sum of k products in any order: margins are off by
        $\gamma_M B\|\beta\|$ and slopes by $c_2$ times that and $64uc_1$, each on a row of norm at
        most B; the sum over n rows by $\gamma_{k + n/k} c_1 B$ of its mean, for blocks of k rows;
        the three terms and their sum by 8u of their norms.
        Source: Higham (2002), Sections 3.1 and 3.5.
        """
        n, bound, loss = len(self.labels), self.input_bound, self.loss
        margins = self._gamma(len(self.linear_term)) * bound * norm
        slopes = loss.smoothness * margins + 64 * _UNIT * loss.lipschitz
        sums = self._gamma(min(n, _ROWS) + math.ceil(n / _ROWS)) * loss.lipschitz
        terms = loss.lipschitz * bound + self.ridge * norm + self._linear_norm / n
        return 1.01 * ((slopes + sums) * bound + 8 * _UNIT * terms)

    @property
    def coefficient_bound(self) -> float:
        r"""A bound on the minimiser's norm that depends on b and the constants alone.

        $\lambda\|\beta\| \le c_1B + \|b\|/n$ as the gradient is zero, and, as the loss is not
        negative, $\frac\lambda2\|\beta\|^2 - \|\beta\|\|b\|/n \le \ell(0)$.
        """
        pull = self._linear_norm / len(self.labels)
        start = float(self.loss.value_of_margin(np.zeros(1))[0])
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
