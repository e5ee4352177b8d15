r"""Exponents of a risk as they are measured: in n at a fixed epsilon, and in epsilon at a fixed n.

A theorem's $n^{-a} + (n\varepsilon)^{-b}$ has two exponents, and a fixed epsilon shows the smaller
one in the end: a, in every rate of PK. A fixed n shows b where privacy decides, and 0 where it does
not.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from jaxdp.core.checks import require_host, require_positive


class LocalExponents(NamedTuple):
    """How fast a risk falls near a point, on logarithmic scales.

    Attributes:
        fixed_epsilon: minus the slope in ln n.
        fixed_samples: minus the slope in ln epsilon; over the other, the share of privacy.

    Example:
        >>> from jaxdp.theory import local_exponents, random_projection_rate
        >>> rate = random_projection_rate(source=0.5, capacity=0.5)
        >>> found = local_exponents(rate.excess_risk, 1e30, epsilon=1.0)
        >>> print(f"{found.fixed_epsilon:.3f}, {found.fixed_samples:.3f}")
        0.667, 0.000
    """

    fixed_epsilon: float
    fixed_samples: float


def local_exponents(
    risk: Callable[[float, float], float], num_samples: float, epsilon: float, *, ratio: float = 2.0
) -> LocalExponents:
    r"""Both exponents of a risk at a point, by central differences of its logarithm.

    Of a theorem's order (`KernelRate.excess_risk`), of `tuned_excess_risk` at the noise that n and
    epsilon ask for, or of averages of a simulation. Source: PK Theorems 10, 11 and 17 to 19, whose
    exponents these are in the limits of large n at a fixed epsilon, and of small epsilon.

    Args:
        risk: a positive function of n and epsilon.
        num_samples: n.
        epsilon: > 0.
        ratio: > 1, of the ends of each difference to its middle.

    Returns:
        The exponents; positive where the risk falls.

    Raises:
        ValueError: an argument is out of its range, or the risk is not positive and finite.

    Example:
        >>> from jaxdp.theory import local_exponents, minimax_rate
        >>> rate = minimax_rate(source=0.5, capacity=0.5)
        >>> found = local_exponents(rate.excess_risk, 1e30, epsilon=1e-20)
        >>> print(f"{found.fixed_epsilon:.3f}, {found.fixed_samples:.3f}")
        0.800, 0.800
    """
    require_host("arguments", (num_samples, epsilon, ratio))
    require_positive("num_samples", num_samples)
    require_positive("epsilon", epsilon)
    if not 1 < ratio < math.inf:
        raise ValueError(f"expected finite ratio > 1, got {ratio}")

    def logarithm(samples: float, budget: float) -> float:
        found = float(risk(samples, budget))
        if not 0 < found < math.inf:
            raise ValueError(f"expected a finite risk > 0, got {found}")
        return math.log(found)

    def fall(samples: float, budget: float) -> float:
        above = logarithm(num_samples * samples, epsilon * budget)
        below = logarithm(num_samples / samples, epsilon / budget)
        return (below - above) / (2 * math.log(ratio))

    return LocalExponents(fall(ratio, 1.0), fall(1.0, ratio))
