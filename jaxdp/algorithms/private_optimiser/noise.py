"""The noise on sums of clipped gradients: independent, correlated over the steps, or certified.

The noise on a sum at clip norm C has standard deviation z C (1 + b), with the b of
`jaxdp.clipping.sensitivity_excess`. JAX's float32 noise is only simulated: its normals are 8.4
million numbers within 5.42 standard deviations, so last bits can reveal a record, and a value
beyond proves one. Certified noise is exact and made of secret bits, rounded with the sum to one
grid.
"""

import abc
import math
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
from jaxdp.core.checks import concrete
from jaxdp.core.keys import numbered_key, purpose_key, stream_key
from jaxdp.privacy.adjacency import REPLACE_ONE
from jaxdp.privacy.batches.base import AbstractSampler
from jaxdp.privacy.mechanisms import AbstractMechanism, Unproved
from jaxdp.privacy.noise_over_steps import AbstractNoiseOverSteps, kept_after
from jaxdp.privacy.secret.secret_noise import (
    SecretNoise,
    grid_unit,
    key_entropy_bits,
    widened_for_grid,
)

# The largest size of `jax.random.normal` in float32.
LARGEST_NORMAL = 5.42
_INTEGER_BITS = 32
_OVER_STEPS = (
    "the noise differs from step to step, by public numbers, and the cost is that of all steps "
    "together (jaxdp.privacy.noise_over_steps has the proof)"
)
_PAST_NOISE = "the optimiser's state and its checkpoints hold past noise and are not released"
# In units of the noise: sums and what is taken back fit in 64 bits, and kept noise is rarely cut.
_LARGEST_SUM, _LARGEST_CENTRE, _LARGEST_NOISE = 2.0**60, 2**62, 2.0**39
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
    # z: `std` is z C (1 + b), times the sensitivity of noise over steps. Replacing a record moves
    # the sum by 2 C (1 + b), which the sampler's mechanism accounts for.
    multiplier: Any
    sensitivity: Any
    bound: Any  # no coordinate of a true sum is larger
    num_weights: int  # how many coordinates the sum has


class AbstractNoise(eqx.Module):
    """Noise for the sums of all steps of a run."""

    over_steps: eqx.AbstractVar[AbstractNoiseOverSteps | None]
    is_on_host: ClassVar[bool] = False  # noise is added between compiled parts of a step

    @property
    def is_valid(self) -> Bool[Any, ""]:
        """Whether traced numbers are in the ranges required of concrete ones."""
        return np.asarray(True) if self.over_steps is None else self.over_steps.is_valid

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

    def sensitivity(self, sampler: AbstractSampler, num_steps: int) -> Any:
        """The factor on noise over steps with which it costs what independent noise does.

        NotCoveredError if nothing is proved for so many steps of the sampler.
        """
        return 1.0 if self.over_steps is None else self.over_steps.sensitivity(sampler, num_steps)

    def mechanism(
        self, sampler: AbstractSampler, multiplier: Any, sensitivity: Any, num_steps: int
    ) -> AbstractMechanism:
        """The mechanism of the first sums with exact normal noise of this factor."""
        if self.over_steps is None:
            # A factor that was set afterwards may be below 1.
            is_known = concrete(multiplier) is not None and concrete(sensitivity) is not None
            factor = (np if is_known else jnp).minimum(1.0, sensitivity)
            return sampler.mechanism(multiplier * factor, num_steps)
        return self.over_steps.mechanism(sampler, multiplier, sensitivity, num_steps)

    def start(self, weights: PyTree[Array]) -> PyTree[Array] | None:
        """The past noise before the first step, if any."""
        return None if self.over_steps is None else self.over_steps.start(weights)

    def shaped(
        self, fresh: PyTree[Array], past: PyTree[Array] | None, step: Any
    ) -> tuple[PyTree[Array], PyTree[Array] | None]:
        """The simulated noise of a step made from its fresh draw, and the past noise after it."""
        if self.over_steps is None:
            return fresh, None
        return self.over_steps.simulated(fresh, past, step)

    def require_past(self, past: PyTree[Array] | None, like: PyTree[Array]) -> None:
        """Raise ValueError unless past noise is that of this noise, for arrays like `like`."""
        if self.over_steps is not None:
            self.over_steps.require_past(past, like)
        elif past is not None:
            raise ValueError("expected no past noise with independent noise, got some")

    def require_arrays(self, arrays: Any) -> None:
        """Raise ValueError if arrays of a step are traced and must not be."""

    def batch(
        self, sampler: AbstractSampler, step: Int[Array, ""], *, key: Key[Array, ""]
    ) -> Batch:
        """The batch of step number `step`, from 0."""
        return sampler.sample(step, key=key)

    @abc.abstractmethod
    def added(
        self, total: TwoPartSum, scale: Scale, past: PyTree | None, step: Any, *, key: Any
    ) -> tuple[PyTree[Float[Array, "..."]], PyTree[Array] | None]:
        """The sum plus the noise of a step, added to both parts before rounding, and past noise."""

    @abc.abstractmethod
    def noisy_count(
        self, count: Float[Array, ""], std: float, bound: float, step: Any, *, key: Key[Array, ""]
    ) -> Float[Any, ""]:
        """A half-integer count, at most `bound`, with its own noise."""

    @abc.abstractmethod
    def claim(
        self, mechanism: AbstractMechanism, noise_multiplier, sampler, num_steps: int, *, key
    ) -> Claim:
        """The guarantee of a run's sums, where exact normal noise would prove `mechanism`.

        `noise_multiplier` is that of the noise before it is shaped over the steps.
        """

    def _lines(self) -> tuple[str, ...]:
        """The assumptions of noise over steps."""
        if self.over_steps is None:
            return ()
        return (_OVER_STEPS, _PAST_NOISE) if self.over_steps.num_bands > 1 else (_OVER_STEPS,)


class SimulatedNoise(AbstractNoise):
    """Noise of JAX's normals, from the key of the run."""

    over_steps: AbstractNoiseOverSteps | None = None

    def added(self, total, scale, past, step, *, key):
        self.require_past(past, total.high)
        fresh = simulated_noise(total.high, scale.std, step, key=key)
        noise, past = self.shaped(fresh, past, step)
        # The small part meets the noise first: noise is added before the sum rounds.
        parts = total.high, total.low, noise
        return jax.tree.map(lambda high, low, noise: high + (low + noise), *parts), past

    def noisy_count(self, count, std, bound, step, *, key):
        # From a separate stream: the sum's noise is drawn from the key itself.
        return count + simulated_noise(count, std, step, key=stream_key(key, "clip count"))

    def claim(self, mechanism, noise_multiplier, sampler, num_steps, *, key):
        if (over := self.over_steps) is not None:
            # At least the standard deviation of a step over what a record moves it by, in units C.
            noise_multiplier /= math.sqrt(over.squares(num_steps).max())
        lines = simulated_lines(noise_multiplier, sampler, num_steps, key)
        return Claim(mechanism, (*self._lines(), *lines), False)


class CertifiedNoise(AbstractNoise):
    """Noise and Poisson batches drawn on the host from random bits that nobody can predict."""

    over_steps: AbstractNoiseOverSteps | None
    source: SecretNoise
    is_on_host = True

    @property
    def identity(self):
        over = self.over_steps
        numbers = () if over is None else (over.stds, over.ratios)
        return "secret", self.source.seed, self.source.context, *numbers

    @property
    def is_reusable(self):
        return self.source.is_reusable

    def reason_not_simulated(self):
        return (
            "a simulation draws its noise from a key, which SecretNoise does not; use noise=None "
            "or noise over the steps with source=None"
        )

    def require_arrays(self, arrays):
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(arrays)):
            raise ValueError(
                "expected a call outside jit, vmap and grad with noise=SecretNoise(), got traced "
                "arrays: secret noise is added on the host (the parts of a step are compiled)"
            )

    def batch(self, sampler, step, *, key):
        return sampler.sample_secretly(int(step), noise=self.source, key=key)

    def added(self, total, scale, past, step, *, key):
        self.require_past(past, total.high)
        over, step = self.over_steps, int(step)
        hidden, multiplier = self.source.hiding(step), scale.multiplier
        if over is None or past is None:
            size = 1.0 if over is None else float(over.stds[step])
            # The step is charged as one of z times this size.
            multiplier *= scale.sensitivity * size
            std = widened_for_grid(scale.std, multiplier, scale.num_weights) * size
            return with_secret_noise(total, std, bound=scale.bound, noise=hidden), None
        least = float(over.stds.min())
        size = scale.sensitivity * least
        # The second term is the rounding of past noise, of all steps or of the first ones alone.
        multiplier *= size + max(1.0, size) * math.sqrt(over.num_bands - 1)
        std = widened_for_grid(scale.std, multiplier, scale.num_weights)
        unit, most = grid_unit(std * least), std * float(over.stds.max())
        std *= float(over.stds[step])
        if scale.bound / unit > _LARGEST_SUM or most / unit > _LARGEST_NOISE:
            raise ValueError(
                "expected secret BandedNoise whose steps have fresh noise of at most 512 times the "
                "least of them, which is at least 2^-30 of the largest sum of a batch, got other"
            )
        values = [leaf.astype(np.int64) for leaf in on_grid(total, unit, bound=scale.bound)]
        kept, structure = jax.tree.flatten(past)
        centres = [
            # Within the range of `noisy_integers`, which brings neighbours no further apart.
            np.clip(value - over.taken_back(one, step), -_LARGEST_CENTRE, _LARGEST_CENTRE)
            for value, one in zip(values, kept, strict=True)
        ]
        noisy = noisy_leaves(centres, std / unit, hidden.hiding(std, *centres))
        after = [
            jnp.asarray(kept_after(one, found - value))
            for one, found, value in zip(kept, noisy, values, strict=True)
        ]
        noisy = [found.astype(np.float64) * unit for found in noisy]
        return jax.tree.unflatten(structure, noisy), jax.tree.unflatten(structure, after)

    def noisy_count(self, count, std, bound, step, *, key):
        hidden = self.source.hiding("clip count", int(step))
        # Halves are whole multiples of the noise's unit, so that nothing is rounded.
        return with_secret_noise(
            TwoPartSum(count, jnp.zeros_like(count)), std, bound=bound, noise=hidden
        )

    def claim(self, mechanism, noise_multiplier, sampler, num_steps, *, key):
        if (unproved := why_sums_are_unproved()) is not None:
            return Claim(Unproved(unproved), (), False)
        lines = self.source.assumptions(*self._lines(), *_CERTIFIED)
        is_certified = not self.source.is_guessable
        return Claim(self.source.proved(mechanism), lines, is_certified=is_certified)


def noise_of(noise: SecretNoise | AbstractNoiseOverSteps | None) -> AbstractNoise:
    if isinstance(noise, SecretNoise):
        return CertifiedNoise(None, noise)
    if noise is not None and noise.source is not None:
        return CertifiedNoise(noise, noise.source)
    return SimulatedNoise(noise)


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
    unit = grid_unit(std)
    values = on_grid(total, unit, bound=bound)
    noisy = noisy_leaves(values, std / unit, noise.hiding(std, *values))
    structure = jax.tree.structure(total.high)
    return jax.tree.unflatten(structure, [leaf * unit for leaf in noisy])


def on_grid(total: TwoPartSum, unit: float, *, bound: float) -> list[Float[np.ndarray, "..."]]:
    """The leaves of a sum in whole multiples of a unit; ValueError if no bound is proved for it."""
    unproved = why_sums_are_unproved(total)
    if unproved is not None:
        raise ValueError(f"expected sums with a proved bound for noise=SecretNoise(): {unproved}")
    leaves = jax.tree.leaves(total.in_float64())
    return [np.rint(np.clip(np.nan_to_num(leaf), -bound, bound) / unit) for leaf in leaves]


def noisy_leaves(values: list[np.ndarray], std: float, hidden: SecretNoise) -> list[np.ndarray]:
    """Whole numbers plus rounded normal noise, the noise of each leaf from its own bits."""
    return [
        hidden.noisy_integers(value, std, f"sum of leaf {place}")
        for place, value in enumerate(values)
    ]
