"""Batches without amplification: a record pays in full for each batch that may hold it."""

import abc
import math

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float

from jaxdp.core.checks import (
    NotCoveredError,
    concrete,
    described,
    require_count,
    require_key,
    require_kind,
)
from jaxdp.core.keys import numbered_key, purpose_key
from jaxdp.privacy.adjacency import REPLACE_ONE, ZERO_OUT_ONE
from jaxdp.privacy.arguments import host_scalar
from jaxdp.privacy.batches.base import (
    AbstractSampler,
    InclusionMoments,
    require_indices,
    require_step,
)
from jaxdp.privacy.mechanisms import GaussianMechanism
from jaxdp.privacy.secret.secret_noise import SecretNoise


class AbstractUnamplifiedSampler(AbstractSampler):
    r"""Batches of at most B of n records, whose distribution does not depend on the records.

    The noisy sums of $T$ batches cost $\mu = 2\sqrt{\mathrm{uses}(T)}$ over the noise multiplier z
    under replace-one, half of it under zero-out-one. The randomness and secrecy of the batches are
    not used.

    Proof. The batches have one distribution on both neighbours. Fix them. The record is in at most
    uses(T) of them. The sum of such a batch moves by 2C at most if the record is replaced, and by C
    if it counts as zero instead. So its step is a Gaussian mechanism of $2/z$ or $1/z$; the other
    steps reveal nothing. All of them, each chosen adaptively, compose to $\mu$ (Dong, Roth and Su
    (2022), Corollary 3.3): a test of level $\alpha$ has an error of the second kind of at least
    $G_\mu(\alpha)$. A test that sees the batches too has a level $\alpha(b)$ for each outcome b of
    them; by Jensen's inequality for the convex $G_\mu$ its error is at least $E\,G_\mu(\alpha(b))
    \ge G_\mu(E\,\alpha(b))$. So $\mu$ holds with the batches made
    public, and therefore without.
    """

    num_records: int = eqx.field(static=True)
    capacity: int = eqx.field(static=True)

    def __init__(self, num_records: int, batch_size: int):
        self.num_records = require_count("num_records", num_records)
        self.capacity = require_count("batch_size", batch_size)
        if batch_size > num_records:
            wanted = f"batch_size <= num_records = {num_records}"
            raise ValueError(f"expected {wanted}, got {batch_size}")
        # The last batch of an epoch may have empty places.
        require_indices(self.num_records, self.num_records + self.capacity)

    @abc.abstractmethod
    def uses(self, num_steps: int) -> int:
        """The most of a run's first `num_steps` batches that can hold one record."""

    def largest_sum(self, numbers: Float[np.ndarray, " steps"]) -> float:
        # Here: of any so many batches.
        return math.fsum(np.sort(numbers)[-self.uses(len(numbers)) :])

    @classmethod
    def of_share(cls, num_records: int, share: float):
        """The sampler of the batch size nearest to a share of the records.

        Args:
            num_records, share: n, and B/n in (0, 1].
        """
        return cls(num_records, max(1, round(share * num_records)))

    @property
    def batch_size(self) -> int:
        """The size B of a batch, which is also its capacity."""
        return self.capacity

    @property
    def adjacency(self):
        return REPLACE_ONE

    @property
    def expected_batch_size(self):
        return float(self.capacity)

    def sample_secretly(self, step, *, noise, key):
        """The batch of `sample`: the account does not need secret batches."""
        require_kind("noise", noise, SecretNoise, "a jaxdp.privacy.SecretNoise()")
        return self.sample(step, key=key)

    @property
    def inclusion_probability(self):
        return 1.0

    def _moments(self, epoch_steps: int | None) -> InclusionMoments:
        """The moments of a batch that is a uniformly random set of B of the n records."""
        rest = self.num_records / self.expected_batch_size - 1
        joint = -rest / (self.num_records - 1) if self.num_records > 1 else 0.0
        return InclusionMoments(rest, joint, epoch_steps)

    def mechanism(self, noise_multiplier, num_steps):
        multiplier = host_scalar("noise_multiplier", noise_multiplier)
        change = 2 if self.adjacency == REPLACE_ONE else 1
        root = change * math.sqrt(self.uses(require_count("num_steps", num_steps)))
        if concrete(multiplier) is None:
            return GaussianMechanism(root / multiplier)
        return GaussianMechanism(root / multiplier if multiplier > 0 else math.inf)

    def charges(self, num_steps):
        uses = self.uses(num_steps)
        moves, change = "a replaced record moves the sum of a batch by twice the clip norm", "2 "
        if self.adjacency != REPLACE_ONE:
            moves, change = (
                "a record that counts as zero moves the sum of a batch by the clip norm",
                "",
            )
        return (
            f"{moves} at most and is in {uses} of the {num_steps} batches at most: mu = {change}"
            f"sqrt({uses}) / noise_multiplier; the randomness of the batches is not used, so "
            "nothing is amplified",
        )


class ShuffledEpochs(AbstractUnamplifiedSampler):
    r"""Shuffled epochs: every record is in one batch of each; `batch_size` = n is the full batch.

    E epochs, the last maybe unfinished, compose to $\mu = 2\sqrt{E}$ over the noise multiplier
    (proof: `AbstractUnamplifiedSampler`), whatever the order of the records, as long as it does not
    depend on them.

    Args:
        num_records: n, public.
        batch_size: B <= n; the last batch of an epoch holds the remaining records.

    Example:
        >>> from jaxdp.privacy import ShuffledEpochs
        >>> sampler = ShuffledEpochs(num_records=1000, batch_size=50)
        >>> sampler.steps_per_epoch, sampler.uses(25)  # 25 steps begin two epochs
        (20, 2)
        >>> print(f"mu = {sampler.mechanism(10.0, num_steps=25).mu:.3f}")
        mu = 0.283
    """

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches in an epoch."""
        return -(-self.num_records // self.capacity)

    def sample(self, step, *, key):
        require_key(key)
        require_step(step)
        epoch, place = jnp.divmod(jnp.asarray(step), self.steps_per_epoch)
        order = jnp.arange(self.num_records)
        if self.steps_per_epoch > 1:
            key = numbered_key(purpose_key(key, "sampling"), epoch)
            order = jr.permutation(key, order)
        places = place * self.capacity + jnp.arange(self.capacity)
        is_real = places < self.num_records
        return jnp.where(is_real, order[jnp.where(is_real, places, 0)], 0), is_real

    @property
    def needs_one_key(self):
        # A new order in every step could put a record in every batch.
        return self.steps_per_epoch > 1

    def uses(self, num_steps):
        return -(-num_steps // self.steps_per_epoch)

    def largest_sum(self, numbers):
        # One batch of each epoch, whichever it is.
        starts = np.arange(0, len(numbers), self.steps_per_epoch)
        return math.fsum(np.maximum.reduceat(np.asarray(numbers, float), starts))

    def separation(self, num_steps):
        return self.steps_per_epoch if num_steps <= self.steps_per_epoch else 1

    @property
    def inclusion_moments(self):
        if self.num_records % self.capacity:
            wanted = f"a batch_size that divides num_records = {self.num_records}"
            raise NotCoveredError(f"expected {wanted}, got {self.capacity}")
        return self._moments(self.steps_per_epoch)


class FixedOrder(AbstractUnamplifiedSampler):
    r"""Batches that come in the same order in every epoch, for noise correlated over epochs.

    One order of the records is drawn from the run's key; the record at place p of this order is in
    batch p mod b of every epoch. Sizes differ by one record at most, and sums are divided by n/b. E
    epochs, the last maybe unfinished, compose to $\mu = \sqrt{E}$ over the noise multiplier under
    zero-out-one and $2\sqrt{E}$ under replace-one (proof: `AbstractUnamplifiedSampler`), also with
    noise of `ScheduledNoise` or `BandedNoise`.

    Args:
        num_records: n, public.
        num_batches: b <= n, number of batches in an epoch; 1 for full batches.
        adjacency: "zero-out-one" (default) or "replace-one".

    Raises:
        ValueError: there are more batches than records, or the adjacency is another.

    Example:
        >>> from jaxdp.privacy import FixedOrder
        >>> sampler = FixedOrder(num_records=1000, num_batches=20)
        >>> print(f"mu = {sampler.mechanism(10.0, num_steps=40).mu:.3f}, {sampler.adjacency}")
        mu = 0.141, zero-out-one
    """

    num_batches: int = eqx.field(static=True)
    _adjacency: str = eqx.field(static=True)

    def __init__(self, num_records: int, num_batches: int, adjacency: str = ZERO_OUT_ONE):
        self.num_batches = num_batches = require_count("num_batches", num_batches)
        if adjacency not in (ZERO_OUT_ONE, REPLACE_ONE):
            came = described(adjacency)
            raise ValueError(f'expected adjacency "zero-out-one" or "replace-one", got {came}')
        count = require_count("num_records", num_records)
        if num_batches > count:
            raise ValueError(f"expected num_batches <= num_records = {count}, got {num_batches}")
        super().__init__(count, -(-count // num_batches))
        require_indices(count, self.capacity * num_batches)
        self._adjacency = adjacency

    @classmethod
    def of_share(cls, num_records: int, share: float):
        """The sampler whose number of batches is nearest to one over a share of the records.

        Args:
            num_records, share: n, and the share of the records in a batch, in (0, 1].
        """
        return cls(num_records, max(1, round(1 / share)))

    @property
    def adjacency(self):
        return self._adjacency

    @property
    def expected_batch_size(self):
        return self.num_records / self.num_batches

    def sample(self, step, *, key):
        require_key(key)
        require_step(step)
        order = jnp.arange(self.num_records)
        if self.num_batches > 1:
            order = jr.permutation(purpose_key(key, "sampling"), order)
        first = jnp.asarray(step) % self.num_batches
        places = first + self.num_batches * jnp.arange(self.capacity)
        is_real = places < self.num_records
        return jnp.where(is_real, order[jnp.where(is_real, places, 0)], 0), is_real

    @property
    def needs_one_key(self):
        # Another key draws another order, and a record's batches would come at any distance.
        return self.num_batches > 1

    def uses(self, num_steps):
        return -(-num_steps // self.num_batches)

    def largest_sum(self, numbers):
        return max(
            math.fsum(numbers[first :: self.num_batches]) for first in range(self.num_batches)
        )

    def separation(self, num_steps):
        return self.num_batches

    @property
    def inclusion_moments(self):
        # Of equal batches, also if sizes differ by one record.
        return self._moments(self.num_batches)._replace(is_kept=True)


class FixedSizeBatches(AbstractUnamplifiedSampler):
    r"""Batches of B records, drawn uniformly and independently in every step.

    T noisy sums cost $\mu = 2\sqrt{T}$ over the noise multiplier: a record pays for every step
    (proof: `AbstractUnamplifiedSampler`).

    Args:
        num_records: n, public.
        batch_size: B <= n, public.

    Example:
        >>> from jaxdp.privacy import FixedSizeBatches
        >>> sampler = FixedSizeBatches(num_records=1000, batch_size=50)
        >>> print(f"mu = {sampler.mechanism(10.0, num_steps=25).mu:.1f}, {sampler.adjacency}")
        mu = 1.0, replace-one
    """

    def sample(self, step, *, key):
        require_key(key)
        require_step(step)
        key = numbered_key(purpose_key(key, "sampling"), step)
        drawn = jr.permutation(key, jnp.arange(self.num_records))[: self.capacity]
        return drawn, jnp.ones(self.capacity, bool)

    @property
    def needs_one_key(self):
        return False

    def uses(self, num_steps):
        return num_steps

    @property
    def inclusion_moments(self):
        return self._moments(None)
