"""Batches of one size, each drawn afresh from all records: no amplification."""

import jax.numpy as jnp
import jax.random as jr

from jaxdp.core.checks import require_key
from jaxdp.core.keys import numbered_key, purpose_key
from jaxdp.privacy.batches.base import require_step
from jaxdp.privacy.batches.unamplified import AbstractUnamplifiedSampler, moments_of_sets


class FixedSizeBatches(AbstractUnamplifiedSampler):
    r"""Batches of B records, drawn uniformly in every step, whatever earlier steps drew.

    T noisy sums cost $\mu = 2\sqrt{T}$ over the noise multiplier z. No amplification is claimed:
    a record is paid for in every step, as if it were in every batch
    (`AbstractUnamplifiedSampler` has the proof).

    Args:
        num_records: n, public.
        batch_size: B <= n, public.

    Raises:
        ValueError: a batch would hold more records than there are.
        TypeError: a count is not a Python int.

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
        # The first of a random order are a uniformly random set.
        drawn = jr.permutation(key, jnp.arange(self.num_records))[: self.capacity]
        return drawn, jnp.ones(self.capacity, bool)

    @property
    def needs_one_key(self):
        return False

    def uses(self, num_steps):
        """All of them: a record may be drawn in every step."""
        return num_steps

    @property
    def inclusion_moments(self):
        return moments_of_sets(self.num_records, self.capacity, None)
