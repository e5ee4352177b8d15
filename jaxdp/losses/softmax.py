"""The cross entropy of several classes."""

import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Float, Real

from jaxdp.core.arrays import float_dtype, plain_number
from jaxdp.core.checks import require_count
from jaxdp.losses.base import AbstractClassificationLoss, known_labels
from jaxdp.losses.gaussian import softmax as of_gaussian

# For clipped slopes: errors of single samples are a few hundredths of the limit.
_NUM_NODES = 54
# For the mean loss and probabilities, which are computed less often.
_NUM_METRIC_NODES = 256


class Softmax(AbstractClassificationLoss):
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

    @property
    def num_outputs(self):
        return self.num_classes

    @property
    def class_labels(self):
        """The labels 0, ..., k - 1."""
        return tuple(map(float, range(self.num_classes)))

    def require_labels(self, name, labels, *, are_private=False):
        known, count = known_labels(name, labels), self.num_classes
        if known is None:
            return
        is_class = (known >= 0) & (known < count) & (known == np.floor(known))
        if not is_class.all():
            came = "others" if are_private else f"{known[~is_class][0]:g}"
            raise ValueError(
                f"expected {name} to be whole numbers from 0 to {count - 1} "
                f"(num_classes={count}), got {came}"
            )

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

    def correct_share(self, prediction, label):
        _, gaps = self._gaps(prediction, label)
        num_tied = jnp.sum(gaps == 0, axis=-1, dtype=gaps.dtype)
        is_exceeded = jnp.any(gaps > 0, axis=-1)
        share = jnp.where(is_exceeded, 0, 1 / jnp.maximum(num_tied, 1))
        return jnp.where(jnp.isnan(gaps).any(axis=-1), jnp.nan, share)

    def expected_value(self, mean, variance, label, *, num_nodes: int | None = None):
        if num_nodes is None:
            num_nodes = _NUM_METRIC_NODES if self.nodes_per_row is None else _NUM_NODES
        is_label, gaps, variance = self._gaussian(mean, variance, label)
        return of_gaussian.expected_value(gaps, is_label, variance, num_nodes)

    def correct_probability(self, mean, variance, label, *, num_nodes: int = _NUM_METRIC_NODES):
        is_label, gaps, variance = self._gaussian(mean, variance, label)
        if variance.ndim < gaps.ndim:
            is_fixed = ~(variance > 0)
            safe = jnp.where(is_fixed, 1, variance)
            random = of_gaussian.isotropic_probability(gaps, is_label, safe)
        else:
            is_fixed = jnp.all(variance == variance[..., :1, :1], axis=(-2, -1))
            random = of_gaussian.correlated_probability(gaps, is_label, variance, num_nodes)
        share = self.correct_share(gaps, label)
        # A label that is not a class gives NaN.
        return jnp.where(is_fixed | jnp.isnan(share), share, random)

    def clipped_slope(self, mean, variance, label, limit, *, num_nodes: int = _NUM_NODES):
        is_label, gaps, variance = self._gaussian(mean, variance, label)
        return of_gaussian.isotropic_slope(
            gaps, is_label, variance, limit, num_nodes, self.nodes_per_row
        )

    def clipped_slope_correlated(
        self,
        mean: Float[Array, "*batch k"],
        covariance: Float[Array, "*batch k k"],
        label: Real[Array, "*batch"],
        limit: Float[Array, "*batch"],
        *,
        num_nodes: int = _NUM_NODES,
    ) -> of_gaussian.CorrelatedSlope:
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

    def _gaussian(self, mean, variance, label):
        """The label's output, by how much the means exceed its own, and their variance."""
        dtype = float_dtype((mean, variance))
        mean, variance = jnp.asarray(mean, dtype), jnp.asarray(variance, dtype)
        is_label, gaps = self._gaps(mean, label)
        square = (self.num_classes, self.num_classes)
        if variance.ndim >= mean.ndim and variance.shape[-2:] != square:
            raise ValueError(
                f"expected a variance for each prediction, or a covariance of shape (..., "
                f"{self.num_classes}, {self.num_classes}), got {variance.shape}"
            )
        return is_label, gaps, variance

    def _gaps(self, prediction, label, xp=jnp):
        """The label's output, and by how much the others exceed it."""
        is_label, own = self._own(prediction, label, xp)
        return is_label, prediction - own

    def _own(self, prediction, label, xp):
        """A mask of the label's output, and its value; NaN if the label is not a class."""
        if prediction.shape[-1:] != (self.num_classes,):
            raise ValueError(
                f"expected predictions of shape (..., {self.num_classes}), one a class, got "
                f"{prediction.shape}"
            )
        label = xp.asarray(label)[..., None]
        classes = xp.arange(self.num_classes).reshape((1,) * (label.ndim - 1) + (-1,))
        is_label = classes == label
        own = xp.sum(xp.where(is_label, prediction, 0), axis=-1, keepdims=True)
        own = xp.where(is_label.any(axis=-1, keepdims=True), own, xp.nan)
        return is_label, own
