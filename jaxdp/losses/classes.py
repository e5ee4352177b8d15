"""The abstract loss of one output a class: labels, and the accuracy of the largest output."""

import abc
from typing import Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Real

from jaxdp.core.arrays import float_dtype
from jaxdp.losses.base import AbstractClassificationLoss, known_labels
from jaxdp.losses.gaussian import softmax as of_gaussian

# Nodes for the mean loss and probabilities, which are computed less often than slopes.
NUM_METRIC_NODES = 256


class AbstractClassesLoss(AbstractClassificationLoss):
    """A loss of k outputs for labels 0, ..., k - 1; the largest output names the class."""

    num_classes: eqx.AbstractVar[int]

    @property
    def num_outputs(self):
        return self.num_classes

    @property
    def class_labels(self):
        return tuple(map(float, range(self.num_classes)))

    def with_nodes(self, per_row: int | None) -> Self:
        """The loss with this even number of quadrature nodes for each row's slope; None for all."""
        del per_row
        return self

    @abc.abstractmethod
    def clipped_slope_correlated(
        self,
        mean: Float[Array, "*batch k"],
        covariance: Float[Array, "*batch k k"],
        label: Real[Array, "*batch"],
        limit: Float[Array, "*batch"],
    ) -> of_gaussian.CorrelatedSlope:
        """Moments of the clipped slope at Gaussian predictions of any covariance."""

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

    def correct_share(self, prediction, label):
        _, gaps = self._gaps(prediction, label)
        num_tied = jnp.sum(gaps == 0, axis=-1, dtype=gaps.dtype)
        is_exceeded = jnp.any(gaps > 0, axis=-1)
        share = jnp.where(is_exceeded, 0, 1 / jnp.maximum(num_tied, 1))
        return jnp.where(jnp.isnan(gaps).any(axis=-1), jnp.nan, share)

    def correct_probability(self, mean, variance, label, *, num_nodes: int = NUM_METRIC_NODES):
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
