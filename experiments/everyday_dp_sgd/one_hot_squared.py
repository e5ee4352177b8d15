r"""Least squares of several classes, its slope clipped on the joint norm.

The residual $r = f - e_y + 1/k \sim N(m, vI_k)$ is clipped to $gr$, $g = \min(1, c/|r|)$. Its
length $\sqrt v\,u$ has, with $\alpha = |m|/\sqrt v$, $\nu = k/2 - 1$, $x = \alpha u$, the density
$p(u) \propto u^{k-1}e^{-(u^2 + \alpha^2)/2}\,I_\nu(x)/x^\nu$; given u its direction follows the von
Mises-Fisher law of concentration x. With $q = I_{\nu+1}(x)/(xI_\nu(x))$

$$ E[gr] = m\,E[gu^2q], \quad E|gr|^2 = v\,E[g^2u^2], \quad E(gr)_\perp^2 = v\,E[g^2u^2q],
   \quad \mathrm{tr}\,E[J] = k\,P(g = 1) + (k - 1)\,E[g; g < 1] $$

in each direction across m. Integrals over u are split at the clip's kink, with ten nodes of Gauss
and Legendre on each side; $I_\nu$ is Debye's expansion at an order of at least 7 (Abramowitz and
Stegun 9.7.7), carried down by $1/q_\nu = 2(\nu + 1) + x^2q_{\nu+1}$. Errors are at most 0.0003 of
$l = \min(c, |m| + \sqrt{kv})$ for E[gr], 0.0008 of $l^2$ for second moments, and 0.0003 for
derivative and probability. Derived: here; test_one_hot_squared.
"""

import math
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdp.core.numerics.precision import product, safe_sqrt
from jaxdp.losses import Softmax
from jaxdp.losses.base import ClippedSlope
from jaxdp.losses.gaussian.softmax import CorrelatedSlope

_NODES, _WEIGHTS = (part / 2 for part in np.polynomial.legendre.leggauss(10))
_NODES = _NODES + 0.5
# The integrals end this many standard deviations of the length from its mean.
_DEVIATIONS = 5.0
# The smallest order at which Debye's expansion is used.
_LEAST_ORDER = 7
# The shortest length, in deviations of an output.
_SHORTEST = 1e-3
# Added to squared lengths of residuals, whose labels have length 1.
_LEAST_SQUARE = 1e-12


class OneHotSquared(Softmax):
    r"""Half the squared distance to the label's unit vector less its mean, of k classes.

    The loss is $|f - e_y + 1/k|^2/2$ for predictions f (..., k) and labels y = 0, ..., k - 1. Its
    slope is clipped on its joint norm, and at f = 0 it is that of the softmax loss. Labels and
    accuracy are those of `Softmax`.

    Args:
        num_classes: k >= 2.
    """

    curvature_bound: ClassVar[float] = 1.0
    slope_bound: ClassVar[float] = math.inf

    def value(self, prediction, label, *, xp=jnp):
        return xp.sum(self.slope(prediction, label, xp=xp) ** 2, axis=-1) / 2

    def slope(self, prediction, label, *, xp=jnp):
        is_label, own = self._own(prediction, label, xp)
        return prediction + 0 * own - (is_label - 1 / self.num_classes)

    def slope_changes(self, prediction, label):
        del prediction, label
        return lambda changes: changes

    def expected_value(self, mean, variance, label, *, num_nodes: int | None = None):
        del num_nodes
        residual, variance = self._residual(mean, variance, label)
        return (jnp.sum(residual**2, axis=-1) + self.num_classes * variance) / 2

    def clipped_slope(self, mean, variance, label, limit):
        residual, variance = self._residual(mean, variance, label)
        share, square, _, derivative, clipped = self._moments(residual, variance, limit)
        return ClippedSlope(share[..., None] * residual, square, derivative, clipped)

    def clipped_slope_correlated(self, mean, covariance, label, limit):
        """Moments of the clipped slope, as if the covariance were isotropic: its mean diagonal.

        Noise is isotropic and the loss is symmetric. Exact for isotropic covariances, and without
        clipping: the second moment's part that is linear in the prediction has the covariance.
        """
        residual, variance = self._residual(mean, covariance, label)
        share, square, across, derivative, clipped = self._moments(residual, variance, limit)
        total = jnp.sum(residual**2, axis=-1)[..., None, None]
        axis = residual[..., :, None] * residual[..., None, :] / (total + _LEAST_SQUARE)
        identity, k = jnp.eye(self.num_classes, dtype=residual.dtype), self.num_classes

        def symmetric(across, mean_diagonal):
            across, excess = across[..., None, None], k * (mean_diagonal - across)
            return across * identity + excess[..., None, None] * axis

        jacobian, second = symmetric(share, derivative), symmetric(across, square)
        rest = covariance - variance[..., None, None] * identity
        second += product(product(jacobian, rest), jacobian)
        return CorrelatedSlope(share[..., None] * residual, second, jacobian, clipped)

    def _residual(self, mean, variance, label):
        """The mean residual, and the variance of an output."""
        _, gaps, variance = self._gaussian(mean, variance, label)
        if variance.ndim >= jnp.ndim(mean):
            variance = jnp.trace(variance, axis1=-2, axis2=-1) / self.num_classes
        return self.slope(jnp.asarray(mean, gaps.dtype), label), variance

    def _moments(self, residual, variance, limit):
        r"""$E[g\,u^2q]$, $E|gr|^2/k$, $E[g^2\rho^2q]$, $\mathrm{tr}\,E[J]/k$, P(clipped)."""
        k, total = self.num_classes, jnp.sum(residual**2, axis=-1)
        # The floor makes a variance of zero harmless.
        floor = float(jnp.finfo(residual.dtype).eps) ** 0.75 * (total + _LEAST_SQUARE)
        std = jnp.sqrt(variance + floor)
        alpha = safe_sqrt(total) / std
        centre = alpha**2 + k - 1
        reach = _DEVIATIONS * jnp.sqrt((centre + alpha**2) / (2 * centre))
        last = jnp.sqrt(centre) + reach
        first = jnp.maximum(jnp.sqrt(centre) - reach, _SHORTEST)
        # Finite for an infinite limit.
        level = jnp.minimum(limit, last * std) / std
        middle, ndim = jnp.maximum(level, first), std.ndim
        nodes, weights = (
            jnp.asarray(part, std.dtype).reshape(-1, *(1,) * ndim) for part in (_NODES, _WEIGHTS)
        )
        inner, outer = (middle - first)[None], (last - middle)[None]
        u = jnp.concatenate([first + inner * nodes, middle + outer * nodes])
        log_density, q = _log_density_and_q(u, alpha[None], k)
        density = jnp.exp(log_density - lax.stop_gradient(log_density.max(axis=0)))
        density *= jnp.concatenate([inner * weights, outer * weights])
        scale = jnp.minimum(1, level / u)
        is_out = (jnp.arange(len(u)) >= len(_NODES)).reshape(-1, *(1,) * ndim)
        jacobian = jnp.where(is_out, (k - 1) / k * scale, 1)
        along = density * u**2

        def mean(values, weights):
            return jnp.sum(values * weights, axis=0) / jnp.sum(weights, axis=0)

        # Ratios, so that nothing is lost without clipping.
        square = mean(scale**2, along) * (total / k + variance)
        across = mean(scale**2, along * q) * variance
        clipped = mean(is_out.astype(u.dtype), density)
        return mean(scale, along * q), square, across, mean(jacobian, density), clipped


def _log_density_and_q(u, alpha, k: int):
    r"""$\ln p(u)$ but for a constant, and $q_\nu(\alpha u)$."""
    steps = max(0, math.ceil(_LEAST_ORDER + 1 - k / 2))
    order, x = k / 2 - 1 + steps, alpha * u
    root = jnp.sqrt(order**2 + x**2)
    t = order / root
    factor = (1 + (3 * t - 5 * t**3) / (24 * order)) / jnp.sqrt(root)
    inverse = order + 0.5 + jnp.sqrt((order + 1.5) ** 2 + x**2)
    for step in range(steps):
        inverse = 2 * (order - step) + x**2 / inverse
        factor *= inverse
    exponent = order**2 / (root + x) - (u - alpha) ** 2 / 2
    logs = (k - 1) * jnp.log(u) - order * jnp.log(order + root) + jnp.log(factor)
    return exponent + logs, 1 / inverse
