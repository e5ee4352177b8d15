"""The noise for a budget: rho of the one-pass algorithms, and sigma of DP-GD.

Source: PF Proposition 3.2, for `PublishedCalibration`.
"""

import abc
import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxdp.algorithms.base import AbstractOnePassAlgorithm, as_length
from jaxdp.clipping.norm_clip import NormClip
from jaxdp.core.arrays import as_wide_float, in_numpy
from jaxdp.core.checks import concrete, require_count, require_kind, require_positive
from jaxdp.core.description import AbstractDescription
from jaxdp.privacy.budgets import AbstractBudget, ApproximateDP, budget_of
from jaxdp.privacy.calibration import gaussian_noise_std
from jaxdp.privacy.release import AbstractClaim

# Share of rho that covers the rounding of a traced calibration, by bytes of its type.
_TRACED_MARGIN_OF_RHO = {4: 2e-3, 8: 1e-6}
# Covers the rounding of a concrete mu.
ROUNDING = 1e-15
# Covers the rounding of a traced mu, by bytes of its type.
_TRACED_MARGIN_OF_SIGMA = {4: 2e-6, 8: 1e-14}


def largest_rho(budget: AbstractBudget, records_per_person: int = 1) -> Any:
    """The largest rho whose rho-GDP meets a budget, rounded down (traced: by 0.2 %).

    For a person with up to k records it is 1/k of that for one record.
    """
    count = require_count("records_per_person", records_per_person)
    # Down by two roundings, which the account may round up.
    rho = budget.largest_mu if count == 1 else budget.largest_mu / count * (1 - 2**-51)
    known = concrete(rho)
    if known is None:
        return rho * (1 - _TRACED_MARGIN_OF_RHO[rho.dtype.itemsize])
    if known == 0:
        raise ValueError(f"expected an epsilon that some noise reaches, got {budget!r}")
    array = np.asarray(as_wide_float(rho))
    return np.nextafter(array, np.zeros_like(array)) if array > known else array


def checked_clip_and_rho(clip_scale: Any, rho: Any) -> tuple[NormClip, Float[Array, ""]]:
    """Clip and rho of a pass; ValueError for a finite rho without clipping."""
    # In half precision clip norm and noise would differ by more than rho allows.
    found = as_wide_float(clip_scale, "clip_scale"), as_wide_float(rho, "rho")
    for name, value in zip(("clip_scale", "rho"), found, strict=True):
        require_positive(name, value, infinite=True)
    scale, strength = map(concrete, found)
    if scale is not None and strength is not None and np.isinf(scale) > np.isinf(strength):
        why = "without clipping no finite noise is private; use rho = inf for no noise"
        raise ValueError(f"expected a finite clip_scale with rho = {strength}: {why}")
    return NormClip(found[0]), found[1]


class AbstractRhoPass(AbstractOnePassAlgorithm):
    """A pass with gradients clipped at c sqrt(d) and noise that makes it rho-GDP."""

    clip: eqx.AbstractVar[NormClip]
    rho: eqx.AbstractVar[Float[Array, ""]]

    @property
    def clip_scale(self) -> Float[Array, ""]:
        """c, the clip norm over the square root of the dimension."""
        return self.clip.scale

    @property
    def noise_ratio(self) -> Float[Array, ""]:
        """c / rho, the scale of the private noise; 0 if rho is infinite, for every c."""
        noiseless = jnp.isinf(self.rho)
        return jnp.where(noiseless, 0, jnp.where(noiseless, 1, self.clip_scale) / self.rho)

    def aspect_ratio(self, dim: int | Float[Array, ""]) -> Float[Array, ""]:
        r"""$\gamma = d/(KB)$, dimensions per sample."""
        return dim / (jnp.asarray(self.num_steps, float) * self.batch_size)

    @property
    def num_records(self) -> int | None:
        """The number of records that a pass uses, each once; None if traced."""
        known = concrete(self.num_steps)
        if known is None or known.ndim or not known >= 1:
            return None
        return int(known) * self.batch_size

    @property
    def _has_enough_noise(self) -> Bool[Array, ""]:
        """Whether traced values fulfil what `checked_clip_and_rho` requires of concrete ones."""
        rho, scale = in_numpy((self.rho, self.clip_scale))
        return (rho > 0) & (scale > 0) & ((scale < math.inf) | (rho == math.inf))


class AbstractCalibration(AbstractDescription):
    """A rule from a budget to the noise scale sigma of `DPGD`."""

    @abc.abstractmethod
    def noise_scale(self, epsilon: Any, delta: Any, *, learning_rate: Any, num_steps: Any) -> Any:
        """sigma, a float or a traced array; ValueError if the budget is out of range.

        `epsilon` may be a budget, and `delta` is None then.
        """


class ExactCalibration(AbstractCalibration):
    r"""The least noise: $\sigma = \sqrt{\eta T}/\mu(\epsilon, \delta)$.

    A composition of Gaussian mechanisms is one Gaussian mechanism, whose curve is known exactly.
    Source: Dong, Roth and Su (2022), Corollary 3.3; Balle and Wang (2018), Theorem 8.

    Example:
        >>> import jaxdp
        >>> run = {"learning_rate": 0.02, "clip_norm": 1.0, "num_steps": 50}
        >>> exact = jaxdp.algorithms.ExactCalibration()
        >>> exact = jaxdp.DPGD.calibrated(1.0, 1e-5, **run, calibration=exact)
        >>> print(f"{exact.noise_scale:.2f}")
        3.73
    """

    def noise_scale(self, epsilon, delta, *, learning_rate, num_steps):
        budget = budget_of(epsilon, delta)
        _require_run(learning_rate, num_steps)
        return gaussian_noise_std(budget, sensitivity=learning_rate**0.5, num_releases=num_steps)


class PublishedCalibration(AbstractCalibration):
    r"""The noise printed in PF: proved too, and 2 to 3 times as much as is needed.

    $\sigma = \sqrt{\eta T}\sqrt{8\log(1/\delta)}/\epsilon$. The proof loses a factor of four of
    variance by the choice of its moment, and the rest by its tail bound. Source: PF Proposition
    3.2.

    Example:
        >>> import jaxdp
        >>> published = jaxdp.algorithms.PublishedCalibration()
        >>> run = {"learning_rate": 0.02, "clip_norm": 1.0, "num_steps": 50}
        >>> algorithm = jaxdp.DPGD.calibrated(1.0, 1e-5, **run, calibration=published)
        >>> print(f"asked for 1, proved {jaxdp.account(algorithm, delta=1e-5).epsilon:.2f}")
        asked for 1, proved 0.36
    """

    def noise_scale(self, epsilon, delta, *, learning_rate, num_steps):
        budget = budget_of(epsilon, delta)
        expected = "epsilon and delta, in numbers or in an ApproximateDP, for PublishedCalibration"
        require_kind("the budget", budget, ApproximateDP, expected)
        epsilon, delta = budget.stated
        _require_run(learning_rate, num_steps)
        if concrete(epsilon) is not None and concrete(delta) is not None:
            largest = -8 * math.log(float(delta))
            if not float(epsilon) < largest:
                raise ValueError(
                    f"expected 0 < epsilon < 8 log(1/delta) = {largest:.6g} (PF Proposition 3.2), "
                    f"got {epsilon}; ExactCalibration has no such limit"
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

    Infinite unless below $8\log(1/\delta)$, the range of the proposition.
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
