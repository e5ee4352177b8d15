r"""The event by which an audit tells two inputs apart, and the epsilon or mu that it proves.

An event, that a score lies above a threshold or that it does not, of probability p under one input
and q under the other proves $\epsilon \ge \ln((p - \delta)/q)$ and
$\mu \ge \Phi^{-1}(p) - \Phi^{-1}(q)$. This module has these two measures, chooses the threshold
that promises the largest of one of them, and bounds it from two binomial counts.

Bounding each probability with its own share of the error is valid but wasteful: both bounds rarely
fail at once. Here the two exact p-values are combined, so that the pairs which cannot be excluded
have a rounded edge where a rectangle has its corner. Where both counts matter alike, the same bound
is reached with two and a half times fewer trials.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy

# An event is chosen with some slack even where the bound may fail more often than not.
_LARGEST_ERROR = 0.25
# The share of the error that keeps each probability from being arbitrarily bad by itself.
_RESERVE = 0.02
_NUM_CELLS = 256
_SMALLEST_WEIGHT = 0.1
_BELOW_ONE = 1 - 2**-53


class Epsilon(NamedTuple):
    """The epsilon that an event of probabilities p and q shows at delta."""

    delta: float

    def value(self, p: Any, q: Any) -> Any:
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(p - self.delta, 0)) - np.log(q)

    def slopes(self, p: Any, q: Any) -> tuple[Any, Any]:
        with np.errstate(divide="ignore"):
            return 1 / np.maximum(p - self.delta, 0), 1 / q


class Mu(NamedTuple):
    """The mu that an event of probabilities p and q shows."""

    def value(self, p: Any, q: Any) -> Any:
        return scipy.special.ndtri(p) - scipy.special.ndtri(q)

    def slopes(self, p: Any, q: Any) -> tuple[Any, Any]:
        scale = math.sqrt(2 * math.pi)
        first, second = (np.exp(scipy.special.ndtri(each) ** 2 / 2) for each in (p, q))
        return scale * first, scale * second


class Event(NamedTuple):
    """Scores above a threshold, or those not above it, thought likelier under one input.

    `weights` are the standard errors that the two counts give to what the event shows.
    """

    threshold: float
    is_above: bool
    is_swapped: bool
    weights: tuple[float, float]

    def counts(self, first: np.ndarray, second: np.ndarray) -> tuple[int, int, tuple[int, int]]:
        """Counts of the event on the likelier and on the other input, and the numbers of trials."""
        likelier, other = (second, first) if self.is_swapped else (first, second)
        high, low = (
            int(np.sum((scores > self.threshold) == self.is_above)) for scores in (likelier, other)
        )
        return high, low, (len(likelier), len(other))


def choose_event(
    measure: Epsilon | Mu,
    first: np.ndarray,
    second: np.ndarray,
    *,
    num_counted: tuple[int, int],
    error: float,
) -> Event | None:
    """The event that promises the highest bound, or None when none promises any.

    What is promised is the plug-in value less the normal slack of the counts to come (`num_counted`
    on each input) and of those that it is chosen on. Only the trials to come bear on validity.
    """
    seen = np.unique(np.concatenate([first, second]))
    # Above the number before a score is the same as at or above that score.
    thresholds = np.unique(np.concatenate([seen, np.nextafter(seen, -np.inf)]))
    lengths = len(first), len(second)
    above = [
        length - np.searchsorted(np.sort(scores), thresholds, side="right")
        for scores, length in zip((first, second), lengths, strict=True)
    ]
    sigmas = -scipy.special.ndtri(min(error, _LARGEST_ERROR))
    slacks = [sigmas * np.sqrt(1 / n + 1 / m) for n, m in zip(lengths, num_counted, strict=True)]
    best, event = -np.inf, None
    for is_above in (True, False):
        shares = [
            ((count if is_above else length - count) + 1) / (length + 2)
            for count, length in zip(above, lengths, strict=True)
        ]
        for is_swapped in (False, True):
            order = (1, 0) if is_swapped else (0, 1)
            p, q = (shares[place] for place in order)
            # Standard errors that one trial would give.
            p_slope, q_slope = measure.slopes(p, q)
            errors = p_slope * np.sqrt(p * (1 - p)), q_slope * np.sqrt(q * (1 - q))
            slack = np.hypot(errors[0] * slacks[order[0]], errors[1] * slacks[order[1]])
            promised = measure.value(p, q) - slack
            index = np.argmax(promised)
            if promised[index] > best:
                best = promised[index]
                high, low = (
                    float(one[index]) / math.sqrt(num_counted[place])
                    for one, place in zip(errors, order, strict=True)
                )
                event = Event(float(thresholds[index]), is_above, is_swapped, (high, low))
    return event


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
        high_count, low_count: X and Y.
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
