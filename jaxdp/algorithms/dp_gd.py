"""Full-batch private gradient descent with clipped gradients. Source: PF Algorithm 1."""

import math
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jaxtyping import Array, ArrayLike, Bool, Float, Int, Key

from jaxdp.algorithms.base import AbstractAlgorithm, Length, as_length
from jaxdp.algorithms.calibration import (
    ROUNDING,
    AbstractCalibration,
    ExactCalibration,
    MomentBound,
)
from jaxdp.core.arrays import as_wide_float, in_numpy
from jaxdp.core.checks import (
    concrete,
    require_count,
    require_kind,
    require_non_negative,
    require_positive,
)
from jaxdp.losses.linear_model import slope_limits
from jaxdp.privacy.adjacency import REPLACE_ONE
from jaxdp.privacy.budgets import AbstractBudget
from jaxdp.privacy.mechanisms import GaussianMechanism
from jaxdp.privacy.release import Release


class DPGD(AbstractAlgorithm):
    r"""PF Algorithm 1: full-batch gradient descent with clipped per-sample gradients and noise.

    For t = 1, ..., T, from $\theta_0 = 0$:

    $$ \theta_t = \theta_{t-1} - \frac\eta n \sum_i \min\Bigl(1, \frac{C}{\|g_i\|}\Bigr) g_i
       + \sqrt\eta\,\frac{2C\sigma}{n}\, N(0, I), $$

    with $g_i$ the gradient of $(\varphi(x_i)^\top\theta - y_i)^2$, or of the problem's own loss:
    privacy is the same, and `Iterates` and `FunctionSpace` simulate it. Replacing a record moves
    the sum by at most 2C, so each update is $\sqrt\eta/\sigma$-GDP and all iterates together are
    one Gaussian mechanism of $\mu = \sqrt{\eta T}/\sigma$. The limit of small steps is the
    diffusion (3.5), of noise $\Sigma = 2C\sigma/n$ (3.6), over the time $\tau = \eta T$.

    Args:
        learning_rate: $\eta$ > 0; $\eta p$ for a problem of infinite width.
        clip_norm: C > 0; infinite only with noise_scale = 0; $C/\sqrt p$ for infinite width.
        num_steps: T >= 1; a Python int, or traced.
        noise_scale: $\sigma$ >= 0; $\sigma\sqrt p$ for infinite width. The usual noise multiplier
            is $2\sigma/\sqrt\eta$.

    Raises:
        TypeError, ValueError: a value is of the wrong kind or out of range.

    Example:
        >>> import jaxdp
        >>> algorithm = jaxdp.DPGD(learning_rate=0.02, clip_norm=1.0, num_steps=50, noise_scale=0.5)
        >>> print(f"noise multiplier {algorithm.noise_multiplier:.2f}, mu = {algorithm.mu:.1f}")
        noise multiplier 7.07, mu = 2.0
    """

    learning_rate: Float[Array, ""]
    clip_norm: Float[Array, ""]
    noise_scale: Float[Array, ""]
    _length: Length | Int[Array, ""]

    def __init__(
        self,
        learning_rate: ArrayLike,
        clip_norm: ArrayLike,
        num_steps: int | Int[Array, ""],
        noise_scale: ArrayLike,
    ):
        self.learning_rate = as_wide_float(learning_rate, "learning_rate")
        self.clip_norm = as_wide_float(clip_norm, "clip_norm")
        self.noise_scale = as_wide_float(noise_scale, "noise_scale")
        self._length = as_length(num_steps)
        require_positive("learning_rate", self.learning_rate)
        require_positive("clip_norm", self.clip_norm, infinite=True)
        require_non_negative("noise_scale", self.noise_scale)
        norm, scale = concrete(self.clip_norm), concrete(self.noise_scale)
        if norm is not None and scale is not None and np.isinf(norm) and scale > 0:
            why = "without clipping no finite noise is private; use noise_scale = 0 for no noise"
            raise ValueError(f"expected a finite clip_norm with noise_scale = {scale}: {why}")
        has_room = self._has_room_for_noise
        if not isinstance(has_room, Tracer) and not has_room:
            came = f"clip_norm = {norm} with noise_scale = {scale}; rescale the features"
            raise ValueError(f"expected noise that {self.noise_scale.dtype} can hold, got {came}")

    @classmethod
    def calibrated(
        cls,
        epsilon: ArrayLike | AbstractBudget,
        delta: ArrayLike | None = None,
        *,
        learning_rate: ArrayLike,
        clip_norm: ArrayLike,
        num_steps: int | Int[Array, ""],
        calibration: AbstractCalibration | None = None,
        records_per_person: int = 1,
    ) -> "DPGD":
        r"""The algorithm with the noise that a calibration gives for an (epsilon, delta) budget.

        Neighbours differ in one replaced record, which moves the sum by 2C.
        `PrivateOptimiser.calibrated` on Poisson batches of rate 1 leaves a record out, which moves
        it by C: at equal (epsilon, delta) it needs half the noise and promises something else.

        Args:
            epsilon: > 0 and finite, and below $8\log(1/\delta)$ for `PublishedCalibration`. Or a
                budget such as `jaxdp.privacy.MembershipAdvantage(0.1)`.
            delta: the failure probability, in (0, 1); None with a budget.
            learning_rate, clip_norm, num_steps: see the constructor.
            calibration: None is `ExactCalibration()`.
            records_per_person: largest number k of records of one person, public; default 1. The
                noise is k times that for one record, for every calibration.

        Raises:
            ValueError: the budget is outside the calibration's range.
        """
        calibration = ExactCalibration() if calibration is None else calibration
        expected = "one such as ExactCalibration()"
        require_kind("calibration", calibration, AbstractCalibration, expected)
        rate = as_wide_float(learning_rate, "learning_rate")
        require_positive("learning_rate", rate)
        length = as_length(num_steps)
        steps = length.value if isinstance(length, Length) else length
        # The rate as it is stored, so that account and calibration use the same number.
        stored = rate if concrete(rate) is None else float(concrete(rate))  # pyright: ignore
        scale = calibration.noise_scale(epsilon, delta, learning_rate=stored, num_steps=steps)
        count = require_count("records_per_person", records_per_person)
        scale = scale if count == 1 else count * scale * (1 + 2**-51)
        return cls(rate, clip_norm, num_steps, _away_from_zero(scale))

    @property
    def is_valid(self):
        rate, norm, scale = in_numpy((self.learning_rate, self.clip_norm, self.noise_scale))
        in_range = (rate > 0) & (rate < math.inf) & (norm > 0) & (scale >= 0) & (scale < math.inf)
        noise_is_enough = (norm < math.inf) | (scale == 0)
        return in_range & noise_is_enough & self.has_length & self._has_room_for_noise

    @property
    def _has_room_for_noise(self) -> Bool[Array, ""]:
        """Whether the noise neither vanishes nor overflows in this type, for 10^9 samples or 1."""
        rate, norm, scale = in_numpy((self.learning_rate, self.clip_norm, self.noise_scale))
        # Zero times an infinite clip norm is no noise.
        with np.errstate(all="ignore"):
            noise = rate**0.5 * 2 * norm * scale
        least = 1e10 * float(jnp.finfo(noise.dtype).tiny)
        return (scale == 0) | ((noise > least) & (noise < math.inf))

    @property
    def duration(self) -> Float[Array, ""]:
        r"""$\tau = \eta T$, the duration of the limiting diffusion."""
        return self.learning_rate * self.num_steps

    def _derived(self):
        return ("noise_multiplier",)

    @property
    def noise_multiplier(self) -> Float[Array, ""]:
        r"""$2\sigma/\sqrt\eta$: the noise on the sum of clipped gradients, over C."""
        return 2 * self.noise_scale / jnp.sqrt(self.learning_rate)

    @property
    def mu(self) -> float | Float[Array, ""]:
        r"""$\sqrt{\eta T}/\sigma$, the Gaussian DP of all iterates; infinite if invalid."""
        values = self.learning_rate, self.noise_scale, self.num_steps, self.clip_norm
        known = [concrete(value) for value in values]
        if all(value is not None and value.shape == () for value in known):
            rate, scale, steps, _ = (float(value) for value in known)  # pyright: ignore
            with jax.ensure_compile_time_eval():
                is_private = scale > 0 and bool(self.is_valid)
            return math.sqrt(rate * steps) / scale * (1 + ROUNDING) if is_private else math.inf
        is_private = self.is_valid & (self.noise_scale > 0)
        scale = jnp.where(is_private, self.noise_scale, 1)
        return jnp.where(is_private, jnp.sqrt(self.duration) / scale, jnp.inf)

    def diffusion(self, num_samples: int) -> Float[Array, ""]:
        r"""$\Sigma = 2C\sigma/n$, the noise of the limiting diffusion (PF (3.6)).

        Its whole path costs what all iterates cost: the bound on T steps depends on $\eta T$ alone,
        and (epsilon, delta) survives a limit in distribution. Source: PF Proposition 3.4, whose
        proof by densities at a point is wrong and whose statement is right; Derived:
        test_diffusion_privacy.
        """
        noiseless = self.noise_scale == 0
        norm = jnp.where(noiseless, 1, self.clip_norm)
        return jnp.where(noiseless, 0, 2 * norm * self.noise_scale / num_samples)

    # The steps of many runs together, as simulations on fixed rows make them.

    # A coordinate without gradient is the sum of its noise, which is drawn at once for many steps.
    is_sum_of_noise: ClassVar[bool] = True

    def start(self, parameters: Float[Array, "runs dim *outputs"]) -> None:
        """The state of all runs before the first step: None."""

    def batch(self, step: Int[Array, ""], keys: Key[Array, " runs"]) -> None:
        """The samples of update number `step`, from 0: None, for all of them."""

    def iterate(self, parameters: Float[Array, "*shape"], state: None) -> Float[Array, "*shape"]:
        """The parameters at which gradients are taken, which are the released ones."""
        return parameters

    def clipped_slopes(
        self, slopes: Float[Array, "*runs samples"], feature_norms: Float[Array, " samples"]
    ) -> tuple[Float[Array, "*runs samples"], Bool[Array, "*runs samples"]]:
        r"""Slopes cut at $\pm C/\|\varphi\|$, and which were. Source: PF (3.3), 0/0 at slope 0."""
        limits = slope_limits(self.clip_norm, feature_norms)
        limits = lax.broadcast_to_rank(limits, slopes.ndim)
        return jnp.clip(slopes, -limits, limits), jnp.abs(slopes) > limits

    def noise_std(self, num_samples: int) -> Float[Array, ""]:
        """Standard deviation, per coordinate, of the noise that `move` is given."""
        return jnp.sqrt(self.learning_rate) * self.diffusion(num_samples)

    def move(
        self,
        parameters: Float[Array, "*shape"],
        state: None,
        gradient_sum: Float[Array, "*shape"],
        noise: Float[Array, "*shape"],
        num_samples: int,
    ) -> tuple[Float[Array, "*shape"], None]:
        """Parameters and state after an update, from the sum of all clipped gradients."""
        gradient = gradient_sum / num_samples
        return parameters - self.learning_rate * gradient + noise, state

    def time(self, steps: Float[Array, " records"], num_samples: int) -> Float[Array, " records"]:
        r"""$\eta t$, the time of the limiting diffusion after `steps` updates."""
        return steps * self.learning_rate

    def release(self) -> Release:
        """Every iterate together: one Gaussian mechanism of `mu`."""
        return Release(
            what="DP-GD, all iterates",
            adjacency=REPLACE_ONE,
            mechanism=GaussianMechanism(self.mu),
            published=MomentBound(self.mu),
            assumptions=(
                "the number of records is public; features (random weights, activation, the body "
                "of a network) and every argument of the algorithm are chosen without the data",
                "choosing clip norm, learning rate or number of steps by a loss on the data, and "
                "standardising the data by itself, is not included",
                "noise is an exact Gaussian: a simulated run draws and adds it in floating point",
            ),
        )


def _away_from_zero(scale: Any) -> Any:
    """A concrete noise scale as an array that rounding has not made smaller."""
    known = concrete(scale)
    if known is None:
        return scale
    array = np.asarray(as_wide_float(scale))
    return np.nextafter(array, np.inf, dtype=array.dtype) if array < known else array


def warn_if_unstable(
    algorithm: DPGD, stability_limit: Callable[[], float], *, stacklevel: int = 5
) -> None:
    r"""Warn if the learning rate is not below $2n/(c\lambda_{max}(K))$, c the loss's curvature.

    Unclipped gradient descent then diverges with the squared loss (c = 2), and clipped descent does
    not settle. An activation of non-zero mean (ReLU) has one eigenvalue of about $n\mu_0^2 p$,
    which sets the limit $1/(\mu_0^2 p)$. Traced values are not checked.
    """
    rate = concrete(algorithm.learning_rate)
    if rate is None or rate.shape != ():
        return
    limit = stability_limit()
    if not math.isnan(limit) and rate >= limit:
        text = (
            f"expected learning_rate < {limit:.4g} = 2 n / (largest eigenvalue of the kernel times "
            "the loss's curvature, 2 for the squared loss), the stability limit of gradient "
            f"descent, got {rate:.4g}"
        )
        warnings.warn(text, UserWarning, stacklevel=stacklevel)
