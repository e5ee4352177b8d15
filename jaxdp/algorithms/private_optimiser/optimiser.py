r"""Any optax optimiser made private: it sees noisy sums of clipped per-sample gradients only.

Its steps stand in `steps` beside this module. The noise on a sum has the standard deviation
`noise_multiplier` times C (1 + b), where a sum of real numbers would have it times C: in floating
point one record can move the sum by a little more than C, and b is a proved bound on that
(`jaxdp.clipping.sensitivity_excess`).
"""

import functools
import math
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int, Key

from jaxdp.algorithms.base import AbstractRowsAlgorithm, Length, as_length
from jaxdp.algorithms.private_optimiser.adaptive_clip import (
    LARGEST_CLIP_NORM,
    LEAST_CLIP_NORM,
    AdaptiveClip,
)
from jaxdp.algorithms.private_optimiser.averages import AbstractAverage
from jaxdp.algorithms.private_optimiser.noise.base import AbstractNoise, Claim
from jaxdp.algorithms.private_optimiser.noise.correlated import CorrelatedNoise
from jaxdp.algorithms.private_optimiser.noise.independent import IndependentNoise
from jaxdp.algorithms.private_optimiser.noise.secret import CertifiedNoise
from jaxdp.algorithms.private_optimiser.state import OptimiserState
from jaxdp.algorithms.private_optimiser.steps import AbstractPrivateSteps, moved
from jaxdp.algorithms.transformations.transformation import (
    Rate,
    Transformation,
    optimiser_of,
    rate_of,
    refuse_losses,
)
from jaxdp.clipping.norm_clip import clip_factor
from jaxdp.core.arrays import in_numpy
from jaxdp.core.checks import (
    Condition,
    all_hold,
    concrete,
    require_conditions,
    require_count,
    require_kind,
    require_scalar,
)
from jaxdp.core.description import AbstractDescription
from jaxdp.privacy.arguments import host_scalar, warn_of_large_delta
from jaxdp.privacy.batches.base import AbstractSampler, require_sampler
from jaxdp.privacy.calibration import multiplier_for
from jaxdp.privacy.correlated_noise import BufferedToeplitzNoise
from jaxdp.privacy.release import Release
from jaxdp.privacy.secret.secret_noise import SecretNoise

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
_ADAPTS = (
    "the clip norm follows the norms of gradients by a noisy count of them in every step, which is "
    "released too: the noise_multiplier is that of sum and count together"
)
_NOISES = "a jaxdp.privacy.SecretNoise() or BufferedToeplitzNoise"
_CLIP_NORMS = "clip_norm > 0, between 2^-60 and 2^60 (8.7e-19 and 1.2e18)"
_NO_NOISE = "there is no noise (noise_multiplier = 0): the sums are released as they are"


class PrivateOptimiser(AbstractPrivateSteps, AbstractRowsAlgorithm):
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
    seed below 2^128, whose cost is infinite. `replace` refuses to keep a secret seed, whose batches
    would be those of the original at every step (the noise of equal sums likewise), while an
    account of two runs takes them to be independent: give `noise=` again, or another.

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
            the rate at k/T (`jaxdp.FromSteps(f, T)` is f(k)); it may rise. The rate is data:
            another rate compiles nothing, and rates can be vmapped and differentiated. None: the
            rate is inside `optimiser`.
        clip_norm: C, > 0 and finite; or a `jaxdp.algorithms.AdaptiveClip`, which follows a
            quantile of the gradients' norms at the same cost, with more noise on the sum.
        noise_multiplier: z; the noise on the sum has the standard deviation z C (1 + b), where b
            covers rounding. Finite and >= 0, where 0 has no privacy. With
            correlated noise z is of the part that a step draws afresh, over C times the sensitivity
            of the correlation.
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
    clip_norm: Any
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
        clip_norm: float | AdaptiveClip,
        noise_multiplier: Any,
        num_steps: int,
        sampler: AbstractSampler,
        average: AbstractAverage | None = None,
        noise: SecretNoise | BufferedToeplitzNoise | None = None,
    ):
        self.optimiser = optimiser_of(optimiser, learning_rate)
        self.sampler, self.average, self.noise = sampler, average, noise
        is_adaptive = isinstance(clip_norm, AdaptiveClip)
        known = None if is_adaptive else concrete(clip_norm, "clip_norm")
        self.clip_norm = clip_norm if known is None or known.ndim else float(known)
        self.noise_multiplier = noise_multiplier
        self._length = Length(require_count("num_steps", num_steps))
        self.learning_rate = rate_of(self.optimiser, learning_rate, self._length.value)
        self.require_valid()
        self.sensitivity = self.noise_strategy.sensitivity(self._length.value)
        refuse_losses(self.transformation)

    def require_valid(self):
        as_length(self.num_steps)
        require_sampler(self.sampler)
        for name, value, kinds, expected in (
            ("average", self.average, AbstractAverage, "an average, such as jaxdp.PolyakAverage()"),
            ("noise", self.noise, (SecretNoise, BufferedToeplitzNoise), _NOISES),
        ):
            if value is not None:
                require_kind(name, value, kinds, f"None or {expected}")
        for part in (self.sampler, self.average, self.noise, self.clip_norm):
            if isinstance(part, AbstractDescription):
                part.require_arguments()
        if isinstance(self.clip_norm, AdaptiveClip):
            if isinstance(self.noise, BufferedToeplitzNoise):
                raise ValueError(
                    "expected independent noise with an AdaptiveClip, got correlated noise"
                )
        else:
            require_scalar("clip_norm", self.clip_norm)
        host_scalar("noise_multiplier", self.noise_multiplier)
        conditions = tuple(self._conditions())
        require_conditions(conditions)
        return all_hold(conditions)

    def _conditions(self) -> Iterator[Condition]:
        """The conditions on the numbers, of which some may be traced."""
        clip, multiplier = in_numpy((self.first_clip_norm, self.noise_multiplier))
        is_proved = (clip >= LEAST_CLIP_NORM) & (clip <= LARGEST_CLIP_NORM)
        yield Condition(_CLIP_NORMS, clip, is_proved)
        is_finite = (multiplier >= 0) & (multiplier < math.inf)
        yield Condition("a finite noise_multiplier", multiplier, is_finite)
        if self.noise_strategy.is_on_host:
            is_on_grid = (multiplier >= 2.0**-800) & (multiplier <= 2.0**28)
            expected = "noise_multiplier > 0 with secret noise, in [2^-800, 2^28]"
            yield Condition(expected, multiplier, is_on_grid)
        if isinstance(self.clip_norm, AdaptiveClip):
            yield from self.clip_norm.conditions()
            count_noise = in_numpy(self.clip_norm.count_noise)
            # With a little room, in which the rounding of what is left for the sum is covered.
            is_more = count_noise > multiplier / 2 * (1 + 1e-6)
            expected = f"count_noise > noise_multiplier/2 = {multiplier / 2}"
            yield Condition(expected, count_noise, is_more)
        yield Condition("num_steps >= 1", self.num_steps, self.has_length)
        rates = "learning_rate finite and >= 0 at every step"
        yield Condition(rates, self.learning_rate, self.transformation.is_valid)
        strategy, average = self.noise_strategy, self.average
        yield Condition("noise with numbers in their ranges", self.noise, strategy.is_valid)
        if average is not None:
            yield Condition("an average with decay in [0, 1)", average, average.is_valid)

    @classmethod
    def calibrated(
        cls,
        optimiser: Any,
        epsilon: float,
        delta: float,
        *,
        learning_rate: Any = None,
        clip_norm: float | AdaptiveClip,
        num_steps: int,
        sampler: AbstractSampler,
        average: AbstractAverage | None = None,
        noise: SecretNoise | BufferedToeplitzNoise | None = None,
    ) -> "PrivateOptimiser":
        """The optimiser whose T steps together are (epsilon, delta)-DP, never less private.

        Neighbours are `sampler.adjacency`: zero-out-one for Poisson batches, replace-one for epochs
        and batches of fixed size.

        Args:
            optimiser: as for the constructor.
            epsilon: > 0.
            delta: in (0, 1).
            learning_rate, clip_norm, num_steps, sampler, average, noise: as for the constructor.

        Warns:
            UserWarning: delta is at least one over the sampler's number of records.

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
        multiplier = multiplier_for(epsilon, delta, sampler, num_steps)
        warn_of_large_delta(delta, sampler.num_records, stacklevel=2)
        return make(noise_multiplier=multiplier)

    def _argument(self, name):
        """The argument that `replace` passes on; a secret seed, good for one run, is refused."""
        if name == "noise" and not self.noise_strategy.is_reusable:
            raise ValueError(
                "expected noise= in replace: this optimiser's has a secret seed, whose batches and "
                "noise are for one run alone. Give SecretNoise() or another seed; the same noise "
                "only if no step was made with it"
            )
        return getattr(self, name)

    @property
    def noise_strategy(self) -> AbstractNoise:
        """How the noise is made: a file of the folder `noise` for each kind."""
        if self.noise is None:
            return IndependentNoise()
        if isinstance(self.noise, SecretNoise):
            return CertifiedNoise(self.noise)
        return CorrelatedNoise(self.noise)

    @property
    def steps_on_host(self):
        return self.noise_strategy.is_on_host

    @property
    def noise_std_of_sum(self) -> float:
        """Standard deviation of the noise on each coordinate of the sum of clipped gradients.

        With correlated noise this is the deviation of the part which a step draws afresh; of an
        `AdaptiveClip` that of the first step, and in proportion to the clip norm later on.

        What is added is larger by the share b that covers the sum's own rounding: .8 % for batches
        of 256 to 65,536 records, .1 % in microbatches of 64, more beyond.
        """
        return self.sum_multiplier * self.first_clip_norm * self.sensitivity

    @property
    def first_clip_norm(self) -> Any:
        """The clip norm C of the first step, and of all where it does not adapt."""
        clip = self.clip_norm
        return clip.initial if isinstance(clip, AdaptiveClip) else clip

    @property
    def sum_multiplier(self) -> Any:
        """The noise multiplier of the sums alone; an `AdaptiveClip` releases counts beside them."""
        clip, multiplier = self.clip_norm, self.noise_multiplier
        return clip.sum_multiplier(multiplier) if isinstance(clip, AdaptiveClip) else multiplier

    @property
    def noise_std_of_mean(self) -> float:
        """Standard deviation of the noise on the mean, the sum over the expected batch size."""
        return self.noise_std_of_sum / self.sampler.expected_batch_size

    @property
    def transformation(self) -> Transformation:
        """The optimiser with its learning rate: what turns a noisy mean into a step."""
        return Transformation(self.optimiser, self.learning_rate, self.num_steps)

    @property
    def is_valid(self):
        return all_hold(self._conditions())

    def release(
        self, *, key: Key[Array, ""] | None = None, num_steps: int | None = None
    ) -> Release:
        """The noisy sums of all steps, and all that is computed from them.

        Args:
            key: that of the run, for the assumptions to say how many bits a guess has to find.
            num_steps: how many of the first steps, for what a run has cost so far; None for all.

        Raises:
            NotCoveredError: the noise is correlated, and a record may be in several batches.
        """
        self.require_valid()
        num_steps = int(self.num_steps) if num_steps is None else num_steps
        strategy = self.noise_strategy
        strategy.require_covered(self.sampler, num_steps)
        needed = strategy.sensitivity(num_steps)
        # A traced noise, or what was set afterwards, may be multiplied by less than it needs.
        is_known = concrete(needed) is not None and concrete(self.sensitivity) is not None
        numpy: Any = np if is_known else jnp
        multiplier = self.noise_multiplier * numpy.minimum(1, self.sensitivity / needed)
        claim = Claim(self.sampler.mechanism(multiplier, num_steps), (_NO_NOISE,), False)
        if concrete(multiplier) != 0:
            claim = strategy.claim(claim.mechanism, multiplier, self.sampler, num_steps, key=key)
            if self.sampler.needs_one_key:
                claim = claim._replace(lines=(*claim.lines, _ONE_KEY))
        lines = claim.lines
        if isinstance(self.clip_norm, AdaptiveClip):
            lines = (_ADAPTS, *lines)
        follows = "all that follows from them"
        if self.average is not None:
            follows += ", the average of the iterates included, at no further cost"
        return Release(
            what=f"{num_steps} noisy sums of clipped gradients and {follows}",
            adjacency=self.sampler.adjacency,
            mechanism=claim.mechanism,
            assumptions=(*self.sampler.charges(num_steps), *_ASSUMPTIONS, *lines),
            is_certified=claim.is_certified,
            num_records=self.sampler.num_records,
        )

    # On fixed rows, as simulators see it: with the noise of its formula, without the share that
    # covers the rounding of sums.

    def reason_not_simulated(self):
        if isinstance(self.clip_norm, AdaptiveClip):
            return (
                "no clip norm that adapts is simulated on fixed rows; give a number, or use train"
            )
        return self.noise_strategy.reason_not_simulated()

    def start(self, parameters):
        return eqx.filter_vmap(self.init)(parameters)

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
        return self.noise_std_of_sum

    def move(self, parameters, state, gradient_sum, noise, num_samples):
        def one(parameters, state, total, fresh):
            shaped, buffers = self.noise_strategy.shaped(fresh, state.buffers)
            mean = (total + shaped) / self.sampler.expected_batch_size
            kept = state.inner, state.num_released, state.iterate, buffers, state.key_digest
            before, length = OptimiserState(*kept), jnp.asarray(self.num_steps, jnp.int32)
            return moved(self.transformation, mean, parameters, before, self.average, length)

        # One run at a time: an optimiser may look at all of its parameters.
        return eqx.filter_vmap(one)(parameters, state, gradient_sum, noise)

    def time(self, steps, num_samples):
        """In epochs: how often a record was used, on average."""
        return steps * (self.sampler.expected_batch_size / num_samples)
