"""The contract of samplers: batches of a fixed shape, and the cost of noisy sums over them."""

import abc
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from jaxdp.core.checks import NotCoveredError, require_kind, require_non_negative, require_scalar
from jaxdp.core.description import AbstractDescription
from jaxdp.privacy.mechanisms import AbstractMechanism
from jaxdp.privacy.secret.secret_noise import SecretNoise


def require_sampler(sampler: Any) -> None:
    """Raise TypeError unless the argument is a sampler."""
    require_kind(
        "sampler", sampler, AbstractSampler, "a PoissonSampler, FixedOrder or ShuffledEpochs"
    )


def require_step(step: Any) -> None:
    """Raise TypeError or ValueError unless the step is an integer >= 0, traced or not."""
    require_scalar("step", step)
    if not jnp.issubdtype(jnp.result_type(step), jnp.integer):
        raise TypeError(f"expected step to be a whole number, got {step!r}")
    require_non_negative("step", step)


class InclusionMoments(NamedTuple):
    """Moments of a batch for theories; b_i is 1 if record i is in the batch and has mean q.

    `variance` (of b_i) and `covariance` (of b_i and b_j) are divided by q^2. `epoch_steps` is the
    number of steps whose batches partition the records, or None if batches are independent;
    `is_kept` if the batches of all epochs are the same.
    """

    variance: float
    covariance: float
    epoch_steps: int | None
    is_kept: bool = False


def require_indices(num_records: int, num_places: int) -> None:
    """Raise ValueError if 32-bit indices cannot number the records, or the places in batches."""
    if max(num_records, num_places) >= 2**31:
        most = max(num_records, num_places)
        raise ValueError(f"expected fewer than 2^31 records and places in batches, got {most}")


class AbstractSampler(AbstractDescription):
    """Batches of the public number n of records, padded to a common `capacity`."""

    num_records: eqx.AbstractVar[int]
    capacity: eqx.AbstractVar[int]

    @classmethod
    def of_share(cls, num_records: int, share: float) -> Self:
        """The sampler whose expected batch size over n is nearest to a share in (0, 1].

        NotCoveredError if the sampler has no such constructor.
        """
        wanted = "a sampler with a constructor of_share, such as PoissonSampler"
        raise NotCoveredError(f"{wanted}, is needed, got {cls.__name__}")

    @property
    @abc.abstractmethod
    def adjacency(self) -> str:
        """The adjacency for which `mechanism` is proved."""

    @property
    @abc.abstractmethod
    def expected_batch_size(self) -> float:
        """The public number that a sum is divided by to make a mean."""

    @abc.abstractmethod
    def sample(
        self, step: int | Int[Array, ""], *, key: Key[Array, ""]
    ) -> tuple[Int[Array, " capacity"], Bool[Array, " capacity"]]:
        """Batch number `step`, from 0: indices padded by zeros, and a mask of the real ones.

        `key` serves all steps of a run, and its noise: a sampler draws only from
        `jaxdp.core.keys.purpose_key(key, "sampling")`.
        """

    @abc.abstractmethod
    def sample_secretly(
        self, step: int, *, noise: SecretNoise, key: Key[Array, ""]
    ) -> tuple[Int[Array, " capacity"], Bool[Array, " capacity"]]:
        """A batch drawn on the host: secret bits come from `noise`, all others from `key`."""

    @property
    def needs_one_key(self) -> bool:
        """True if the account holds only if one key draws all batches of a run."""
        return True

    @property
    @abc.abstractmethod
    def inclusion_probability(self) -> float:
        """Probability that a record is in a batch, given everything the adversary may know."""

    @property
    def inclusion_moments(self) -> InclusionMoments:
        """Variance and covariance of the batch indicators, for theories.

        Raises NotCoveredError if they are unknown, or batches differ in size or overflow.
        """
        wanted = "a sampler with inclusion_moments, such as PoissonSampler"
        raise NotCoveredError(f"{wanted}, is needed, got {type(self).__name__}")

    def largest_sum(self, numbers: Float[np.ndarray, " steps"]) -> float | None:
        """The largest sum of the steps' numbers, >= 0, over the batches that can hold one record.

        None if the randomness of the batches is part of the account.
        """
        return None

    def separation(self, num_steps: int) -> int:
        """The least distance in steps between two batches that can hold one record."""
        return 1

    @abc.abstractmethod
    def mechanism(self, noise_multiplier: Any, num_steps: int) -> AbstractMechanism:
        """The mechanism of noisy sums of clipped terms over the first `num_steps` batches.

        `noise_multiplier` is the standard deviation of the noise on a *sum*, divided by the clip
        norm.
        """

    def charges(self, num_steps: int) -> tuple[str, ...]:
        """Sentences on what a record pays for, beyond the assumptions of the `mechanism`."""
        return ()
