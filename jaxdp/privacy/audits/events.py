r"""The event by which an audit tells two inputs apart, and the epsilon or mu that it proves.

An audit runs a mechanism on two neighbouring inputs and gets a score from each run. An event is
that the score lies above a threshold, or that it does not. An event that has the probability p
under one input and q under the other proves $\epsilon \ge \ln((p - \delta)/q)$ and $\mu \ge
\Phi^{-1}(p) - \Phi^{-1}(q)$. This module has these two measures, and chooses the threshold that
promises the largest of one of them.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import scipy

# An event is chosen with some slack even where the bound may fail more often than not.
_LARGEST_ERROR = 0.25


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
        """How often it came where it is thought likelier and where not, and in how many trials."""
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

    What is promised is the plug-in value less the normal slack of the counts to come and of the
    counts that it is chosen on. One success and one failure more than seen keep a count of zero
    from promising too much. Nothing here bears on validity: only the trials to come do.

    Args:
        measure: what events are chosen for.
        first: scores on the first input.
        second: scores on the second.
        num_counted: trials to come, on each input.
        error: what the bound to come may spend.
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
