"""Abstract problems: the source of samples, their gradients, and the risk."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from jaxdp.core.description import AbstractDescription
from jaxdp.losses.base import AbstractScalarLoss
from jaxdp.losses.linear_model import loss_gradient, loss_smoothness


class Samples(eqx.Module):
    """One input and its label, or a batch of them along leading axes.

    Attributes:
        inputs: x, (*batch, dim).
        labels: y, (*batch,).

    Example:
        >>> import numpy as np
        >>> from jaxdp.problems import Samples
        >>> batch = Samples(inputs=np.ones((5, 3)), labels=np.zeros(5))
        >>> batch.inputs.shape, batch.labels.shape
        ((5, 3), (5,))
    """

    inputs: Float[Array, "*batch dim"]
    labels: Float[Array, "*batch"]


class AbstractProblem(AbstractDescription):
    """A supervised problem, learnt from theta = 0."""

    @property
    @abc.abstractmethod
    def is_valid(self) -> Bool[Array, ""]:
        """Whether traced parameters satisfy what the constructor requires of concrete ones."""


class AbstractSampleProblem(AbstractProblem):
    """A problem that gives samples one after the other, with parameters in `dim` dimensions.

    A stream draws each from its key; a table splits its rows for each run (`prepare`) and gives
    them in order.
    """

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """Number of parameters."""

    @property
    @abc.abstractmethod
    def max_samples(self) -> int | None:
        """The number of samples in one pass; None for a stream, which never ends."""

    @property
    def why_max_samples(self) -> str:
        """Why there are no more samples, for error messages; may be empty."""
        return ""

    @abc.abstractmethod
    def prepare(self, key: Key[Array, ""]) -> Any:
        """State that a run fixes before its first step (a table's split), as a pytree or None."""

    @abc.abstractmethod
    def draw(self, prepared: Any, key: Key[Array, ""], index: Int[Array, ""]) -> Samples:
        """Sample number `index` of the run, from 0; it depends on the key and the index alone."""

    @abc.abstractmethod
    def gradient(
        self, parameters: Float[Array, " dim"], samples: Samples
    ) -> Float[Array, "*batch dim"]:
        """The loss's gradient at each sample.

        `OnePassDPSGD` is private if the gradient is x times a non-decreasing function of x.theta
        whose slope is bounded as `smoothness` states.
        """

    @abc.abstractmethod
    def smoothness(self, samples: Samples) -> Float[Array, "*batch"]:
        """The Lipschitz constant of each sample's gradient."""

    @abc.abstractmethod
    def risk(self, prepared: Any, parameters: Float[Array, " dim"]) -> Float[Array, ""]:
        """The excess risk of the parameters."""

    def observables(self, parameters: Float[Array, " dim"]) -> dict[str, Float[Array, ""]]:
        """Further recorded functions of the parameters, by name."""
        return {}

    @abc.abstractmethod
    def in_input_coordinates(self, parameters: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Parameters as they act on the inputs that the user gave (centred and scaled)."""


class AbstractLinearModelProblem(AbstractSampleProblem):
    """Samples for a linear model, with gradients for which `OnePassDPSGD` is proved private.

    `loss` is the loss of a sample, as a function of the prediction x.theta.
    """

    loss: eqx.AbstractVar[AbstractScalarLoss]

    def gradient(self, parameters, samples):
        weights = lax.broadcast_to_rank(parameters, samples.inputs.ndim)
        predictions = jnp.sum(samples.inputs * weights, axis=-1)
        return loss_gradient(self.loss, samples.inputs, predictions, samples.labels)

    def smoothness(self, samples):
        return loss_smoothness(self.loss, samples.inputs)
