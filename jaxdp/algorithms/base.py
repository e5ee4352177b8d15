"""The abstract algorithms: what they do in one step, and what they release."""

import abc
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from jaxdp.algorithms.length import AbstractStepwise
from jaxdp.privacy.release import Release


class Update(eqx.Module):
    """What one step ends with.

    Attributes:
        parameters: the new ones.
        state: of the algorithm, for the next step.
        clipped, capped: which samples were clipped, and which had their step capped.

    Example:
        >>> import numpy as np
        >>> from jaxdp.algorithms import Update
        >>> clipped, capped = np.array([True, False, True, False]), np.zeros(4, bool)
        >>> update = Update(np.ones(3), None, clipped, capped)
        >>> float(update.clipped.mean()), float(update.capped.mean())
        (0.5, 0.0)
    """

    parameters: Float[Array, " dim"]
    state: PyTree
    clipped: Bool[Array, "*batch"]
    capped: Bool[Array, "*batch"]


class AbstractAlgorithm(AbstractStepwise):
    """An algorithm that learns in steps and adds Gaussian noise to each.

    What it carries from step to step beside the parameters is its state: `init(parameters)`, then
    `step(parameters, state, ...)`, whose other arguments depend on where its samples come from.
    """

    @property
    @abc.abstractmethod
    def is_valid(self) -> Bool[Array, ""]:
        """Whether the parameters, which may be traced, are what the constructor asks for."""

    def _proved(self, mu: Any) -> Any:
        """mu; infinite where a number of the description is none that its constructor takes.

        A constructor cannot look at traced numbers, and a copy that sets a field goes by it: so the
        numbers that there are now are looked at. A batch of mu is left for its mechanism to refuse.
        """
        if np.ndim(mu):
            return mu
        with jax.ensure_compile_time_eval():
            is_valid = self.is_valid
        if isinstance(is_valid, Tracer):
            return jnp.where(is_valid, mu, jnp.inf)
        return mu if is_valid else math.inf

    @abc.abstractmethod
    def release(self) -> Release:
        """What is made public, and what is proved about it."""

    @abc.abstractmethod
    def init(self, parameters: Float[Array, "*runs dim"]) -> PyTree:
        """The state before the first step: arrays, or None."""


class AbstractOnePassAlgorithm(AbstractAlgorithm):
    """An algorithm that uses each sample once.

    Attributes:
        batch_size: how many samples one step uses.
    """

    batch_size: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def releases_every_iterate(self) -> bool:
        """Whether an iterate is released as it is recorded, the noise of its step included.

        Otherwise only the last one is, and the noise of the last step comes after the last record.
        """

    @abc.abstractmethod
    def step_size(self, step: Int[Any, "*shape"] | int) -> Float[Array, "*shape"]:
        """The learning rate of update number `step`, from 1."""

    @abc.abstractmethod
    def noise_std(self, step: Int[Any, "*shape"] | int, dim: int) -> Float[Array, "*shape"]:
        """Standard deviation, per coordinate, of the noise that `step` is given at that update."""

    @abc.abstractmethod
    def step(
        self,
        parameters: Float[Array, " dim"],
        state: PyTree,
        gradients: Float[Array, "*batch dim"],
        smoothness: Float[Array, "*batch"],
        step_size: Float[Array, ""],
        noise: Float[Array, " dim"],
    ) -> Update:
        """One step from per-sample gradients, with fresh noise already at its scale.

        A step of size 0 without noise leaves the parameters as they are, whatever it does to the
        state.

        One gradient without a batch axis stands for a batch of one, and is faster.
        """


class AbstractRowsAlgorithm(AbstractAlgorithm):
    """An algorithm for fixed rows, on a model linear in its parameters.

    A step uses the rows of its batch, adds up the gradients of their clipped losses, and noise.
    Where the loss has several outputs, parameters and gradients have a last axis for them, and a
    sample's slopes are clipped together: as one slope, their norm.
    """

    @property
    def is_sum_of_noise(self) -> bool:
        """Whether a coordinate without gradient is the sum of what `step` was given as its noise.

        Then the noise of many steps can be drawn at once.
        """
        return False

    @abc.abstractmethod
    def batch(
        self, step: Int[Array, ""], keys: Key[Array, " runs"]
    ) -> Bool[Array, "runs samples"] | None:
        """Which samples update number `step`, from 0, uses; None for all of them.

        Args:
            keys: of the runs, each one for all steps of its run.
        """

    @abc.abstractmethod
    def clipped_slopes(
        self, slopes: Float[Array, "*runs samples"], feature_norms: Float[Array, " samples"]
    ) -> tuple[Float[Array, "*runs samples"], Bool[Array, "*runs samples"]]:
        """The slopes of the losses in the predictions as clipped, and which samples were.

        Args:
            slopes: of the losses themselves.
            feature_norms: of the rows.
        """

    @abc.abstractmethod
    def noise_std(self, num_samples: int) -> Float[Array, ""]:
        """Standard deviation, per coordinate, of the noise that `step` is given."""

    @abc.abstractmethod
    def step(
        self,
        parameters: Float[Array, "*shape"],
        state: PyTree,
        gradient_sum: Float[Array, "*shape"],
        noise: Float[Array, "*shape"],
        num_samples: int,
    ) -> tuple[Float[Array, "*shape"], PyTree]:
        """Parameters and state after an update, from the sum of the batch's clipped gradients."""

    def released(self, parameters: Float[Array, "*shape"], state: PyTree) -> Float[Array, "*shape"]:
        """The parameters that are made public: the last ones, or an average in the state."""
        return parameters

    @abc.abstractmethod
    def time(self, steps: Float[Array, " records"], num_samples: int) -> Float[Array, " records"]:
        """The time after so many updates, on the algorithm's own clock."""


class AbstractFullBatchAlgorithm(AbstractRowsAlgorithm):
    """An algorithm that uses every sample in every step."""

    learning_rate: eqx.AbstractVar[Float[Array, ""]]

    def batch(self, step, keys):
        return None
