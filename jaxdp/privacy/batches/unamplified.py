"""Samplers without amplification: a record pays in full for each batch that it can be in."""

import abc
import math

import equinox as eqx

from jaxdp.core.checks import concrete, require_count, require_kind
from jaxdp.privacy.adjacency import REPLACE_ONE
from jaxdp.privacy.arguments import host_scalar
from jaxdp.privacy.batches.base import AbstractSampler, InclusionMoments
from jaxdp.privacy.mechanisms import GaussianMechanism
from jaxdp.privacy.secret.secret_noise import SecretNoise


class AbstractUnamplifiedSampler(AbstractSampler):
    r"""Batches of at most B records each, whose law does not depend on the records.

    The noisy sums of $T$ batches cost $\mu = 2\sqrt{\mathrm{uses}(T)}$ over the noise multiplier z,
    for neighbours that differ in one record replaced. That batches are random and secret is not
    made use of.

    Proof. The law of the batches is the same for both neighbours. Fix the batches. The replaced
    record is in at most uses(T) of them. The sum of such a batch moves by 2C at most, so its step
    is a Gaussian mechanism of $2/z$; the other steps tell nothing. All of them, each chosen by what
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

    def __init__(self, num_records: int, batch_size: int):
        self.num_records = require_count("num_records", num_records)
        self.capacity = require_count("batch_size", batch_size)
        if batch_size > num_records:
            raise ValueError(
                f"expected batch_size <= num_records = {num_records}, got {batch_size}"
            )

    @abc.abstractmethod
    def uses(self, num_steps: int) -> int:
        """The most batches, of the first `num_steps` of one key, that one record can be in."""

    def most_batches(self, num_steps):
        return self.uses(num_steps)

    @classmethod
    def of_share(cls, num_records: int, share: float):
        """The sampler of the batch size nearest to a share of the records.

        Args:
            num_records: n, public.
            share: B/n, in (0, 1].
        """
        return cls(num_records, max(1, round(share * num_records)))

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

    def sample_secretly(self, step, *, noise, key):
        """The batch of `sample`: the account makes no use of the batches' being secret."""
        require_kind("noise", noise, SecretNoise, "a jaxdp.privacy.SecretNoise()")
        return self.sample(step, key=key)

    @property
    def inclusion_probability(self):
        return 1.0

    def mechanism(self, noise_multiplier, num_steps):
        multiplier = host_scalar("noise_multiplier", noise_multiplier)
        root = 2 * math.sqrt(self.uses(require_count("num_steps", num_steps)))
        if concrete(multiplier) is None:
            return GaussianMechanism(root / multiplier)
        return GaussianMechanism(root / multiplier if multiplier > 0 else math.inf)

    def charges(self, num_steps):
        uses = self.uses(require_count("num_steps", num_steps))
        return (
            f"a replaced record moves the sum of a batch by twice the clip norm at most and is in "
            f"{uses} of the {num_steps} batches at most: mu = 2 sqrt({uses}) / noise_multiplier; "
            "that batches are drawn at random is not made use of, so nothing is amplified",
        )


def moments_of_sets(num_records: int, batch_size: int, epoch_steps: int | None) -> InclusionMoments:
    """The moments of a batch that is a uniformly random set of B of the n records."""
    rest = (num_records - batch_size) / batch_size
    joint = -rest / (num_records - 1) if num_records > 1 else 0.0
    return InclusionMoments(rest, joint, epoch_steps)
