"""The logistic loss: of predictions and labels in JAX, and of margins on the host."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax.scipy.special import ndtr

from jaxdp.losses.base import AbstractClassificationLoss, AbstractScalarLoss, ClippedSlope
from jaxdp.losses.gaussian.clipped_logistic import clipped_sigmoid
from jaxdp.losses.gaussian.expected_logistic import expected_softplus
from jaxdp.losses.labels import require_sign_labels
from jaxdp.losses.margin import AbstractMarginLoss


class Logistic(AbstractScalarLoss, AbstractClassificationLoss, AbstractMarginLoss):
    r"""The logistic loss, $\ln(1 + e^{-yf})$ for labels y = -1 and +1.

    Its slope is $-y/(1 + e^{yf})$.

    A prediction names the class of its sign; zero names both. As a function of the margin m = y f
    the loss serves `jaxdp.kernels.PrivateKernelClassifier`.

    Example:
        >>> from jaxdp.losses import Logistic
        >>> print(f"{Logistic().value(2.0, 1.0):.3f}, {Logistic().slope(2.0, -1.0):.3f}")
        0.127, 0.881
    """

    @property
    def curvature_bound(self):
        return 0.25

    @property
    def slope_bound(self):
        return 1.0

    def value(self, prediction, label):
        return jnp.logaddexp(0.0, -label * prediction)

    def slope(self, prediction, label):
        return -label * jax.nn.sigmoid(-label * prediction)

    def clipped_slope(self, mean, variance, label, limit):
        found = clipped_sigmoid(label * mean, variance, limit)
        return ClippedSlope(-label * found.mean, found.square, found.derivative, found.clipped)

    def expected_value(self, mean, variance, label):
        return expected_softplus(label * mean, variance)

    def correct_share(self, prediction, label):
        return jnp.heaviside(label * prediction, 0.5)

    def correct_probability(self, mean, variance, label):
        is_fixed = ~(variance > 0)
        std = jnp.sqrt(jnp.where(is_fixed, 1, variance))
        random = ndtr(label * mean / std)
        return jnp.where(is_fixed, self.correct_share(mean, label), random)

    def require_labels(self, name, labels):
        require_sign_labels(name, labels, "Logistic")

    @property
    def lipschitz(self):
        return self.slope_bound

    @property
    def smoothness(self):
        return self.curvature_bound

    @property
    def is_decreasing(self):
        return True

    def value_of_margin(self, margins):
        return np.logaddexp(0.0, -margins)

    def slope_of_margin(self, margins):
        return -scipy.special.expit(-margins)

    def curvature_of_margin(self, margins):
        return scipy.special.expit(margins) * scipy.special.expit(-margins)
