"""One-pass DP-SGD with clipped gradients, capped steps and the noise of AC equation (2)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.lax import Precision
from jaxtyping import Array, Float, Int

from jaxdp.algorithms.base import AbstractOnePassAlgorithm, Update
from jaxdp.algorithms.length import Length, as_length
from jaxdp.clipping import NormClip
from jaxdp.core.arrays import as_float
from jaxdp.core.checks import concrete, require_count, require_positive
from jaxdp.privacy.adjacency import REPLACE_ONE
from jaxdp.privacy.gaussian import gaussian_mu
from jaxdp.privacy.mechanisms import Gaussian, ZeroConcentrated
from jaxdp.privacy.release import PublishedConversion, Release
from jaxdp.privacy.zcdp import epsilon_to_zcdp
from jaxdp.schedules import (
    AbstractSchedule,
    as_schedule,
    is_non_increasing,
    require_non_increasing,
)

# Share of rho that covers the rounding of a traced calibration, by bytes of its type.
_TRACED_MARGIN = {4: 2e-3, 8: 1e-6}


class OnePassDPSGD(AbstractOnePassAlgorithm):
    r"""AC Algorithm 1: each sample is used once, and only the last iterate is released.

    With $\eta_k = \tilde\eta(k/K)/K$ and $C = c\sqrt d$, for k = 1, ..., K:

        g_k     = gradient of sample k at theta_(k-1)
        theta_k = theta_(k-1) - min(eta_k, 2/L_k) min(1, C/|g_k|) g_k + 2 C sigma_k b_k

    where L_k is the gradient's Lipschitz constant ($\|x_k\|^2$ for least squares), b_k standard
    normal, and $\rho^2\sigma_k^2 = \eta_k^2 - \eta_{k+1}^2$ for k < K, $\rho^2\sigma_K^2 =
    \eta_K^2$. The noise is set by $\eta_k$, not by the capped step.

    With batch_size B, step k averages the B clipped gradients, each with its own capped step, and
    adds noise 2 C sigma_k / B; then $\gamma = d/(KB)$.

    Source: AC Algorithm 1, equation (2); Assumption 2 with $\tilde\eta(k/n)$ where
    $\tilde\eta(\lfloor k/n\rfloor)$ is printed, which would be 0/1-valued.

    Args:
        learning_rate: $\tilde\eta$, non-increasing on [0, 1]: a schedule or any callable of t.
        clip_scale: c > 0; infinite only together with rho.
        rho: the output is $(\rho^2/2)$-zCDP, not rho-zCDP; > 0, infinite for no noise.
        num_steps: K; a Python int to simulate, possibly traced to predict.
        batch_size: B, samples per step.

    Raises:
        ValueError: a value is out of range, or the schedule increases.
    """

    learning_rate: AbstractSchedule
    clip: NormClip
    rho: Float[Array, ""]
    batch_size: int = eqx.field(static=True)
    _length: Length | Int[Array, ""]

    def __init__(self, learning_rate, clip_scale, rho, num_steps, *, batch_size=1):
        self.learning_rate = as_schedule(learning_rate)
        require_positive("clip_scale", as_float(clip_scale), infinite=True)
        self.clip = NormClip(clip_scale)
        self.rho = as_float(rho)
        self.batch_size = require_count("batch_size", batch_size)
        self._length = as_length(num_steps)
        require_positive("rho", self.rho, infinite=True)
        scale, strength = concrete(self.clip.scale), concrete(self.rho)
        if scale is not None and strength is not None and np.isinf(scale) > np.isinf(strength):
            raise ValueError(
                f"expected a finite clip_scale with rho = {strength}: without clipping no finite "
                "noise is private; use rho = inf for no noise"
            )
        known = self._length.value if isinstance(self._length, Length) else 0
        require_non_increasing(self.learning_rate, known + 1)

    @classmethod
    def calibrated(
        cls, epsilon, delta, *, learning_rate, clip_scale, num_steps, batch_size=1
    ) -> "OnePassDPSGD":
        """The algorithm with the least noise that is proved (epsilon, delta)-DP.

        A constant schedule is a Gaussian mechanism and is calibrated exactly; any other goes
        through zero-concentrated DP. `account` of the result is never above epsilon; traced, rho
        is .2 % smaller for that (1e-6 in float64).

        Args:
            epsilon: > 0.
            delta: in (0, 1).
            learning_rate, clip_scale, num_steps, batch_size: as for the constructor.
        """
        schedule = as_schedule(learning_rate)
        if schedule.is_constant:
            rho = gaussian_mu(epsilon, delta)
        else:
            rho = (2 * epsilon_to_zcdp(epsilon, delta)) ** 0.5
        if concrete(rho) == 0:
            raise ValueError(f"expected an epsilon that some noise reaches, got {epsilon}")
        return cls(schedule, clip_scale, _toward_zero(rho), num_steps, batch_size=batch_size)

    @property
    def clip_scale(self) -> Float[Array, ""]:
        """c, the clip norm over the square root of the dimension."""
        return self.clip.scale

    @property
    def noise_ratio(self) -> Float[Array, ""]:
        """c / rho, the scale of the private noise; 0 without noise."""
        noiseless = jnp.isinf(self.rho)
        return jnp.where(noiseless, 0, jnp.where(noiseless, 1, self.clip_scale) / self.rho)

    @property
    def is_valid(self):
        in_range = (self.rho > 0) & (self.clip_scale > 0) & (self.num_steps >= 1)
        noise_is_enough = jnp.isfinite(self.clip_scale) | jnp.isinf(self.rho)
        return is_non_increasing(self.learning_rate) & in_range & noise_is_enough

    def aspect_ratio(self, dim: int | Float[Array, ""]) -> Float[Array, ""]:
        r"""$\gamma = d/(KB)$, dimensions per sample."""
        return dim / (jnp.asarray(self.num_steps, float) * self.batch_size)

    def step_size(self, step):
        """eta_k; the samples' own caps come on top."""
        return self.learning_rate.at_step(step, self.num_steps) / self.num_steps

    def squared_rate_drop(self, step: Int[Array, "*shape"]) -> Float[Array, "*shape"]:
        r"""$\rho^2 K^2 \sigma_k^2$: what $\tilde\eta^2$ loses in a step, in the last all of it.

        Source: AC equation (2). Negative where a traced schedule increases.
        """
        square = self.learning_rate.at_step(step, self.num_steps) ** 2
        drop = self.learning_rate.squared_drop(step, self.num_steps)
        # Rounding may leave a constant stretch slightly negative.
        rounding = -8 * jnp.finfo(drop.dtype).eps * square
        drop = jnp.where((drop < 0) & (drop >= rounding), 0, drop)
        return jnp.where(step == self.num_steps, square, drop)

    def noise_std(self, step, dim):
        r"""$2 C \sigma_k / B$; NaN where a traced schedule increases."""
        drop = self.squared_rate_drop(step)
        is_zero = drop == 0
        root = jnp.where(is_zero, 0, jnp.sqrt(jnp.where(is_zero, 1, drop)))
        scale = 2 * self.noise_ratio * jnp.sqrt(jnp.asarray(dim, drop.dtype))
        return scale * root / (self.num_steps * self.batch_size)

    def update(self, parameters, gradients, smoothness, step_size, noise):
        norms = jnp.sqrt(jnp.sum(gradients**2, axis=-1))
        factors = self.clip.factor(norms, parameters.size)
        steps = jnp.minimum(step_size, 2 / smoothness)
        # Products at full precision: a rounded sum of clipped gradients is a longer one.
        weights, highest = steps * factors, Precision.HIGHEST
        descent = jnp.tensordot(weights, gradients, norms.ndim, precision=highest) / norms.size
        return Update(parameters - descent + noise, factors < 1, steps < step_size)

    def release(self):
        r"""The last iterate: $(\rho^2/2)$-zCDP by AC Proposition 2.

        Its proof holds for batches too: an average of non-expansive steps is non-expansive, and
        replacing one sample moves step k by at most $2\eta_k C/B$.

        For a constant schedule all noise comes after the last step. The steps before it are
        non-expansive maps, so replacing one sample moves the noiseless result by at most
        $2\eta C/B$, and the release is one Gaussian mechanism of standard deviation
        $2\eta C/(\rho B)$: exactly rho-GDP.
        """
        constant = self.learning_rate.is_constant
        rho = self.rho
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(self)):
            # A traced description out of its range has no guarantee.
            rho = jnp.where(self.is_valid, rho, jnp.inf)
        return Release(
            what="one-pass DP-SGD, last iterate",
            adjacency=REPLACE_ONE,
            mechanism=Gaussian(rho) if constant else ZeroConcentrated(_squared_half(rho)),
            published=PublishedConversion(_squared_half(rho)),
            assumptions=(
                "only the last iterate is released: no other iterate, no early stopping, no "
                "choice between runs",
                "every sample is used once and its step is capped at 2 over its smoothness "
                "(2/|x|^2 for least squares); without the cap the proof fails",
                "choosing learning rate, clip scale, initial risk or noise level from the data, or "
                "centring and scaling the data by itself, is not included",
                "noise is an exact Gaussian: a simulated run draws and adds it in floating point",
            ),
        )


def _toward_zero(value: Any) -> Any:
    """A value as an array that rounding has not made larger; a traced one by a stated margin."""
    known = concrete(value)
    if known is None:
        return value * (1 - _TRACED_MARGIN[value.dtype.itemsize])
    array = np.asarray(as_float(value))
    return np.nextafter(array, np.zeros_like(array)) if array > known else array


def _squared_half(rho: Any) -> Any:
    """rho^2 / 2, in float64 when rho is concrete."""
    known = concrete(rho)
    return rho**2 / 2 if known is None else known**2 / 2
