"""The objective whose minimiser is released: its value, its derivatives, and their rounding.

The noise on the released coefficients has to hide their distance from the exact minimiser, which
the gradient's norm bounds; so the rounding of the gradient in float64 is bounded here. Value and
gradient are computed on the host, block by block, in float64 for features of any type.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from jaxdp.kernels.margin.stated_constants import on_host
from jaxdp.losses import AbstractLoss

_Vector = Float[np.ndarray, " coefficients"]
_ROWS = 4096
_UNIT = 2.0**-53


class Point(NamedTuple):
    coefficients: _Vector
    value: float
    gradient: _Vector


class PerturbedObjective(eqx.Module):
    r"""The objective of the private minimiser, its gradient and curvature, and bounds on them.

    $\frac1n\sum_i \ell(y_i, \beta\cdot z_i) + \frac\lambda2\|\beta\|^2 + b\cdot\beta/n$; for k
    outputs the coefficients are an (M, k) matrix, passed around as a vector. Rows z of `features`
    have norm at most `input_bound` B. Labels of a residual f
    - y are bounded by `label_bound` T (0 for a margin). `linear_bound` bounds the norm of b and was
    known before b was drawn, so that numbers derived from it reveal nothing about b;
    a larger norm is used itself.
    """

    features: Float[np.ndarray, "n outputs"]
    labels: Float[np.ndarray, " n"]
    loss: AbstractLoss = eqx.field(converter=on_host)
    ridge: float
    linear_term: _Vector
    input_bound: float
    label_bound: float = 0.0
    linear_bound: float = 0.0

    def at(self, coefficients: _Vector) -> Point:
        total, slope_sum = 0.0, np.zeros_like(coefficients)
        for rows, labels in self._blocks():
            predictions = self._predictions(rows, coefficients)
            total += float(self.loss.value(predictions, labels, xp=np).sum())
            slope_sum += (rows.T @ self.loss.slope(predictions, labels, xp=np)).ravel()
        n = len(self.labels)
        quadratic = self.ridge / 2 * coefficients @ coefficients
        value = total / n + quadratic + self.linear_term @ coefficients / n
        gradient = slope_sum / n + self.ridge * coefficients + self.linear_term / n
        return Point(coefficients, float(value), gradient)

    def curvature_at(self, coefficients: _Vector) -> Callable[[_Vector], _Vector]:
        """Multiplication by the second derivative; at jumps, by a value between its limits.

        Computed in the features' own type: it only proposes directions, and no proof rests on it.
        """
        rows, dtype = self.features, self.features.dtype
        predictions = self._predictions(rows, coefficients.astype(dtype))
        slope_changes = self.loss.slope_changes(predictions, self.labels)

        def times(direction: _Vector) -> _Vector:
            changes = slope_changes(self._predictions(rows, direction.astype(dtype)))
            total = (rows.T @ changes.astype(dtype)).ravel().astype(np.float64)
            return total / len(self.labels) + self.ridge * direction

        return times

    def gradient_norm(self, point: Point) -> float:
        """A bound on the norm of the true gradient: the computed norm plus its rounding."""
        computed = float(np.linalg.norm(point.gradient)) * (
            1 + 2 * self._gamma(len(point.gradient))
        )
        return computed + self.gradient_rounding(float(np.linalg.norm(point.coefficients)))

    def gradient_rounding(self, norm: float) -> float:
        r"""A bound on the rounding error of the gradient at coefficients of this norm.

        With $\gamma_k = ku/(1 - ku)$ for a sum of k products in any order: the error of predictions
        is at most $\gamma_M B\|\beta\|$ (norm over all outputs), of residuals $u(B\|\beta\| + T)$
        more, and of slopes $c_2$ times that plus $(64 + k)uc_1$ for k outputs, each on a row of
        norm at most B; of the sum over n rows $\gamma_{k + n/k} c_1 B$ of its mean, for blocks of k
        rows; of the three terms and their sum 8u of their norms. Source: Higham (2002), 3.1, 3.5.
        """
        n, bound, loss = len(self.labels), self.input_bound, self.loss
        predictions = self._gamma(self.features.shape[1]) * bound * norm
        if self.label_bound:
            predictions += 1.01 * _UNIT * (bound * norm + self.label_bound)
        outputs = loss.num_outputs or 0
        slopes = loss.curvature_bound * predictions + (64 + outputs) * _UNIT * loss.slope_bound
        sums = self._gamma(min(n, _ROWS) + math.ceil(n / _ROWS)) * loss.slope_bound
        terms = loss.slope_bound * bound + self.ridge * norm + self._pull
        return 1.01 * ((slopes + sums) * bound + 8 * _UNIT * terms)

    @property
    def coefficient_bound(self) -> float:
        r"""A bound on the norm of the minimiser, and of points no worse and no farther than zero.

        The minimiser's distance from zero is at most $(c_1B + \|b\|/n)/\lambda$, as its gradient is
        zero, and points no farther from it have at most twice that norm. At a point no worse than
        zero, $\frac\lambda2\|\beta\|^2 - \|\beta\|\|b\|/n \le \ell(y, 0)$, as the loss is not
        negative; for a convex loss of a residual that is largest at y = T or -T.
        """
        pull = self._pull
        ends = np.asarray([-self.label_bound, self.label_bound])
        nothing = self._predictions(np.zeros((2, self.features.shape[1])), 0 * self.linear_term)
        start = float(np.max(self.loss.value(nothing, ends, xp=np)))
        lipschitz = self.loss.slope_bound * self.input_bound + pull
        return min(2 * lipschitz, pull + math.sqrt(pull**2 + 2 * self.ridge * start)) / self.ridge

    @property
    def least_tolerance(self) -> float:
        r"""Least tolerance for all data, $8\rho$; $\rho$ is the rounding at `coefficient_bound`."""
        return 8 * self.gradient_rounding(self.coefficient_bound)

    @property
    def smoothness(self) -> float:
        r"""The gradient's Lipschitz constant is at most this, $\lambda + c_2 B^2$."""
        return self.ridge + self.loss.curvature_bound * self.input_bound**2

    def num_accelerated_steps(self, tolerance: float) -> int:
        r"""Number of accelerated steps that is enough in exact arithmetic.

        The start is no farther from the minimiser than zero. $1 + \sqrt\kappa \ln(9 L^2(L +
        \lambda) D^2/(\lambda\tau^2))$, $\kappa = L/\lambda$, with $D = (c_1B + \|b\|/n)/\lambda$ a
        bound on the distance. After t steps the objective is within $\frac{L + \lambda}2 D^2
        e^{-(t-1)/\sqrt\kappa}$ of its minimum (Bubeck), at this point and the one before, hence
        both within $\sqrt{2/\lambda}$ times its root of the minimiser; the extrapolated point, at
        which the gradient is computed, within three times that.
        """
        condition = self.smoothness / self.ridge
        # Logarithms of each: their product may overflow.
        ratio = 2 * math.log(3 * condition) + math.log1p(condition) + self._log_excess(tolerance)
        return 1 + math.ceil(math.sqrt(condition) * max(ratio, 1.0))

    def num_gradient_steps(self, tolerance: float) -> int:
        r"""Number of gradient steps from zero that is enough in the arithmetic of the machine.

        $1 + \frac43\kappa \ln(\frac52 \kappa G^2/\tau^2)$ for tolerances $\tau \ge 8\rho$, $G =
        c_1B + \|b\|/n$, at least the gradient's norm at zero, and $\rho$ of `least_tolerance`.

        *Proof.* A step of the machine leads to $\beta - (g + e)/L$, g the true gradient. e contains
        the gradient's rounding, $\rho$ at most, and that of the step, L times $u\|\beta\| + 2.1u\|g
        + e\|/L$: terms of `gradient_rounding`, below $1.5\rho$. So $\|e\| \le 2.5\rho \le
        0.32\tau$. As long as the certificate is above $\tau$, $\|g\| \ge 0.7\tau$ and $\|e\| \le
        \|g\|/2$. Then the objective falls by

        $$ \frac{\|g\|^2 - \|e\|^2}{2L} \ge \frac{3\|g\|^2}{8L} \ge \frac{3}{4\kappa}(J - J^*), $$

        as gradients are Lipschitz and J strongly convex ($\|g\|^2 \ge 2\lambda(J - J^*)$), and no
        point is worse than zero. The distance to the minimiser, at first $G/\lambda$ at most,
        shrinks by $1 - 1/\kappa$ and grows by $\|e\|/L$, and so never exceeds $G/\lambda$. So
        $\rho$ is the largest rounding on the way. $J - J^*$ begins at $G^2/(2\lambda)$ at most and
        is $\|g\|^2/(2L) \ge \tau^2/(5L)$ at least.

        Derived: test_objective_solver has rounding of the largest size, against every step.
        """
        condition = self.smoothness / self.ridge
        ratio = math.log(2.5 * condition) + self._log_excess(tolerance)
        return 1 + math.ceil(4 / 3 * condition * max(ratio, 1.0))

    def _log_excess(self, tolerance: float) -> float:
        largest = self.loss.slope_bound * self.input_bound + self._pull
        return 2 * (math.log(largest) - math.log(tolerance))

    def _predictions(self, rows: np.ndarray, coefficients: _Vector) -> np.ndarray:
        outputs = self.loss.num_outputs
        return rows @ (coefficients if outputs is None else coefficients.reshape(-1, outputs))

    @property
    def _pull(self) -> float:
        r"""A bound on $\|b\|/n$."""
        norm = float(np.linalg.norm(self.linear_term))
        return max(norm, self.linear_bound) / len(self.labels)

    @staticmethod
    def _gamma(terms: int) -> float:
        return terms * _UNIT / (1 - terms * _UNIT)

    def _blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, len(self.labels), _ROWS):
            rows = slice(start, start + _ROWS)
            yield np.asarray(self.features[rows], np.float64), self.labels[rows]
