r"""Confidence bound on a function of two probabilities, from their two binomial counts.

Bounding each probability with its own share of the error is valid but wasteful: both bounds rarely
fail at once. Here the two exact p-values are combined, so that the pairs which cannot be excluded
have a rounded edge where a rectangle has its corner. Where both counts matter alike, the same bound
is reached with two and a half times fewer trials.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

# Of the error, the share that keeps each probability from being arbitrarily bad by itself.
_RESERVE = 0.02
_NUM_CELLS = 256
_SMALLEST_WEIGHT = 0.1
_BELOW_ONE = 1 - 2**-53


def lower_bound(
    value: Callable[[Any, Any], Any],
    high_count: float,
    low_count: float,
    num_trials: int | tuple[int, int],
    *,
    weights: tuple[float, float],
    error: float,
) -> float:
    r"""A bound from below on value(p, q), from X ~ Binomial(n, p) and Y ~ Binomial(m, q).

    With probability at least 1 - `error`, whatever p and q are, it does not exceed value(p, q).

    Derived: at the true p and q, $U = P_p[X' \ge X]$ and $V = P_q[Y' \le Y]$ are independent and
    each at most $u$ with probability at most $u$, so that $w_p\Phi^{-1}(U) + w_q\Phi^{-1}(V)$ is,
    for $w_p^2 + w_q^2 = 1$ and $w \ge 0$, at most $\Phi^{-1}(a)$ with probability at most $a$.
    With $a + 2b$ = `error`, all three of this sum $> \Phi^{-1}(a)$, $U > b$ and $V > b$ hold with
    probability at least 1 - `error`. The bound is the least value that they allow. Along the edge
    of that region U falls as V rises, and each point is the corner of a Clopper-Pearson rectangle;
    between two neighbours the worse end of each is taken.
    tests/privacy/audits/test_two_proportions.py sums the failures exactly.

    Args:
        value: non-decreasing in its first argument, non-increasing in its second; on arrays.
        high_count: X.
        low_count: Y.
        num_trials: n and m; one number where they are equal.
        weights: how much each count's error matters, up to a factor; not chosen by looking at
            these counts. Best are the standard errors that they give to the value.
        error: in (0, 1).
    """
    high_trials, low_trials = np.broadcast_to(num_trials, 2)
    high_weight, low_weight = _normalised(weights)
    reserve = scipy.special.ndtri(_RESERVE * error)
    joint = scipy.special.ndtri((1 - 2 * _RESERVE) * error)
    last = (joint - high_weight * reserve) / low_weight
    low_levels = np.linspace(reserve, last, _NUM_CELLS + 1)
    high_levels = (joint - low_weight * low_levels) / high_weight
    # Clopper-Pearson: P_p[X' >= x] and P_q[Y' > y] are beta distribution functions of p and q.
    least, most = np.zeros(_NUM_CELLS + 1), np.ones(_NUM_CELLS + 1)
    if high_count > 0:
        least = _beta_quantile(high_count, high_trials - high_count + 1, high_levels)
    if low_count < low_trials:
        most = _beta_quantile(low_count + 1, low_trials - low_count, -low_levels)
    # A probability that rounds to 1 is not known to be 1.
    return float(np.min(value(np.minimum(least[1:], _BELOW_ONE), most[:-1])))


def _normalised(weights: tuple[float, float]) -> np.ndarray:
    """Weights of unit length, neither so small that its count would go unused."""
    kept = np.maximum(np.asarray(weights) / np.hypot(*weights), _SMALLEST_WEIGHT)
    return kept / np.hypot(*kept)


def _beta_quantile(a: float, b: float, level: np.ndarray) -> np.ndarray:
    """Quantile of Beta(a, b) at probability Phi(level), accurate in both tails."""
    quantile = np.empty_like(level)
    is_low = level < 0
    quantile[is_low] = scipy.special.betaincinv(a, b, scipy.special.ndtr(level[is_low]))
    quantile[~is_low] = scipy.special.betainccinv(a, b, scipy.special.ndtr(-level[~is_low]))
    return quantile
