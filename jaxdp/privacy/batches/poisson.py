"""Poisson batches, the only ones for which amplification by subsampling is proved here."""

import dataclasses
import itertools
import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy
from jaxtyping import Array, UInt32

from jaxdp.core.arrays import plain_number
from jaxdp.core.checks import (
    NotCoveredError,
    concrete,
    host_number,
    require_count,
    require_key,
    require_kind,
)
from jaxdp.core.keys import numbered_key, purpose_key
from jaxdp.privacy.adjacency import ADD_OR_REMOVE_ONE, ZERO_OUT_ONE
from jaxdp.privacy.arguments import host_scalar
from jaxdp.privacy.batches.base import (
    AbstractSampler,
    InclusionMoments,
    require_indices,
    require_step,
)
from jaxdp.privacy.conversions.subsampling import SampledGaussian, composed_epsilon
from jaxdp.privacy.mechanisms import AbstractMechanism, GaussianMechanism, Proved
from jaxdp.privacy.secret.secret_noise import SecretNoise

_COINS = 2**32
# The default capacity overflows with at most this probability a step.
_NEGLIGIBLE = 1e-30
# Such rare overflows change no prediction.
_NEGLIGIBLE_OVERFLOW = 1e-6
# Smaller shares of delta are not mentioned.
_NEGLIGIBLE_DELTA = 1e-15


class PoissonSampler(AbstractSampler):
    """Poisson batches: every record is in each batch independently with the same probability.

    A record is drawn if 32 random bits are below a whole number, so that the accounted probability
    is exactly the drawn one. If more records are drawn than the batch has room for, those of the
    highest indices are left out, and the probability of that is part of delta.

    Args:
        num_records: n, public.
        sampling_rate: q in (0, 1], public; rounded to a multiple of 2^-32, which the attribute
            holds.
        capacity: largest number of records in a batch, public, the same for neighbouring data sets.
            None (default): the least that overflows with probability at most 1e-30 a step, also for
            a neighbour with one record more; at rate 1 that is num_records + 1.

    Example:
        >>> from jaxdp.privacy import PoissonSampler
        >>> sampler = PoissonSampler(num_records=1000, sampling_rate=0.0625)
        >>> sampler.expected_batch_size, sampler.adjacency
        (62.5, 'zero-out-one')
    """

    num_records: int = eqx.field(static=True)
    sampling_rate: float = eqx.field(static=True)
    capacity: int = eqx.field(static=True)

    def __init__(self, num_records: int, sampling_rate: float, capacity: int | None = None):
        self.num_records = require_count("num_records", num_records)
        require_indices(self.num_records, 0)
        rate = host_number("sampling_rate", sampling_rate)
        if not 0 < rate <= 1:
            raise ValueError(f"expected 0 < sampling_rate <= 1, got {sampling_rate}")
        coins = _as_coins(rate)
        if coins == 0:
            raise ValueError(f"expected sampling_rate >= 2^-32, got {sampling_rate}")
        self.sampling_rate = coins / _COINS
        if capacity is None:
            capacity = self._least_capacity()
        self.capacity = require_count("capacity", capacity)
        require_indices(self.num_records, self.capacity)

    @classmethod
    def of_share(cls, num_records: int, share: float):
        """The sampler whose sampling rate is this share of the records.

        Args:
            num_records, share: n, and the sampling rate in (0, 1].
        """
        return cls(num_records, share)

    def _argument(self, name):
        # `replace` chooses a default capacity anew, for the new rate.
        is_chosen = name == "capacity" and self.capacity == self._least_capacity()
        return None if is_chosen else getattr(self, name)

    def __repr__(self):
        # The shortest number that is rounded to this rate.
        shown = (f"{self.sampling_rate:.{digits}g}" for digits in range(1, 18))
        rate = next(text for text in shown if _as_coins(float(text)) / _COINS == self.sampling_rate)
        arguments = (
            f"num_records={self.num_records}, sampling_rate={rate}, capacity={self.capacity}"
        )
        return f"PoissonSampler({arguments})"

    @property
    def overflow_probability(self) -> float:
        """An upper bound on the probability that a step draws more records than the capacity.

        The bound is for n + 1 records, which covers a neighbour with one added.
        """
        return self._overflow(self.capacity)

    @property
    def adjacency(self):
        return ZERO_OUT_ONE

    @property
    def expected_batch_size(self):
        return self.sampling_rate * self.num_records

    def mechanism(self, noise_multiplier, num_steps):
        return PoissonSubsampledGaussian(self, noise_multiplier, num_steps)

    def sample(self, step, *, key):
        require_key(key)
        require_step(step)
        key = numbered_key(purpose_key(key, "sampling"), step)
        return self._drawn(jr.bits(key, (self.num_records,), jnp.uint32))

    def sample_secretly(self, step, *, noise, key):
        """A batch from the noise's random bits, its records in randomly drawn places.

        Amplification compares the sum with a record to the sum without it. If records were put side
        by side, as in `sample`, those behind that record would move up without it, and a
        floating-point sum would round differently: the bound on the influence of a record at its
        place would not bound that difference. Here the records have a uniformly random injection
        into the places of the batch. The injection of the others has one distribution whether the
        record is drawn or not, and given theirs the record takes a place that is empty otherwise:
        to the last bit, the sum without it is the sum with zero in its place.
        """
        require_kind("noise", noise, SecretNoise, "a jaxdp.privacy.SecretNoise()")
        require_key(key)
        require_step(step)
        source = noise.hiding(step)
        words = source.words(-(-self.num_records // 2), "batch")
        drawn = self._drawn(jnp.asarray(words.view("<u4")[: self.num_records]))
        for attempt in itertools.count():
            keys = source.words(self.capacity, f"places, attempt {attempt}")
            # Among distinct numbers every order is equally likely.
            if len(np.unique(keys)) == self.capacity:
                break
        order = jnp.asarray(np.argsort(keys))
        return tuple(part[order] for part in drawn)

    @property
    def needs_one_key(self):
        return False

    @property
    def inclusion_probability(self):
        return self.sampling_rate

    @property
    def inclusion_moments(self):
        if self.overflow_probability > _NEGLIGIBLE_OVERFLOW:
            came = f"{self.capacity}, exceeded with probability {self.overflow_probability:.2g}"
            raise NotCoveredError(f"expected a capacity that hardly ever overflows, got {came}")
        return InclusionMoments((1 - self.sampling_rate) / self.sampling_rate, 0.0, None)

    def _drawn(self, bits: UInt32[Array, " records"]):
        """The records whose bits are below the rate's."""
        # With <= the threshold of rate 1 fits in 32 bits.
        is_drawn = bits <= jnp.uint32(round(self.sampling_rate * _COINS) - 1)
        counts, places = jnp.cumsum(is_drawn), jnp.arange(1, self.capacity + 1)
        is_real = places <= counts[-1]
        # The j-th drawn record is the first with count j; faster than a scatter.
        return jnp.where(is_real, jnp.searchsorted(counts, places), 0), is_real

    def overflow_for_person(self, count: int) -> float:
        """A bound on the probability that a step draws a person's record and may lack room.

        A person has at most `count` of the records; room is lacking if all of them would not fit.
        """
        count = min(count, self.num_records)
        rate, left = self.sampling_rate, self.num_records - count
        drawn = -math.expm1(count * math.log1p(-rate)) if rate < 1 else 1.0
        return min(1.0, drawn * (1 + 1e-12) * self._tail(left, self.capacity - count))

    def _overflow(self, capacity: int) -> float:
        return self._tail(self.num_records + 1, capacity)

    def _tail(self, num_coins: int, most: int) -> float:
        """P(Bin(num_coins, q) > most), with a margin for rounding and underflow."""
        if num_coins <= most or most < 0:
            return float(most < 0)
        tail = float(scipy.special.betainc(most + 1, num_coins - most, self.sampling_rate))
        return min(1.0, tail * (1 + 1e-6) + np.finfo(float).tiny)

    def _least_capacity(self) -> int:
        lowest, highest = 0, self.num_records + 1
        while highest - lowest > 1:
            middle = (lowest + highest) // 2
            fits = self._overflow(middle) <= _NEGLIGIBLE
            lowest, highest = (lowest, middle) if fits else (middle, highest)
        return highest


def _as_coins(rate: float) -> int:
    """The number of the 2^32 values of 32 bits that draw a record."""
    return round(rate * _COINS)


class PoissonSubsampledGaussian(AbstractMechanism):
    r"""Noisy sums of clipped terms over the first T batches of a Poisson sampler.

    A step that draws more than the sampler's capacity leaves records out. With $\tau$ the
    probability of that, $\epsilon$ holds at $\delta_0 + T\tau$ if it holds at $\delta_0$ for
    batches without a limit.

    Proof. Let $N_t$ others be drawn in step t, whose coins have one distribution on both
    neighbours. If $N_t$ is below the capacity nothing is left out, with the record or without it.
    If it is not, reveal the coin of the record too. If it is not drawn the step is the same on both
    neighbours; that it is drawn in any such step has probability $T\tau$ at most, and is all that
    is lost. Given the revealed coins and that this does not happen, $\epsilon$ holds at $\delta_0$;
    and $\sup_S P(S) - e^\epsilon Q(S)$ of two mixtures with the same weights is at most the mean of
    its values. Derived: test_truncated_batches_cost_what_enumeration_says. Chua et al. (2024),
    *Scalable DP-SGD: Shuffling vs. Poisson Subsampling*, have $T\tau(1 + e^\epsilon)$, for any way
    of leaving records out.

    Amplification is proved for add-or-remove-one and zero-out-one, where one record moves a sum by
    the clip norm at most, and for no other way of making batches.

    A person with up to k records: see `jaxdp.privacy.conversions.mixtures`, for zero-out-one.
    In the proof above, a step is revealed if fewer than k places are left by the others, and lost
    if it then draws one of the person's records.

    Args:
        sampler: a `PoissonSampler`.
        noise_multiplier: standard deviation of the noise on the sum, over the clip norm; >= 0.
        num_steps: T, number of batches.
        records_per_person: k, in which neighbours differ; default 1.
    """

    sampler: PoissonSampler
    noise_multiplier: Any = eqx.field(
        converter=lambda value: host_scalar("noise_multiplier", value)
    )
    num_steps: int = eqx.field(static=True, converter=plain_number)
    records_per_person: int = eqx.field(static=True, default=1)

    def __check_init__(self):
        require_count("records_per_person", self.records_per_person)
        if not isinstance(self.sampler, PoissonSampler):
            kind = ValueError if isinstance(self.sampler, str) else TypeError
            given = self.sampler if kind is ValueError else type(self.sampler).__name__
            raise kind(
                f"expected sampler to be a PoissonSampler, got {given}: amplification by "
                "subsampling is proved for Poisson sampling only; for batches that are shuffled or "
                "fixed use ShuffledEpochs or FixedSizeBatches, which claim none"
            )
        require_count("num_steps", self.num_steps)

    @property
    def proved(self):
        if self.sampler.sampling_rate < 1 or self._overflow > 0:
            return Proved(None, None)
        # Every record is in every batch: T Gaussian mechanisms of sensitivity k C.
        noise, root = self.noise_multiplier, self.records_per_person * math.sqrt(self.num_steps)
        is_nothing = concrete(noise) is not None and noise == 0
        return GaussianMechanism(math.inf if is_nothing else root / noise).proved

    @property
    def adjacencies(self):
        only = (ZERO_OUT_ONE,)
        return only if self.records_per_person > 1 else (ADD_OR_REMOVE_ONE, *only)

    @property
    def assumptions(self):
        sampler, overflow, count = self.sampler, self._overflow, self.records_per_person
        who, each = "one record contributes", ""
        if count > 1:
            who, each = f"up to {count} records of one person contribute", " each"
        drawn = "every record is in every batch (Poisson sampler, rate 1): nothing is amplified"
        if (rate := sampler.sampling_rate) < 1:
            drawn = (
                f"every batch is drawn afresh by the Poisson sampler, at rate {rate:.6g}, which "
            )
            drawn += "amplifies privacy; its random bits are taken as independent and secret"
        room = "a batch holds all records that may be drawn"
        if overflow > 0:
            room = (
                f"a batch holds {sampler.capacity} records at most; drawing more has probability "
            )
            room += f"{overflow:.1e} a step and is part of delta"
        if (used_up := min(1.0, self.sampled.failure)) >= _NEGLIGIBLE_DELTA:
            room += f", all of it up to delta = {used_up:.1e}, where epsilon is infinite: give the "
            room += "sampler a larger capacity"
        return (
            drawn,
            f"neighbours differ in whether {who}, which moves a sum by the clip norm{each} at "
            "most; a replaced record moves it twice as far and is not covered: for that there are "
            "DPGD, ShuffledEpochs and FixedSizeBatches",
            room,
            "the rate, the capacity and the number of records are public and not chosen from the "
            "data",
        )

    @property
    def sampled(self):
        overflow = self.num_steps * self._overflow
        noise = host_scalar("noise_multiplier", self.noise_multiplier)
        known = self.sampler.sampling_rate, noise, self.num_steps, overflow
        return SampledGaussian(*known, self.records_per_person)

    @property
    def _overflow(self) -> float:
        if self.records_per_person == 1:
            return self.sampler.overflow_probability
        return self.sampler.overflow_for_person(self.records_per_person)

    def for_groups(self, records_per_person):
        # A mechanism whose unit is a person already has persons of so many such units.
        count = self.records_per_person * records_per_person
        return dataclasses.replace(self, records_per_person=count)

    def epsilon(self, delta, adjacency):
        return composed_epsilon((self.sampled,), delta, adjacency)
