r"""Averages of the iterates, which a private optimiser may release instead of its last iterate.

After step t, from 1, the average moves towards the new iterate by a share $\alpha_t$,

$$ a_t = (1 - \alpha_t)\, a_{t-1} + \alpha_t\, \theta_t, \qquad a_0 = \theta_0. $$

Averages cost no privacy: all iterates are released already.
"""

import abc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PyTree

from jaxdp.core.arrays import as_wide_float
from jaxdp.core.checks import concrete, require_scalar
from jaxdp.core.description import AbstractDescription


class AbstractAverage(AbstractDescription):
    r"""A rule that gives the share $\alpha_t$ of the new iterate in the average."""

    @abc.abstractmethod
    def weight(
        self, step: Int[Any, "*shape"] | int, num_steps: int | Int[Array, ""]
    ) -> Float[Array, "*shape"]:
        r"""$\alpha_t$ after step t = `step`, from 1, of T = `num_steps`."""

    @property
    def is_valid(self) -> Bool[Any, ""]:
        """Whether traced parameters keep what the constructor asks of concrete ones."""
        return np.asarray(True)

    def after(
        self,
        average: PyTree[Array],
        iterate: PyTree[Array],
        step: int | Int[Array, ""],
        num_steps: int | Int[Array, ""],
    ) -> PyTree[Array]:
        """The average after a step, in the types of the average before it.

        Args:
            average: before the step.
            iterate: after it.
            step: how many steps have been made, this one included.
            num_steps: T.
        """
        share = self.weight(step, num_steps)

        def mixed(before, new):
            # A share of one gives the iterate to the last bit.
            return ((1 - share) * before + share * new).astype(before.dtype)

        return jax.tree.map(mixed, average, iterate)


class PolyakAverage(AbstractAverage):
    """The mean of the iterates after steps 1, ..., t.

    Source: Polyak and Juditsky (1992), "Acceleration of stochastic approximation by averaging".

    Example:
        >>> import jaxdp
        >>> [float(jaxdp.PolyakAverage().weight(step, 4)) for step in (1, 2, 4)]
        [1.0, 0.5, 0.25]
    """

    def weight(self, step, num_steps):
        return 1 / jnp.maximum(step, 1)


class TailAverage(AbstractAverage):
    """The mean of the iterates after the steps beyond T // 2; until then the iterate itself.

    Example:
        >>> import jaxdp
        >>> [float(jaxdp.TailAverage().weight(step, 4)) for step in (1, 2, 3, 4)]
        [1.0, 1.0, 1.0, 0.5]
    """

    def weight(self, step, num_steps):
        return 1 / jnp.maximum(step - num_steps // 2, 1)


class ExponentialAverage(AbstractAverage):
    """A mean whose weights fall by the factor `decay` a step, from the weights at the start on.

    Args:
        decay: 0 <= decay < 1, where 0 averages nothing.

    Example:
        >>> import jaxdp
        >>> float(jaxdp.ExponentialAverage(0.75).weight(3, 4))
        0.25
    """

    decay: Float[Array, ""]

    def __init__(self, decay: ArrayLike):
        self.decay = as_wide_float(decay, "decay")
        require_scalar("decay", self.decay)
        known = concrete(self.decay)
        if known is not None and not 0 <= known < 1:
            raise ValueError(f"expected 0 <= decay < 1, got {known}")

    def weight(self, step, num_steps):
        return (1 - self.decay) * jnp.ones(jnp.shape(step))

    @property
    def is_valid(self):
        return (self.decay >= 0) & (self.decay < 1)
