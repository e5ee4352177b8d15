"""The noise on sums of clipped gradients: independent, correlated over the steps, or certified.

The noise on a sum at clip norm C has standard deviation z C (1 + b), with the b of
`jaxdp.clipping.sensitivity_excess`. JAX's float32 noise is only simulated: its normals are 8.4
million numbers within 5.42 standard deviations, so last bits can reveal a record, and a value
beyond proves one. Certified noise is exact and made of secret bits, rounded with the sum to one
grid.
"""

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from jaxdp.clipping.two_part_sum import TwoPartSum, why_sums_are_unproved
from jaxdp.core.checks import NotCoveredError, concrete
from jaxdp.core.keys import numbered_key, purpose_key, stream_key
from jaxdp.privacy.adjacency import REPLACE_ONE
from jaxdp.privacy.batches.base import AbstractSampler
from jaxdp.privacy.correlated_noise import BufferedToeplitzNoise
from jaxdp.privacy.mechanisms import AbstractMechanism, Unproved
from jaxdp.privacy.secret.secret_noise import (
    SecretNoise,
    grid_unit,
    key_entropy_bits,
    widened_for_grid,
)

# The largest size of `jax.random.normal` in float32.
LARGEST_NORMAL = 5.42
_INTEGER_BITS = 32
_CORRELATED = (
    "the noise is correlated over the steps and scaled by its sensitivity, so that all steps cost "
    "what one with independent noise would (jaxdp.privacy.correlated_noise has the proof); the "
    "optimiser's state and its checkpoints hold past noise and are not released"
)
_CERTIFIED = (
    "proved in the arithmetic of the machine: the noise covers what rounding adds to one record's "
    "part of the sums, and what is released has exactly the law of rounded normal noise",
    "that arithmetic is IEEE's, on a CPU, or a GPU with --xla_gpu_deterministic_ops=true "
    "(jaxdp.clipping.sensitivity says what is assumed of them); no option such as XLA's "
    "--xla_cpu_enable_fast_math reorders additions, which known sums test once in this process",
    "the sums are those of step, or of clipped_gradient_sum_in_parts over the sampler's batches, "
    "and each is released once",
)

Batch = tuple[Int[Array, " capacity"], Bool[Array, " capacity"]]


class Claim(NamedTuple):
    """The proved guarantee of noisy sums, and its assumptions."""

    mechanism: AbstractMechanism  # of all sums together
    lines: tuple[str, ...]  # the assumptions that come from the noise
    is_certified: bool  # whether it is proved in the arithmetic of the machine


class Scale(NamedTuple):
    """The size of one step's noise, computed from public numbers."""

    std: Any  # of the noise on each coordinate of the sum, its rounding included
    # z: `std` is z C (1 + b), times the sensitivity of a correlation. Replacing a record moves the
    # sum by 2 C (1 + b), which the sampler's mechanism accounts for.
    multiplier: Any
    bound: Any  # no coordinate of a true sum is larger
    num_weights: int  # how many coordinates the sum has


class AbstractNoise(eqx.Module):
    """Noise for the sums of all steps of a run."""

    has_one_scale: ClassVar[bool] = False  # the proof has one scale for all steps
    is_on_host: ClassVar[bool] = False  # noise is added between compiled parts of a step

    @property
    def is_valid(self) -> Bool[Any, ""]:
        """Whether traced numbers are in the ranges required of concrete ones."""
        return np.asarray(True)

    @property
    def identity(self) -> Any:
        """A value with a digest that differs from other noise's; as secret as a seed."""
        return self

    @property
    def is_reusable(self) -> bool:
        """Whether a copy of the optimiser may use the same noise without voiding its account."""
        return True

    def reason_not_simulated(self) -> str | None:
        """The reason why a simulation cannot draw this noise from its key, or None."""
        return None

    def correlation_sensitivity(self, num_steps: int) -> Any:
        """The factor on correlated noise with which all steps cost as much as one."""
        return 1.0

    def start(self, weights: PyTree[Array]) -> PyTree[Array] | None:
        """The buffers of past noise before the first step, if any."""
        return None

    def shaped(self, fresh: PyTree[Array], buffers: PyTree[Array] | None) -> tuple[Any, Any]:
        """The noise of a step made from its fresh draw, and the buffers after it."""
        return fresh, buffers

    def require_arrays(self, arrays: Any) -> None:
        """Raise ValueError if arrays of a step are traced and must not be."""

    def batch(
        self, sampler: AbstractSampler, step: Int[Array, ""], *, key: Key[Array, ""]
    ) -> Batch:
        """The batch of step number `step`, from 0."""
        return sampler.sample(step, key=key)

    @abc.abstractmethod
    def added(
        self, total: TwoPartSum, scale: Scale, buffers: PyTree | None, step: Any, *, key: Any
    ) -> tuple[PyTree[Float[Array, "..."]], PyTree[Array] | None]:
        """The sum plus the noise of a step, added to both parts before rounding, and buffers."""

    def noisy_count(
        self, count: Float[Array, ""], std: float, bound: float, step: Any, *, key: Key[Array, ""]
    ) -> Float[Any, ""]:
        """A half-integer count, at most `bound`, with its own noise; ValueError if not proved."""
        raise ValueError("expected independent noise for a noisy count, got correlated noise")

    def require_covered(self, sampler: AbstractSampler, num_steps: int) -> None:
        """Raise NotCoveredError if nothing is proved for so many steps of a sampler."""

    @abc.abstractmethod
    def claim(
        self, mechanism: AbstractMechanism, noise_multiplier, sampler, num_steps: int, *, key
    ) -> Claim:
        """The guarantee of a run's sums, where exact normal noise would prove `mechanism`."""


class IndependentNoise(AbstractNoise):
    """Simulated noise that is independent from step to step."""

    def added(self, total, scale, buffers, step, *, key):
        if buffers is not None:
            raise ValueError("expected no buffers without correlated noise, got some")
        return with_noise(total, simulated_noise(total.high, scale.std, step, key=key)), None

    def noisy_count(self, count, std, bound, step, *, key):
        # From a separate stream: the sum's noise is drawn from the key itself.
        return count + simulated_noise(count, std, step, key=stream_key(key, "clip count"))

    def claim(self, mechanism, noise_multiplier, sampler, num_steps, *, key):
        return Claim(mechanism, simulated_lines(noise_multiplier, sampler, num_steps, key), False)


class CorrelatedNoise(AbstractNoise):
    """Simulated noise of a buffered linear Toeplitz mechanism, whose buffers are secret."""

    correlation: BufferedToeplitzNoise
    has_one_scale = True

    @property
    def is_valid(self):
        return self.correlation.is_valid

    def correlation_sensitivity(self, num_steps):
        return self.correlation.sensitivity(num_steps)

    def start(self, weights):
        return self.correlation.start(weights)

    def shaped(self, fresh, buffers):
        return self.correlation.correlated(fresh, buffers), self.correlation.after(fresh, buffers)

    def added(self, total, scale, buffers, step, *, key):
        self.correlation.require_buffers(buffers, total.high)
        fresh = simulated_noise(total.high, scale.std, step, key=key)
        noise, buffers = self.shaped(fresh, buffers)
        return with_noise(total, noise), buffers

    def require_covered(self, sampler, num_steps):
        if sampler.most_batches(num_steps) == 1:
            return
        raise NotCoveredError(
            "correlated noise is proved for records that are in one batch at most, such as those "
            f"of the first epoch of ShuffledEpochs, got {num_steps} steps of {sampler!r}; with "
            "noise=None all are accounted for"
        )

    def claim(self, mechanism, noise_multiplier, sampler, num_steps, *, key):
        lines = simulated_lines(noise_multiplier, sampler, num_steps, key)
        return Claim(mechanism, (_CORRELATED, *lines), False)


class CertifiedNoise(AbstractNoise):
    """Noise and Poisson batches drawn on the host from random bits that nobody can predict."""

    source: SecretNoise
    is_on_host = True

    @property
    def identity(self):
        return "secret", self.source.seed, self.source.context

    @property
    def is_reusable(self):
        return self.source.is_reusable

    def reason_not_simulated(self):
        return "a simulation draws its noise from a key, which SecretNoise does not; use noise=None"

    def require_arrays(self, arrays):
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(arrays)):
            raise ValueError(
                "expected a call outside jit, vmap and grad with noise=SecretNoise(), got traced "
                "arrays: secret noise is added on the host (the parts of a step are compiled)"
            )

    def batch(self, sampler, step, *, key):
        return sampler.sample_secretly(int(step), noise=self.source, key=key)

    def added(self, total, scale, buffers, step, *, key):
        if buffers is not None:
            raise ValueError("expected no buffers without correlated noise, got some")
        std = widened_for_grid(scale.std, scale.multiplier, scale.num_weights)
        hidden = self.source.hiding(int(step))
        return with_secret_noise(total, std, bound=scale.bound, noise=hidden), None

    def noisy_count(self, count, std, bound, step, *, key):
        hidden = self.source.hiding("clip count", int(step))
        # Halves are whole multiples of the noise's unit, so that nothing is rounded.
        return with_secret_noise(
            TwoPartSum(count, jnp.zeros_like(count)), std, bound=bound, noise=hidden
        )

    def claim(self, mechanism, noise_multiplier, sampler, num_steps, *, key):
        if (unproved := why_sums_are_unproved()) is not None:
            return Claim(Unproved(unproved), (), False)
        proved, lines = self.source.proved(mechanism), self.source.assumptions(*_CERTIFIED)
        return Claim(proved, lines, is_certified=not self.source.is_guessable)


def noise_of(noise: SecretNoise | BufferedToeplitzNoise | None) -> AbstractNoise:
    if noise is None:
        return IndependentNoise()
    return CertifiedNoise(noise) if isinstance(noise, SecretNoise) else CorrelatedNoise(noise)


def simulated_noise(
    like: PyTree[Array], std: Any, step: int | Int[Array, ""], *, key: Key[Array, ""]
) -> PyTree[Array]:
    """Normals of JAX for one step of a run, in the shapes and types of `like`."""
    leaves, structure = jax.tree.flatten(like)
    keys = jr.split(numbered_key(purpose_key(key, "noise"), step), len(leaves))
    noise = [
        (std * jr.normal(leaf_key, leaf.shape, leaf.dtype)).astype(leaf.dtype)
        for leaf, leaf_key in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(structure, noise)


def with_noise(total: TwoPartSum, noise: PyTree[Array]) -> PyTree[Float[Array, "..."]]:
    """The sum plus noise, in the precision of the sum."""
    # The small part meets the noise first: noise is added before the sum rounds.
    return jax.tree.map(lambda high, low, noise: high + (low + noise), total.high, total.low, noise)


def simulated_lines(
    noise_multiplier: Any, sampler: AbstractSampler, num_steps: int, key: Key[Array, ""] | None
) -> tuple[str, ...]:
    """Assumptions of simulated noise: its leaks, and how well its key is hidden."""
    beyond = min(1.0, num_steps * least_delta(noise_multiplier, sampler))
    tail = (
        "simulated noise: the guarantee is that of exact normal noise. Float32 normals are few "
        f"numbers within {LARGEST_NORMAL} standard deviations: their last bits tell of records, "
        f"and their end alone with a probability of up to {beyond:.1e} over all steps, neither of "
        "which is in epsilon or delta; noise=jaxdp.privacy.SecretNoise() has neither fault"
    )
    return tail, _of_the_key(key)


def least_delta(multiplier: Any, sampler: AbstractSampler) -> float:
    r"""The delta below which no epsilon holds for one sum with float32 normals.

    Noise ends at m = 5.42 standard deviations. A record that moves one coordinate by s of them
    (1/z, or 2/z if a record is replaced) and is in the batch with probability q takes it beyond the
    reach of the neighbour's sum with probability $q(\Phi(s - m) - \Phi(-m))$. 0 for a traced z.
    """
    known = concrete(multiplier)
    if known is None or known == 0:
        return 0.0
    shift = (2.0 if sampler.adjacency == REPLACE_ONE else 1.0) / float(known)
    beyond = float(scipy.special.ndtr(shift - LARGEST_NORMAL) - scipy.special.ndtr(-LARGEST_NORMAL))
    return sampler.inclusion_probability * max(beyond, 0.0)


def _of_the_key(key: Key[Array, ""] | None) -> str:
    bits = None if key is None else key_entropy_bits(key)
    if bits is None:
        known = "of the keys that integers make there are at most 2^32, which can be tried"
    elif bits <= _INTEGER_BITS:
        known = (
            "this run's was made from an integer below 2^32, and trying them all takes hours: who "
            "does can take the noise off"
        )
    else:
        known = (
            f"this run's has at most {bits} bits, fewer if it was split off a key that an integer "
            "made, and its generator is not cryptographic"
        )
    return f"the run's key is secret, as jaxdp.privacy.secret_key() is; {known}"


def with_secret_noise(
    total: TwoPartSum, std: float, *, bound: float, noise: SecretNoise
) -> PyTree[Float[np.ndarray, "..."]]:
    r"""The sum plus secret noise, as whole multiples of one unit, in float64 on the host.

    Each coordinate is rounded to the unit first, which moves neighbours apart by at most $\sqrt d$
    units; `std` covers this (`widened_for_grid`). Values beyond `bound`, or NaN, which no true sum
    has, are brought within it, because an error would depend on the data.
    """
    unproved = why_sums_are_unproved(total)
    if unproved is not None:
        raise ValueError(f"expected sums with a proved bound for noise=SecretNoise(): {unproved}")
    unit = grid_unit(std)
    leaves, structure = jax.tree.flatten(total.in_float64())
    within = [np.clip(np.nan_to_num(leaf), -bound, bound) for leaf in leaves]
    values = [np.rint(leaf / unit) for leaf in within]
    hidden = noise.hiding(std, *values)
    noisy = [
        hidden.noisy_integers(value, std / unit, f"sum of leaf {place}") * unit
        for place, value in enumerate(values)
    ]
    return jax.tree.unflatten(structure, noisy)
