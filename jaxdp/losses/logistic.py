"""The logistic loss: of predictions and labels in JAX, and of margins on the host."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from jaxdp.losses.base import AbstractScalarLoss, ClippedSlope
from jaxdp.losses.clipped_logistic import clipped_sigmoid
from jaxdp.losses.margin import AbstractMarginLoss


class Logistic(AbstractScalarLoss, AbstractMarginLoss):
    r"""$\ln(1 + e^{-yf})$ for labels y = -1 and +1, of slope $-y/(1 + e^{yf})$.

    As a function of the margin m = y f it serves `jaxdp.kernels.PrivateKernelClassifier`.
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
