"""Clip norms: one for all steps, or one that follows a quantile and pays for it.

Source: Andrew, Thakkar, McMahan and Ramaswamy (2021), "Differentially private learning with
adaptive clipping", Algorithm 1 and Theorem 1.
"""

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdp.core.arrays import in_numpy, plain_number
from jaxdp.core.checks import Condition, concrete, host_number, require_conditions, require_scalar
from jaxdp.core.description import AbstractDescription
from jaxdp.privacy.noise_over_steps import AbstractNoiseOverSteps

# Between these, underflow and overflow are covered by the proof of the sums' sensitivity.
LEAST_CLIP_NORM, LARGEST_CLIP_NORM = 2.0**-60, 2.0**60
_CLIP_NORMS = "clip_norm > 0, between 2^-60 and 2^60 (8.7e-19 and 1.2e18)"
_ADAPTS = (
    "the clip norm follows the norms of gradients by a noisy count of them in every step, which is "
    "released too: the noise_multiplier is that of sum and count together"
)
_OTHER_STATE = "expected a state of this optimiser's init, got one of an optimiser with"


class FixedClip(eqx.Module):
    """One clip norm for all steps, with the methods of `AdaptiveClip` that a step calls."""

    initial: Any  # C, a float or traced
    is_adaptive: ClassVar[bool] = False
    assumptions: ClassVar[tuple[str, ...]] = ()

    def require_valid(self, noise):
        require_scalar("clip_norm", self.initial)

    def conditions_with(self, noise_multiplier):
        clip = in_numpy(self.initial)
        is_proved = (clip >= LEAST_CLIP_NORM) & (clip <= LARGEST_CLIP_NORM)
        yield Condition(_CLIP_NORMS, clip, is_proved)

    def sum_multiplier(self, noise_multiplier):
        return noise_multiplier

    def start(self):
        return None

    def norm_at(self, kept):
        if kept is not None:
            raise ValueError(f"{_OTHER_STATE} one that adapts")
        return self.initial


class AdaptiveClip(AbstractDescription):
    r"""A clip norm C that after every step moves towards a quantile of the gradients' norms.

    $C \leftarrow C \exp(-\eta(\tilde b - \gamma))$, where $\tilde b$ is the share of the batch with
    a norm of at most C, from a count with normal noise of standard deviation $\sigma_b$. The count
    is released with the sum, and `noise_multiplier` z covers both: the sum alone gets $z_\Delta =
    (z^{-2} - (2\sigma_b)^{-2})^{-1/2} > z$. So the account is that of a fixed clip norm.

    Proof. A record of the batch adds $\pm 1/2$ to the count, and 0 if it is left out. Sum and count
    in units of their noise are one vector with standard normal noise. A record that is zeroed out,
    added or removed moves it by at most $((1/z_\Delta)^2 + (1/(2\sigma_b))^2)^{1/2} = 1/z$;
    replacing one moves the sum by 2C and the count by 1, twice as far, which a sampler's mechanism
    charges for replacing. C is a function of earlier releases. Counts are half-integers, which
    floating point adds exactly.

    Args:
        initial: C of the first step, public; between 2^-60 and 2^60, where it stays.
        count_noise: sigma_b, in records; above z/2 (1 + 1e-6). A twentieth of the batch is usual.
        quantile: gamma in [0, 1].
        learning_rate: eta >= 0.

    Raises:
        ValueError: a value is out of its range.
        TypeError: a value is no number.

    Example:
        >>> import jaxdp, optax
        >>> from jaxdp.algorithms import AdaptiveClip
        >>> sampler = jaxdp.privacy.PoissonSampler(num_records=1000, sampling_rate=0.1)
        >>> steps = {"noise_multiplier": 2.0, "num_steps": 20, "sampler": sampler}
        >>> clip = AdaptiveClip(1.0, count_noise=5.0)
        >>> algorithm = jaxdp.PrivateOptimiser(optax.sgd(0.1), clip_norm=clip, **steps)
        >>> print(f"{algorithm.nominal_std_of_sum:.3f} in place of {2.0 * clip.initial:.3f}")
        2.041 in place of 2.000
    """

    is_adaptive: ClassVar[bool] = True
    assumptions: ClassVar[tuple[str, ...]] = (_ADAPTS,)
    initial: float
    count_noise: float
    quantile: float
    learning_rate: float

    def __init__(
        self, initial: float, count_noise: float, quantile: float = 0.5, learning_rate: float = 0.2
    ):
        self.initial = host_number("initial", plain_number(initial))
        self.count_noise = host_number("count_noise", plain_number(count_noise))
        self.quantile = host_number("quantile", plain_number(quantile))
        self.learning_rate = host_number("learning_rate", plain_number(learning_rate))
        require_conditions(self.conditions())

    def conditions(self) -> Iterator[Condition]:
        """The conditions on the numbers, some of which may be traced."""
        initial, noise, quantile, rate = in_numpy(
            (self.initial, self.count_noise, self.quantile, self.learning_rate)
        )
        is_within = (initial >= LEAST_CLIP_NORM) & (initial <= LARGEST_CLIP_NORM)
        yield Condition("initial in [2^-60, 2^60]", initial, is_within)
        yield Condition("count_noise in (0, 2^20]", noise, (noise > 0) & (noise <= 2.0**20))
        yield Condition("quantile in [0, 1]", quantile, (quantile >= 0) & (quantile <= 1))
        yield Condition("learning_rate >= 0 and finite", rate, (rate >= 0) & (rate < math.inf))

    def require_valid(self, noise: Any) -> None:
        """Raise if nothing is proved for the count together with sums that have this noise."""
        self.require_arguments()
        if isinstance(noise, AbstractNoiseOverSteps):
            came = type(noise).__name__
            raise ValueError(f"expected equal, independent noise with an AdaptiveClip, got {came}")

    def conditions_with(self, noise_multiplier: Any) -> Iterator[Condition]:
        """The conditions on the numbers and on the noise multiplier of sum and count together."""
        yield from self.conditions()
        count_noise, multiplier = in_numpy((self.count_noise, noise_multiplier))
        # The margin covers the rounding of the sum's multiplier.
        is_more = count_noise > multiplier / 2 * (1 + 1e-6)
        expected = f"count_noise > noise_multiplier/2 = {multiplier / 2}"
        yield Condition(expected, count_noise, is_more)

    def start(self) -> Float[Array, ""]:
        """The initial clip norm, as the optimiser's state keeps it."""
        return jnp.asarray(self.initial, float)

    def norm_at(self, kept: Float[Array, ""] | None) -> Float[Array, ""]:
        """The clip norm of a step from the state; ValueError if it is another optimiser's."""
        if kept is None:
            raise ValueError(f"{_OTHER_STATE} a fixed clip norm")
        return kept

    def sum_multiplier(self, noise_multiplier: Any) -> Any:
        """The noise multiplier of the sum alone, from that of sum and count together."""
        share = noise_multiplier / (2 * self.count_noise)
        # Towards more noise: the difference, which may be small, is off by up to 2^-51.
        return noise_multiplier / (1 - share * share - 2.0**-50) ** 0.5 * (1 + 2.0**-50)

    def next_norm(
        self, clip_norm: Float[Array, ""], noisy_count: Float[Any, ""], batch_size: float
    ) -> Float[Array, ""]:
        """The clip norm of the next step; the count is (records within - records beyond) / 2."""
        share = 0.5 + jnp.asarray(noisy_count, float) / batch_size
        moved = clip_norm * jnp.exp(-self.learning_rate * (share - self.quantile))
        return jnp.clip(moved, LEAST_CLIP_NORM, LARGEST_CLIP_NORM)


ClipNorm = float | AdaptiveClip
"""The clip norm that a private optimiser takes."""


def as_clip_norm(clip_norm: Any) -> Any:
    """A concrete clip norm as a Python float; a traced one, or a rule, unchanged."""
    known = None if isinstance(clip_norm, AdaptiveClip) else concrete(clip_norm, "clip_norm")
    return clip_norm if known is None or known.ndim else float(known)


def clip_of(clip_norm: Any) -> FixedClip | AdaptiveClip:
    return clip_norm if isinstance(clip_norm, AdaptiveClip) else FixedClip(clip_norm)
