"""Problems whose labels depend on one direction of isotropic Gaussian inputs.

Rotation-invariant algorithms see two numbers of the parameters: their components along and across
the target. Risk and moments of the clipped gradient are functions of these two.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax.scipy.special import ndtr
from jaxtyping import Array, ArrayLike, Float

from jaxdp.core.arrays import as_float
from jaxdp.core.checks import require_count, require_positive
from jaxdp.core.keys import numbered_key
from jaxdp.losses import Logistic
from jaxdp.losses.gaussian.well_specified_logistic import (
    SignalSlope,
    well_specified_risk,
    well_specified_slope,
)
from jaxdp.problems.base import AbstractLinearModelProblem, Samples


class AbstractSignalProblem(AbstractLinearModelProblem):
    r"""Inputs $x \sim N(0, I_d)$, labels that depend on x through $x^\top\theta^*$ alone.

    The target lies along the first axis, $\theta^* = S e_1$, which loses no generality for
    isotropic inputs, clipping by norm and isotropic noise. Parameters enter through the overlap
    $p = \langle\theta, \theta^*\rangle/S$ and the remainder $w = \|\theta\|^2 - p^2$.

    Attributes:
        signal: S > 0, the length of the target.
    """

    signal: eqx.AbstractVar[Float[Array, ""]]

    @abc.abstractmethod
    def label(
        self, signals: Float[Array, "*shape"], normals: Float[Array, "*shape"]
    ) -> Float[Array, "*shape"]:
        r"""Labels of inputs with $x^\top\theta^*$ = `signals`, each from one standard normal."""

    @abc.abstractmethod
    def slope_moments(
        self,
        overlap: Float[Array, "*shape"],
        remainder: Float[Array, "*shape"],
        limit: Float[Array, "*#shape"],
    ) -> SignalSlope:
        """Moments of the slope of a fresh sample, cut at +-limit."""

    @abc.abstractmethod
    def risk_at(
        self, overlap: Float[Array, "*shape"], remainder: Float[Array, "*shape"]
    ) -> Float[Array, "*shape"]:
        """The excess risk of parameters with this overlap and remainder."""

    @property
    def max_samples(self):
        return None

    def prepare(self, key):
        return None

    def draw(self, prepared: Any, key, index):
        inputs_key, label_key = jr.split(numbered_key(key, index))
        dtype = self.signal.dtype
        inputs = jr.normal(inputs_key, (self.dim,), dtype)
        normal = jr.normal(label_key, (), dtype)
        return Samples(inputs, self.label(self.signal * inputs[0], normal))

    def risk(self, prepared, parameters):
        return self.risk_at(*_overlap_and_remainder(parameters))

    def observables(self, parameters):
        overlap, remainder = _overlap_and_remainder(parameters)
        return {"overlap": overlap, "norm_squared": overlap**2 + remainder}

    def in_input_coordinates(self, parameters):
        return parameters


class LogisticRegression(AbstractSignalProblem):
    r"""Logistic regression on a stream of isotropic Gaussian inputs.

    Labels y = -1 and +1 with $P(y = 1 \mid x) = \sigma(x^\top\theta^*)$, $x \sim N(0, I_d)$.

    The loss is $\ln(1 + e^{-y x^\top\theta})$. The risk is its mean over fresh samples less that of
    the minimiser $\theta^*$, at most ln 2 at $\theta = 0$. A gradient is at most $\|x\|$ long,
    about $\sqrt d$: a `clip_scale` of 1 or more clips almost nothing. Its Lipschitz constant is
    $\|x\|^2/4$, and `OnePassDPSGD` caps a sample's step at $8/\|x\|^2$. Learning rates are larger
    than for linear regression, because curvatures are smaller. This model is beyond AC, whose
    theory is that of linear regression; docs/compared.md lists other work.

    Args:
        dim: number of inputs d, >= 2.
        signal: $\|\theta^*\|$ > 0, the standard deviation of the log-odds.

    Example:
        >>> import jax, jaxdp
        >>> problem = jaxdp.LogisticRegression(dim=200, signal=2.0)
        >>> algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(12.0, power=0.5), 0.3, 1.0, 2000)
        >>> runs = jaxdp.simulate(problem, algorithm, num_runs=20, key=jax.random.key(0))
        >>> sorted(runs.observables)
        ['capped_fraction', 'clipped_fraction', 'norm_squared', 'overlap']
        >>> print(f"mu = {jaxdp.account(algorithm, delta=1e-5).mu:.1f}")
        mu = 1.0
    """

    _dim: int = eqx.field(static=True)
    signal: Float[Array, ""]

    def __init__(self, dim: int, *, signal: ArrayLike):
        self._dim = require_count("dim", dim, least=2)
        self.signal = as_float(signal, "signal")
        require_positive("signal", self.signal)

    @property
    def dim(self):
        return self._dim

    @property
    def loss(self) -> Logistic:
        """The loss of a sample."""
        return Logistic()

    @property
    def is_valid(self):
        return (self.signal > 0) & jnp.isfinite(self.signal)

    def label(self, signals, normals):
        return jnp.where(ndtr(normals) < jax.nn.sigmoid(signals), 1, -1).astype(signals.dtype)

    def slope_moments(self, overlap, remainder, limit):
        return well_specified_slope(overlap, remainder, self.signal, limit)

    def risk_at(self, overlap, remainder):
        return well_specified_risk(overlap, remainder, self.signal)


def _overlap_and_remainder(parameters):
    return parameters[0], jnp.sum(parameters[1:] ** 2)
