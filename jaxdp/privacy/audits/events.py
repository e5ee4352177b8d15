r"""The event by which an audit tells two inputs apart, and the epsilon or mu that it proves.

An event of probability p under one input and q under the other proves $\epsilon \ge \ln((p -
\delta)/q)$ and $\mu \ge \Phi^{-1}(p) - \Phi^{-1}(q)$. Combining the exact p-values of both counts
needs 2.5 times fewer trials than two separate intervals if both counts matter alike.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy
from jaxtyping import ArrayLike

from jaxdp.core.checks import given_array, host_number, require_real

_SELECTION_SHARE = 0.25
# An event is chosen with some slack even if the bound may fail more often than not.
_LARGEST_ERROR = 0.25
# Share of the error that bounds each probability by itself.
_RESERVE = 0.02
_NUM_CELLS = 256
_SMALLEST_WEIGHT = 0.1
_BELOW_ONE = 1 - 2**-53


class Measure(NamedTuple):
    """The privacy parameter that an event bounds: `transform`(p - delta) - `transform`(q)."""

    transform: Callable[[Any], Any]
    slope: Callable[[Any], Any]
    delta: float = 0.0

    def value(self, p: Any, q: Any) -> Any:
        with np.errstate(divide="ignore"):
            return self.transform(np.maximum(p - self.delta, 0)) - self.transform(q)


# Importing `scipy.special` takes long, so these functions do it when they are called.
MU = Measure(
    lambda p: scipy.special.ndtri(p),
    lambda p: math.sqrt(2 * math.pi) * np.exp(scipy.special.ndtri(p) ** 2 / 2),
)


def asked(measure: str, delta: float | None, confidence: float) -> tuple[Measure, float]:
    """The measure of that name, and the probability that its bound may be too high.

    Delta may be 0, which audits pure privacy. ValueError or TypeError for a wrong argument.
    """
    if not 0 < host_number("confidence", confidence) < 1:
        raise ValueError(f"expected 0 < confidence < 1, got {confidence}")
    if measure == "mu":
        return MU, 1 - confidence
    if measure != "epsilon":
        raise ValueError(f"expected measure to be 'epsilon' or 'mu', got {measure!r}")
    if not 0 <= host_number("delta", delta) < 1:
        raise ValueError(f"expected 0 <= delta < 1, got {delta}")
    return Measure(np.log, np.reciprocal, host_number("delta", delta)), 1 - confidence


def recorded_scores(name: str, values: Any) -> np.ndarray:
    """One score for each run or canary, in its own type: float64 would merge large integers."""
    require_real(name, values)
    scores = given_array(name, values)
    if scores.dtype.kind == "O":
        scores = np.array(scores.tolist())
    scores = scores if scores.dtype.kind in "biuf" else scores.astype(np.float64)
    if scores.ndim != 1 or not len(scores):
        raise ValueError(f"expected {name} to be a vector, got shape {scores.shape}")
    return scores


def bound_of(measure: Measure, pair: list[np.ndarray], error: float) -> float:
    """The lower bound from integer scores on two inputs, whose order in the list is random.

    The first quarter of each input's scores chooses the event with the highest promised bound: the
    plug-in value less the normal slack of that quarter's counts and of the remaining ones. The
    remaining scores count the event, and validity rests on them alone. ValueError if the trials are
    too few to show anything.
    """
    seen, counted = zip(
        *(np.split(one, [max(1, round(_SELECTION_SHARE * len(one)))]) for one in pair), strict=True
    )
    lengths, sizes = (np.array([[len(one)] for one in part]) for part in (seen, counted))
    # Scores that never overlap, with either input as the first.
    limits = (
        lower_bound(measure.value, each[0], 0, each, weights=(1, 1), error=error)
        for each in (sizes[:, 0], sizes[::-1, 0])
    )
    if max(limits) <= 0:
        raise ValueError(
            f"expected enough trials to show something at confidence {1 - error:g}, got "
            f"{len(pair[0])} on one input and {len(pair[1])} on the other"
        )
    scores = np.concatenate(seen)
    # Above the number before a score is the same as at or above that score.
    thresholds = np.unique([scores, scores - 1])
    not_above = np.stack([np.searchsorted(np.sort(one), thresholds, "right") for one in seen])
    # By side of the threshold, by the input on which the event is thought likelier, by threshold.
    p = (np.stack([lengths - not_above, not_above]) + 1) / (lengths + 2)
    q = p[:, ::-1]
    # Standard errors that one trial would give.
    with np.errstate(divide="ignore"):
        p_error = measure.slope(np.maximum(p - measure.delta, 0)) * np.sqrt(p * (1 - p))
    q_error = measure.slope(q) * np.sqrt(q * (1 - q))
    slack = np.sqrt(1 / lengths + 1 / sizes) * -scipy.special.ndtri(min(error, _LARGEST_ERROR))
    promised = measure.value(p, q) - np.hypot(p_error * slack, q_error * slack[::-1])
    side, likelier, place = best = np.unravel_index(np.argmax(promised), promised.shape)
    if promised[best] == -np.inf:
        return 0.0
    order = [likelier, 1 - likelier]
    high, low = (int(np.sum((counted[i] > thresholds[place]) == (side == 0))) for i in order)
    trials = sizes[order, 0]
    weights = p_error[best] / math.sqrt(trials[0]), q_error[best] / math.sqrt(trials[1])
    return max(0.0, lower_bound(measure.value, high, low, trials, weights=weights, error=error))


def lower_bound(
    value: Callable[[Any, Any], Any],
    high_count: float,
    low_count: float,
    num_trials: ArrayLike,
    *,
    weights: tuple[float, float],
    error: float,
) -> float:
    r"""A lower bound on value(p, q), from X ~ Binomial(n, p) and Y ~ Binomial(m, q).

    For all p and q it exceeds value(p, q) with probability at most `error`.

    Derived: at the true p and q, $U = P_p[X' \ge X]$ and $V = P_q[Y' \le Y]$ are independent, and
    each is at most u with probability at most u. So $w_p\Phi^{-1}(U) + w_q\Phi^{-1}(V)$, for $w_p^2
    + w_q^2 = 1$ and $w \ge 0$, is at most $\Phi^{-1}(a)$ with probability at most a. If $a + 2b$ is
    `error`, then with probability at least 1 - `error` this sum is above $\Phi^{-1}(a)$, U > b and
    V > b. The bound is the least value in that region. Along its edge U falls as V rises, and each
    point is the corner of a Clopper-Pearson rectangle; between two neighbouring points the worse
    end of each is taken. tests/unit/privacy/audits/test_two_proportions.py sums the failures
    exactly.

    Args:
        value: function of arrays, non-decreasing in p and non-increasing in q.
        high_count, low_count: X and Y.
        num_trials: n and m, or one number for both.
        weights: relative importance of each count's error, chosen without these counts; best are
            the standard errors that the counts give to the value.
        error: number in (0, 1).
    """
    high_trials, low_trials = np.broadcast_to(num_trials, 2)
    # Neither weight so small that its count would go unused.
    kept = np.maximum(np.asarray(weights) / np.hypot(*weights), _SMALLEST_WEIGHT)
    high_weight, low_weight = kept / np.hypot(*kept)
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


def _beta_quantile(a: float, b: float, level: np.ndarray) -> np.ndarray:
    """Quantile of Beta(a, b) at probability Phi(level), accurate in both tails."""
    low = scipy.special.betaincinv(a, b, scipy.special.ndtr(level))
    high = scipy.special.betainccinv(a, b, scipy.special.ndtr(-level))
    return np.where(level < 0, low, high)
