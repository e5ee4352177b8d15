r"""A proved lower bound of the released risk, for all clips and all schedules of learning rates.

Let $Z = R + K\tilde\eta^2$ with $K = 2c^2\gamma^2/\rho^2$: the risk that there would be if all the
noise that the rest of the pass adds were added now. The released risk is Z(1), and Z(0) is $R(0) +
K\tilde\eta^2(0)$. Z falls no faster than G(Z), the fastest fall over all clips and rates
(`fastest_fall`). So Z(1) is at least the z at which $\int dz/G(z)$, from Z(0) down, reaches 1. The
integral is bounded by a sum over short intervals ("cells") of z: G grows with z, and is in each
cell at most what it is at the upper end. A larger first rate makes Z(0) larger, and no later rate
is larger than the first. So there is a bound for each range of first rates, and the least of these
bounds holds for all; the range that it comes from is halved, again and again.
"""

import heapq
import math

import numpy as np

from experiments.statements.aggressive_clipping.fastest_fall import Law, fastest_fall, first_boxes
from jaxdp.core.checks import host_number, require_positive

# Many times the loss by rounding in the sum of all cells' times.
_ROUNDING = 1e-9
# How often a range of first rates is halved, each time that of the least bound.
_SPLITS = 12


def certified_risk(
    gamma: float,
    *,
    label_noise: float,
    initial_risk: float,
    rho: float,
    clip_scale: float | None = None,
    largest: float = 1.0,
    tolerance: float = 0.01,
) -> float:
    r"""A lower bound of the released risk for every schedule of learning rates, and every clip.

    In the limit of many dimensions, where the risk obeys AC (62). Schedules may be any
    that do not increase, also beyond the cap $2/\gamma$. With `clip_scale=None` the bound holds for
    every clip scale, also one that changes during the pass while $c\,\tilde\eta$ does not
    increase; such clips may gain on a constant one, and the bound may lie below what `Optimal`
    reaches by as much: by 0.02 to 0.14 in the six settings of test_certificate. In another, with
    R(0) = 10 and a label noise of 0.01, the gap is a quarter. For unequal eigenvalues it is the
    bound of the largest one alone, far below what is reached.

    Source: AC Theorem 6/20, "for any c and rate", (5). Derived: the bound, at the head of this
    module; test_certificate.

    Args:
        gamma: d/n > 0.
        label_noise: zeta > 0.
        initial_risk: R(0) > 0.
        rho: the guarantee's rho > 0; infinite without privacy.
        clip_scale: c > 0; None for all of them.
        largest: eigenvalue of Sigma, >= 1. Above one the bound is that of AC (5).
        tolerance: relative tolerance of the fall, and of the risk from cell to cell, in [1e-6, 1).
            Less is slower and gives a larger bound.

    Returns:
        The bound, proved up to rounding, which is covered.

    Raises:
        ValueError: a number is out of its range, or so large or small that float64 cannot hold
            the results.
    """
    for name, value in (("gamma", gamma), ("label_noise", label_noise)):
        require_positive(name, host_number(name, value))
    require_positive("initial_risk", host_number("initial_risk", initial_risk))
    if not host_number("rho", rho) > 0:
        raise ValueError(f"expected rho > 0, got {rho}")
    if clip_scale is not None:
        require_positive("clip_scale", host_number("clip_scale", clip_scale))
    if not 1 <= host_number("largest", largest) < math.inf:
        raise ValueError(f"expected finite largest >= 1, got {largest}")
    if not 1e-6 <= host_number("tolerance", tolerance) < 1:
        raise ValueError(f"expected 1e-6 <= tolerance < 1, got {tolerance}")
    strength = 2 * (gamma / rho) * (gamma / rho)
    if math.isinf(strength):
        raise ValueError(f"expected a rho whose noise float64 can hold, got {rho}")
    law = Law(gamma, strength, label_noise**2 / 2, largest)
    falls = _Falls(law, float(initial_risk), clip_scale, tolerance)
    # The first c eta~ as a share s of [0, infinity): strength (c eta~)^2 = R(0) (s / (1 - s))^2.
    starts = [(falls.ending(0.0, 1.0), 0.0, 1.0)]
    for _ in range(_SPLITS if law.strength else 0):
        bound, least, most = heapq.heappop(starts)
        middle = (least + most) / 2
        for ends in ((least, middle), (middle, most)):
            heapq.heappush(starts, (max(bound, falls.ending(*ends)), *ends))
    return starts[0][0]


class _Falls:
    """The fastest fall at levels of the risk, level j a factor (1 + tolerance)^-j of the first."""

    def __init__(self, law: Law, risk: float, clip: float | None, tolerance: float):
        self.law, self.risk, self.tolerance = law, risk, tolerance
        self.boxes = first_boxes(law, risk, clip)
        self.found: dict[int, tuple[float, float]] = {}

    def ending(self, least: float, most: float) -> float:
        """A lower bound of Z(1) where the first c eta~ is between two shares, and none larger."""
        start = self.risk * (1 + (least / (1 - least)) ** 2)
        rate = np.inf if most == 1 else most / (1 - most) * math.sqrt(self.risk / self.law.strength)
        level = math.floor(math.log(self.risk / start) / math.log1p(self.tolerance))
        time, upper = 1 + _ROUNDING, start
        while True:
            fall, level = self.at(level, rate), level + 1
            lower = self.risk * (1 + self.tolerance) ** -level
            if upper - lower >= time * fall:
                return upper - time * fall
            time, upper = time - max(upper - lower, 0) / fall, min(lower, upper)

    def at(self, level: int, rate: float) -> float:
        """An upper bound of the fall at a level with rates up to one."""
        risk = self.risk * (1 + self.tolerance) ** -level
        if level not in self.found:
            self.found[level] = fastest_fall(risk, self.boxes, self.law, np.inf, self.tolerance)
        fall, fastest = self.found[level]
        if fastest <= rate:
            return fall
        return min(fall, fastest_fall(risk, self.boxes, self.law, rate, self.tolerance)[0])
