r"""Budgets: what a release may reveal, as (epsilon, delta) or by the success of an attack.

A budget stands where `epsilon` does, without `delta`. Noise is calibrated to the mechanism's own
trade-off function, in closed form for $\mu$-GDP (Dong, Roth and Su 2022); a pair (epsilon, delta)
that implies the same bound would ask for up to twice the noise.
"""

import abc
import math
from typing import Any

import equinox as eqx
import numpy as np
import scipy

from jaxdp.core.arrays import plain_float
from jaxdp.core.checks import host_number
from jaxdp.core.description import AbstractDescription, constructor_arguments
from jaxdp.privacy.arguments import check_budget, warn_of_large_delta
from jaxdp.privacy.conversions.gaussian import gaussian_epsilon, gaussian_mu
from jaxdp.privacy.mechanisms import AbstractMechanism
from jaxdp.privacy.tradeoffs import best_advantage, best_rate, gaussian_parameter, mechanism_of

# The delta at which a cost is reported if the budget has none.
_REPORTED = 1e-6
# Relative rounding of a closed inversion, and of its terms.
_ROUNDING, _TERM_ROUNDING = 1e-12, 1e-14


class AbstractBudget(AbstractDescription):
    """A limit on what a release may reveal."""

    @property
    @abc.abstractmethod
    def largest_mu(self) -> Any:
        """The largest mu, rounded down, for which every mu-GDP mechanism meets the budget."""

    @abc.abstractmethod
    def measured(self, mechanism: AbstractMechanism, adjacency: str) -> float:
        """A proved bound, for a mechanism, on the number that the budget limits."""

    @property
    def limit(self) -> Any:
        """The first number of the budget, which bounds `measured`."""
        return getattr(self, self.named_limit)

    @property
    def named_limit(self) -> str:
        """The name of the first number."""
        return constructor_arguments(type(self))[0]

    def is_met_by(self, thing: Any, *, adjacency: str | None = None) -> bool:
        """Whether an algorithm, a release or a mechanism is proved to meet the budget.

        A mechanism with several adjacencies needs one of them.
        """
        return self.measured(*mechanism_of(thing, adjacency)) <= self.limit

    @property
    def stated(self) -> tuple[Any, Any]:
        """The pair of the budget, or that of its mu at delta = 1e-6, as reports state it."""
        return gaussian_epsilon(self.largest_mu, _REPORTED), _REPORTED


class ApproximateDP(AbstractBudget):
    r"""The budget of $(\epsilon, \delta)$-DP, which plain numbers mean too.

    Args:
        epsilon, delta: > 0 and finite, and in (0, 1).

    Example:
        >>> from jaxdp.privacy import ApproximateDP, GaussianMechanism
        >>> ApproximateDP(1.0, 1e-5).is_met_by(GaussianMechanism(0.3))
        False
    """

    epsilon: Any = eqx.field(converter=plain_float)
    delta: Any = eqx.field(converter=plain_float)

    def __check_init__(self):
        check_budget(self.epsilon, self.delta)

    @property
    def largest_mu(self):
        return gaussian_mu(self.epsilon, self.delta)

    @property
    def stated(self):
        return self.epsilon, self.delta

    def measured(self, mechanism, adjacency):
        return mechanism.epsilon(self.delta, adjacency)


class GaussianDP(AbstractBudget):
    r"""The budget of $\mu$-GDP. Poisson batches need the noise of $\mu$ without sampling.

    Args:
        mu: number > 0, finite.

    Example:
        >>> import jaxdp
        >>> from jaxdp.privacy import GaussianDP
        >>> run = {"learning_rate": 0.02, "clip_norm": 1.0, "num_steps": 50}
        >>> print(f"{jaxdp.DPGD.calibrated(GaussianDP(0.5), **run).mu:.3f}")
        0.500
    """

    mu: float = eqx.field(converter=plain_float)

    def __check_init__(self):
        _require_between("mu", self.mu, "infinity", math.inf)

    @property
    def largest_mu(self):
        return self.mu

    def measured(self, mechanism, adjacency):
        return gaussian_parameter(mechanism)


class MembershipAdvantage(AbstractBudget):
    r"""A bound on the true-positive less the false-positive rate of every membership test.

    For $\mu$-GDP the largest is $2\Phi(\mu/2) - 1$; for every mechanism it is delta at epsilon = 0.

    Args:
        advantage: number in (0, 1).

    Example:
        >>> from jaxdp.privacy import MembershipAdvantage
        >>> print(f"{MembershipAdvantage(0.1).largest_mu:.4f}")
        0.2513
    """

    advantage: float = eqx.field(converter=plain_float)

    def __check_init__(self):
        _require_between("advantage", self.advantage, "1", 1)

    @property
    def largest_mu(self):
        return math.sqrt(8) * float(scipy.special.erfinv(self.advantage)) * (1 - _ROUNDING)

    def measured(self, mechanism, adjacency):
        return best_advantage(mechanism, adjacency)


class _AbstractRate(AbstractBudget):
    """A bound on the true-positive rate at one false-positive rate; fields in this order."""

    def __check_init__(self):
        (name, high), (at, low) = vars(self).items()
        _require_between(name, high, "1", 1)
        _require_between(at, low, f"{name} = {high:g}", high)
        if not self.largest_mu > 0:
            raise ValueError(f"expected {at} and {name} to differ by more, got {low} and {high}")

    @property
    def largest_mu(self):
        end, start = (float(scipy.special.ndtri(rate)) for rate in vars(self).values())
        return (end - start) - _TERM_ROUNDING * (abs(start) + abs(end))

    def measured(self, mechanism, adjacency):
        return float(best_rate(mechanism, adjacency, np.asarray([*vars(self).values()][1])))


class TruePositiveRate(_AbstractRate):
    r"""A bound on the true-positive rate of every membership test at one false-positive rate.

    For $\mu$-GDP the largest is $\Phi(\Phi^{-1}(\alpha) + \mu)$.

    Args:
        rate: largest true-positive rate, in (0, 1).
        at: false-positive rate $\alpha$, in (0, `rate`).

    Example:
        >>> from jaxdp.privacy import TruePositiveRate
        >>> print(f"{TruePositiveRate(0.05, at=0.01).largest_mu:.4f}")
        0.6815
    """

    rate: float = eqx.field(converter=plain_float)
    at: float = eqx.field(converter=plain_float)


class ReconstructionBound(_AbstractRate):
    r"""A bound on the probability of every attack that reconstructs a record of a known prior.

    *Proof.* Let the record count for zero, be absent, or be another fixed one, as the adjacency
    says: this reference does not depend on the record, and is its neighbour. In that order of the
    neighbours the largest true-positive rate g is concave and increases. The proof of
    `reconstruction_bound` uses no more: g at the baseline bounds the attack, for every mechanism.

    Args:
        probability: largest probability of success, in (0, 1).
        baseline: largest probability of success without the output, in (0, `probability`).

    Example:
        >>> from jaxdp.privacy import ReconstructionBound
        >>> print(f"{ReconstructionBound(0.1, baseline=0.01).largest_mu:.4f}")
        1.0448
    """

    probability: float = eqx.field(converter=plain_float)
    baseline: float = eqx.field(converter=plain_float)


def budget_of(epsilon: Any, delta: Any = None) -> AbstractBudget:
    """The budget of a call: one in place of epsilon, or that of two checked numbers."""
    if isinstance(epsilon, AbstractBudget):
        if delta is not None:
            raise ValueError(f"expected no delta beside {epsilon!r}, got {delta}")
        return epsilon
    if delta is None:
        wanted = "expected delta with epsilon, or a budget such as MembershipAdvantage(0.1)"
        raise ValueError(f"{wanted}, got epsilon = {epsilon} alone")
    return ApproximateDP(epsilon, delta)


def warn_of_budget(budget: AbstractBudget, num_records: int | None, *, stacklevel: int) -> None:
    """Warn of a budget whose delta is at least 1/n, for a known and public number n of records."""
    if isinstance(budget, ApproximateDP):
        warn_of_large_delta(budget.delta, num_records, stacklevel=stacklevel + 1)


def _require_between(name: str, value: Any, end: str, highest: float) -> None:
    if not 0 < host_number(name, value) < highest:
        raise ValueError(f"expected 0 < {name} < {end}, got {value}")
