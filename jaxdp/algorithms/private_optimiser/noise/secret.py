"""Certified noise: exact normal numbers from secret bits, rounded with the sum to one grid."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Float, PyTree

from jaxdp.algorithms.private_optimiser.noise.base import AbstractNoise, Claim
from jaxdp.clipping.two_part_sum import TwoPartSum, why_sums_are_unproved
from jaxdp.privacy.mechanisms import Unproved
from jaxdp.privacy.secret.secret_noise import SecretNoise, grid_unit, widened_for_grid

_CERTIFIED = (
    "proved in the arithmetic of the machine: the noise covers what rounding adds to one record's "
    "part of the sums, and what is released has exactly the law of rounded normal noise",
    "that arithmetic is IEEE's, on a CPU, or a GPU with --xla_gpu_deterministic_ops=true "
    "(jaxdp.clipping.sensitivity says what is assumed of them); no option such as XLA's "
    "--xla_cpu_enable_fast_math reorders additions, which known sums test once in this process",
    "the sums are those of step, or of clipped_gradient_sum_in_parts over the sampler's batches, "
    "and each is released once",
)


class CertifiedNoise(AbstractNoise):
    """Noise and Poisson batches from random bits that nobody can predict, on the host."""

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
        return Claim(
            self.source.proved(mechanism),
            self.source.assumptions(*_CERTIFIED),
            not self.source.is_guessable,
        )


def with_secret_noise(
    total: TwoPartSum, std: float, *, bound: float, noise: SecretNoise
) -> PyTree[Float[np.ndarray, "..."]]:
    r"""The sum plus secret noise, as whole multiples of one unit, in float64 on the host.

    Each coordinate is rounded to the unit before it gets its noise. That moves neighbours apart by
    at most $\sqrt d$ units, which `std` has to cover (`widened_for_grid`). No coordinate of a true
    sum is beyond `bound`; what lies beyond, or is not a number, would end in an error that tells of
    the data, and is brought within it.
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
