r"""PF Theorem 1: by how much the test error of private random features exceeds the interpolator's.

$$ |R_P| = O\Bigl(\frac d{n\epsilon}\log^5n\sqrt{\log(1/\delta)} + \sqrt{\frac dn}
   + \sqrt{\frac{n\log^3d}{d^{3/2}}}\Bigr) $$

The theorem states no constants. With constants of one the sum is larger than what predicting
nothing loses at every size that was run; `fitted_constants` finds the least ones that hold of
measured excess risks, which bound those and promise nothing of others.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import ArrayLike, Float

from jaxdp.core.checks import (
    host_array,
    host_number,
    require_count,
    require_host,
    require_kind,
)
from jaxdp.privacy.arguments import check_budget

_ONES = (1.0, 1.0, 1.0)


class ExcessRiskBound(NamedTuple):
    r"""The three terms of PF (4.4), times their constants.

    Attributes:
        privacy: of $d/(n\epsilon)$: the noise.
        stopping: of $\sqrt{d/n}$: stopping before interpolation.
        plateau: of $\sqrt{n/d^{3/2}}$: n so near to $d^{3/2}$ that cubics count.

    Example:
        >>> from jaxdp.theory import excess_risk_bound
        >>> bound = excess_risk_bound(3200, 80, epsilon=4.0, delta=1 / 3200, constants=(0, 0.1, 0))
        >>> print(f"{bound.total:.4f}, vacuous: {bound.is_vacuous()}")
        0.0158, vacuous: False
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
        return not self.total < host_number("label_square", label_square)


def excess_risk_bound(
    num_train: int,
    dim: int,
    *,
    epsilon: float,
    delta: float,
    constants: Sequence[float] = _ONES,
    with_logarithms: bool = True,
) -> ExcessRiskBound:
    r"""PF Theorem 1's bound on the excess risk, whatever the number of features.

    Source: PF Theorem 1, (4.4).

    Args:
        num_train: n.
        dim: d.
        epsilon: > 0 and finite.
        delta: in (0, 1).
        constants: one for each term, >= 0; the theorem does not state them.
        with_logarithms: False leaves $\log^5n\sqrt{\log(1/\delta)}$ and $\log^3d$ out: the second
            line of (4.4).

    Returns:
        The three terms.

    Raises:
        TypeError: a size is no whole number.
        ValueError: a size, the budget or a constant is out of range.

    Example:
        >>> from jaxdp.theory import excess_risk_bound
        >>> bound = excess_risk_bound(3200, 80, epsilon=4.0, delta=1 / 3200)
        >>> print(f"{bound.total:.0f}, vacuous: {bound.is_vacuous()}")
        628, vacuous: True
    """
    num_train = require_count("num_train", num_train)
    dim = require_count("dim", dim)
    require_host("arguments", (epsilon, delta, constants))
    check_budget(epsilon, delta)
    require_kind("with_logarithms", with_logarithms, bool, "True or False")
    factors = _constants(constants)
    parts = _terms(float(num_train), float(dim), epsilon, delta, with_logarithms)
    return ExcessRiskBound(*(float(a * b) for a, b in zip(factors, parts, strict=True)))


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

    Among those the ones of the least mean bound, by a linear programme and then raised by its
    rounding: they describe the cells that were measured.
    Derived: test_bound plants constants and finds them.

    Args:
        num_train, dim, epsilon, delta: of each cell; shapes that broadcast.
        excess_risk: $R_P$ of each cell; its absolute value is bounded.
        with_logarithms: as of `excess_risk_bound`.

    Returns:
        Three numbers >= 0.

    Raises:
        ValueError: shapes do not broadcast, there are no cells, or a number is out of its range.
        RuntimeError: the programme was not solved.

    Example:
        >>> import numpy as np
        >>> from jaxdp.theory import fitted_constants
        >>> samples = np.asarray([400, 1600, 6400])
        >>> found = fitted_constants(samples, 40, 1.0, 1 / samples, 0.5 * 40 / samples)
        >>> [round(float(constant), 3) for constant in found]
        [0.5, 0.0, 0.0]
    """
    from scipy.optimize import linprog

    given = [
        np.asarray(host_array(name, value), np.float64)
        for name, value in (
            ("num_train", num_train),
            ("dim", dim),
            ("epsilon", epsilon),
            ("delta", delta),
            ("excess_risk", excess_risk),
        )
    ]
    cells = [part.ravel() for part in np.broadcast_arrays(*given)]
    samples, inputs, budgets, failures, excess = cells
    if not all(part.size and np.isfinite(part).all() for part in cells):
        raise ValueError("expected one finite size, budget and excess risk or more, got others")
    if min(samples.min(), inputs.min()) < 1 or budgets.min() <= 0:
        raise ValueError("expected num_train >= 1, dim >= 1 and epsilon > 0, got others")
    if failures.min() <= 0 or failures.max() >= 1:
        raise ValueError(f"expected 0 < delta < 1, got {failures.min()} to {failures.max()}")
    parts = _terms(samples, inputs, budgets, failures, with_logarithms)
    terms = np.stack(np.broadcast_arrays(*parts))
    # In units of the largest value of each, so that logarithms do not unbalance the programme.
    # A term that vanishes everywhere bounds nothing.
    scale = np.where(terms.max(axis=1) > 0, terms.max(axis=1), 1.0)
    scaled, least = terms / scale[:, None], np.abs(excess)
    size = least.max() or 1.0
    found = linprog(scaled.mean(axis=1), A_ub=-scaled.T, b_ub=-least / size, method="highs")
    if not found.success:
        raise RuntimeError(f"the constants were not found: {found.message}")
    constants = np.maximum(found.x, 0) * size
    bounds = constants @ scaled
    short = least > bounds
    # Twice the rounding of the quotient and of the caller's own sum.
    raised = np.max(least[short] / bounds[short] * (1 + 1e-15), initial=1.0)
    return constants * raised / scale


def _constants(constants: Sequence[float]) -> list[float]:
    if np.ndim(constants) != 1:
        raise ValueError(f"expected three constants >= 0, got {constants}")
    found = [host_number("a constant", constant) for constant in constants]
    if len(found) != 3 or not all(math.isfinite(value) and value >= 0 for value in found):
        raise ValueError(f"expected three constants >= 0, got {constants}")
    return found


def _terms(num_train, dim, epsilon, delta, with_logarithms: bool):
    privacy, plateau = dim / (num_train * epsilon), num_train / dim**1.5
    if with_logarithms:
        privacy = privacy * np.log(num_train) ** 5 * np.sqrt(-np.log(delta))
        plateau = plateau * np.log(dim) ** 3
    return privacy, np.sqrt(dim / num_train), np.sqrt(plateau)
