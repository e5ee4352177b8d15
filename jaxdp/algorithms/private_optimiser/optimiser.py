"""Any optax optimiser made private: it sees only noisy sums of clipped per-sample gradients."""

import functools
import math
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxdp.algorithms.base import AbstractTrainable, Length, as_length
from jaxdp.algorithms.private_optimiser.adaptive_clip import ClipNorm, as_clip_norm, clip_of
from jaxdp.algorithms.private_optimiser.noise import AbstractNoise, Claim, noise_of
from jaxdp.algorithms.private_optimiser.private_step import (
    add_noise,
    moved,
    nan_unless,
    private_step,
    untrapped,
    update_from_sum,
)
from jaxdp.algorithms.private_optimiser.state import AbstractAverage, OptimiserState
from jaxdp.algorithms.transformations.transformation import (
    Rate,
    Transformation,
    optimiser_of,
    rate_of,
    refuse_losses,
)
from jaxdp.clipping import TwoPartSum
from jaxdp.clipping.arguments import weights_of
from jaxdp.core.arrays import in_numpy
from jaxdp.core.checks import (
    Condition,
    all_hold,
    concrete,
    require_conditions,
    require_count,
    require_kind,
)
from jaxdp.core.description import AbstractDescription
from jaxdp.privacy.arguments import host_scalar, persons
from jaxdp.privacy.batches.base import AbstractSampler, require_sampler
from jaxdp.privacy.budgets import AbstractBudget, budget_of, warn_of_budget
from jaxdp.privacy.calibration import multiplier_for
from jaxdp.privacy.mechanisms import AbstractMechanism
from jaxdp.privacy.noise_over_steps import AbstractNoiseOverSteps
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
_NO_NOISE = "there is no noise (noise_multiplier = 0): the sums are released as they are"


class PrivateOptimiser(AbstractTrainable):
    """An optax optimiser that is given noisy sums of clipped gradients over a sampler's batches.

    `train` makes all steps; `step` makes one: draw the batch, clip, add noise, update. The account
    covers one run of `num_steps` steps, with a key of its own and each state used once: two steps
    from one state share batch and noise, which then cancels.

    By default JAX draws the noise in float32, to study private training rather than to release a
    model. With `noise=jaxdp.privacy.SecretNoise()` noise and Poisson batches come from the
    operating system and the guarantee holds in the machine's arithmetic; each step then returns to
    the host, outside `jit`. `replace` refuses a secret seed, because the two optimisers would share
    their noise.

    With `average` the model of every step is the average, and gradients are taken at the state's
    `iterate`: pass on model and state together. With correlated noise the state holds past noise
    and has to stay secret.

    Args:
        optimiser: an optax gradient transformation; with `learning_rate`, a function from a rate to
            one, such as `optax.sgd` or `functools.partial(optax.sgd, momentum=0.9)`. Equal partials
            share what is compiled; two lambdas do not.
        learning_rate: a number >= 0, or a schedule on [0, 1] that gives step k, from 0, the rate at
            k/T (`jaxdp.FromSteps(f, T)` for f(k)); it may rise, compiles nothing, and can be
            vmapped and differentiated. None: the rate is inside `optimiser`.
        clip_norm: C, > 0 and finite; or a `jaxdp.algorithms.AdaptiveClip`, which follows a quantile
            of the gradients' norms.
        noise_multiplier: z, finite and >= 0. The noise on the sum has standard deviation z C (1 +
            b), where b covers rounding; z = 0 has no privacy. Without amplification,
            noise over the steps costs what independent noise of this multiplier does.
        num_steps: T, the number of steps in the account.
        sampler: `jaxdp.privacy.PoissonSampler`, with amplification by sampling; or
            `ShuffledEpochs`, `FixedOrder` or `FixedSizeBatches` there, without.
        average: average that is released instead of the last iterate, `jaxdp.PolyakAverage()`,
            `jaxdp.TailAverage()` or `jaxdp.algorithms.ExponentialAverage(decay)`; default None.
        noise: None for simulated, independent noise; `jaxdp.privacy.SecretNoise()` for certified
            noise; `jaxdp.privacy.ScheduledNoise(weights)` for noise that varies over the steps, or
            `jaxdp.privacy.BandedNoise(strategy)` for noise that is correlated over them.

    Raises:
        ValueError: a value is out of its range; the clip norm has to lie between 2^-60 and 2^60.
        NotCoveredError: correlated noise has no proof for the sampler's batches.

    Example:
        >>> import jaxdp, optax
        >>> sampler = jaxdp.privacy.ShuffledEpochs(num_records=40, batch_size=10)
        >>> steps = {"clip_norm": 1.0, "noise_multiplier": 10.0, "num_steps": 20}
        >>> algorithm = jaxdp.PrivateOptimiser(optax.sgd(0.1), sampler=sampler, **steps)
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
    noise: SecretNoise | AbstractNoiseOverSteps | None
    correlation_sensitivity: Any  # factor on noise over the steps, else 1

    def __init__(
        self,
        optimiser: Any,
        *,
        learning_rate: Any = None,
        clip_norm: ClipNorm,
        noise_multiplier: Any,
        num_steps: int,
        sampler: AbstractSampler,
        average: AbstractAverage | None = None,
        noise: SecretNoise | AbstractNoiseOverSteps | None = None,
    ):
        self.optimiser = optimiser_of(optimiser, learning_rate)
        self.sampler, self.average, self.noise = sampler, average, noise
        self.clip_norm = as_clip_norm(clip_norm)
        self.noise_multiplier = noise_multiplier
        self._length = Length(require_count("num_steps", num_steps))
        self.learning_rate = rate_of(self.optimiser, learning_rate, self._length.value)
        self.require_valid()
        steps = self._length.value
        self.correlation_sensitivity = self.noise_strategy.sensitivity(sampler, steps)
        refuse_losses(self.transformation)

    def require_valid(self):
        as_length(self.num_steps)
        require_sampler(self.sampler)
        if self.average is not None:
            expected = "None or an average, such as jaxdp.PolyakAverage()"
            require_kind("average", self.average, AbstractAverage, expected)
        if self.noise is not None:
            expected = "None or a jaxdp.privacy.SecretNoise(), ScheduledNoise or BandedNoise"
            require_kind("noise", self.noise, (SecretNoise, AbstractNoiseOverSteps), expected)
        for part in (self.sampler, self.average, self.noise):
            if isinstance(part, AbstractDescription):
                part.require_arguments()
        self.clip.require_valid(self.noise)
        host_scalar("noise_multiplier", self.noise_multiplier)
        conditions = tuple(self._conditions())
        require_conditions(conditions)
        return all_hold(conditions)

    def _conditions(self) -> Iterator[Condition]:
        multiplier = in_numpy(self.noise_multiplier)
        is_finite = (multiplier >= 0) & (multiplier < math.inf)
        yield Condition("a finite noise_multiplier", multiplier, is_finite)
        if self.noise_strategy.is_on_host:
            is_on_grid = (multiplier >= 2.0**-800) & (multiplier <= 2.0**28)
            expected = "noise_multiplier > 0 with secret noise, in [2^-800, 2^28]"
            yield Condition(expected, multiplier, is_on_grid)
        yield from self.clip.conditions_with(self.noise_multiplier)
        yield Condition("num_steps >= 1", self.num_steps, self.has_length)
        rates = "learning_rate finite and >= 0 at every step"
        yield Condition(rates, self.learning_rate, self.transformation.is_valid)
        strategy, average = self.noise_strategy, self.average
        yield Condition("noise with numbers in their ranges", self.noise, strategy.is_valid)
        if strategy.over_steps is not None:
            count = strategy.over_steps.num_steps
            yield Condition(
                f"noise for num_steps = {self.num_steps} steps", count, self.num_steps == count
            )
        if average is not None:
            yield Condition("an average with decay in [0, 1)", average, average.is_valid)

    @classmethod
    def calibrated(
        cls,
        optimiser: Any,
        epsilon: float | AbstractBudget,
        delta: float | None = None,
        *,
        learning_rate: Any = None,
        clip_norm: ClipNorm,
        num_steps: int,
        sampler: AbstractSampler,
        average: AbstractAverage | None = None,
        noise: SecretNoise | AbstractNoiseOverSteps | None = None,
        records_per_person: int = 1,
    ) -> "PrivateOptimiser":
        """The optimiser with the noise multiplier whose T steps together are (epsilon, delta)-DP.

        Neighbours are `sampler.adjacency`: zero-out-one for Poisson batches and by default for
        `FixedOrder`, else replace-one.

        Args:
            epsilon, delta: the budget; epsilon > 0, delta in (0, 1). Or, without delta, a budget
                such as `jaxdp.privacy.MembershipAdvantage(0.1)`.
            optimiser, learning_rate, clip_norm, num_steps, sampler, average, noise: see the
                constructor.
            records_per_person: largest number of records of one person, public; default 1.

        Warns:
            UserWarning: delta is at least one over the sampler's number of records.

        Raises:
            ValueError, TypeError: see the constructor; or the budget is out of its range.
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
        budget = budget_of(epsilon, delta)
        # Wrong arguments raise before the search for the noise, which may take seconds.
        tried = make(noise_multiplier=1.0)
        tried.release()
        multiplier = multiplier_for(
            budget, sampler, num_steps, records_per_person, tried.mechanism_of_sums
        )
        warn_of_budget(budget, persons(sampler.num_records, records_per_person), stacklevel=2)
        return make(noise_multiplier=multiplier)

    def _argument(self, name):
        """The argument that `replace` passes on; a secret seed is refused."""
        if name == "noise" and not self.noise_strategy.is_reusable:
            raise ValueError(
                "expected noise= in replace: this optimiser's secret seed is for one run. Give "
                "SecretNoise() or another seed; the same seed only if no step was made with it"
            )
        return getattr(self, name)

    @property
    def validity(self) -> Any:
        """The answer of `require_valid`, kept unless traced; `tree_at` makes a new object."""
        kept = vars(self)
        if "_validity" in kept:
            return kept["_validity"]
        found = self.require_valid()
        if not isinstance(found, Tracer):
            kept["_validity"] = found
        return found

    @property
    def noise_strategy(self) -> AbstractNoise:
        """The way in which noise and batches are drawn."""
        return noise_of(self.noise)

    @property
    def clip(self) -> Any:
        """The rule for the clip norms of all steps: fixed or adaptive."""
        return clip_of(self.clip_norm)

    @property
    def steps_on_host(self):
        return self.noise_strategy.is_on_host

    @property
    def sum_multiplier(self) -> Any:
        """The noise multiplier of the sum alone; an adaptive clip norm also releases counts."""
        return self.clip.sum_multiplier(self.noise_multiplier)

    @property
    def nominal_std_of_sum(self) -> float:
        """The standard deviation z C of the noise on each coordinate of a clipped sum.

        With `ScheduledNoise` and `BandedNoise` it is the factor s on the noise of all steps, and
        with `AdaptiveClip` it is that of step 0 and later scales with the clip norm. Rounding adds
        a factor 1 + b, with b = 0.8 % for batches of 256 to 65,536 records.
        """
        return self.sum_multiplier * self.clip.initial * self.correlation_sensitivity

    @property
    def nominal_std_of_mean(self) -> float:
        """`nominal_std_of_sum` over the expected batch size."""
        return self.nominal_std_of_sum / self.sampler.expected_batch_size

    @property
    def transformation(self) -> Transformation:
        """The optimiser with its learning rate, which turns a noisy mean into a step."""
        return Transformation(self.optimiser, self.learning_rate, self.num_steps)

    @property
    def is_valid(self) -> Any:
        """Whether the numbers, which may be traced, are in the constructor's ranges."""
        return all_hold(self._conditions())

    def release(
        self, *, key: Key[Array, ""] | None = None, num_steps: int | None = None
    ) -> Release:
        """The statement about the noisy sums of all steps and everything computed from them.

        Args:
            key: the key of the run, to state in the assumptions how many bits a guess has to find.
            num_steps: the number of first steps to account for; None for all.

        Raises:
            NotCoveredError: correlated noise has no proof for the sampler's batches.
        """
        self.require_valid()
        num_steps = int(self.num_steps) if num_steps is None else num_steps
        strategy, multiplier = self.noise_strategy, self.noise_multiplier
        mechanism = self.mechanism_of_sums(multiplier, num_steps)
        if concrete(multiplier) == 0:
            claim = Claim(mechanism, (_NO_NOISE,), False)
        else:
            before = multiplier * self.correlation_sensitivity
            claim = strategy.claim(mechanism, before, self.sampler, num_steps, key=key)
            if self.sampler.needs_one_key:
                claim = claim._replace(lines=(*claim.lines, _ONE_KEY))
        follows = "all that follows from them"
        if self.average is not None:
            follows += ", the average of the iterates included, at no further cost"
        # The sampler's sentences are on noise that is equal in all steps, or costs as much.
        is_whole = strategy.over_steps is None or num_steps == self.num_steps
        charges = self.sampler.charges(num_steps) if is_whole else ()
        return Release(
            what=f"{num_steps} noisy sums of clipped gradients and {follows}",
            adjacency=self.sampler.adjacency,
            mechanism=claim.mechanism,
            assumptions=(*charges, *_ASSUMPTIONS, *self.clip.assumptions, *claim.lines),
            is_certified=claim.is_certified,
            num_records=self.sampler.num_records,
        )

    def mechanism_of_sums(self, noise_multiplier: Any, num_steps: int) -> AbstractMechanism:
        """The mechanism of the first noisy sums with exact normal noise of this multiplier."""
        sensitivity = self.correlation_sensitivity
        return self.noise_strategy.mechanism(self.sampler, noise_multiplier, sensitivity, num_steps)

    def reason_not_simulated(self) -> str | None:
        """Why no simulation draws its batches, clips and noise, or None."""
        if self.clip.is_adaptive:
            return "no clip norm that adapts is simulated on fixed rows; give a number or use train"
        return self.noise_strategy.reason_not_simulated()

    def time(self, steps: Float[Array, " records"], num_samples: int) -> Float[Array, " records"]:
        """The time in epochs after so many steps: the average number of uses of a record."""
        return steps * (self.sampler.expected_batch_size / num_samples)

    def require_rows(self, num_rows: int) -> None:
        """Raise ValueError if the sampler draws from another number of records."""
        if num_rows != self.sampler.num_records:
            expected = (
                f"{self.sampler.num_records} training rows, as many as the sampler draws from"
            )
            raise ValueError(f"expected {expected}, got {num_rows}")

    # Training, step by step.

    @property
    def drawn_with(self):
        return self.clip_norm, self.nominal_std_of_sum, self.sampler, self.noise_strategy.identity

    def init(self, model):
        weights = weights_of(model)
        return OptimiserState(
            inner=self.transformation.init(weights),
            num_released=jnp.zeros((), jnp.int32),
            iterate=None if self.average is None else jax.tree.map(jnp.asarray, weights),
            buffers=self.noise_strategy.start(weights),
            key_digest=jnp.zeros(2, jnp.uint32) if self.sampler.needs_one_key else None,
            clip_norm=self.clip.start(),
        )

    def iterate(self, model: PyTree, state: OptimiserState) -> PyTree:
        """The model at which the next gradients are taken; it differs from the released average."""
        if (self.average is None) != (state.iterate is None):
            has = "no average" if state.iterate is None else "an average"
            raise ValueError(f"expected a state of this optimiser's init, got one with {has}")
        if state.iterate is None:
            return model
        return eqx.combine(state.iterate, eqx.filter(model, eqx.is_inexact_array, inverse=True))

    def clip_norm_at(self, state: OptimiserState) -> Any:
        """The clip norm of the next step; ValueError if the state is another optimiser's."""
        return self.clip.norm_at(state.clip_norm)

    def make_step(self, loss, model, state, inputs, targets, key, microbatch_size=None, mesh=None):
        return private_step(self, loss, model, state, inputs, targets, key, microbatch_size, mesh)

    def moved_by(self, mean, model, state):
        length = jnp.asarray(self.num_steps, jnp.int32)
        return moved(self.transformation, mean, model, state, self.average, length)

    def update(
        self,
        gradient_sum: TwoPartSum | PyTree[Array],
        model: PyTree,
        state: OptimiserState,
        *,
        key: Key[Array, ""],
        microbatch_size: int | None = None,
        num_devices: int = 1,
        count_within: Float[Array, ""] | None = None,
    ) -> tuple[PyTree, OptimiserState]:
        """The rest of a step, from a clipped *sum* without noise that the caller has made.

        The account holds for sums made by `clipped_gradient_sum_in_parts` or `clipped_gradient_sum`
        at this clip norm over this sampler's batches of this key (with secret noise, of
        `sample_secretly`). Parts of several devices have to be added by
        `jaxdp.clipping.sum_over_devices`; the rounding of a `psum` is not covered.

        Args:
            gradient_sum: the sum, in two parts or rounded, of gradients at `iterate(model, state)`.
            model, state, key: see `step`.
            microbatch_size: the microbatch size of the sum, which bounds its rounding.
            num_devices: the number of parts that `sum_over_devices` added; with correlated noise it
                must be the same at every step.
            count_within: for an adaptive clip norm, (records with gradients no longer than
                `clip_norm_at(state)` - records with longer ones) / 2.

        Raises:
            TypeError: `count_within` is not one real number.
            ValueError: all steps in the account have been made, the sampler needs one key and
                another came, or secret noise is asked for under `jit` or on a machine whose sums
                are not proved (XLA's fast math, a TPU).
        """
        sizes = {"microbatch_size": microbatch_size, "num_devices": num_devices}
        return update_from_sum(self, gradient_sum, count_within, model, state, key, **sizes)

    @untrapped
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
        """The sum of step number `step`, from 0, with its noise: the released numbers.

        Args:
            gradient_sum, key, microbatch_size, num_devices: see `update`.
            buffers: with `BandedNoise`, `state.buffers` before the step; else None.

        Returns:
            A pytree like the sum: JAX arrays, or float64 NumPy arrays with secret noise.
        """
        is_valid = self.require_valid()
        if self.clip.is_adaptive:
            raise ValueError("expected a fixed clip norm, got one that adapts: use update")
        sizes = {"microbatch_size": microbatch_size, "num_devices": num_devices}
        noisy, _ = add_noise(self, gradient_sum, step, buffers, self.clip_norm, key=key, **sizes)
        return nan_unless(is_valid, noisy)
