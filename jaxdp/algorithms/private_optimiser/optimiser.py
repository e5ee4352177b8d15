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

import functools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Int, Key, PyTree

from jaxdp.algorithms.length import Length
from jaxdp.algorithms.private_optimiser.averages import AbstractAverage
from jaxdp.algorithms.private_optimiser.noisy_sums import (
    as_two_parts,
    simulated_noise,
    widened_for_grid,
    with_noise,
    with_secret_noise,
)
from jaxdp.algorithms.private_optimiser.optimiser_steps import (
    OptimiserState,
    clip_norm_of,
    clipped_sum_over,
    digest_of_run,
    moved,
    moved_compiled,
    num_weights,
    require_host_arrays,
    steps_made,
)
from jaxdp.algorithms.private_optimiser.release_of_sums import release_of_sums
from jaxdp.algorithms.private_optimiser.trainable import AbstractTrainable
from jaxdp.algorithms.transformations.transformation import (
    Rate,
    Transformation,
    optimiser_of,
    rate_of,
    refuse_losses,
)
from jaxdp.clipping import TwoPartSum, sensitivity_excess
from jaxdp.clipping.arguments import records_of, weights_of
from jaxdp.clipping.ghost.traced_loss import batch_size
from jaxdp.core.checks import concrete, require_count, require_key, require_kind
from jaxdp.core.keys import numbered_key, purpose_key
from jaxdp.privacy.arguments import host_scalar
from jaxdp.privacy.batches.base import AbstractSampler, require_sampler, require_step
from jaxdp.privacy.calibration import calibrated_noise_multiplier
from jaxdp.privacy.correlated_noise import BufferedToeplitzNoise
from jaxdp.privacy.release import Release
from jaxdp.privacy.secret.secret_noise import SecretNoise


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

    With `average` the model of every step is the average, and the weights at which gradients are
    taken are the state's `iterate`; both are post-processing of the noisy sums. Model and state of
    a step together go on to the next one. With correlated noise the state also holds past noise,
    and has to stay secret.

    Args:
        optimiser: any optax gradient transformation; with `learning_rate`, a function that makes
            one of a rate, such as `optax.sgd` or `functools.partial(optax.sgd, momentum=0.9)`.
            Two partials of one function and equal numbers share what is compiled; of two lambdas
            each compiles for itself.
        learning_rate: a number >= 0, or a schedule on [0, 1], of which step number k from 0 has
            the rate at k/T (`jaxdp.FromSteps(f, T)` is f(k)); it may rise. It is data: another
            rate compiles nothing, and rates can be vmapped and differentiated. None: the rate is
            inside `optimiser`.
        clip_norm: C, > 0 and finite.
        noise_multiplier: standard deviation of the noise on the sum, over C; finite and >= 0,
            where 0 has no privacy. Of correlated noise: of the part that a step draws afresh, over
            C times the sensitivity of the correlation.
        num_steps: T, how many steps are accounted for.
        sampler: how batches are drawn: `jaxdp.privacy.PoissonSampler`, whose privacy is
            amplified, or `ShuffledEpochs` or `FixedSizeBatches` there, whose is not.
        average: of the iterates, to be released instead of the last one: `jaxdp.PolyakAverage()`,
            `jaxdp.TailAverage()` or `jaxdp.ExponentialAverage(decay)`; None for no average.
        noise: None for simulated noise that is independent from step to step;
            `jaxdp.privacy.BufferedToeplitzNoise(scales, decays)` for simulated noise that is
            correlated, accounted for where every record is in one batch at most;
            `jaxdp.privacy.SecretNoise()` for certified noise.

    Raises:
        ValueError: a value is out of its range; the clip norm has to lie between 2^-60 and 2^60.
        TypeError: the optimiser, the learning rate, the sampler, the average or the noise is of
            another kind, or the factory makes no transformation.

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

    optimiser: Any = eqx.field(static=True)
    learning_rate: Rate | None
    clip_norm: float
    noise_multiplier: float = eqx.field(
        converter=lambda value: host_scalar("noise_multiplier", value)
    )
    _length: Length | Int[Array, ""]
    sampler: AbstractSampler
    average: AbstractAverage | None
    noise: SecretNoise | BufferedToeplitzNoise | None
    # What correlated noise is multiplied by, so that all steps cost what one of them would.
    sensitivity: Any

    def __init__(
        self,
        optimiser: Any,
        *,
        learning_rate: Any = None,
        clip_norm: float,
        noise_multiplier: Any,
        num_steps: int,
        sampler: AbstractSampler,
        average: AbstractAverage | None = None,
        noise: SecretNoise | BufferedToeplitzNoise | None = None,
    ):
        self.optimiser = optimiser_of(optimiser, learning_rate)
        require_sampler(sampler)
        if average is not None:
            expected = "None or an average, such as jaxdp.PolyakAverage()"
            require_kind("average", average, AbstractAverage, expected)
        if noise is not None:
            kinds = SecretNoise, BufferedToeplitzNoise
            expected = "None or a jaxdp.privacy.SecretNoise() or BufferedToeplitzNoise"
            require_kind("noise", noise, kinds, expected)
        self.sampler, self.average, self.noise = sampler, average, noise
        self.clip_norm, self.noise_multiplier = clip_norm_of(clip_norm), noise_multiplier
        self._length = Length(require_count("num_steps", num_steps))
        self.learning_rate = rate_of(self.optimiser, learning_rate, self._length.value)
        is_correlated = isinstance(noise, BufferedToeplitzNoise)
        self.sensitivity = noise.sensitivity(num_steps) if is_correlated else 1.0
        refuse_losses(self.transformation)

    def __check_init__(self):
        known = concrete(self.noise_multiplier)
        if known is not None and math.isinf(known):
            raise ValueError(f"expected a finite noise_multiplier, got {self.noise_multiplier}")
        if self._secret is not None and not known:
            raise ValueError(
                f"expected noise_multiplier > 0 with secret noise, got {self.noise_multiplier}"
            )

    @classmethod
    def calibrated(
        cls,
        optimiser: Any,
        epsilon: float,
        delta: float,
        *,
        learning_rate: Any = None,
        clip_norm: float,
        num_steps: int,
        sampler: AbstractSampler,
        average: AbstractAverage | None = None,
        noise: SecretNoise | BufferedToeplitzNoise | None = None,
    ) -> "PrivateOptimiser":
        """The optimiser whose T steps together are (epsilon, delta)-DP, never less private.

        Neighbours are those of the sampler: see `release`.

        Args:
            optimiser: as for the constructor.
            epsilon: > 0.
            delta: in (0, 1).
            learning_rate, clip_norm, num_steps, sampler, average, noise: as for the constructor.

        Raises:
            ValueError, TypeError: as the constructor, or the budget is out of its range.
            ImportError: dp_accounting, which Poisson batches need, is not installed.
        """
        make = functools.partial(
            cls,
            optimiser,
            learning_rate=learning_rate,
            clip_norm=clip_norm,
            num_steps=num_steps,
            sampler=sampler,
            average=average,
            noise=noise,
        )
        # What is wrong is said before the search for the noise, which may take seconds.
        make(noise_multiplier=1.0).release()
        multiplier = calibrated_noise_multiplier(
            epsilon, delta, sampler=sampler, num_steps=num_steps
        )
        return make(noise_multiplier=multiplier)

    def _argument(self, name):
        """The argument that `replace` passes on; a secret seed, good for one run, is refused."""
        if name == "noise" and self._secret is not None and not self._secret.is_reusable:
            raise ValueError(
                "expected noise= in replace: this optimiser's has a secret seed, whose batches and "
                "noise are for one run alone. Give SecretNoise() or another seed; the same noise "
                "only if no step was made with it"
            )
        return getattr(self, name)

    @property
    def _secret(self) -> SecretNoise | None:
        return self.noise if isinstance(self.noise, SecretNoise) else None

    @property
    def _correlated(self) -> BufferedToeplitzNoise | None:
        return self.noise if isinstance(self.noise, BufferedToeplitzNoise) else None

    @property
    def noise_std_of_sum(self) -> float:
        """Standard deviation of the noise on each coordinate of the sum of clipped gradients.

        Of correlated noise it is that of the part which a step draws afresh.

        What is added is larger by the share b that covers the sum's own rounding: .8 % for batches
        of 256 to 65,536 records, .1 % in microbatches of 64, more beyond.
        """
        return self.noise_multiplier * self.clip_norm * self.sensitivity

    @property
    def noise_std_of_mean(self) -> float:
        """Standard deviation of the noise on the mean, the sum over the expected batch size."""
        return self.noise_std_of_sum / self.sampler.expected_batch_size

    @property
    def transformation(self) -> Transformation:
        """The optimiser with its learning rate: what turns a noisy mean into a step."""
        return Transformation(self.optimiser, self.learning_rate, self.num_steps)

    def init(self, model):
        weights = weights_of(model)
        inner = self.transformation.init(weights)
        iterate = None if self.average is None else jax.tree.map(jnp.asarray, weights)
        buffers = None if self._correlated is None else self._correlated.start(weights)
        digest = jnp.zeros(2, jnp.uint32) if self.sampler.needs_one_key else None
        return OptimiserState(inner, jnp.zeros((), jnp.int32), iterate, buffers, digest)

    def iterate(self, model: PyTree, state: OptimiserState) -> PyTree:
        """The model at which the next gradients are taken: with an average, not the one released.

        Args:
            model, state: of `init` or of the last step.

        Raises:
            ValueError: the state is that of an optimiser with an average, and this one has none,
                or the other way round.
        """
        if (self.average is None) != (state.iterate is None):
            has = "no average" if state.iterate is None else "an average"
            raise ValueError(
                f"expected a state of this optimiser's init, got one of an optimiser with {has}"
            )
        if state.iterate is None:
            return model
        return eqx.combine(state.iterate, eqx.filter(model, eqx.is_inexact_array, inverse=True))

    def counted_step(self, loss, model, state, inputs, targets, *, key, microbatch_size=None):
        require_key(key)
        weights_of(model)
        inputs, targets = records_of(inputs, targets)
        num_records = batch_size(inputs, targets)
        if num_records != self.sampler.num_records:
            raise ValueError(
                f"expected {self.sampler.num_records} records, as many as the sampler draws from, "
                f"got {num_records}"
            )
        made = steps_made(state, self.num_steps)
        iterate = self.iterate(model, state)
        if self._secret is None:
            batch = self.sampler.sample(made, key=key)
        else:
            require_host_arrays((self.learning_rate, model, state, inputs, targets, key))
            batch = self.sampler.sample_secretly(int(made), noise=self._secret, key=key)
        clip_norm = jnp.asarray(self.clip_norm, float)
        total, dropped = clipped_sum_over(
            loss, iterate, inputs, targets, batch, made, clip_norm, microbatch_size
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
        over this sampler's batches of this key (with secret noise those of `sample_secretly`),
        added by `jaxdp.clipping.sum_over_devices` where there are several parts: what a `psum`
        rounds is not covered.

        Args:
            gradient_sum: the sum, in two parts or rounded, of gradients at `iterate(model, state)`,
                which without an average is the model.
            model, state, key: as in `step`.
            microbatch_size: that of the sum; it bounds its rounding.
            num_devices: how many parts `sum_over_devices` added; with correlated noise the same
                number at every step, since the proof has one scale for all of them.

        Raises:
            ValueError: all steps that are accounted for have been made, the key is another than
                before where one is needed, or secret noise is asked for under `jit` or where sums
                are not proved (XLA's fast math, a TPU).
        """
        weights_of(model)
        made = steps_made(state, self.num_steps)
        self.iterate(model, state)
        if self._secret is not None:
            require_host_arrays((self.learning_rate, gradient_sum, model, state, key))
        digest, is_valid = None, self.transformation.is_valid
        if self.sampler.needs_one_key:
            digest, is_same = digest_of_run(state, key)
            is_valid &= is_same
        sizes = {"microbatch_size": microbatch_size, "num_devices": num_devices}
        noisy, buffers = self._noisy_sum(gradient_sum, made, state.buffers, key=key, **sizes)
        mean = jax.tree.map(lambda leaf: leaf / self.sampler.expected_batch_size, noisy)
        for part in (self.average, self._correlated):
            if part is not None:
                is_valid &= part.is_valid
        if isinstance(is_valid, Tracer):
            # A traced rate out of its range leaves no weights, as it leaves no simulated risk; nor
            # does a traced key that is not the one of the steps before.
            mean = jax.tree.map(lambda leaf: jnp.where(is_valid, leaf, jnp.nan), mean)
        apply = moved if self._secret is None else moved_compiled
        length = None if self.average is None else jnp.asarray(self.num_steps, jnp.int32)
        moved_model, after = apply(self.transformation, mean, model, state, self.average, length)
        kept = after.inner, after.num_released, after.iterate
        new = moved_model, OptimiserState(*kept, buffers, digest)
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
        buffers: PyTree[Array] | None = None,
    ) -> PyTree[Array]:
        """What step number `step`, from 0, releases: the sum with its noise.

        Args:
            gradient_sum, key, microbatch_size, num_devices: as in `update`.
            buffers: of the state before the step, with correlated noise; else None.

        Returns:
            A pytree like the sum: JAX arrays, or float64 NumPy arrays with secret noise.
        """
        sizes = {"microbatch_size": microbatch_size, "num_devices": num_devices}
        return self._noisy_sum(gradient_sum, step, buffers, key=key, **sizes)[0]

    def _noisy_sum(self, gradient_sum, step, buffers, *, key, microbatch_size, num_devices):
        """The noisy sum, and the buffers after it."""
        require_key(key)
        weights_of(gradient_sum, "gradient_sum")
        require_step(step)
        total = as_two_parts(gradient_sum)
        if self._correlated is not None:
            self._correlated.require_buffers(buffers, total.high)
        elif buffers is not None:
            raise ValueError("expected no buffers without correlated noise, got some")
        find_excess = functools.partial(
            sensitivity_excess, self.sampler.capacity, num_weights(total.high)
        )
        excess = find_excess(
            microbatch_size=microbatch_size,
            num_devices=num_devices,
            is_rounded=not isinstance(gradient_sum, TwoPartSum),
        )
        if self._correlated is not None:
            # The proof has one scale for all steps, however each of them makes its sum.
            excess = max(
                excess, find_excess(microbatch_size=None, num_devices=num_devices, is_rounded=True)
            )
        if math.isinf(excess):
            raise ValueError(
                "expected batches whose rounding is bounded, up to about 2^22 records, got a "
                f"capacity of {self.sampler.capacity}"
            )
        std = self.noise_std_of_sum * (1 + excess)
        if self._secret is not None:
            std = widened_for_grid(std, self.noise_multiplier, num_weights(total.high))
            bound = self.sampler.capacity * self.clip_norm * (1 + excess)
            hidden = self._secret.hiding(int(step))
            return with_secret_noise(total, std, bound=bound, noise=hidden), None
        step_key = numbered_key(purpose_key(key, "noise"), step)
        noise = simulated_noise(total.high, std, key=step_key)
        if self._correlated is None:
            return with_noise(total, noise), None
        correlated = self._correlated.correlated(noise, buffers)
        return with_noise(total, correlated), self._correlated.after(noise, buffers)

    def release(self, *, key: Key[Array, ""] | None = None) -> Release:
        """The noisy sums of all steps, and all that is computed from them.

        Args:
            key: that of the run, for the assumptions to say how many bits a guess has to find.
        """
        clip_norm_of(self.clip_norm)
        return release_of_sums(
            self.sampler,
            self.noise_multiplier,
            int(self.num_steps),
            noise=self.noise,
            sensitivity=self.sensitivity,
            key=key,
            has_average=self.average is not None,
        )
