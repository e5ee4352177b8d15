r"""epsilon of the Poisson-subsampled Gaussian, by accountants that exist and by an exact bound.

Every step releases a sum of clipped terms, C at most each, over a Poisson sample, with noise of
standard deviation `noise_multiplier` times C. Neighbours differ by one term that is there or not:
add-or-remove-one and zero-out-one, where one term moves the sum by C at most. The pair N(0, s^2)
against (1 - q) N(0, s^2) + q N(1, s^2), s the noise multiplier, then dominates. Source: Zhu, Dong
and Wang (2022), Theorem 11. Under replace-one no such pair is proved here: it is left out.

Three upper bounds are computed and the least is taken:

- as if every record were in every batch: exact, and finite for any noise. Subsampling mixes it
  with a mechanism that sees nothing of the record, and mixing never adds privacy loss;
- Renyi DP (dp_accounting): no grid, but loose;
- privacy loss distributions (dp_accounting): tight, on a grid whose step follows from the
  parameters, so that its work is bounded. It is left out where it could not be trusted.
"""

import functools
import math
from typing import Any

from jaxdp.core.extras import require_extra
from jaxdp.privacy.conversions.gaussian import gaussian_epsilon

# Integer orders: their sums have positive terms only.
_ORDERS = [*range(2, 65), 72, 80, 96, 128, 192, 256, 384, 512, 768, 1024]
# What a Renyi divergence may lose to rounding in one step.
_ORDER_ROUNDING = 1e-12
# Each step's delta is known to a few units in the last place of 1, and its Fourier transform adds
# about as much. Derived: replacing one step by another whose curve is d higher raises the
# composed curve by d at most. Ten times what tests/privacy/batches/test_subsampling.py sees.
_GRID_ROUNDING = 1e-14
# Points of the grid in one standard deviation of a step's loss, and in its whole range. Up to
# 1000 points dp_accounting counts how many their composition has as an exact whole number, which
# takes minutes for many steps.
_POINTS_OF_SPREAD, _LEAST_POINTS, _MOST_POINTS = 16, 1100, 2**18
_MOST_STEPS = 10**6
# Below this spacing rounding of a step's curve is no longer small beside its probabilities.
_LEAST_STEP = 1e-8
# The largest loss of a step that a grid in floating point represents.
_LARGEST_LOSS = 300.0
# Cells of a sweep and of a plan ask for the same budgets again.
_remembered = functools.lru_cache(maxsize=1024)


def subsampled_gaussian_epsilon(
    sampling_rate: float, noise_multiplier: float, num_steps: int, delta: float, adjacency: str
) -> float:
    """An upper bound on epsilon at delta, on the host; without subsampling it is exact.

    Args:
        sampling_rate: q in (0, 1], the probability of one record in one step.
        noise_multiplier: standard deviation of the noise on the sum over the clip norm, >= 0.
        num_steps: >= 1.
        delta: in (0, 1).
        adjacency: "add-or-remove-one" or "zero-out-one".

    Raises:
        ImportError: dp_accounting is not installed.
    """
    mu = math.sqrt(num_steps) / noise_multiplier if noise_multiplier > 0 else math.inf
    unamplified = gaussian_epsilon(mu, delta)
    if sampling_rate == 1 or unamplified == 0:
        return unamplified
    # Probability that a record is in any batch at all: beyond it nothing needs to be hidden.
    if delta >= -math.expm1(num_steps * math.log1p(-sampling_rate)):
        return 0.0
    arguments = (sampling_rate, noise_multiplier, num_steps, delta, adjacency)
    return min(unamplified, renyi_epsilon(*arguments), grid_epsilon(*arguments))


@_remembered
def renyi_epsilon(
    sampling_rate: float, noise_multiplier: float, num_steps: int, delta: float, adjacency: str
) -> float:
    """The same by Renyi DP; infinite where the noise is too small for its sums."""
    accounting = _dp_accounting()
    if noise_multiplier < 1e-3:
        return math.inf
    accountant = accounting.rdp.RdpAccountant(_ORDERS, _relation(accounting, adjacency))
    accountant.compose(_event(accounting, sampling_rate, noise_multiplier, num_steps))
    accountant.compose(accounting.ZCDpEvent(rho=0.0, xi=_ORDER_ROUNDING * num_steps))
    return float(accountant.get_epsilon(delta))


@_remembered
def grid_epsilon(
    sampling_rate: float, noise_multiplier: float, num_steps: int, delta: float, adjacency: str
) -> float:
    """The same by privacy loss distributions; infinite where their grid would not be trusted."""
    accounting = _dp_accounting()
    step = _grid_step(sampling_rate, noise_multiplier, num_steps)
    trusted = delta - _GRID_ROUNDING * num_steps
    if step is None or trusted < delta / 2:
        return math.inf
    accountant = accounting.pld.PLDAccountant(_relation(accounting, adjacency), step)
    accountant.compose(_event(accounting, sampling_rate, noise_multiplier, num_steps))
    return float(accountant.get_epsilon(trusted))


def _grid_step(sampling_rate: float, noise_multiplier: float, num_steps: int) -> float | None:
    """Spacing of the privacy losses, or None where no grid of bounded size resolves them."""
    # Ten standard deviations hold all but e^-50 of the noise.
    precision = 1 / max(noise_multiplier, 1e-3)
    loss = 10 * precision + precision**2 / 2
    if loss > _LARGEST_LOSS or num_steps > _MOST_STEPS:
        return None
    largest = math.log1p(sampling_rate * math.expm1(loss))
    spread = min(sampling_rate * math.sqrt(math.expm1(precision**2)), precision)
    step = max(spread / _POINTS_OF_SPREAD, largest / _MOST_POINTS)
    step = min(step, largest / _LEAST_POINTS)
    return step if step > _LEAST_STEP else None


def _event(accounting: Any, sampling_rate: float, noise_multiplier: float, num_steps: int) -> Any:
    gaussian = accounting.GaussianDpEvent(noise_multiplier)
    sampled = accounting.PoissonSampledDpEvent(sampling_rate, gaussian)
    return accounting.SelfComposedDpEvent(sampled, num_steps)


def _relation(accounting: Any, adjacency: str) -> Any:
    relations = accounting.NeighboringRelation
    return {
        "add-or-remove-one": relations.ADD_OR_REMOVE_ONE,
        "zero-out-one": relations.REPLACE_SPECIAL,
    }[adjacency]


def _dp_accounting() -> Any:
    with require_extra("dp_accounting", "privacy", "accounting for subsampling"):
        import dp_accounting
        import dp_accounting.pld
        import dp_accounting.rdp
    return dp_accounting
