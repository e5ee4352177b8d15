"""Calibrations: the least noise that keeps a privacy budget, by inverting each accountant.

Concrete noise is never too little; traced noise is larger by the tolerance of the traced formulas
(2e-5 in float32, 1e-9 in float64).
"""

import math
import warnings
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy

from jaxdp.core.checks import concrete, host_number, require_count
from jaxdp.privacy.arguments import check_non_negative, persons
from jaxdp.privacy.batches.base import AbstractSampler, require_sampler
from jaxdp.privacy.budgets import AbstractBudget, ApproximateDP, budget_of, warn_of_budget
from jaxdp.privacy.conversions.gaussian import gaussian_mu
from jaxdp.privacy.conversions.zcdp import epsilon_to_zcdp
from jaxdp.privacy.mechanisms import AbstractMechanism

# Margin for the rounding of a concrete calibration and its account.
_MARGIN = 1e-10
_TRACED_MARGIN = {4: 2e-5, 8: 1e-9}
# Logarithmic tolerance of a search on a numerical account, and its ends.
_SEARCH = 1e-4
_LEAST_LOG_MULTIPLIER, _MOST_LOG_MULTIPLIER = -12.0, 40.0
_REVEALED = 20.0  # epsilon with which a record is hardly hidden


def gaussian_noise_std(
    epsilon: Any, delta: Any = None, *, sensitivity: Any, num_releases: Any = 1
) -> Any:
    r"""The least standard deviation for which Gaussian releases together are (epsilon, delta)-DP.

    It is $\sigma = \Delta\sqrt{k}/\mu(\epsilon, \delta)$.

    Args:
        epsilon: number >= 0; infinity gives 0. Or a budget, such as `MembershipAdvantage(0.1)`.
        delta: number in (0, 1); None with a budget.
        sensitivity: $\Delta$ >= 0, the largest distance between the values of neighbours.
        num_releases: k >= 1, number of releases, each with this noise; default 1.

    Returns:
        A float, or an array for array or traced arguments.

    Example:
        >>> from jaxdp.privacy import gaussian_noise_std
        >>> print(f"{gaussian_noise_std(1.0, 1e-5, sensitivity=2.0, num_releases=4):.2f}")
        14.92
    """
    scale = _scale(sensitivity, num_releases)
    if delta is None or isinstance(epsilon, AbstractBudget):
        return _rounded_up(scale, budget_of(epsilon, delta).largest_mu)
    return _rounded_up(scale, gaussian_mu(epsilon, delta))


def zcdp_noise_std(epsilon: Any, delta: Any, *, sensitivity: Any, num_releases: Any = 1) -> Any:
    r"""The standard deviation for which Gaussian releases keep a budget through zCDP.

    It is $\sigma = \Delta\sqrt{k/(2z)}$ with the largest z that implies (epsilon, delta)-DP: more
    noise than `gaussian_noise_std`, for composition with other zCDP mechanisms.

    Args:
        epsilon, delta, sensitivity, num_releases: see `gaussian_noise_std`; no other budget.

    Returns:
        A float, or an array for array or traced arguments.

    Example:
        >>> from jaxdp.privacy import zcdp_noise_std
        >>> print(f"{zcdp_noise_std(1.0, 1e-5, sensitivity=2.0, num_releases=4):.2f}")
        16.18
    """
    scale = _scale(sensitivity, num_releases)
    zcdp = epsilon_to_zcdp(epsilon, delta)
    return _rounded_up(scale, (2 * zcdp) ** 0.5)


def calibrated_noise_multiplier(
    epsilon: Any,
    delta: Any = None,
    *,
    sampler: AbstractSampler,
    num_steps: int,
    records_per_person: int = 1,
) -> float:
    """A noise multiplier at which noisy sums over a sampler's batches are (epsilon, delta)-DP.

    The adjacency is the sampler's. For Gaussian costs the multiplier is the least; for Poisson
    batches it is within 1e-3 of the least that the numerical account certifies.

    Args:
        epsilon: number > 0, finite. Or a budget, such as `MembershipAdvantage(0.1)`.
        delta: number in (0, 1); None with a budget.
        sampler: sampler of the batches.
        num_steps: number of batches.
        records_per_person: largest number of records of one person, public; default 1.

    Returns:
        The standard deviation of the noise on a sum, divided by the clip norm.

    Warns:
        UserWarning: delta is at least one over the sampler's number of records.

    Raises:
        ValueError: no noise meets the budget, because a batch may exceed the sampler's capacity.
        ImportError: dp_accounting is needed and not installed.

    Example:
        >>> from jaxdp.privacy import ShuffledEpochs, calibrated_noise_multiplier
        >>> sampler = ShuffledEpochs(num_records=1000, batch_size=50)
        >>> multiplier = calibrated_noise_multiplier(1.0, 1e-5, sampler=sampler, num_steps=20)
        >>> print(f"{multiplier:.2f}")
        7.46
    """
    require_sampler(sampler)
    budget = budget_of(epsilon, delta)
    found = multiplier_for(budget, sampler, num_steps, records_per_person)
    warn_of_budget(budget, persons(sampler.num_records, records_per_person), stacklevel=2)
    return found


def multiplier_for(
    budget: AbstractBudget,
    sampler: AbstractSampler,
    num_steps: int,
    records_per_person: int = 1,
    mechanism: Callable[[float, int], AbstractMechanism] | None = None,
) -> float:
    """The noise multiplier of `calibrated_noise_multiplier`, without the warning.

    `mechanism` is a function of multiplier and steps, by default that of the sampler.
    """
    count = require_count("records_per_person", records_per_person)
    host_number("epsilon", budget.limit)

    def mechanism_of(multiplier: float) -> AbstractMechanism:
        of_one = (mechanism or sampler.mechanism)(multiplier, num_steps)
        return of_one if count == 1 else of_one.for_groups(count)

    alone = mechanism_of(1.0).proved.mu
    if alone is not None:
        return float(_rounded_up(alone, budget.largest_mu))

    def measured(multiplier: float) -> float:
        return budget.measured(mechanism_of(multiplier), sampler.adjacency)

    if (least := measured(math.inf)) > budget.limit:
        raise ValueError(
            f"expected a budget that some noise meets, got {budget!r}: as one of {num_steps} "
            f"batches may hold more than the sampler's capacity of {sampler.capacity}, the least "
            f"{budget.named_limit} is {least:.3g}; capacity={sampler.num_records + 1} holds all, "
            "or take another budget"
        )
    # That noise does not suffice if overflowing batches take much of the budget.
    guess = float(_rounded_up(count * math.sqrt(num_steps), budget.largest_mu))
    found = least_noise(measured, budget, 1.01 * guess)
    if isinstance(budget, ApproximateDP):
        return found
    _, delta = budget.stated
    if (epsilon := mechanism_of(found).epsilon(delta, sampler.adjacency)) > _REVEALED:
        warnings.warn(
            f"{budget!r} is met because a record is rarely in a batch: one that is drawn is hardly "
            f"hidden (epsilon is {epsilon:.3g} at delta = {delta:g}); ask for a smaller number, or "
            "for epsilon and delta",
            UserWarning,
            stacklevel=3,
        )
    return found


def least_noise(measured: Callable[[float], float], budget: AbstractBudget, upper: float) -> float:
    """The least noise found at which a falling bound is within a budget; `upper` is a guess."""
    limit, least_found = float(budget.limit), math.inf

    def excess(log_noise: float) -> float:
        """Logarithm of the bound over the limit, clipped for the root finder."""
        nonlocal least_found
        noise = math.exp(log_noise)
        found = measured(noise)
        if found <= limit:
            least_found = min(least_found, noise)
        return min(max(math.log(max(found, 1e-300) / limit), -5), 5)

    higher, width = math.log(upper), 0.5
    while excess(higher) > 0:
        higher += width
        if higher > _MOST_LOG_MULTIPLIER:
            raise ValueError(f"expected a budget that some noise is proved to meet, got {budget!r}")
    lower = higher - width
    while excess(lower) <= 0 and lower > _LEAST_LOG_MULTIPLIER:
        higher, width = lower, 2 * width
        lower = higher - width
    if lower > _LEAST_LOG_MULTIPLIER:
        # The root, or the first point above it that holds.
        root = float(scipy.optimize.brentq(excess, lower, higher, xtol=_SEARCH))  # pyright: ignore[reportArgumentType]
        for nudged in (root + _SEARCH, root + 2 * _SEARCH):
            if least_found > math.exp(nudged):
                excess(nudged)
    return least_found


def _scale(sensitivity: Any, num_releases: Any) -> Any:
    check_non_negative("sensitivity", sensitivity)
    known, size = concrete(num_releases, "num_releases"), concrete(sensitivity)
    if known is not None and not np.all((known >= 1) & (known == np.floor(known))):
        raise ValueError(f"expected num_releases to be a whole number >= 1, got {num_releases}")
    scale = sensitivity if size is None else size
    return scale * (num_releases if known is None else known) ** 0.5


def _rounded_up(scale: Any, mu: Any) -> Any:
    numerator, denominator = concrete(scale), concrete(mu)
    if numerator is None or denominator is None:
        dtype = jnp.promote_types(jnp.result_type(scale, mu, float), jnp.float32)
        return jnp.asarray(scale, dtype) / mu * (1 + _TRACED_MARGIN[dtype.itemsize])
    # mu = 0 needs infinite noise.
    with np.errstate(divide="ignore"):
        std = np.asarray(numerator / denominator * (1 + _MARGIN))
    return float(std) if std.ndim == 0 else std
