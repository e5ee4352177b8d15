r"""Budgets: what a release may reveal, as (epsilon, delta) or by the success of an attack.

A budget stands where `epsilon` does, without `delta`. Noise is calibrated to the mechanism's own
trade-off function. For $\mu$-GDP every budget is a largest $\mu$, in closed form; by way of a pair
(epsilon, delta) that implies the same bound, up to twice the noise would be needed.
"""

import abc
import math
from typing import Any

import equinox as eqx
import numpy as np
import scipy

from jaxdp.core.checks import host_number
from jaxdp.core.description import AbstractDescription
from jaxdp.privacy.arguments import check_budget, warn_of_large_delta
from jaxdp.privacy.conversions.gaussian import gaussian_epsilon, gaussian_mu
from jaxdp.privacy.mechanisms import AbstractMechanism
from jaxdp.privacy.tradeoffs import best_advantage, best_rate, gaussian_parameter, mechanism_of

# The delta at which a cost is reported if the budget has none.
_REPORTED = 1e-6
# Relative rounding of a closed inversion, and of its terms.
_ROUNDING, _TERM_ROUNDING = 1e-12, 1e-14


class AbstractBudget(AbstractDescription):
    """A limit on what a release may reveal.

    Attributes:
        mu: largest mu, rounded down, for which every mu-GDP mechanism meets the budget.
    """

    mu: eqx.AbstractVar[Any]

    @property
    @abc.abstractmethod
    def limit(self) -> Any:
        """The limit, in the unit of `measured`."""

    @abc.abstractmethod
    def measured(self, mechanism: AbstractMechanism, adjacency: str) -> float:
        """A proved bound, for a mechanism, on the number that the budget limits."""

    def is_met_by(self, thing: Any, *, adjacency: str | None = None) -> bool:
        """Whether an algorithm, a release or a mechanism is proved to meet the budget.

        Args:
            thing: an algorithm, a `Release`, or a mechanism.
            adjacency: definition of neighbours for a mechanism with several; default its only one.
        """
        return self.measured(*mechanism_of(thing, adjacency)) <= self.limit

    @property
    def stated(self) -> tuple[Any, Any]:
        """The pair of the budget, or the one of its mu at delta = 1e-6, as reports state it."""
        return gaussian_epsilon(self.mu, _REPORTED), _REPORTED


class ApproximateDP(AbstractBudget):
    r"""The budget of $(\epsilon, \delta)$-DP, which plain numbers mean too.

    Args:
        epsilon: number > 0, finite.
        delta: number in (0, 1).

    Raises:
        ValueError: a number is out of its range.

    Example:
        >>> from jaxdp.privacy import ApproximateDP, GaussianMechanism
        >>> budget = ApproximateDP(1.0, 1e-5)
        >>> print(f"{budget.mu:.4f}, {budget.is_met_by(GaussianMechanism(0.3))}")
        0.2681, False
    """

    epsilon: Any
    delta: Any

    def __check_init__(self):
        check_budget(self.epsilon, self.delta)

    @property
    def mu(self):
        return gaussian_mu(self.epsilon, self.delta)

    @property
    def limit(self):
        return self.epsilon

    @property
    def stated(self):
        return self.epsilon, self.delta

    def measured(self, mechanism, adjacency):
        return mechanism.epsilon(self.delta, adjacency)


class GaussianDP(AbstractBudget):
    r"""The budget of $\mu$-GDP: telling neighbours apart is as hard as N(0, 1) from N(mu, 1).

    Poisson batches need the noise of $\mu$ without sampling, which hides rare and large losses
    only as well.

    Args:
        mu: number > 0, finite.

    Raises:
        ValueError: mu is out of its range.

    Example:
        >>> import jaxdp
        >>> from jaxdp.privacy import GaussianDP
        >>> run = {"learning_rate": 0.02, "clip_norm": 1.0, "num_steps": 50}
        >>> print(f"{jaxdp.DPGD.calibrated(GaussianDP(0.5), **run).mu:.3f}")
        0.500
    """

    mu: float

    def __check_init__(self):
        _require_between("mu", self.mu, math.inf)

    @property
    def limit(self):
        return self.mu

    def measured(self, mechanism, adjacency):
        return gaussian_parameter(mechanism)


class MembershipAdvantage(AbstractBudget):
    r"""A bound on the true-positive less the false-positive rate of every membership test.

    For $\mu$-GDP the largest is $2\Phi(\mu/2) - 1$; for every mechanism it is delta at epsilon = 0.
    Source: Dong, Roth and Su (2022).

    Args:
        advantage: number in (0, 1).

    Raises:
        ValueError: the advantage is out of its range.

    Example:
        >>> from jaxdp.privacy import MembershipAdvantage
        >>> print(f"{MembershipAdvantage(0.1).mu:.4f}")
        0.2513
    """

    advantage: float

    def __check_init__(self):
        _require_between("advantage", self.advantage, 1)

    @property
    def mu(self):
        quantile = math.sqrt(8) * float(scipy.special.erfinv(float(self.advantage)))
        return quantile * (1 - _ROUNDING)

    @property
    def limit(self):
        return self.advantage

    def measured(self, mechanism, adjacency):
        return best_advantage(mechanism, adjacency)


class TruePositiveRate(AbstractBudget):
    r"""A bound on the true-positive rate of every membership test at one false-positive rate.

    For $\mu$-GDP the largest is $\Phi(\Phi^{-1}(\alpha) + \mu)$. Source: Dong, Roth and Su (2022).

    Args:
        rate: largest true-positive rate, in (0, 1).
        at: false-positive rate $\alpha$, in (0, `rate`).

    Raises:
        ValueError: a rate is out of its range, or `at` is not below `rate`.

    Example:
        >>> from jaxdp.privacy import TruePositiveRate
        >>> print(f"{TruePositiveRate(0.05, at=0.01).mu:.4f}")
        0.6815
    """

    rate: float
    at: float

    def __check_init__(self):
        _require_between("rate", self.rate, 1)
        _require_between("at", self.at, float(self.rate), "rate")

    @property
    def mu(self):
        return _mu_between(self.at, self.rate)

    @property
    def limit(self):
        return self.rate

    def measured(self, mechanism, adjacency):
        return float(best_rate(mechanism, adjacency, np.asarray(float(self.at))))


class ReconstructionBound(AbstractBudget):
    r"""A bound on the probability of every attack that reconstructs a record of a known prior.

    *Proof.* Let the record count for zero, be absent, or be another fixed one, as the adjacency
    says: this reference does not depend on the record, and is its neighbour. In that order of the
    neighbours a test has at most the true-positive rate g at its false-positive rate, and g is
    concave and increases. The proof of `reconstruction_bound` uses no more, so that g at the
    baseline bounds the attack, for every mechanism, of Poisson batches too. For $\mu$-GDP it is
    $\Phi(\Phi^{-1}(\kappa) + \mu)$.

    Args:
        probability: largest probability of success, in (0, 1).
        baseline: largest probability $\kappa$ of success without the output, in (0, `probability`).

    Raises:
        ValueError: a number is out of its range, or `baseline` is not below `probability`.

    Example:
        >>> from jaxdp.privacy import ReconstructionBound
        >>> print(f"{ReconstructionBound(0.1, baseline=0.01).mu:.4f}")
        1.0448
    """

    probability: float
    baseline: float

    def __check_init__(self):
        _require_between("probability", self.probability, 1)
        _require_between("baseline", self.baseline, float(self.probability), "probability")

    @property
    def mu(self):
        return _mu_between(self.baseline, self.probability)

    @property
    def limit(self):
        return self.probability

    def measured(self, mechanism, adjacency):
        return float(best_rate(mechanism, adjacency, np.asarray(float(self.baseline))))


def budget_of(epsilon: Any, delta: Any = None) -> AbstractBudget:
    """The budget of a call: one in place of epsilon, or that of two checked numbers."""
    if isinstance(epsilon, AbstractBudget):
        if delta is not None:
            raise ValueError(f"expected no delta beside {epsilon!r}, got {delta}")
        return epsilon
    if delta is None:
        raise TypeError(
            "expected epsilon and delta, or one budget in place of epsilon, such as "
            f"jaxdp.privacy.MembershipAdvantage(0.1), got epsilon = {epsilon} alone"
        )
    return ApproximateDP(epsilon, delta)


def warn_of_budget(budget: AbstractBudget, num_records: int | None, *, stacklevel: int) -> None:
    """Warn of a budget whose delta is at least 1/n, for a known and public number n of records."""
    if isinstance(budget, ApproximateDP):
        warn_of_large_delta(budget.delta, num_records, stacklevel=stacklevel + 1)


def _require_between(name: str, value: Any, highest: float, of: str = "") -> None:
    if not 0 < host_number(name, value) < highest:
        above = f"{of} = {highest:g}" if of else "infinity" if highest == math.inf else f"{highest}"
        raise ValueError(f"expected 0 < {name} < {above}, got {value}")


def _mu_between(low: float, high: float) -> float:
    """The mu at which a rate becomes a higher one, rounded down."""
    start, end = (float(scipy.special.ndtri(float(rate))) for rate in (low, high))
    mu = (end - start) - _TERM_ROUNDING * (abs(start) + abs(end))
    if not mu > 0:
        raise ValueError(f"expected rates that are further apart, got {low} and {high}")
    return mu
