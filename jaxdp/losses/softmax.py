"""The cross entropy of several classes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxdp.core.arrays import plain_number
from jaxdp.core.checks import require_count
from jaxdp.losses.base import AbstractLoss


class Softmax(AbstractLoss):
    r"""$\ln\sum_j e^{f_j} - f_y$ of predictions (..., k) for labels y = 0, ..., k - 1.

    Its slope is $\mathrm{softmax}(f) - e_y$, of shape (..., k). Labels may be whole numbers of any
    type; one that is no class gives NaN.

    Args:
        num_classes: k >= 2.

    Raises:
        ValueError: num_classes is below 2.
    """

    num_classes: int = eqx.field(static=True, converter=plain_number)

    def __check_init__(self):
        require_count("num_classes", self.num_classes, least=2)

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

    def _gaps(self, prediction, label):
        """Which output is the label's, and by how much the others exceed it."""
        if prediction.shape[-1:] != (self.num_classes,):
            raise ValueError(
                f"expected predictions of shape (..., {self.num_classes}), one a class, got "
                f"{prediction.shape}"
            )
        is_label = jnp.arange(self.num_classes) == jnp.asarray(label)[..., None]
        own = jnp.sum(jnp.where(is_label, prediction, 0), axis=-1, keepdims=True)
        own = jnp.where(is_label.any(axis=-1, keepdims=True), own, jnp.nan)
        return is_label, prediction - own
