r"""The abstract target of an attack, in blocks of features.

Targets contain neither inputs nor labels, only the map to features, and the parameters $\theta$ (or
their change in training), which lie in the span of the training rows' features. Source: DR (11).
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from jaxdp.core.arrays import as_wide_float
from jaxdp.core.checks import concrete, require_finite, require_function
from jaxdp.core.description import AbstractDescription


class Linearisation(NamedTuple):
    """Features at n inputs, (n, rows), their derivative, from (n, d), and its transpose."""

    features: Float[Array, "n rows"]
    push_forward: Callable[[Float[Array, "n dim"]], Float[Array, "n rows"]]
    pull_back: Callable[[Float[Array, "n rows"]], Float[Array, "n dim"]]


class AbstractBlock(eqx.Module):
    r"""Some of the features, with their rows of $\theta$; rows of padding are zero."""

    parameters: eqx.AbstractVar[Float[Array, "rows outputs"]]

    @abc.abstractmethod
    def features(self, inputs: Float[Array, "n dim"]) -> Float[Array, "n rows"]: ...

    @abc.abstractmethod
    def linearised(self, inputs: Float[Array, "n dim"]) -> Linearisation: ...

    @abc.abstractmethod
    def row_coupling(
        self, inputs: Float[Array, "n dim"], *, key: Key[Array, ""]
    ) -> Float[Array, "n n"]:
        r"""$\operatorname{tr}(J_i^\top J_j)/d$ for the features' Jacobians $J_i$, or estimates."""


class AbstractTarget(AbstractDescription):
    r"""Features of an input, and the parameters in the span of the training rows' features.

    Attributes:
        parameters: $\theta$, (p,) or (p, k) for k outputs.
    """

    parameters: eqx.AbstractVar[Float[Array, "..."]]

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """The length of an input, d."""

    @property
    @abc.abstractmethod
    def num_blocks(self) -> int:
        """Number of blocks of features."""

    @abc.abstractmethod
    def block(self, index: Int[Array, ""] | int) -> AbstractBlock:
        """The block with this number, which may be traced; all blocks have one shape."""

    @abc.abstractmethod
    def in_blocks(self, num_rows: int) -> "AbstractTarget":
        """The target in blocks of about `num_rows` features, if its block size can be changed."""

    @abc.abstractmethod
    def widened(self) -> "AbstractTarget":
        """The target in float64; call it with x64 enabled."""

    @property
    def num_features(self) -> int:
        """The number of features, p."""
        return self.parameters.shape[0]

    @property
    def num_outputs(self) -> int:
        """The number of outputs, k; 1 for parameters of shape (p,)."""
        return 1 if self.parameters.ndim == 1 else self.parameters.shape[1]

    def features(self, inputs: Float[Array, "n dim"]) -> Float[Array, "n features"]:
        """All features of the inputs, in memory whole: for small problems."""
        blocks = jax.lax.map(
            lambda index: self.block(index).features(inputs), jnp.arange(self.num_blocks)
        )
        order = jax.lax.map(self._positions, jnp.arange(self.num_blocks)).reshape(-1)
        stacked = jnp.moveaxis(blocks, 0, 1).reshape(len(inputs), -1)
        whole = jnp.zeros((len(inputs), self.num_features), stacked.dtype)
        return whole.at[:, order].add(stacked, mode="drop")

    @abc.abstractmethod
    def _positions(self, index: Int[Array, ""] | int) -> Int[Array, " rows"]:
        """The feature number of each row of a block; p or more for padding."""


def require_activation(activation: Any) -> None:
    expected = "a function of an array, such as jax.nn.relu"
    require_function("activation", activation, expected)


def as_parameters(value) -> Float[Array, "..."]:
    parameters = as_wide_float(value, "parameters")
    if parameters.ndim not in (1, 2) or 0 in parameters.shape:
        raise ValueError(f"expected parameters of shape (p,) or (p, k), got {parameters.shape}")
    require_finite("parameters", parameters)
    known = concrete(parameters)
    if known is not None and not np.any(known):
        raise ValueError("expected parameters that training has changed, got zeros only")
    return parameters
