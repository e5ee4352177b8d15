r"""Epsilon of Poisson-subsampled Gaussians: the least of several accountants' upper bounds.

Every step releases a sum of terms clipped to norm C over a Poisson sample, with noise of standard
deviation `noise_multiplier` times C. Neighbours differ in whether one term is present
(add-or-remove-one, zero-out-one), so that the sum moves by at most C. The pair N(0, s^2) against (1
- q) N(0, s^2) + q N(1, s^2), s the noise multiplier, then dominates. Source: Zhu, Dong and Wang
(2022), Theorem 11, and Theorem 10: pairs that dominate adaptive steps compose. Under replace-one no
such pair is proved here.

Neighbours may differ in all records of one person: `jaxdp.privacy.conversions.mixtures`.

The bounds are:

- every record in every batch: exact, and finite for any noise. Subsampling mixes it with a
  mechanism that sees nothing of the record, and mixing never adds privacy loss;
- Renyi DP (dp_accounting): no grid, but loose;
- privacy loss distributions (dp_accounting): within a few parts in a thousand, on a grid whose step
  follows from the parameters, so that its work is bounded; omitted where it could not be trusted;
- for several runs, the sum of their epsilons, each at a share of delta.

Privacy loss distributions bound tests too: every event has $P(E) \le \delta(\epsilon) + e^\epsilon
Q(E)$ for every real epsilon, with $\delta(\epsilon) = \sup_E P(E) - e^\epsilon Q(E)$; for the best
tests one epsilon gives equality (Neyman and Pearson). No $\delta$ of a dominating pair is smaller.
"""

import collections
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy

from jaxdp.core.checks import concrete
from jaxdp.core.packages import require_extra
from jaxdp.privacy.conversions.bisection import largest_within, log_excess
from jaxdp.privacy.conversions.gaussian import composed_mu, gaussian_epsilon, host_delta
from jaxdp.privacy.conversions.mixtures import Mixture

# Integer orders: their sums have positive terms only.
_ORDERS = [*range(2, 65), 72, 80, 96, 128, 192, 256, 384, 512, 768, 1024]
# Largest rounding error of a Renyi divergence in one step.
_ORDER_ROUNDING = 1e-12
# Each step's delta is known to a few units in the last place of 1, and its Fourier transform adds
# about as much. Derived: replacing one step by another whose curve is d higher raises the
# composed curve by d at most. Ten times what test_subsampling.py sees.
_GRID_ROUNDING = 1e-14
# Grid points in one standard deviation of a step's loss, and in its range. Below 1000 points
# dp_accounting counts their composition's points exactly, which takes minutes for many steps;
# 2^18 points take a second.
_POINTS_OF_SPREAD, _LEAST_POINTS, _MOST_POINTS = 16, 1100, 2**18
# Most grid points in the ranges of all runs, enough and most in that of their composition.
_MOST_POINTS_OF_ALL, _POINTS_OF_REACH, _MOST_POINTS_OF_REACH = 2**21, 2**21, 2**23
_MOST_STEPS, _MOST_RUNS = 10**6, 64
# More records of a person are accounted for as at most so many of a larger norm.
_MOST_RECORDS = 200
# Least spacing at which a step's rounding is small against its probabilities.
_LEAST_STEP = 1e-8
# More noise is treated as this much.
_LARGEST_NOISE = 1e12
# The largest loss of a step for which grids were compared with exact values.
_LARGEST_LOSS = 1e5
# e to minus this number is far above float64's least.
_LARGEST_EXPONENT = 600.0
_TINY = np.finfo(float).tiny
# The least share taken off delta for failures: a smaller one would be lost in its rounding.
_LEAST_SHARE = 1e-6
# A finer grid for trade-off curves, with so many points in the range of a step at least, and so
# many at most in that of the composition.
_FINER, _FINE_POINTS, _MOST_FINE_POINTS = 8, 2**14, 2**19
# Sweeps and plans use the same budgets again.
_remembered = functools.lru_cache(maxsize=1024)
# A curve over delta uses one accountant many times; each may hold 2^23 numbers.
_kept = functools.lru_cache(maxsize=2)


class SampledGaussian(NamedTuple):
    """A run of noisy sums over Poisson samples of terms of norm at most 1.

    A `sampling_rate` of 1 is a Gaussian mechanism. Nothing is claimed of an event of probability
    `failure`, which adds to delta. Neighbours differ in `records_per_person` terms.
    """

    sampling_rate: float
    noise_multiplier: Any
    num_steps: int
    failure: float = 0.0
    records_per_person: int = 1

    def with_fewer(self, most: int) -> "SampledGaussian":
        """A dominating run in which a person has at most `most` records, of a larger norm."""
        count, rate = -(-self.records_per_person // most), self.sampling_rate
        if count == 1:
            return self
        drawn = 1.0 if rate == 1 else -math.expm1(count * math.log1p(-rate)) * (1 + 1e-15)
        noise, num = self.noise_multiplier / count * (1 - 1e-15), self.num_steps
        fewer = -(-self.records_per_person // count)
        return SampledGaussian(min(1.0, drawn), noise, num, self.failure, fewer)


class Curve(NamedTuple):
    r"""A concave bound on a test's true-positive rate: that of mu-GDP, or less by lines.

    Line k is $\delta_k + e^{\epsilon_k}\alpha$, and the least one near the k-th false-positive rate
    of `levels`, if they are known. An event of probability `failure` adds to all.
    """

    mu: float
    failure: float = 0.0
    epsilons: np.ndarray = np.zeros(0)
    deltas: np.ndarray = np.zeros(0)
    levels: np.ndarray | None = None

    def at(self, rates: np.ndarray) -> np.ndarray:
        """The bound at false-positive rates."""
        mu, found = float(self.mu), np.ones(np.shape(rates))
        if mu < math.inf:
            # One less the trade-off function would lose the digits of small rates.
            found = scipy.special.ndtr(scipy.special.ndtri(rates) + mu)
        if len(self.epsilons):
            near: Any = slice(None)
            if self.levels is not None:
                near = np.searchsorted(self.levels, rates)[..., None] + np.arange(-1, 2)
                near = np.clip(near, 0, len(self.levels) - 1)
            with np.errstate(over="ignore"):
                # Without false positives a line says something only if epsilon is finite.
                rising = np.exp(self.epsilons[near]) * np.maximum(rates, _TINY)[..., None]
            found = np.minimum(found, (self.deltas[near] + rising).min(axis=-1))
        return np.minimum(found + self.failure, 1.0)

    @property
    def advantage(self) -> float:
        """A bound on the true-positive less the false-positive rate."""
        with np.errstate(over="ignore"):
            gains = self.deltas + np.maximum(np.expm1(self.epsilons), 0)
        return min(1.0, float(np.min(gains, initial=host_delta(self.mu, 0.0))) + self.failure)


def composed_epsilon(runs: Sequence[SampledGaussian], delta: Any, adjacency: str) -> float:
    """An upper bound on epsilon at delta of several runs one after the other, on the host.

    A run's sums may depend on earlier releases; its rate, noise and number of steps may not.
    Infinite if the failures use up delta.
    """
    values = [concrete(value) for value in (delta, *(run.noise_multiplier for run in runs))]
    if any(value is None for value in values):
        raise TypeError(
            "expected concrete arguments, got traced ones: subsampling is accounted for on "
            "the host, outside jit, vmap and grad"
        )
    delta, failure = float(delta), math.fsum(run.failure for run in runs)
    left = delta - max(failure, _LEAST_SHARE * delta) if failure > 0 else delta
    return _epsilon(_counted_together(runs), left, adjacency) if left > 0 else math.inf


def _counted_together(runs: Sequence[SampledGaussian]) -> tuple[SampledGaussian, ...]:
    """One run for each rate and noise, sorted; all Gaussian mechanisms as one."""
    counts = collections.Counter()
    for run in runs:
        run = run.with_fewer(1 if run.sampling_rate == 1 else _MOST_RECORDS)
        counts[run.sampling_rate, run.noise_multiplier, run.records_per_person] += run.num_steps
    kinds = sorted(counts.items())
    together = [SampledGaussian(rate, noise, num, 0.0, k) for (rate, noise, k), num in kinds]
    sampled = [run for run in together if run.sampling_rate < 1]
    whole = [run for run in together if run.sampling_rate == 1]
    if len(whole) > 1:
        mu = unamplified_mu(whole)
        whole = [SampledGaussian(1.0, 1 / mu if mu > 0 else math.inf, 1)]
    return *sampled, *whole


def unamplified_mu(runs: Sequence[SampledGaussian]) -> float:
    ones = (run.with_fewer(1) for run in runs)
    pairs = ((math.sqrt(run.num_steps), run.noise_multiplier) for run in ones)
    return composed_mu(*(root / noise if noise else math.inf for root, noise in pairs))


@_remembered
def _epsilon(runs: tuple[SampledGaussian, ...], delta: float, adjacency: str) -> float:
    unamplified = gaussian_epsilon(unamplified_mu(runs), delta)
    if unamplified == 0 or all(run.sampling_rate == 1 for run in runs):
        return unamplified
    # Probability that a record is in any batch at all: beyond it nothing needs to be hidden.
    ones = tuple(run.with_fewer(1) for run in runs)
    rates = ((run.num_steps, run.sampling_rate) for run in ones)
    left_out = sum(n * math.log1p(-rate) if rate < 1 else -math.inf for n, rate in rates)
    if delta >= -math.expm1(left_out):
        return 0.0
    arguments = runs, delta, adjacency
    bounds = [unamplified, renyi_epsilon(ones, delta, adjacency), grid_epsilon(*arguments)]
    if 1 < len(runs) <= _MOST_RUNS:
        share = delta / len(runs)
        bounds.append(math.fsum(_epsilon((run,), share, adjacency) for run in runs))
    return min(bounds)


@_remembered
def renyi_epsilon(runs: tuple[SampledGaussian, ...], delta: float, adjacency: str) -> float:
    """A bound on epsilon by Renyi DP; infinite if the noise is too small for its sums."""
    if any(run.noise_multiplier < 1e-3 for run in runs):
        return math.inf
    return float(_renyi_accountant(runs, adjacency).get_epsilon(delta))


@_kept
def _renyi_accountant(runs: tuple[SampledGaussian, ...], adjacency: str) -> Any:
    accounting = _dp_accounting()
    accountant = accounting.rdp.RdpAccountant(_ORDERS, _relation(accounting, adjacency))
    for run in runs:
        # The square of more noise may overflow.
        noise = min(run.noise_multiplier, _LARGEST_NOISE)
        accountant.compose(_event(accounting, run._replace(noise_multiplier=noise)))
    rounding = _ORDER_ROUNDING * sum(run.num_steps for run in runs)
    accountant.compose(accounting.ZCDpEvent(rho=0.0, xi=rounding))
    return accountant


@_remembered
def grid_epsilon(runs: tuple[SampledGaussian, ...], delta: float, adjacency: str) -> float:
    """A bound on epsilon by privacy loss distributions; infinite if no grid is trusted."""
    step = _grid_step(runs)
    trusted = delta - _GRID_ROUNDING * sum(run.num_steps for run in runs)
    if step is None or trusted < delta / 2 or len(runs) > _MOST_RUNS:
        return math.inf
    accountant = _grid_accountant(runs, adjacency, step)
    with np.errstate(over="ignore"):
        epsilon = float(accountant.get_epsilon(trusted))
    if epsilon < _LARGEST_EXPONENT:
        return epsilon
    # At such losses the accountant's sums of e^-loss have lost their digits.
    return largest_within(
        lambda epsilon: -log_excess(accountant.get_delta(epsilon), trusted), strictly=True
    ) * (1 + 1e-12)


@_kept
def _grid_accountant(runs: tuple[SampledGaussian, ...], adjacency: str, step: float) -> Any:
    accounting = _dp_accounting()
    accountant = accounting.pld.PLDAccountant(_relation(accounting, adjacency), step)
    for run in runs:
        if run.records_per_person == 1:
            run = _with_losses_up_to(_LEAST_POINTS * step, run)
            accountant.compose(_event(accounting, run))
        else:
            one = _mixture(run).distribution(accounting, step, _LEAST_POINTS)
            accountant._pld = accountant._pld.compose(one.self_compose(run.num_steps))
    return accountant


def tradeoff_curves(runs: Sequence[SampledGaussian], adjacency: str) -> tuple[Curve, ...] | None:
    """Bounds on tests for each order of two neighbours, with the record against without it, and the
    reverse; None if no grid is trusted.
    """
    failure, runs = math.fsum(run.failure for run in runs), _counted_together(runs)
    mu = unamplified_mu(runs)
    if mu in (0, math.inf):
        return (Curve(mu, failure),)
    step, found = _grid_step(runs, is_fine=True), []
    if step is None or len(runs) > _MOST_RUNS:
        return None
    composed = _grid_accountant(runs, adjacency, step)._pld
    for losses in (composed._pmf_remove, composed._pmf_add):
        dense = losses.to_dense_pmf()
        places = dense._lower_loss + np.arange(dense.size)[::-1]
        epsilons, masses = places * dense._discretization, dense._probs[::-1]
        with np.errstate(over="ignore", invalid="ignore"):
            levels = np.cumsum(masses * np.exp(-epsilons))
            deltas = dense._infinity_mass + np.cumsum(masses) - np.exp(epsilons) * levels
        few = (np.abs(epsilons) < _LARGEST_EXPONENT) & (places % (1 + len(places) // 2**16) == 0)
        deltas += _GRID_ROUNDING * sum(run.num_steps for run in runs)
        # Rounding may make masses negative.
        levels = np.maximum.accumulate(levels[few])
        found.append(Curve(mu, failure, epsilons[few], deltas[few], levels))
    return tuple(found)


def _mixture(run: SampledGaussian) -> Mixture:
    noise = min(max(run.noise_multiplier, 1e-6), _LARGEST_NOISE)
    return Mixture.of(run.records_per_person, run.sampling_rate, noise)


def _with_losses_up_to(least: float, run: SampledGaussian) -> SampledGaussian:
    """The run if its largest loss is at least `least`, else one with less noise and no smaller
    epsilon.
    """
    unsampled = _mixed(1 / run.sampling_rate, least)
    # Solves 10 / s + 1 / (2 s^2) = unsampled.
    noise = (10 + math.sqrt(100 + 2 * unsampled)) / (2 * unsampled)
    return run._replace(noise_multiplier=min(run.noise_multiplier, noise))


def _grid_step(runs: tuple[SampledGaussian, ...], is_fine: bool = False) -> float | None:
    """Spacing of the privacy losses, or None if no grid of bounded size resolves them."""
    spreads, largests, reach = [], [], 0.0
    for run in runs:
        num_steps, (largest, spread, drawn) = run.num_steps, _scales(run)
        variance = num_steps * max(spread, drawn) ** 2
        # dp_accounting keeps all but 1e-15 of a composition, by Chernoff bounds of these orders.
        order = min(max(math.sqrt(70 / variance), 0.5 / largest), 10 / largest)
        reach += variance * order + 70 / order
        spreads.append(spread)
        largests.append(largest)
    if max(largests) > _LARGEST_LOSS or max(run.num_steps for run in runs) > _MOST_STEPS:
        return None
    # The spacing is as coarse as serves every run, or as bounds the work. Losses that are small on
    # such a grid are then bounded by larger ones, of less noise.
    wanted = max(min(spreads) / _POINTS_OF_SPREAD, reach / _POINTS_OF_REACH)
    wanted = min(wanted, min(largests) / _LEAST_POINTS)
    needed = max(max(largests) / _MOST_POINTS, sum(largests) / _MOST_POINTS_OF_ALL)
    needed = max(needed, reach / _MOST_POINTS_OF_REACH)
    if needed > max(largests) / _LEAST_POINTS:
        return None
    if is_fine:
        wanted = min(wanted / _FINER, max(largests) / _FINE_POINTS)
        needed = max(needed, reach / _MOST_FINE_POINTS)
    return max(wanted, needed, _LEAST_STEP)


def _scales(run: SampledGaussian) -> tuple[float, float, float]:
    """The largest loss of a step, the loss's spread, and that of steps that draw a record."""
    rate, noise, _, _, count = run
    precision = 1 / min(max(noise, 1e-6), _LARGEST_NOISE)
    if count > 1:
        weights, shifts = mixture = _mixture(run)
        places = np.linspace(-10, 10, 2**10)
        chances = np.exp(-(places**2) / 2)
        spread = math.sqrt(np.cov(mixture.losses(places)[0], aweights=chances, ddof=0))
        drawn = math.sqrt(weights[1:] @ mixture.losses(shifts[1:] + 1)[0] ** 2)
        return float(mixture.losses(mixture.highest)[0]), spread, drawn
    # Ten standard deviations hold all but e^-50 of the noise.
    largest = _mixed(rate, 10 * precision + precision**2 / 2)
    spread = min(rate * math.sqrt(math.expm1(min(precision**2, 100))), precision)
    # The rare and large losses of steps that draw the record.
    return largest, spread, math.sqrt(rate) * _mixed(rate, precision + precision**2 / 2)


def _mixed(rate: float, loss: float) -> float:
    """log(1 - q + q e^loss)."""
    return loss + math.log(rate) if loss > 100 else math.log1p(rate * math.expm1(loss))


def _event(accounting: Any, run: SampledGaussian) -> Any:
    gaussian = accounting.GaussianDpEvent(run.noise_multiplier)
    sampled = accounting.PoissonSampledDpEvent(run.sampling_rate, gaussian)
    return accounting.SelfComposedDpEvent(sampled, run.num_steps)


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
