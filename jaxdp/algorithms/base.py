"""The abstract iterative algorithm: what it does in one step, and what it releases."""

import abc

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int

from jaxdp.privacy.release import Release


class Update(eqx.Module):
    """One step's new parameters, and which samples were clipped or had their step capped."""

    parameters: Float[Array, " dim"]
    clipped: Bool[Array, "*batch"]
    capped: Bool[Array, "*batch"]


class AbstractAlgorithm(eqx.Module):
    """An algorithm that learns in steps and adds Gaussian noise to each.

    Attributes:
        batch_size: how many samples one step uses.
    """

    batch_size: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def num_steps(self) -> int | Int[Array, ""]:
        """How many updates it makes."""

    @property
    @abc.abstractmethod
    def is_valid(self) -> Bool[Array, ""]:
        """Whether traced parameters keep what the constructor asks of concrete ones."""

    @abc.abstractmethod
    def step_size(self, step: Int[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The learning rate of update number `step`, from 1."""

    @abc.abstractmethod
    def noise_std(self, step: Int[Array, "*shape"], dim: int) -> Float[Array, "*shape"]:
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

    @abc.abstractmethod
    def release(self) -> Release:
        """What is made public, and what is proved about it."""
