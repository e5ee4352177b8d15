"""How batches are drawn from the records, in fixed shapes, and what noisy sums over them cost."""

import abc
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from jaxdp.core.checks import NotCoveredError, require_kind, require_non_negative, require_scalar
from jaxdp.core.description import AbstractDescription
from jaxdp.privacy.mechanisms import AbstractMechanism
from jaxdp.privacy.secret.secret_noise import SecretNoise


def require_sampler(sampler: Any) -> None:
    """Raise TypeError unless it is a sampler."""
    require_kind(
        "sampler", sampler, AbstractSampler, "a PoissonSampler, ShuffledEpochs or FixedSizeBatches"
    )


def require_step(step: Any) -> None:
    """Raise TypeError or ValueError unless it is the number of a step, from 0, traced or not."""
    require_scalar("step", step)
    if not jnp.issubdtype(jnp.result_type(step), jnp.integer):
        raise TypeError(f"expected step to be a whole number, got {step!r}")
    require_non_negative("step", step)


class InclusionMoments(NamedTuple):
    """Moments of a batch for theories: b_i is 1 where record i is in it, and has mean q.

    Variance of b_i and covariance of b_i and b_j are over q^2. The batches of `epoch_steps` steps
    share out the records; None where each is drawn whatever the others were.
    """

    variance: float
    covariance: float
    epoch_steps: int | None


def require_indices(num_records: int, num_places: int) -> None:
    """Raise ValueError where records, or places in batches, are too many for indices of 32 bits."""
    if max(num_records, num_places) >= 2**31:
        raise ValueError(
            "expected fewer than 2^31 records, and as few places in batches, got "
            f"{max(num_records, num_places)}"
        )


class AbstractSampler(AbstractDescription):
    """Batches of records, padded to one capacity.

    Attributes:
        num_records: n, public.
        capacity: how many records a batch has room for.
    """

    num_records: eqx.AbstractVar[int]
    capacity: eqx.AbstractVar[int]

    @classmethod
    def of_share(cls, num_records: int, share: float) -> Self:
        """The sampler whose batches hold this share of the records, or the nearest to it.

        Args:
            num_records: n, public.
            share: expected batch size over n, in (0, 1].

        Raises:
            NotCoveredError: the sampler does not say.
        """
        raise NotCoveredError(
            "a sampler that is made from a share of the records is needed (of_share), such as "
            f"PoissonSampler, got {cls.__name__}"
        )

    @property
    @abc.abstractmethod
    def adjacency(self) -> str:
        """The adjacency for which `mechanism` is stated."""

    @property
    @abc.abstractmethod
    def expected_batch_size(self) -> float:
        """A public number by which a sum is divided to make a mean."""

    @abc.abstractmethod
    def sample(
        self, step: int | Int[Array, ""], *, key: Key[Array, ""]
    ) -> tuple[Int[Array, " capacity"], Bool[Array, " capacity"]]:
        """The batch of step number `step`, from 0: indices padded by zeros, and which are real.

        Args:
            key: of the run, one for all its steps. Its noise is drawn from it too: a sampler splits
                off `jaxdp.core.keys.purpose_key(key, "sampling")` and draws from that alone.
        """

    @abc.abstractmethod
    def sample_secretly(
        self, step: int, *, noise: SecretNoise, key: Key[Array, ""]
    ) -> tuple[Int[Array, " capacity"], Bool[Array, " capacity"]]:
        """A batch from random bits that nobody can predict, on the host.

        `noise` is the source of what has to be secret, `key` that of what need not be.
        """

    @property
    def needs_one_key(self) -> bool:
        """Whether the account holds only where one key draws the batches of all steps of a run."""
        return True

    @property
    @abc.abstractmethod
    def inclusion_probability(self) -> float:
        """Probability that a given record is in a batch, as far as an adversary cannot know it."""

    @property
    def inclusion_moments(self) -> InclusionMoments:
        """Variance and covariance of which records are in a batch, for theories.

        NotCoveredError where the sampler does not say, or its batches differ in size or overflow.
        """
        raise NotCoveredError(
            "a sampler that says how its batches vary is needed (inclusion_moments), such as "
            f"PoissonSampler, got {type(self).__name__}"
        )

    def most_batches(self, num_steps: int) -> int | None:
        """The most batches, of the first `num_steps` of one key, that one record can be in.

        None where no number below `num_steps` is proved.
        """
        return None

    @abc.abstractmethod
    def mechanism(self, noise_multiplier: Any, num_steps: int) -> AbstractMechanism:
        """The mechanism that noisy sums of clipped terms over the first `num_steps` batches are.

        `noise_multiplier` is the standard deviation of the noise on a *sum* over the clip norm.
        """

    def charges(self, num_steps: int) -> tuple[str, ...]:
        """Sentences on what a record pays for, beyond the assumptions of the `mechanism`."""
        return ()
