"""What every optimiser of the attack does, and what it answers."""

import abc
import enum
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from jaxdp.attacks.base import AbstractTarget
from jaxdp.core.description import AbstractDescription

# Called with the number of full-pass equivalents so far and the best loss.
Progress = Callable[[float, float], None]


class Ending(enum.IntEnum):
    """Why an optimiser stopped.

    Attributes:
        CONVERGED: the loss is below the tolerance.
        STALLED: nothing it knows lowers the loss any more.
        OUT_OF_PASSES: `max_passes` are used up.
        DIVERGED: the loss is not finite.
        OVERTAKEN: another start has converged.

    Example:
        >>> from jaxdp.attacks.optimisers.base import Ending
        >>> str(Ending.OUT_OF_PASSES)
        'out of passes'
    """

    CONVERGED = 0
    STALLED = 1
    OUT_OF_PASSES = 2
    DIVERGED = 3
    OVERTAKEN = 4

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")


class Attempt(NamedTuple):
    """The end of an optimisation from several starts.

    Attributes:
        inputs: the best rows of each start, (starts, n, d).
        loss: theirs, in the precision of the target.
        num_passes: full-pass equivalents, of all starts together: features and gradient on all p
            features count 1, on a tenth of them 1/10, features alone 1/2; probing a network's
            curvature is not counted.
        status: an `Ending` for each start.

    Example:
        >>> import numpy as np
        >>> from jaxdp.attacks.optimisers.base import Attempt, Ending
        >>> status = np.array([Ending.STALLED, Ending.OUT_OF_PASSES])
        >>> attempt = Attempt(np.ones((2, 3, 4)), np.array([0.2, 0.1]), 50.0, status)
        >>> str(Ending(attempt.status[attempt.loss.argmin()]))
        'out of passes'
    """

    inputs: Float[Array, "starts n dim"]
    loss: Float[Array, " starts"]
    num_passes: float
    status: np.ndarray


class AbstractOptimiser(AbstractDescription):
    """Minimises the loss over n rows on the sphere of radius sqrt(d), from several starts at once.

    Starts are a vmapped axis: each does what it would do alone, until one has converged.
    """

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

        Args:
            target: what the attacker holds.
            starts: rows on the sphere, in the precision to compute in.
            key: of what is random in the optimiser; the same for all starts.
            max_passes: full-pass equivalents of each start, never more but for the evaluation of
                where it begins.
            tolerance: of the relative loss.
            num_known: how many first rows of each start are held fixed.
            progress: called now and then, on the host.
        """


def onto_sphere(inputs: Float[Array, "*batch dim"]) -> Float[Array, "*batch dim"]:
    """Rows scaled to length sqrt(d)."""
    norms = jnp.linalg.norm(inputs, axis=-1, keepdims=True)
    return inputs * (inputs.shape[-1] ** 0.5 / norms)
