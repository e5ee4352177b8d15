r"""PF Theorem 1: by how much the test error of private random features exceeds the interpolator's.

$$ |R_P| = O\Bigl(\frac d{n\epsilon}\log^5n\sqrt{\log(1/\delta)} + \sqrt{\frac dn}
   + \sqrt{\frac{n\log^3d}{d^{3/2}}}\Bigr) $$

The theorem states no constants. With constants of one the sum is larger than what predicting
nothing loses at every size that was run; `fitted_constants` finds the least ones that hold of
measured excess risks, which bound those and promise nothing of others.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import ArrayLike, Float
from scipy.optimize import linprog


class ExcessRiskBound(NamedTuple):
    r"""The three terms of PF (4.4), times their constants.

    Attributes:
        privacy: the term in $d/(n\epsilon)$: the noise.
        stopping: the term in $\sqrt{d/n}$: stopping before interpolation.
        plateau: the term in $\sqrt{n/d^{3/2}}$: n so near to $d^{3/2}$ that cubics count.
    """

    privacy: float
    stopping: float
    plateau: float

    @property
    def total(self) -> float:
        """Their sum."""
        return self.privacy + self.stopping + self.plateau

    def is_vacuous(self, label_square: float = 1.0) -> bool:
        """Whether the bound is at least the risk of predicting nothing, E y^2: 1 for signs."""
        return not self.total < label_square


def excess_risk_bound(
    num_train: int,
    dim: int,
    *,
    epsilon: float,
    delta: float,
    constants: Sequence[float] = (1.0, 1.0, 1.0),
    with_logarithms: bool = True,
) -> ExcessRiskBound:
    r"""PF Theorem 1's bound on the excess risk, whatever the number of features.

    Constants, one for each term, are not stated by the theorem. Without logarithms,
    $\log^5n\sqrt{\log(1/\delta)}$ and $\log^3d$ are left out: the second line of (4.4).

    Source: PF Theorem 1, (4.4).
    """
    parts = _terms(float(num_train), float(dim), epsilon, delta, with_logarithms)
    return ExcessRiskBound(*(float(a * b) for a, b in zip(constants, parts, strict=True)))


def fitted_constants(
    num_train: ArrayLike,
    dim: ArrayLike,
    epsilon: ArrayLike,
    delta: ArrayLike,
    excess_risk: ArrayLike,
    *,
    with_logarithms: bool = False,
) -> Float[np.ndarray, "3"]:
    r"""Constants of the three terms under which the bound holds of all measured excess risks.

    Shapes of the cells' numbers broadcast; it is the absolute value of $R_P$ that is bounded.
    Among those constants the ones of the least mean bound, by a linear programme and then raised
    by its rounding: they describe the cells that were measured.
    Derived: test_excess_risk_bound plants constants and finds them.
    """
    given = (num_train, dim, epsilon, delta, excess_risk)
    cells = np.broadcast_arrays(*(np.asarray(value, np.float64) for value in given))
    samples, inputs, budgets, failures, excess = (part.ravel() for part in cells)
    parts = _terms(samples, inputs, budgets, failures, with_logarithms)
    terms = np.stack(np.broadcast_arrays(*parts))
    # In units of the largest value of each, so that logarithms do not unbalance the programme.
    # A term that vanishes everywhere bounds nothing.
    scale = np.where(terms.max(axis=1) > 0, terms.max(axis=1), 1.0)
    scaled, least = terms / scale[:, None], np.abs(excess)
    size = least.max() or 1.0
    found = linprog(scaled.mean(axis=1), A_ub=-scaled.T, b_ub=-least / size, method="highs")
    assert found.success, found.message
    constants = np.maximum(found.x, 0) * size
    bounds = constants @ scaled
    short = least > bounds
    # Twice the rounding of the quotient and of the caller's own sum.
    raised = np.max(least[short] / bounds[short] * (1 + 1e-15), initial=1.0)
    return constants * raised / scale


def _terms(num_train, dim, epsilon, delta, with_logarithms: bool):
    privacy, plateau = dim / (num_train * epsilon), num_train / dim**1.5
    if with_logarithms:
        privacy = privacy * np.log(num_train) ** 5 * np.sqrt(-np.log(delta))
        plateau = plateau * np.log(dim) ** 3
    return privacy, np.sqrt(dim / num_train), np.sqrt(plateau)
