"""Batches that split the data, in an order drawn anew for each epoch: no amplification."""

import math

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr

from jaxdp.core.checks import concrete, require_count, require_key, require_kind
from jaxdp.core.keys import numbered_key, purpose_key
from jaxdp.privacy.adjacency import REPLACE_ONE
from jaxdp.privacy.arguments import host_scalar
from jaxdp.privacy.batches.base import AbstractSampler, require_step
from jaxdp.privacy.mechanisms import GaussianMechanism
from jaxdp.privacy.secret_noise import SecretNoise


class ShuffledEpochs(AbstractSampler):
    r"""Every record is in one batch of each epoch; `batch_size` = n for full batches.

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
    """

    num_records: int = eqx.field(static=True)
    capacity: int = eqx.field(static=True)

    def __init__(self, num_records, batch_size):
        self.num_records = require_count("num_records", num_records)
        self.capacity = require_count("batch_size", batch_size)
        if batch_size > num_records:
            raise ValueError(
                f"expected batch_size <= num_records = {num_records}, got {batch_size}"
            )

    def __repr__(self):
        return f"ShuffledEpochs(num_records={self.num_records}, batch_size={self.capacity})"

    @property
    def batch_size(self) -> int:
        """B, which is also how many records a batch has room for."""
        return self.capacity

    @property
    def steps_per_epoch(self) -> int:
        """How many batches one epoch has."""
        return -(-self.num_records // self.capacity)

    @property
    def adjacency(self):
        return REPLACE_ONE

    @property
    def expected_batch_size(self):
        return float(self.capacity)

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

    def sample_secretly(self, step, *, noise, key):
        """As `sample`: the account makes no use of the order's being secret."""
        require_kind("noise", noise, SecretNoise, "a jaxdp.privacy.SecretNoise()")
        return self.sample(step, key=key)

    @property
    def inclusion_probability(self):
        return 1.0

    def mechanism(self, noise_multiplier, num_steps):
        multiplier = host_scalar("noise_multiplier", noise_multiplier)
        num_epochs = -(-require_count("num_steps", num_steps) // self.steps_per_epoch)
        root = 2 * math.sqrt(num_epochs)
        if concrete(multiplier) is None:
            return GaussianMechanism(root / multiplier)
        return GaussianMechanism(root / multiplier if multiplier > 0 else math.inf)
