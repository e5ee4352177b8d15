"""The abstract algorithms: what they do in one step, and what they release."""

import abc
from typing import Any, Self

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxdp.algorithms.length import Length
from jaxdp.core.description import AbstractDescription
from jaxdp.privacy.release import Release


class Update(eqx.Module):
    """One step's new parameters, and which samples were clipped or had their step capped."""

    parameters: Float[Array, " dim"]
    clipped: Bool[Array, "*batch"]
    capped: Bool[Array, "*batch"]


class AbstractAlgorithm(AbstractDescription):
    """An algorithm that learns in steps and adds Gaussian noise to each."""

    _length: eqx.AbstractVar[Length | Int[Array, ""]]

    @property
    def num_steps(self) -> int | Int[Array, ""]:
        """How many updates it makes."""
        return self._length.value if isinstance(self._length, Length) else self._length

    def with_traced_length(self) -> Self:
        """The same algorithm with `num_steps` as an array, which no compilation depends on."""
        return eqx.tree_at(
            lambda tree: tree._length,
            self,
            jnp.asarray(self.num_steps),
            is_leaf=lambda node: isinstance(node, Length),
        )

    @property
    @abc.abstractmethod
    def is_valid(self) -> Bool[Array, ""]:
        """Whether traced parameters keep what the constructor asks of concrete ones."""

    @abc.abstractmethod
    def release(self) -> Release:
        """What is made public, and what is proved about it."""


class AbstractOnePassAlgorithm(AbstractAlgorithm):
    """An algorithm that uses each sample once.

    Attributes:
        batch_size: how many samples one step uses.
    """

    batch_size: eqx.AbstractVar[int]

    @abc.abstractmethod
    def step_size(self, step: Int[Any, "*shape"] | int) -> Float[Array, "*shape"]:
        """The learning rate of update number `step`, from 1."""

    @abc.abstractmethod
    def noise_std(self, step: Int[Any, "*shape"] | int, dim: int) -> Float[Array, "*shape"]:
        """Standard deviation, per coordinate, of the noise that update number `step` adds."""

    @abc.abstractmethod
    def update(
        self,
        parameters: Float[Array, " dim"],
        gradients: Float[Array, "*batch dim"],
        smoothness: Float[Array, "*batch"],
        step_size: Float[Array, ""],
        noise: Float[Array, " dim"],
    ) -> Update:
        """One step from per-sample gradients, with the noise already at its scale.

        One gradient without a batch axis stands for a batch of one, and is faster.
        """


class AbstractFullBatchAlgorithm(AbstractAlgorithm):
    """An algorithm that uses every sample in every step, on a model linear in its parameters."""

    learning_rate: eqx.AbstractVar[Float[Array, ""]]

    @abc.abstractmethod
    def noise_std(self, num_samples: int) -> Float[Array, ""]:
        """Standard deviation, per coordinate, of the noise that an update adds."""

    @abc.abstractmethod
    def clipped_slopes(
        self, residuals: Float[Array, "*runs samples"], feature_norms: Float[Array, " samples"]
    ) -> tuple[Float[Array, "*runs samples"], Bool[Array, "*runs samples"]]:
        """The slopes of the clipped losses in the predictions, and which samples were clipped."""
