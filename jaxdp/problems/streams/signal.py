r"""Problems whose labels follow one direction of isotropic Gaussian inputs.

Everything that is rotation invariant sees of the parameters two numbers: how far they go along the
target and how long they are across it. Risk and moments of the clipped gradient are functions of
these two, which simulators and theories read.
"""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from jaxdp.core.keys import numbered_key
from jaxdp.losses import SignalSlope
from jaxdp.problems.base import AbstractLinearModelProblem, Samples


class AbstractSignalProblem(AbstractLinearModelProblem):
    r"""Inputs $x \sim N(0, I_d)$, labels that depend on x through $x^\top\theta^*$ alone.

    The target lies along the first axis, $\theta^* = S e_1$; isotropic inputs, clipping by norm
    and isotropic noise do not see a rotation. Parameters enter through the overlap $p =
    \langle\theta, \theta^*\rangle/S$ and the remainder $w = \|\theta\|^2 - p^2$.

    Attributes:
        signal: S > 0, the length of the target.
    """

    signal: eqx.AbstractVar[Float[Array, ""]]

    @abc.abstractmethod
    def label(
        self, signals: Float[Array, "*shape"], normals: Float[Array, "*shape"]
    ) -> Float[Array, "*shape"]:
        r"""Labels of inputs with $x^\top\theta^*$ = `signals`, their randomness a normal each."""

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
        """The excess risk of parameters of this overlap and remainder."""

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


def _overlap_and_remainder(parameters):
    return parameters[0], jnp.sum(parameters[1:] ** 2)
