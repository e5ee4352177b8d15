r"""A clip norm that follows a quantile of the norms of gradients, which it pays for.

Source: Andrew, Thakkar, McMahan and Ramaswamy (2021), "Differentially private learning with
adaptive clipping", Algorithm 1 and Theorem 1.
"""

import math
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdp.core.arrays import in_numpy, plain_number
from jaxdp.core.checks import Condition, host_number, require_conditions
from jaxdp.core.description import AbstractDescription

# Between these, underflow and overflow are covered by the proof of the sums' sensitivity.
LEAST_CLIP_NORM, LARGEST_CLIP_NORM = 2.0**-60, 2.0**60


class AdaptiveClip(AbstractDescription):
    r"""A clip norm C that after every step moves towards a quantile of the gradients' norms.

    $C \leftarrow C \exp(-\eta(\tilde b - \gamma))$, where $\tilde b$ is the share of the batch with
    a norm of at most C, from a count with normal noise of standard deviation $\sigma_b$. The count
    is released beside the sum, and `noise_multiplier` z is that of both together: the sum alone
    gets $z_\Delta = (z^{-2} - (2\sigma_b)^{-2})^{-1/2}$, which is more. So the account is that of a
    fixed clip norm.

    Proof. A record of the batch adds $\pm 1/2$ to the count, and nothing where it is left out. Sum
    and count in units of their noise are one vector with standard normal noise. A record that is
    zeroed out, added or removed moves it by at most $((1/z_\Delta)^2 + (1/(2\sigma_b))^2)^{1/2} =
    1/z$; one that is replaced moves the sum by 2C and the count by 1, twice as far, which is what
    a sampler's mechanism charges for replacing. C is a function of what was released before. Counts
    are halves of whole numbers, which floating point adds exactly.

    Args:
        initial: C of the first step, public; between 2^-60 and 2^60, where it stays.
        count_noise: sigma_b, in records; more than z/2 by a millionth of it. A twentieth of the
            batch is usual.
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
        >>> print(f"{algorithm.noise_std_of_sum:.3f} in place of {2.0 * clip.initial:.3f}")
        2.041 in place of 2.000
    """

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
        """The conditions on the numbers, of which some may be traced."""
        initial, noise, quantile, rate = in_numpy(
            (self.initial, self.count_noise, self.quantile, self.learning_rate)
        )
        is_within = (initial >= LEAST_CLIP_NORM) & (initial <= LARGEST_CLIP_NORM)
        yield Condition("initial in [2^-60, 2^60]", initial, is_within)
        yield Condition("count_noise in (0, 2^20]", noise, (noise > 0) & (noise <= 2.0**20))
        yield Condition("quantile in [0, 1]", quantile, (quantile >= 0) & (quantile <= 1))
        yield Condition("learning_rate >= 0 and finite", rate, (rate >= 0) & (rate < math.inf))

    def sum_multiplier(self, noise_multiplier: Any) -> Any:
        """The noise multiplier of the sum alone, where that of sum and count is given."""
        share = noise_multiplier / (2 * self.count_noise)
        # Towards more noise: the difference, of which little may be left, is off by up to 2^-51.
        return noise_multiplier / (1 - share * share - 2.0**-50) ** 0.5 * (1 + 2.0**-50)

    def after(
        self, clip_norm: Float[Array, ""], noisy_count: Float[Any, ""], batch_size: float
    ) -> Float[Array, ""]:
        """The clip norm of the next step.

        Args:
            clip_norm: of this step.
            noisy_count: half of the records within it minus half of those beyond, with noise.
            batch_size: expected, public.
        """
        share = 0.5 + jnp.asarray(noisy_count, float) / batch_size
        moved = clip_norm * jnp.exp(-self.learning_rate * (share - self.quantile))
        return jnp.clip(moved, LEAST_CLIP_NORM, LARGEST_CLIP_NORM)
