"""The cross entropy of several classes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import lax
from jaxtyping import Array, Float, Real

from jaxdp.core.arrays import float_dtype, plain_number
from jaxdp.core.checks import require_count
from jaxdp.losses.base import AbstractClassificationLoss
from jaxdp.losses.gaussian import softmax_metrics
from jaxdp.losses.gaussian.softmax_slope import (
    CorrelatedSlope,
    IsotropicSlope,
    correlated_slope,
    isotropic_slope,
)
from jaxdp.losses.labels import require_class_labels
from jaxdp.losses.lipschitz import AbstractLipschitzLoss

# Errors of single samples are then a few hundredths of the limit (`gaussian.softmax_slope`).
_NUM_NODES = 54
# Of the mean loss and of probabilities, which are asked for less often.
_NUM_METRIC_NODES = 256


class Softmax(AbstractClassificationLoss, AbstractLipschitzLoss):
    r"""The softmax loss, also called cross-entropy, of k classes.

    $\ln\sum_j e^{f_j} - f_y$ of predictions (..., k) for labels y = 0, ..., k - 1.

    Its slope is $\mathrm{softmax}(f) - e_y$, of shape (..., k). Labels may be whole numbers of any
    type; one that is no class gives NaN. A prediction names the class of its largest entry. On the
    host the loss serves `jaxdp.kernels.PrivateKernelClassifier`.

    Args:
        num_classes: k >= 2.

    Raises:
        ValueError: num_classes is below 2.

    Example:
        >>> import numpy as np
        >>> from jaxdp.losses import Softmax
        >>> loss, logits = Softmax(3), np.array([2.0, 0.0, 0.0], np.float32)
        >>> print(f"{loss.value(logits, 0):.3f}", np.asarray(loss.slope(logits, 0)).round(3))
        0.240 [-0.213  0.107  0.107]
    """

    num_classes: int = eqx.field(static=True, converter=plain_number)

    def __check_init__(self):
        require_count("num_classes", self.num_classes, least=2)

    @property
    def num_outputs(self):
        return self.num_classes

    def require_labels(self, name, labels):
        require_class_labels(name, labels, self.num_classes)

    @property
    def curvature_bound(self):
        # Of diag(p) - p p': attained where two classes share all of the probability.
        return 0.5

    @property
    def slope_bound(self):
        return float(np.sqrt(2))

    def value(self, prediction, label):
        is_label, gaps = self._gaps(prediction, label)
        # A small loss keeps its digits, which it would lose in a difference.
        others = jax.nn.logsumexp(gaps, axis=-1, where=~is_label)
        return jnp.logaddexp(0.0, others)

    def slope(self, prediction, label):
        is_label, gaps = self._gaps(prediction, label)
        others = jnp.where(is_label, 0, jax.nn.softmax(gaps, axis=-1))
        return jnp.where(is_label, -jnp.sum(others, axis=-1, keepdims=True), others)

    def correct_share(self, prediction, label):
        _, gaps = self._gaps(prediction, label)
        num_tied = jnp.sum(gaps == 0, axis=-1, dtype=gaps.dtype)
        is_exceeded = jnp.any(gaps > 0, axis=-1)
        share = jnp.where(is_exceeded, 0, 1 / jnp.maximum(num_tied, 1))
        return jnp.where(jnp.isnan(gaps).any(axis=-1), jnp.nan, share)

    def expected_value(self, mean, variance, label, *, num_nodes: int = _NUM_METRIC_NODES):
        is_label, gaps, variance = self._gaussian(mean, variance, label)
        return softmax_metrics.expected_value(gaps, is_label, variance, num_nodes)

    def correct_probability(self, mean, variance, label, *, num_nodes: int = _NUM_METRIC_NODES):
        is_label, gaps, variance = self._gaussian(mean, variance, label)
        if variance.ndim < gaps.ndim:
            is_fixed = ~(variance > 0)
            safe = jnp.where(is_fixed, 1, variance)
            random = softmax_metrics.isotropic_probability(gaps, is_label, safe)
        else:
            is_fixed = jnp.all(variance == variance[..., :1, :1], axis=(-2, -1))
            random = softmax_metrics.correlated_probability(gaps, is_label, variance, num_nodes)
        share = self.correct_share(gaps, label)
        # A label that is no class gives a share that is not a number.
        return jnp.where(is_fixed | jnp.isnan(share), share, random)

    def clipped_slope_isotropic(
        self,
        mean: Float[Array, "*batch k"],
        variance: Float[Array, "*batch"],
        label: Real[Array, "*batch"],
        limit: Float[Array, "*batch"],
        *,
        num_nodes: int = _NUM_NODES,
    ) -> IsotropicSlope:
        r"""Moments of the slope, its norm cut at $\ell$, for independent logits $N(m_j, v)$.

        Args:
            mean: m.
            variance: v >= 0, of each logit.
            label: y, fixed.
            limit: of the norm of the slope, $\ell \ge 0$, may be infinite: `slope_limits`.
            num_nodes: of the quadrature, at least.
        """
        is_label, gaps, variance = self._gaussian(mean, variance, label)
        return isotropic_slope(gaps, is_label, variance, limit, num_nodes)

    def clipped_slope_correlated(
        self,
        mean: Float[Array, "*batch k"],
        covariance: Float[Array, "*batch k k"],
        label: Real[Array, "*batch"],
        limit: Float[Array, "*batch"],
        *,
        num_nodes: int = _NUM_NODES,
    ) -> CorrelatedSlope:
        r"""Moments of the clipped slope at logits of any covariance, which may be singular.

        Args:
            mean: m.
            covariance: V, symmetric and positive semi-definite, to rounding.
            label: y, fixed.
            limit: of the norm of the slope, $\ell \ge 0$, may be infinite: `slope_limits`.
            num_nodes: of the quadrature, at least.
        """
        is_label, gaps, covariance = self._gaussian(mean, covariance, label)
        return correlated_slope(gaps, is_label, covariance, limit, num_nodes)

    @property
    def lipschitz(self):
        return self.slope_bound

    @property
    def smoothness(self):
        return self.curvature_bound

    def value_at(self, predictions, labels):
        own = np.take_along_axis(predictions, labels.astype(int)[:, None], axis=1)
        return scipy.special.logsumexp(predictions - own, axis=1)

    def slope_at(self, predictions, labels):
        return (
            scipy.special.softmax(predictions, axis=1)
            - np.eye(self.num_classes)[labels.astype(int)]
        )

    def curvature_at(self, predictions, labels):
        del labels
        shares = scipy.special.softmax(predictions, axis=1)

        def times(changes):
            return shares * (changes - np.sum(shares * changes, axis=1, keepdims=True))

        return times

    def _gaussian(self, mean, variance, label):
        """Which output is the label's, how much the means exceed its own, and their variance."""
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

    def _gaps(self, prediction, label):
        """Which output is the label's, and by how much the others exceed it."""
        if prediction.shape[-1:] != (self.num_classes,):
            raise ValueError(
                f"expected predictions of shape (..., {self.num_classes}), one a class, got "
                f"{prediction.shape}"
            )
        label = jnp.asarray(label)[..., None]
        is_label = lax.broadcast_to_rank(jnp.arange(self.num_classes), label.ndim) == label
        own = jnp.sum(jnp.where(is_label, prediction, 0), axis=-1, keepdims=True)
        own = jnp.where(is_label.any(axis=-1, keepdims=True), own, jnp.nan)
        return is_label, prediction - own
