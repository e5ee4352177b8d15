r"""Any optax optimiser made private: it sees noisy sums of clipped per-sample gradients only.

One step clips the gradient of each record of a batch at C, adds them up, adds noise to that *sum*,
divides by the expected batch size, which is public, and hands the *mean* to the optimiser. All
that follows the noise is post-processing.

The noise has the standard deviation `noise_multiplier` times C (1 + b), where a sum of real
numbers would have it times C: in floating point one record can move the sum by a little more than
C, and b is a proved bound on that (`jaxdp.clipping.sensitivity_excess`).

Source: Abadi et al. (2016), "Deep learning with differential privacy", Algorithm 1, with any
optimiser in place of its last line.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, Key, PyTree

from jaxdp.algorithms.noisy_sums import (
    as_two_parts,
    widened_for_grid,
    with_secret_noise,
    with_simulated_noise,
)
from jaxdp.algorithms.optimiser_steps import (
    OptimiserState,
    clip_norm_of,
    clipped_sum_over,
    moved,
    moved_compiled,
    num_weights,
    require_host_arrays,
    steps_made,
)
from jaxdp.algorithms.release_of_sums import release_of_sums
from jaxdp.algorithms.trainable import AbstractTrainable, require_optax
from jaxdp.clipping import TwoPartSum, sensitivity_excess
from jaxdp.clipping.arguments import weights_of
from jaxdp.clipping.traced_loss import batch_size
from jaxdp.core.checks import concrete, require_count, require_key, require_kind
from jaxdp.core.keys import numbered_key, purpose_key
from jaxdp.privacy.arguments import host_scalar
from jaxdp.privacy.batches.base import AbstractSampler, require_sampler, require_step
from jaxdp.privacy.calibration import calibrated_noise_multiplier
from jaxdp.privacy.release import Release
from jaxdp.privacy.secret_noise import SecretNoise


class PrivateOptimiser(AbstractTrainable):
    r"""An optax optimiser that is given noisy sums over the batches of a sampler.

    `step` does a whole step: it draws the batch, clips, adds noise and updates. After `num_steps`
    steps nothing more is released. The account is of one run: one key for it and for no other,
    and each state used once. Going on twice from one state (a branch, a checkpoint restored with
    other data or weights) draws the same batch and the same noise, which then cancels.

    By default the noise is simulated: drawn by JAX from a key, in float32. That is how private
    training behaves, not a release; `account` says so. With `noise=jaxdp.privacy.SecretNoise()`
    noise and Poisson batches come from the operating system, and what is proved holds in the
    arithmetic of the machine; each step then returns to the host, outside `jit`.

    `replace` keeps the noise of the operating system, which is other noise at every call, and a
    seed below 2^128, whose cost is infinite. It refuses to keep a secret seed, whose batches would
    be those of the original at every step (the noise of equal sums likewise), while an account of
    two runs takes them to be independent: give `noise=` again, or another.

    Args:
        optimiser: any optax gradient transformation.
        clip_norm: C, > 0 and finite.
        noise_multiplier: standard deviation of the noise on the sum, over C; finite and >= 0,
            where 0 has no privacy.
        num_steps: T, how many steps are accounted for.
        sampler: how batches are drawn: `jaxdp.privacy.PoissonSampler`, whose privacy is
            amplified, or `ShuffledEpochs` or `FixedSizeBatches` there, whose is not.
        noise: None for simulated noise, or `jaxdp.privacy.SecretNoise()`.

    Raises:
        ValueError: a value is out of its range; the clip norm has to lie between 2^-60 and 2^60.
        TypeError: the optimiser, the sampler or the noise is of another kind.

    Example:
        >>> import jaxdp, optax
        >>> algorithm = jaxdp.PrivateOptimiser(
        ...     optax.sgd(0.1, momentum=0.9),
        ...     clip_norm=1.0,
        ...     noise_multiplier=10.0,
        ...     num_steps=20,
        ...     sampler=jaxdp.privacy.ShuffledEpochs(num_records=40, batch_size=10),
        ... )
        >>> cost = jaxdp.account(algorithm, delta=1e-5)
        >>> print(f"epsilon = {cost.epsilon:.2f}, mu = {cost.mu:.3f}, {cost.adjacency}")
        epsilon = 1.76, mu = 0.447, replace-one
    """

    optimiser: optax.GradientTransformation = eqx.field(static=True)
    clip_norm: float
    noise_multiplier: float = eqx.field(
        converter=lambda value: host_scalar("noise_multiplier", value)
    )
    num_steps: int = eqx.field(static=True)
    sampler: AbstractSampler
    noise: SecretNoise | None

    def __init__(self, optimiser, *, clip_norm, noise_multiplier, num_steps, sampler, noise=None):
        require_optax(optimiser)
        require_sampler(sampler)
        if noise is not None:
            require_kind("noise", noise, SecretNoise, "None or a jaxdp.privacy.SecretNoise()")
        self.optimiser, self.sampler, self.noise = optimiser, sampler, noise
        self.clip_norm, self.noise_multiplier = clip_norm_of(clip_norm), noise_multiplier
        self.num_steps = require_count("num_steps", num_steps)

    def __check_init__(self):
        known = concrete(self.noise_multiplier)
        if known is not None and math.isinf(known):
            raise ValueError(f"expected a finite noise_multiplier, got {self.noise_multiplier}")
        if self.noise is not None and not known:
            raise ValueError(
                f"expected noise_multiplier > 0 with secret noise, got {self.noise_multiplier}"
            )

    @classmethod
    def calibrated(
        cls,
        optimiser: optax.GradientTransformation,
        epsilon: float,
        delta: float,
        *,
        clip_norm: float,
        num_steps: int,
        sampler: AbstractSampler,
        noise: SecretNoise | None = None,
    ) -> "PrivateOptimiser":
        """The optimiser whose T steps together are (epsilon, delta)-DP, never less private.

        Neighbours are those of the sampler: see `release`.

        Args:
            epsilon: > 0.
            delta: in (0, 1).

        The other arguments and the errors are the constructor's.
        """
        require_optax(optimiser)
        multiplier = calibrated_noise_multiplier(
            epsilon, delta, sampler=sampler, num_steps=num_steps
        )
        return cls(
            optimiser,
            clip_norm=clip_norm,
            noise_multiplier=multiplier,
            num_steps=num_steps,
            sampler=sampler,
            noise=noise,
        )

    def _argument(self, name):
        """As of any description, save for a seed that is good for one run alone."""
        if name == "noise" and self.noise is not None and not self.noise.is_reusable:
            raise ValueError(
                "expected noise= in replace: this optimiser's has a secret seed, whose batches and "
                "noise are for one run alone. Give SecretNoise() or another seed; the same noise "
                "only if no step was made with it"
            )
        return getattr(self, name)

    @property
    def noise_std_of_sum(self) -> float:
        """Standard deviation of the noise on each coordinate of the sum of clipped gradients.

        What is added is larger by the share b that covers the sum's own rounding: .8 % for batches
        of 256 to 65,536 records, .1 % in microbatches of 64, more beyond.
        """
        return self.noise_multiplier * self.clip_norm

    @property
    def noise_std_of_mean(self) -> float:
        """Of the same noise once the sum is divided by the expected batch size."""
        return self.noise_std_of_sum / self.sampler.expected_batch_size

    def init(self, model):
        inner = self.optimiser.init(weights_of(model))
        return OptimiserState(inner, jnp.zeros((), jnp.int32))

    def counted_step(self, loss, model, state, inputs, targets, *, key, microbatch_size=None):
        require_key(key)
        weights_of(model)
        num_records = batch_size(inputs, targets)
        if num_records != self.sampler.num_records:
            raise ValueError(
                f"expected {self.sampler.num_records} records, as many as the sampler draws from, "
                f"got {num_records}"
            )
        made = steps_made(state, self.num_steps)
        if self.noise is None:
            batch = self.sampler.sample(made, key=key)
        else:
            require_host_arrays((model, state, inputs, targets, key))
            batch = self.sampler.sample_secretly(int(made), noise=self.noise, key=key)
        clip_norm = jnp.asarray(self.clip_norm, float)
        total, dropped = clipped_sum_over(
            loss, model, inputs, targets, batch, clip_norm, microbatch_size
        )
        new = self.update(total, model, state, key=key, microbatch_size=microbatch_size)
        return *new, dropped

    def update(
        self,
        gradient_sum: TwoPartSum | PyTree[Array],
        model: PyTree,
        state: OptimiserState,
        *,
        key: Key[Array, ""],
        microbatch_size: int | None = None,
        num_devices: int = 1,
    ) -> tuple[PyTree, OptimiserState]:
        """The rest of a step, from a *sum* of gradients clipped at `clip_norm`, without noise.

        For sums that `step` does not make, over several devices for example. The account holds
        if they are `clipped_gradient_sum_in_parts` or `clipped_gradient_sum` at this clip norm
        over this sampler's batches (with secret noise those of `sample_secretly`), added by
        `jaxdp.clipping.sum_over_devices` where there are several parts: what a `psum` rounds is
        not covered.

        Args:
            gradient_sum: the sum, in two parts or rounded.
            model, state, key: as in `step`.
            microbatch_size: that of the sum; it bounds its rounding.
            num_devices: how many parts `sum_over_devices` added.

        Raises:
            ValueError: all steps that are accounted for have been made, or secret noise is asked
                for under `jit`.
        """
        weights_of(model)
        made = steps_made(state, self.num_steps)
        if self.noise is not None:
            require_host_arrays((gradient_sum, model, state, key))
        sizes = {"microbatch_size": microbatch_size, "num_devices": num_devices}
        noisy = self.noisy_sum(gradient_sum, made, key=key, **sizes)
        mean = jax.tree.map(lambda leaf: leaf / self.sampler.expected_batch_size, noisy)
        apply = moved if self.noise is None else moved_compiled
        new = apply(self.optimiser, mean, model, state)
        if concrete(made) is not None:
            return new
        # A traced loop that goes on for too long is given nothing more.
        goes_on = state.num_released < self.num_steps

        def choose(after, before):
            return jnp.where(goes_on, after, before) if eqx.is_array(after) else after

        return jax.tree.map(choose, new, (model, state))

    def noisy_sum(
        self,
        gradient_sum: TwoPartSum | PyTree[Array],
        step: int | Int[Array, ""],
        *,
        key: Key[Array, ""],
        microbatch_size: int | None = None,
        num_devices: int = 1,
    ) -> PyTree[Array]:
        """What step number `step`, from 0, releases: the sum with its noise.

        Args:
            gradient_sum, key, microbatch_size, num_devices: as in `update`.

        Returns:
            A pytree like the sum: JAX arrays, or float64 NumPy arrays with secret noise.
        """
        require_key(key)
        weights_of(gradient_sum, "gradient_sum")
        require_step(step)
        total = as_two_parts(gradient_sum)
        excess = sensitivity_excess(
            self.sampler.capacity,
            num_weights(total.high),
            microbatch_size=microbatch_size,
            num_devices=num_devices,
            is_rounded=not isinstance(gradient_sum, TwoPartSum),
        )
        if math.isinf(excess):
            raise ValueError(
                "expected batches whose rounding is bounded, up to about 2^22 records, got a "
                f"capacity of {self.sampler.capacity}"
            )
        std = self.noise_std_of_sum * (1 + excess)
        if self.noise is None:
            step_key = numbered_key(purpose_key(key, "noise"), step)
            return with_simulated_noise(total, std, key=step_key)
        std = widened_for_grid(std, self.noise_multiplier, num_weights(total.high))
        bound = self.sampler.capacity * self.clip_norm * (1 + excess)
        return with_secret_noise(total, std, bound=bound, noise=self.noise.hiding(int(step)))

    def release(self, *, key: Key[Array, ""] | None = None) -> Release:
        """The noisy sums of all steps, and all that is computed from them.

        Args:
            key: that of the run, for the assumptions to say how many bits a guess has to find.
        """
        return release_of_sums(
            self.sampler, self.noise_multiplier, self.num_steps, noise=self.noise, key=key
        )
