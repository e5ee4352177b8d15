"""Batches that split the data, in an order drawn anew for each epoch: no amplification."""

import jax.numpy as jnp
import jax.random as jr

from jaxdp.core.checks import require_key
from jaxdp.core.errors import NotCoveredError
from jaxdp.core.keys import numbered_key, purpose_key
from jaxdp.privacy.batches.base import require_step
from jaxdp.privacy.batches.unamplified import AbstractUnamplifiedSampler, moments_of_sets


class ShuffledEpochs(AbstractUnamplifiedSampler):
    r"""Shuffled epochs: every record is in one batch of each; `batch_size` = n is the full batch.

    In one epoch a record is in one batch, whose sum moves by 2C at most when it is replaced; the
    other batches are the same on both data sets. So an epoch is one Gaussian mechanism, and E of
    them, the last one maybe not finished, compose to $\mu = 2\sqrt{E}$ over the noise multiplier,
    whatever the order of the records, as long as it does not depend on them. That the order is
    random and secret is not made use of. Proved for replace-one.

    Args:
        num_records: n, public.
        batch_size: B <= n; the last batch of an epoch has what is left.

    Raises:
        ValueError: a batch would hold more records than there are.
        TypeError: a count is not a Python int.

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
        """How many batches one epoch has."""
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
        # With a new order in every step a record could be in every batch of an epoch.
        return self.steps_per_epoch > 1

    def uses(self, num_steps):
        """How many epochs are begun."""
        return -(-num_steps // self.steps_per_epoch)

    @property
    def inclusion_moments(self):
        if self.num_records % self.capacity:
            raise NotCoveredError(
                f"batches of one size are needed: expected a batch_size that divides num_records = "
                f"{self.num_records}, got {self.capacity}"
            )
        return moments_of_sets(self.num_records, self.capacity, self.steps_per_epoch)
