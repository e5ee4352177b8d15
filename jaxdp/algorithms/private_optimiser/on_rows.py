"""Any private optimiser as an algorithm for a linear model on fixed rows, to be simulated.

The steps are those of `PrivateOptimiser.step` on the problem's loss, in law, with the noise of its
formula: in machine arithmetic the optimiser itself adds up to 1 % more, which covers the rounding
of its sums.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Float, Int, PyTree

from jaxdp.algorithms.base import AbstractRowsAlgorithm
from jaxdp.algorithms.length import Length, as_length
from jaxdp.algorithms.private_optimiser.averages import AbstractAverage
from jaxdp.algorithms.private_optimiser.optimiser import PrivateOptimiser
from jaxdp.algorithms.private_optimiser.release_of_sums import release_of_sums
from jaxdp.algorithms.transformations.transformation import (
    Rate,
    Transformation,
    optimiser_of,
    rate_of,
)
from jaxdp.clipping.norm_clip import clip_factor
from jaxdp.core.arrays import as_wide_float
from jaxdp.privacy.batches.base import AbstractSampler
from jaxdp.privacy.correlated_noise import BufferedToeplitzNoise
from jaxdp.privacy.secret.secret_noise import SecretNoise


class _State(eqx.Module):
    """What the optimiser remembers of each run, and an average with how many steps it is of."""

    inner: PyTree
    average: Float[Array, "runs dim *outputs"] | None
    num_made: Int[Array, ""] | None
    buffers: Float[Array, "buffers runs dim *outputs"] | None


class OptimiserOnRows(AbstractRowsAlgorithm):
    r"""Noisy means of clipped gradients of a linear model, handed to an optimiser of optax.

    Step t clips the gradient of each record of the batch at C, adds noise of standard deviation
    z C to their sum, divides by the expected batch size and gives the mean to the optimiser. A
    record whose gradient is not finite counts as zero.

    Args:
        optimiser: any optax gradient transformation, or a factory.
        sampler: how batches are drawn.
        clip_norm: C.
        noise_multiplier: z.
        num_steps: T.
        learning_rate: for the factory.
        average: of the iterates, to be released instead of the last; None for no average.
        noise: None where it is independent from step to step.
        sensitivity: of correlated noise over the steps.
    """

    optimiser: Any = eqx.field(static=True)
    sampler: AbstractSampler
    clip_norm: Float[Array, ""]
    noise_multiplier: Float[Array, ""]
    _length: Length | Int[Array, ""]
    learning_rate: Rate | None
    average: AbstractAverage | None
    noise: BufferedToeplitzNoise | None
    sensitivity: Float[Array, ""]

    def __init__(
        self,
        optimiser,
        sampler,
        clip_norm,
        noise_multiplier,
        num_steps,
        *,
        learning_rate=None,
        average=None,
        noise=None,
        sensitivity=1.0,
    ):
        self.optimiser = optimiser_of(optimiser, learning_rate)
        self.sampler, self.average = sampler, average
        self.clip_norm = as_wide_float(clip_norm, "clip_norm")
        self.noise_multiplier = as_wide_float(noise_multiplier, "noise_multiplier")
        self.noise, self.sensitivity = noise, as_wide_float(sensitivity)
        self._length = as_length(num_steps)
        self.learning_rate = rate_of(self.optimiser, learning_rate, self.num_steps)

    @property
    def transformation(self) -> Transformation:
        """The optimiser with its learning rate."""
        return Transformation(self.optimiser, self.learning_rate, self.num_steps)

    @property
    def is_valid(self):
        is_finite = jnp.isfinite(self.clip_norm) & jnp.isfinite(self.noise_multiplier)
        is_valid = is_finite & (self.clip_norm > 0) & (self.noise_multiplier >= 0)
        is_valid &= self.transformation.is_valid
        if self.noise is not None:
            is_valid &= self.noise.is_valid
        return is_valid if self.average is None else is_valid & self.average.is_valid

    def release(self):
        sums = self.sampler, self.noise_multiplier, int(self.num_steps)
        has_average = self.average is not None
        given = {"noise": self.noise, "sensitivity": self.sensitivity, "key": None}
        return release_of_sums(*sums, **given, has_average=has_average)

    def init(self, parameters):
        inner = eqx.filter_vmap(lambda one: self.transformation.init(one))(parameters)
        buffers = None if self.noise is None else self.noise.start(parameters)
        if self.average is None:
            return _State(inner, None, None, buffers)
        return _State(inner, parameters, jnp.zeros((), jnp.int32), buffers)

    def batch(self, step, keys):
        def one(key):
            indices, is_real = self.sampler.sample(step, key=key)
            return jnp.zeros(self.sampler.num_records, bool).at[indices].max(is_real)

        return jax.vmap(one)(keys)

    def clipped_slopes(self, slopes, feature_norms):
        norms = jnp.abs(slopes) * lax.broadcast_to_rank(feature_norms, slopes.ndim)
        scaled = slopes * clip_factor(norms, self.clip_norm)
        is_finite = jnp.isfinite(norms)
        return jnp.where(is_finite, scaled, 0), is_finite & (norms > self.clip_norm)

    def noise_std(self, num_samples):
        return self.noise_multiplier * self.clip_norm * self.sensitivity

    def step(self, parameters, state, gradient_sum, noise, num_samples):
        buffers = state.buffers
        if self.noise is not None:
            fresh = noise
            noise = self.noise.correlated(fresh, buffers)
            buffers = self.noise.after(fresh, buffers)
        mean = (gradient_sum + noise) / self.sampler.expected_batch_size

        def one(parameters, inner, mean):
            updates, inner = self.transformation.update(mean, inner, parameters)
            return optax.apply_updates(parameters, updates), inner

        # One run at a time: an optimiser may look at all of its parameters.
        parameters, inner = eqx.filter_vmap(one)(parameters, state.inner, mean)
        if self.average is None:
            return parameters, _State(inner, None, None, buffers)
        made = state.num_made + 1
        average = self.average.after(state.average, parameters, made, self.num_steps)
        return parameters, _State(inner, average, made, buffers)

    def released(self, parameters, state):
        return parameters if self.average is None else state.average

    def time(self, steps, num_samples):
        """In epochs: how often a record was used, on average."""
        return steps * (self.sampler.expected_batch_size / num_samples)


def reason_not_on_rows(algorithm: Any) -> str | None:
    """None where `algorithm_on_rows` takes it, else why not and what to use instead."""
    if isinstance(algorithm, PrivateOptimiser):
        if not isinstance(algorithm.noise, SecretNoise):
            return None
        return "a simulation draws its noise from a key, which SecretNoise does not; use noise=None"
    if isinstance(algorithm, AbstractRowsAlgorithm):
        return None
    return (
        "features on fixed rows need a full-batch algorithm such as DPGD, or a PrivateOptimiser, "
        f"got {type(algorithm).__name__}"
    )


def algorithm_on_rows(
    algorithm: AbstractRowsAlgorithm | PrivateOptimiser, num_rows: int
) -> AbstractRowsAlgorithm:
    """The algorithm as one for fixed rows.

    Raises:
        ValueError: there are not as many rows as its batches are drawn from.
    """
    if not isinstance(algorithm, PrivateOptimiser):
        return algorithm
    if algorithm.sampler.num_records != num_rows:
        raise ValueError(
            f"expected {algorithm.sampler.num_records} training rows, as many as the sampler draws "
            f"from, got {num_rows}"
        )
    return OptimiserOnRows(
        algorithm.optimiser,
        algorithm.sampler,
        algorithm.clip_norm,
        algorithm.noise_multiplier,
        algorithm.num_steps,
        learning_rate=algorithm.learning_rate,
        average=algorithm.average,
        noise=algorithm.noise,
        sensitivity=algorithm.sensitivity,
    )
