"""Batches of one size, each drawn afresh from all records: no amplification."""

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


class FixedSizeBatches(AbstractSampler):
    r"""Every step draws a uniformly random set of B records, whatever earlier steps drew.

    T noisy sums cost $\mu = 2\sqrt{T}$ over the noise multiplier z. No amplification is claimed:
    a record is paid for in every step, as if it were in every batch.

    Proof. Neighbours have one record replaced, and the law of the batches does not depend on the
    records. Fix the batches. The sum of a step moves by 2C at most, whether the record is in its
    batch or not, so the step is a Gaussian mechanism of $2/z$, and T of them, each chosen by what
    came before, compose to $\mu$ (Dong, Roth and Su (2022), Corollary 3.3): a test of level
    $\alpha$ has an error of the second kind of at least $G_\mu(\alpha)$. Who sees the batches too
    has a level $\alpha(b)$ for each outcome b of them; by Jensen's inequality for the convex
    $G_\mu$ the error is at least $E\,G_\mu(\alpha(b)) \ge G_\mu(E\,\alpha(b))$. So $\mu$ holds with
    the batches made public, and all the more without.

    Args:
        num_records: n, public.
        batch_size: B <= n, public.

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
        return f"FixedSizeBatches(num_records={self.num_records}, batch_size={self.capacity})"

    @property
    def batch_size(self) -> int:
        """B, which is also how many records a batch has room for."""
        return self.capacity

    @property
    def adjacency(self):
        return REPLACE_ONE

    @property
    def expected_batch_size(self):
        return float(self.capacity)

    def sample(self, step, *, key):
        require_key(key)
        require_step(step)
        key = numbered_key(purpose_key(key, "sampling"), step)
        # The first of a random order are a uniformly random set.
        drawn = jr.permutation(key, jnp.arange(self.num_records))[: self.capacity]
        return drawn, jnp.ones(self.capacity, bool)

    def sample_secretly(self, step, *, noise, key):
        """As `sample`: the account makes no use of the batches' being secret."""
        require_kind("noise", noise, SecretNoise, "a jaxdp.privacy.SecretNoise()")
        return self.sample(step, key=key)

    @property
    def inclusion_probability(self):
        return 1.0

    def mechanism(self, noise_multiplier, num_steps):
        multiplier = host_scalar("noise_multiplier", noise_multiplier)
        root = 2 * math.sqrt(require_count("num_steps", num_steps))
        if concrete(multiplier) is None:
            return GaussianMechanism(root / multiplier)
        return GaussianMechanism(root / multiplier if multiplier > 0 else math.inf)
