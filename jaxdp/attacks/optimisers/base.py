"""The interface of the attack's optimisers, and their result."""

import abc
import enum
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from jaxdp.attacks.base import AbstractTarget
from jaxdp.core.description import AbstractDescription

# A function of the number of full-pass equivalents so far and the best loss.
Progress = Callable[[float, float], None]


class Ending(enum.IntEnum):
    """The reason why an optimiser stopped.

    Attributes:
        CONVERGED: the loss is below the tolerance.
        STALLED: no move of the optimiser lowers the loss any more.
        OUT_OF_PASSES: `max_passes` are used up.
        DIVERGED: the loss is not finite.
        OVERTAKEN: another start has converged.
    """

    CONVERGED = 0
    STALLED = 1
    OUT_OF_PASSES = 2
    DIVERGED = 3
    OVERTAKEN = 4

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")


class Attempt(NamedTuple):
    """The result of an optimisation from several starts.

    Attributes:
        inputs, loss: the best rows of each start, and their losses in the precision of the target.
        num_passes: full-pass equivalents of all starts together: features and gradient on all p
            features count 1, on a tenth of them 1/10, features alone 1/2; probes of curvature 0.
        status: an `Ending` for each start.
    """

    inputs: Float[Array, "starts n dim"]
    loss: Float[Array, " starts"]
    num_passes: float
    status: np.ndarray


class AbstractOptimiser(AbstractDescription):
    """Minimises the loss over n rows of norm sqrt(d), from several independent starts at once."""

    @abc.abstractmethod
    def minimise(
        self,
        target: AbstractTarget,
        starts: Float[Array, "starts n dim"],
        *,
        key: Key[Array, ""],
        max_passes: float,
        tolerance: float,
        num_known: int = 0,
        progress: Progress | None = None,
    ) -> Attempt:
        """Improve the starts until one is below the tolerance or all are done.

        Starts are rows on the sphere, the first `num_known` held fixed. They share the key.
        `max_passes` limits the full-pass equivalents of each start, except for its first
        evaluation. `progress` is called now and then, on the host.
        """


def onto_sphere(inputs: Float[Array, "*batch dim"]) -> Float[Array, "*batch dim"]:
    """Rows scaled to length sqrt(d)."""
    norms = jnp.linalg.norm(inputs, axis=-1, keepdims=True)
    return inputs * (inputs.shape[-1] ** 0.5 / norms)
