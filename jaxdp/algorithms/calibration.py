"""The noise that a budget asks for: rho of the one-pass algorithms, and the sigma of DP-GD.

`OnePassDPSGD` and `CorrelatedDPSGD` are both rho-GDP; `DPGD` has two ways to set its noise, the
least that a budget needs and PF's. All are proved. Source: PF Proposition 3.2, for the last.
"""

import abc
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdp.algorithms.base import as_length
from jaxdp.core.arrays import as_wide_float
from jaxdp.core.checks import concrete, require_positive
from jaxdp.core.description import AbstractDescription
from jaxdp.privacy.arguments import check_budget
from jaxdp.privacy.calibration import gaussian_noise_std
from jaxdp.privacy.conversions.gaussian import gaussian_mu
from jaxdp.privacy.release import AbstractClaim

# Share of rho that covers the rounding of a traced calibration, by bytes of its type.
_TRACED_MARGIN_OF_RHO = {4: 2e-3, 8: 1e-6}
# Covers the rounding of a concrete mu.
ROUNDING = 1e-15
# Covers the rounding of a traced mu, by bytes of its type.
_TRACED_MARGIN_OF_SIGMA = {4: 2e-6, 8: 1e-14}


def largest_rho(epsilon: Any, delta: Any) -> Any:
    """The largest rho for which rho-GDP is (epsilon, delta)-DP, rounded toward more privacy.

    Traced, it is .2 % smaller for that (1e-6 in float64).
    """
    check_budget(epsilon, delta)
    rho = gaussian_mu(epsilon, delta)
    known = concrete(rho)
    if known is None:
        return rho * (1 - _TRACED_MARGIN_OF_RHO[rho.dtype.itemsize])
    if known == 0:
        raise ValueError(f"expected an epsilon that some noise reaches, got {epsilon}")
    array = np.asarray(as_wide_float(rho))
    return np.nextafter(array, np.zeros_like(array)) if array > known else array


def require_enough_noise(clip_scale: Any, rho: Any) -> None:
    """Raise ValueError where nothing is clipped and rho is finite."""
    scale, strength = concrete(clip_scale), concrete(rho)
    if scale is not None and strength is not None and np.isinf(scale) > np.isinf(strength):
        raise ValueError(
            f"expected a finite clip_scale with rho = {strength}: without clipping no finite "
            "noise is private; use rho = inf for no noise"
        )


def noise_ratio(clip_scale: Float[Array, ""], rho: Float[Array, ""]) -> Float[Array, ""]:
    """c / rho, the scale of the private noise; 0 where rho is infinite, whatever c."""
    noiseless = jnp.isinf(rho)
    return jnp.where(noiseless, 0, jnp.where(noiseless, 1, clip_scale) / rho)


class AbstractCalibration(AbstractDescription):
    """From a budget to the noise scale sigma of `DPGD`."""

    @abc.abstractmethod
    def noise_scale(self, epsilon: Any, delta: Any, *, learning_rate: Any, num_steps: Any) -> Any:
        """sigma, a float or a traced array.

        Raises:
            ValueError: the budget is outside the calibration's range.
        """


class ExactCalibration(AbstractCalibration):
    r"""The least noise: $\sigma = \sqrt{\eta T}/\mu(\epsilon, \delta)$.

    A composition of Gaussian mechanisms is one Gaussian mechanism, whose curve is known exactly.
    Source: Dong, Roth and Su (2022), Corollary 3.3; Balle and Wang (2018), Theorem 8.

    Example:
        >>> import jaxdp
        >>> run = {"learning_rate": 0.02, "clip_norm": 1.0, "num_steps": 50}
        >>> exact = jaxdp.DPGD.calibrated(1.0, 1e-5, **run)
        >>> published = jaxdp.DPGD.calibrated(
        ...     1.0, 1e-5, **run, calibration=jaxdp.PublishedCalibration()
        ... )
        >>> print(f"{exact.noise_scale:.2f}, {published.noise_scale:.2f}")
        3.73, 9.60
    """

    def noise_scale(self, epsilon, delta, *, learning_rate, num_steps):
        check_budget(epsilon, delta)
        _require_run(learning_rate, num_steps)
        return gaussian_noise_std(
            epsilon, delta, sensitivity=learning_rate**0.5, num_releases=num_steps
        )


class PublishedCalibration(AbstractCalibration):
    r"""The noise that PF prints: proved too, and 2 to 3 times as much as is needed.

    $\sigma = \sqrt{\eta T}\sqrt{8\log(1/\delta)}/\epsilon$.

    The proof loses a factor of four of variance by the choice of its moment, and the rest by its
    tail bound. Source: PF Proposition 3.2.

    Example:
        >>> import jaxdp
        >>> published = jaxdp.PublishedCalibration()
        >>> run = {"learning_rate": 0.02, "clip_norm": 1.0, "num_steps": 50}
        >>> algorithm = jaxdp.DPGD.calibrated(1.0, 1e-5, **run, calibration=published)
        >>> print(f"asked for 1, proved {jaxdp.account(algorithm, delta=1e-5).epsilon:.2f}")
        asked for 1, proved 0.36
    """

    def noise_scale(self, epsilon, delta, *, learning_rate, num_steps):
        check_budget(epsilon, delta)
        _require_run(learning_rate, num_steps)
        if concrete(epsilon) is not None and concrete(delta) is not None:
            largest = -8 * math.log(float(delta))
            if not float(epsilon) < largest:
                raise ValueError(
                    f"expected 0 < epsilon < 8 log(1/delta) = {largest:.6g}, the range of PF "
                    f"Proposition 3.2, got {epsilon}; ExactCalibration has no such limit"
                )
        values = (epsilon, delta, learning_rate, num_steps)
        if all(concrete(value) is not None for value in values):
            duration = float(learning_rate) * int(num_steps)
            root = math.sqrt(-8 * duration * math.log(float(delta)))
            return root / float(epsilon) * (1 + ROUNDING)
        logarithm = -8 * jnp.log(jnp.asarray(delta, float))
        scale = jnp.sqrt(learning_rate * num_steps * logarithm) / epsilon
        scale *= 1 + _TRACED_MARGIN_OF_SIGMA[scale.dtype.itemsize]
        is_covered = (epsilon > 0) & (epsilon < logarithm) & (delta > 0)
        return jnp.where(is_covered, scale, jnp.nan)


class MomentBound(AbstractClaim):
    r"""PF Proposition 3.2 read backwards: $\epsilon = \sqrt{8\log(1/\delta)}\,\mu$.

    Infinite where that is not below $8\log(1/\delta)$, beyond which the proposition says nothing.

    Args:
        mu: $\sqrt{\eta T}/\sigma$.
    """

    mu: float | Float[Array, ""]

    def epsilon_at(self, delta):
        values = (self.mu, delta)
        library: Any = jnp if any(concrete(value) is None for value in values) else np
        logarithm = -8 * library.log(delta)
        epsilon = library.sqrt(logarithm) * self.mu
        return library.where(epsilon < logarithm, epsilon, library.inf)


def _require_run(learning_rate: Any, num_steps: Any) -> None:
    require_positive("learning_rate", learning_rate)
    as_length(num_steps)
