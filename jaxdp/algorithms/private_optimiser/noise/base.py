"""The abstract noise of a private optimiser: how it is made, added to sums, and what it proves.

A sum at clip norm C is released with normal noise of standard deviation z times its sensitivity in
the arithmetic of the machine: C (1 + b), with the b that `jaxdp.clipping.sensitivity_excess`
proves, where a formula for real numbers would say C.
"""

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from jaxdp.clipping import TwoPartSum
from jaxdp.privacy.batches.base import AbstractSampler
from jaxdp.privacy.mechanisms import AbstractMechanism

Batch = tuple[Int[Array, " capacity"], Bool[Array, " capacity"]]


class Claim(NamedTuple):
    """What is proved of noisy sums, and what that needs."""

    mechanism: AbstractMechanism  # of all sums together
    lines: tuple[str, ...]  # the assumptions that come from the noise
    is_certified: bool  # whether it is proved in the arithmetic of the machine


class Scale(NamedTuple):
    """The size of one step's noise, from public numbers."""

    std: Any  # of the noise on each coordinate of the sum, its rounding included
    # z: `std` is z C (1 + b), times the correlation's sensitivity where noise is correlated. To
    # replace a record moves the sum by twice C (1 + b), which the sampler's mechanism pays for.
    multiplier: Any
    bound: Any  # no coordinate of a true sum is larger
    num_weights: int  # how many coordinates the sum has


class AbstractNoise(eqx.Module):
    """Noise for the sums of all steps of a run."""

    # Whether the proof has one scale for all steps, however each makes its sum.
    has_one_scale: ClassVar[bool] = False
    # Whether noise is added on the host, between compiled parts of a step.
    is_on_host: ClassVar[bool] = False

    @property
    def is_valid(self) -> Bool[Any, ""]:
        """Whether its traced numbers keep what is asked of concrete ones."""
        return np.asarray(True)

    @property
    def identity(self) -> Any:
        """What tells it from other noise, as a value that has a digest; as secret as a seed."""
        return self

    @property
    def is_reusable(self) -> bool:
        """Whether a copy of the optimiser may have it too and cost what its account says."""
        return True

    def reason_not_simulated(self) -> str | None:
        """Why it cannot be drawn from the key of a simulation, or None."""
        return None

    def sensitivity(self, num_steps: int) -> Any:
        """What noise is multiplied by, so that all steps cost what their fresh parts would."""
        return 1.0

    def start(self, weights: PyTree[Array]) -> PyTree[Array] | None:
        """The buffers of past noise before the first step; None where none is kept."""
        return None

    def shaped(self, fresh: PyTree[Array], buffers: PyTree[Array] | None) -> tuple[Any, Any]:
        """The noise of a step from what it draws afresh, and the buffers after it."""
        return fresh, buffers

    def require_arrays(self, arrays: Any) -> None:
        """Raise ValueError where arrays of a step are traced and may not be."""

    def batch(
        self, sampler: AbstractSampler, step: Int[Array, ""], *, key: Key[Array, ""]
    ) -> Batch:
        """The batch of step number `step`, from 0."""
        return sampler.sample(step, key=key)

    @abc.abstractmethod
    def added(
        self,
        total: TwoPartSum,
        scale: Scale,
        buffers: PyTree[Array] | None,
        step: int | Int[Array, ""],
        *,
        key: Key[Array, ""],
    ) -> tuple[PyTree[Float[Array, "..."]], PyTree[Array] | None]:
        """The sum with the noise of step number `step`, and the buffers after it.

        Noise is added to both parts of the sum before anything rounds.
        """

    def noisy_count(
        self,
        count: Float[Array, ""],
        std: float,
        bound: float,
        step: int | Int[Array, ""],
        *,
        key: Key[Array, ""],
    ) -> Float[Any, ""]:
        """A count of halves, at most `bound`, with the noise of its own of a step.

        ValueError where nothing is proved of a count beside the sums.
        """
        raise ValueError("expected independent noise with an AdaptiveClip, got correlated noise")

    def require_covered(self, sampler: AbstractSampler, num_steps: int) -> None:
        """Raise NotCoveredError where nothing is proved of so many steps of a sampler."""

    @abc.abstractmethod
    def claim(
        self,
        mechanism: AbstractMechanism,
        noise_multiplier: Any,
        sampler: AbstractSampler,
        num_steps: int,
        *,
        key: Key[Array, ""] | None,
    ) -> Claim:
        """What is proved of the sums of a run, where exact normal noise proves `mechanism`."""
