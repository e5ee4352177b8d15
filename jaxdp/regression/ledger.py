r"""The releases of one fit, in order, each with its share of the budget.

All are adaptively chosen Gaussian mechanisms on the same records: $\mu_1, \mu_2, \ldots$-GDP
mechanisms compose to $\sqrt{\mu_1^2 + \mu_2^2 + \cdots}$-GDP (Dong, Roth and Su, "Gaussian
differential privacy", 2022, Corollary 3.3). The share of each entry is fixed before the first
record is read. Earlier releases may choose into how many releases an entry is split, if these
compose to its mu, so no filter is needed.
"""

import math
from fractions import Fraction
from typing import NamedTuple

_ROUNDING = 1e-12  # more than the relative rounding of a root or a product in float64


class Entry(NamedTuple):
    r"""A release, its share of $\mu^2$, and its mu; NaN for an (epsilon, delta)-DP release."""

    what: str
    share: float
    mu: float


class Ledger:
    """A budget mu of Gaussian DP, which may come from (epsilon, delta), and its spent part.

    Example:
        >>> from jaxdp.regression.ledger import Ledger
        >>> ledger = Ledger(0.5)
        >>> print(f"{ledger.spend('a histogram', 0.36):.3f}, {ledger.spend('the rest', 0.64):.3f}")
        0.300, 0.400
    """

    def __init__(self, mu: float, budget: tuple[float, float] | None = None):
        self.mu, self.budget = mu, budget
        self.entries: list[Entry] = []
        self._left = Fraction(1)

    @property
    def left(self) -> float:
        r"""The unspent share of $\mu^2$."""
        return float(self._left)

    def spend(self, what: str, share: float | Fraction) -> float:
        r"""The mu of a release with this share of $\mu^2$; ValueError if less is left."""
        exact = Fraction(share)
        if not 0 < exact <= self._left:
            raise ValueError(f"expected a share in (0, {self.left:.4g}], got {float(share):.4g}")
        self._left -= exact
        mu = self.mu * math.sqrt(exact) * (1 - _ROUNDING)
        self.entries.append(Entry(what, float(exact), mu))
        return mu

    def spend_rest(self, what: str, *, is_gaussian: bool = True) -> float:
        """The mu of a last release with all that is left; NaN in its entry if not Gaussian DP."""
        mu = self.spend(what, self._left)
        if not is_gaussian:
            self.entries[-1] = self.entries[-1]._replace(mu=math.nan)
        return mu

    def __str__(self):
        total = f"{self.mu:.4g}-GDP"
        if any(math.isnan(one.mu) for one in self.entries):
            total = f"{self.budget}-DP"
        lines = [
            f"{one.share:7.2%}  " + f"{one.mu:.4g}-GDP  ".replace("nan-GDP  ", "") + one.what
            for one in self.entries
        ]
        return "\n".join([f"{total} in all", *lines])

    __repr__ = __str__
