"""The `Release` of a private optimiser, which makes noisy sums of clipped gradients public."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Key

from jaxdp.clipping.two_part_sum import why_sums_are_unproved
from jaxdp.core.checks import concrete
from jaxdp.core.errors import NotCoveredError
from jaxdp.privacy.adjacency import REPLACE_ONE
from jaxdp.privacy.batches.base import AbstractSampler
from jaxdp.privacy.correlated_noise import BufferedToeplitzNoise
from jaxdp.privacy.mechanisms import Unproved
from jaxdp.privacy.release import Release
from jaxdp.privacy.secret.secret_key import key_entropy_bits
from jaxdp.privacy.secret.secret_noise import SecretNoise

# The largest size of `jax.random.normal` in float32.
LARGEST_NORMAL = 5.42
_INTEGER_BITS = 32
_ASSUMPTIONS = (
    "the clip norm, the noise, the optimiser and the number of steps and records are public; "
    "choosing them by looking at the data, scaling the data by itself and learning features on it "
    "are not included",
    "the loss of a record depends on that record alone; losses, norms, batches and exceptions that "
    "a loss raises are not released",
)
_ONE_KEY = (
    "the batches of all steps are drawn from one key, else a record may be in more of them; step, "
    "update and train refuse a second key"
)
_NO_NOISE = "there is no noise (noise_multiplier = 0): the sums are released as they are"
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


def release_of_sums(
    sampler: AbstractSampler,
    noise_multiplier: Any,
    num_steps: int,
    *,
    noise: SecretNoise | BufferedToeplitzNoise | None,
    sensitivity: Any,
    key: Key[Array, ""] | None,
    has_average: bool = False,
) -> Release:
    """The noisy sums over a sampler's first batches, and all that is computed from them.

    Args:
        sampler: whose batches.
        noise_multiplier: standard deviation of the noise over what one record moves a sum, or half
            of that where a record is replaced.
        num_steps: how many sums.
        noise: None where it is simulated, and independent from step to step.
        sensitivity: that the noise is multiplied by: 1, or that of correlated noise.
        key: of the run, if it is known.
        has_average: whether an average of the iterates is released as the model.

    Raises:
        NotCoveredError: the noise is correlated, and a record may be in several batches.
    """
    needed = 1.0
    if isinstance(noise, BufferedToeplitzNoise):
        _require_one_batch_a_record(sampler, num_steps)
        needed = noise.sensitivity(num_steps)
    # A traced noise, or what was set afterwards, may be multiplied by less than it needs.
    numpy: Any = jnp if any(concrete(each) is None for each in (needed, sensitivity)) else np
    noise_multiplier = noise_multiplier * numpy.minimum(1, sensitivity / needed)
    follows = "all that follows from them"
    if has_average:
        follows += ", the average of the iterates included, at no further cost"
    mechanism = sampler.mechanism(noise_multiplier, num_steps)
    is_certified = False
    if concrete(noise_multiplier) == 0:
        lines: tuple[str, ...] = (_NO_NOISE,)
    elif not isinstance(noise, SecretNoise):
        beyond = num_steps * least_delta(noise_multiplier, sampler)
        lines = (_simulated(min(1.0, beyond)), _of_the_key(key))
        if isinstance(noise, BufferedToeplitzNoise):
            lines = (_CORRELATED, *lines)
    elif (unproved := why_sums_are_unproved()) is not None:
        mechanism, lines = Unproved(unproved), ()
    else:
        mechanism, lines = noise.proved(mechanism), noise.assumptions(*_CERTIFIED)
        is_certified = not noise.is_guessable
    if sampler.needs_one_key and concrete(noise_multiplier) != 0:
        lines = (*lines, _ONE_KEY)
    return Release(
        what=f"{num_steps} noisy sums of clipped gradients and {follows}",
        adjacency=sampler.adjacency,
        mechanism=mechanism,
        assumptions=(*sampler.charges(num_steps), *_ASSUMPTIONS, *lines),
        is_certified=is_certified,
    )


def least_delta(multiplier: Any, sampler: AbstractSampler) -> float:
    r"""The delta below which no epsilon is true of one sum with float32 normals.

    Noise ends at m = 5.42 standard deviations. A record that moves one coordinate by s of them
    takes it beyond what its neighbour's sum can reach with probability
    $q(\Phi(s - m) - \Phi(-m))$. $s = 1/z$, or 2/z where a record is replaced; q is the probability
    that it is in the batch. Zero for a traced z, which nobody can look at, and without noise.
    """
    known = concrete(multiplier)
    if known is None or known == 0:
        return 0.0
    shift = (2.0 if sampler.adjacency == REPLACE_ONE else 1.0) / float(known)
    beyond = float(scipy.special.ndtr(shift - LARGEST_NORMAL) - scipy.special.ndtr(-LARGEST_NORMAL))
    return sampler.inclusion_probability * max(beyond, 0.0)


def _require_one_batch_a_record(sampler: AbstractSampler, num_steps: int) -> None:
    if sampler.most_batches(num_steps) == 1:
        return
    raise NotCoveredError(
        "correlated noise is proved for records that are in one batch at most, such as those of "
        f"the first epoch of ShuffledEpochs, got {num_steps} steps of {sampler!r}; with noise=None "
        "all are accounted for"
    )


def _simulated(beyond: float) -> str:
    return (
        "simulated noise: the guarantee is that of exact normal noise. Float32 normals are few "
        f"numbers within {LARGEST_NORMAL} standard deviations: their last bits tell of records, "
        f"and their end alone with a probability of up to {beyond:.1e} over all steps, neither of "
        "which is in epsilon or delta; noise=jaxdp.privacy.SecretNoise() has neither fault"
    )


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
