"""Proved orders of the risk of polynomial learning rates (`CoupledODE` predicts the risk)."""

import math
from typing import NamedTuple

import numpy as np

from jaxdp.core.checks import host_number


class PolynomialRate(NamedTuple):
    r"""Orders of the risk for learning rates $(1 - t)^\alpha$, with all constants set to 1.

    Attributes:
        sampling: first term of the upper bound, independent of privacy.
        private: second term.
        condition: the upper bound holds if this is small.
        lower: lower bound for every clip and initial rate; None for powers without a theorem.

    Example:
        >>> from jaxdp.theory import polynomial_rate
        >>> rate = polynomial_rate(1e-4, 0.5, rho=1.0)
        >>> rate.is_covered, f"{rate.total:.2e}", f"{rate.lower:.2e}"
        (True, '4.40e-04', '4.40e-04')
    """

    sampling: float
    private: float
    condition: float
    lower: float | None

    @property
    def is_covered(self) -> bool:
        """Whether the condition is below 1, the weakest meaning of "small"."""
        return self.condition < 1

    @property
    def total(self) -> float:
        """The upper bound, both terms."""
        return self.sampling + self.private


def polynomial_rate(
    gamma: float, power: float, *, rho: float, smallest: float = 1.0, largest: float = 1.0
) -> PolynomialRate:
    r"""The order of the risk of polynomial learning rates, up to an absolute constant.

    $$ \frac{\lambda_{\max}}{\lambda_{\min}^2}\,\alpha'\gamma\ln^{1/(1+\alpha)}(1/\gamma) +
       \frac{1}{\lambda_{\min}^2}\,\frac{\alpha'^2\gamma^2\ln^{2/(1+\alpha)}(1/\gamma)}{\rho^2},
       \qquad \alpha' = \max(1, \alpha), $$

    if $\frac{\gamma\ln^2(1/\gamma)}{\lambda_{\min}^2}(\lambda_{\max}\alpha' +
    \alpha'^2\gamma/\rho^2)$ is small, for a bounded clip with
    $c\,\tilde\eta(0) = C\alpha'\ln(1/\gamma)/\lambda_{\min}$ and a large C. For $\alpha \le 1/2$
    and $\rho$ at least of the order $\gamma^{1-h}$, h > 0, the same with $\lambda_{\max}^2$ for
    $\lambda_{\min}^2$ and without $\lambda_{\max}$ bounds every clip and every
    $\tilde\eta(0) < 2/\gamma$ from below. Source: AC Theorem 6/20, (96), (98), (99); AC Theorem
    7/21, (100), (102). (100) and (188) print $\gamma/\rho^2$ without its square of alpha, and the
    theorem is false with that: Errata, E16.

    Args:
        gamma: d/n, in (0, 1).
        power: alpha: 0, 1/2, or at least 1.
        rho: $\mu$ of the Gaussian DP guarantee, > 0; infinite without privacy.
        smallest: least eigenvalue of Sigma, in (0, 1], default 1.
        largest: largest eigenvalue of Sigma, >= 1, default 1.

    Returns:
        The two terms of the upper bound, the left side of its condition, and the lower bound.

    Raises:
        ValueError: a number is out of range, or no theorem covers the power.

    Example:
        >>> from jaxdp.theory import polynomial_rate
        >>> rate = polynomial_rate(1e-4, 2.0, rho=1.0)
        >>> print(f"{rate.sampling:.2e} {rate.private:.2e} {rate.condition:.3f}")
        4.19e-04 1.76e-07 0.017
    """
    given = {"gamma": gamma, "power": power, "rho": rho, "smallest": smallest, "largest": largest}
    wide = [np.float64(host_number(name, value)) for name, value in given.items()]
    with np.errstate(all="ignore"):
        rate = _rate(*wide)
    for holds, expected, came in (
        (0 < gamma < 1, "gamma in (0, 1)", gamma),
        (power in (0, 0.5) or 1 <= power < math.inf, "a finite power of 0, 1/2, or >= 1", power),
        (rho > 0, "rho > 0", rho),
        (0 < smallest <= 1 <= largest < math.inf, "0 < smallest <= 1 <= largest < inf", given),
        (np.isfinite([v for v in rate if v is not None]).all(), "a rate that float64 holds", given),
    ):
        if not holds:
            raise ValueError(f"expected {expected}, got {came}")
    return rate


def _rate(gamma, power, rho, smallest, largest) -> PolynomialRate:
    steep, log = max(1.0, power), -np.log(gamma)
    base = steep * gamma * log ** (1 / (1 + power)) / smallest
    condition = gamma * log**2 / smallest**2 * (largest * steep + steep**2 * gamma / rho / rho)
    unscaled = base * smallest / largest
    lower = None
    if power < 1 and rho > gamma:
        lower = unscaled / largest + unscaled / rho * (unscaled / rho)
    return PolynomialRate(
        float(base * largest / smallest),
        float(base / rho * (base / rho)),
        float(condition),
        None if lower is None else float(lower),
    )
