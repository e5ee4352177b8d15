"""Simulated noise, independent from step to step: drawn by JAX from a key.

JAX's float32 normals are 8.4 million numbers within 5.42 standard deviations: who knows all
records but one can tell from the last bits of a single weight what the last one is, and a value
beyond 5.42 is a proof that the record is there. What it claims says so.
"""

from typing import Any

import jax
import jax.random as jr
import scipy
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxdp.algorithms.private_optimiser.noise.base import AbstractNoise, Claim
from jaxdp.clipping import TwoPartSum
from jaxdp.core.checks import concrete
from jaxdp.core.keys import numbered_key, purpose_key, stream_key
from jaxdp.privacy.adjacency import REPLACE_ONE
from jaxdp.privacy.batches.base import AbstractSampler
from jaxdp.privacy.secret.secret_key import key_entropy_bits

# The largest size of `jax.random.normal` in float32.
LARGEST_NORMAL = 5.42
_INTEGER_BITS = 32


class IndependentNoise(AbstractNoise):
    """Simulated noise that is independent from step to step."""

    def added(self, total, scale, buffers, step, *, key):
        if buffers is not None:
            raise ValueError("expected no buffers without correlated noise, got some")
        return with_noise(total, simulated_noise(total.high, scale.std, step, key=key)), None

    def noisy_count(self, count, std, bound, step, *, key):
        # Of a stream of its own: the sum's noise is drawn from the key itself.
        return count + simulated_noise(count, std, step, key=stream_key(key, "clip count"))

    def claim(self, mechanism, noise_multiplier, sampler, num_steps, *, key):
        return Claim(mechanism, simulated_lines(noise_multiplier, sampler, num_steps, key), False)


def simulated_noise(
    like: PyTree[Array], std: Any, step: int | Int[Array, ""], *, key: Key[Array, ""]
) -> PyTree[Array]:
    """Normals of JAX for every number of a pytree, in its types, those of one step of a run."""
    leaves, structure = jax.tree.flatten(like)
    keys = jr.split(numbered_key(purpose_key(key, "noise"), step), max(1, len(leaves)))
    noise = [
        (std * jr.normal(key, leaf.shape, leaf.dtype)).astype(leaf.dtype)
        for leaf, key in zip(leaves, keys, strict=False)
    ]
    return jax.tree.unflatten(structure, noise)


def with_noise(total: TwoPartSum, noise: PyTree[Array]) -> PyTree[Float[Array, "..."]]:
    """The sum plus noise, in the precision of the sum."""
    # The small part meets the noise first: noise is added before the sum rounds.
    return jax.tree.map(lambda high, low, noise: high + (low + noise), total.high, total.low, noise)


def simulated_lines(
    noise_multiplier: Any, sampler: AbstractSampler, num_steps: int, key: Key[Array, ""] | None
) -> tuple[str, ...]:
    """What simulated noise does not hide, and how well its key is hidden."""
    beyond = min(1.0, num_steps * least_delta(noise_multiplier, sampler))
    tail = (
        "simulated noise: the guarantee is that of exact normal noise. Float32 normals are few "
        f"numbers within {LARGEST_NORMAL} standard deviations: their last bits tell of records, "
        f"and their end alone with a probability of up to {beyond:.1e} over all steps, neither of "
        "which is in epsilon or delta; noise=jaxdp.privacy.SecretNoise() has neither fault"
    )
    return tail, _of_the_key(key)


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
