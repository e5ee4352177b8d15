"""The cross entropy of several classes."""

import dataclasses
import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy

from jaxdp.core.arrays import plain_number
from jaxdp.core.checks import require_count
from jaxdp.losses.classes import NUM_METRIC_NODES, AbstractClassesLoss
from jaxdp.losses.gaussian import softmax as of_gaussian

# For clipped slopes: errors of single samples are a few hundredths of the limit.
_NUM_NODES = 54


class Softmax(AbstractClassesLoss):
    r"""The softmax loss of k classes, also called cross-entropy: $\ln\sum_j e^{f_j} - f_y$.

    Predictions f have shape (..., k), labels are y = 0, ..., k - 1 of any type; other labels give
    NaN. The slope is $\mathrm{softmax}(f) - e_y$. The largest entry names the class.

    Args:
        num_classes: k >= 2.
        nodes_per_row: even number of quadrature nodes per row for the clipped slope over Gaussian
            logits, shared out among the rows; None for all nodes. Fewer nodes are faster: means
            over thousands of rows hardly change, those of single rows do.

    Raises:
        ValueError: num_classes is below 2, or nodes_per_row is odd or below 2.

    Example:
        >>> import numpy as np
        >>> from jaxdp.losses import Softmax
        >>> print(f"{Softmax(3).value(np.array([2.0, 0.0, 0.0]), 0):.3f}")
        0.240
    """

    # The largest eigenvalue of diag(p) - p p', attained if two classes have probability 1/2.
    curvature_bound: ClassVar[float] = 0.5
    slope_bound: ClassVar[float] = math.sqrt(2)

    num_classes: int = eqx.field(static=True, converter=plain_number)
    nodes_per_row: int | None = eqx.field(static=True, default=None, repr=False)

    def __check_init__(self):
        require_count("num_classes", self.num_classes, least=2)
        if self.nodes_per_row is not None:
            require_count("nodes_per_row", self.nodes_per_row, least=2)
            if self.nodes_per_row % 2:
                raise ValueError(f"expected an even nodes_per_row, got {self.nodes_per_row}")

    def with_nodes(self, per_row):
        return dataclasses.replace(self, nodes_per_row=per_row)

    def value(self, prediction, label, *, xp=jnp):
        is_label, gaps = self._gaps(prediction, label, xp)
        logsumexp = scipy.special.logsumexp if xp is np else jax.nn.logsumexp
        others = logsumexp(xp.where(is_label, -xp.inf, gaps), axis=-1)
        # Not a difference, in which a small loss would lose its digits.
        return xp.logaddexp(0.0, others)

    def slope(self, prediction, label, *, xp=jnp):
        is_label, own = self._own(prediction, label, xp)
        softmax = scipy.special.softmax if xp is np else jax.nn.softmax
        # Of predictions, not gaps: so only one rounded number is subtracted from each.
        shares = softmax(prediction + 0 * own, axis=-1)
        others = xp.where(is_label, 0, shares)
        return xp.where(is_label, -xp.sum(others, axis=-1, keepdims=True), others)

    def expected_value(self, mean, variance, label, *, num_nodes: int | None = None):
        if num_nodes is None:
            num_nodes = NUM_METRIC_NODES if self.nodes_per_row is None else _NUM_NODES
        is_label, gaps, variance = self._gaussian(mean, variance, label)
        return of_gaussian.expected_value(gaps, is_label, variance, num_nodes)

    def clipped_slope(self, mean, variance, label, limit, *, num_nodes: int = _NUM_NODES):
        is_label, gaps, variance = self._gaussian(mean, variance, label)
        return of_gaussian.isotropic_slope(
            gaps, is_label, variance, limit, num_nodes, self.nodes_per_row
        )

    def clipped_slope_correlated(
        self, mean, covariance, label, limit, *, num_nodes: int = _NUM_NODES
    ):
        """Moments of the clipped slope at logits of any covariance; at least `num_nodes` nodes."""
        is_label, gaps, covariance = self._gaussian(mean, covariance, label)
        return of_gaussian.correlated_slope(
            gaps, is_label, covariance, limit, num_nodes, self.nodes_per_row
        )

    def slope_changes(self, prediction, label):
        del label
        shares = scipy.special.softmax(prediction, axis=-1)

        def times(changes):
            return shares * (changes - np.sum(shares * changes, axis=-1, keepdims=True))

        return times
