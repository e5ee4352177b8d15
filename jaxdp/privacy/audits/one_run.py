r"""Audit by one run: many canaries, each included or not by its own coin, then guessed.

Source: Steinke, Nasr and Jagielski (2023), "Privacy auditing with one (1) training run",
Algorithm 1. Neighbours differ in whether one canary is included. Left out: the same for f-DP.
"""

import math
from typing import Any

import numpy as np
import scipy
from jaxtyping import Bool, Real

from jaxdp.core.checks import given_array, require_count, require_whole
from jaxdp.privacy.audits.two_data_sets import (
    recorded_scores,
    require_audit_delta,
    require_confidence,
)
from jaxdp.privacy.conversions.bisection import largest_within, log_excess

_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-6, 1e3
# Guesses in units of the root of the number of canaries. Of Gaussian leaks (mu .5 to 4, 50 to 10^4
# canaries, delta 1e-5) the mean bound was within a third of that of the best number, mostly within
# a tenth.
_GUESSES = 5.0


def audit_one_run(
    scores: Real[Any, " canaries"],
    included: Bool[Any, " canaries"],
    *,
    delta: float,
    num_guesses: int | None = None,
    confidence: float = 0.95,
) -> float:
    r"""A lower bound on epsilon at delta, from the scores of one run's canaries.

    Each of m canaries is put among the training records, or left out, by a fair coin of its own:
    `included = numpy.random.default_rng().random(m) < 0.5`. If the run is $(\epsilon, \delta)$-DP
    in whether any one of them is included, the bound exceeds $\epsilon$ with probability at most
    1 - `confidence`. Nothing that makes the scores may see the coins.

    How many canaries: all of r guesses right show no epsilon above $\ln(r/3)$ at confidence 0.95,
    and r is $5\sqrt{m}$. 100 canaries (50 guesses) can show 2.8, 1,000 can show 4.0 and 10,000 can
    show 5.1. If the leak is Gaussian with mu = 1, whose epsilon at $10^{-5}$ is 4.4, they show
    about 0.8, 1.6 and 2.2. With delta near 1/m or above little is shown.

    Args:
        scores: one number for each canary, higher if it looks included, (m,); only their order
            counts, and equal scores show nothing.
        included: m booleans, true for canaries that were among the records.
        delta: a number in [0, 1), well below 1/m.
        num_guesses: number r <= m, chosen before the scores are seen. None, the default, takes the
            even number nearest to the smaller of $5\sqrt{m}$ and m/2, at least 1: it depends on m
            alone.
        confidence: a number in (0, 1), default 0.95.

    Returns:
        The bound; 0.0 when none is shown.

    Raises:
        ValueError, TypeError: an argument is not as described, or a score is NaN.

    Example:
        >>> import numpy as np
        >>> from jaxdp.privacy import audit_one_run, gaussian_epsilon
        >>> rng = np.random.default_rng(0)
        >>> included = rng.random(1000) < 0.5
        >>> scores = 2.0 * included + rng.normal(size=1000)
        >>> 2.0 < audit_one_run(scores, included, delta=1e-5) < gaussian_epsilon(2.0, 1e-5)
        True
    """
    require_audit_delta(delta)
    require_confidence(confidence)
    scores, included = _canaries(scores, included)
    count = len(scores)
    if num_guesses is None:
        num_guesses = max(1, 2 * round(min(_GUESSES * math.sqrt(count), count / 2) / 2))
    return one_run_epsilon(
        num_correct_guesses(scores, included, num_guesses),
        num_guesses=num_guesses,
        num_canaries=count,
        delta=delta,
        confidence=confidence,
    )


def num_correct_guesses(
    scores: Real[Any, " canaries"], included: Bool[Any, " canaries"], num_guesses: int
) -> int:
    """Number of right guesses: included for the highest scores, not included for the lowest.

    Half of `num_guesses` each, and an odd one for the highest. Scores are compared in their own
    type, as NumPy orders them.

    Equal scores at either end of what is guessed are counted as if the wrong ones among them were
    guessed: the fewest right guesses that any choice among equal scores gives. The place of a
    canary, which may tell whether it was included, so adds nothing.

    Derived: choose among equal scores by fresh random numbers. This guesser sees the scores alone,
    so that at most a share 1 - `confidence` of runs has a bound above epsilon. The number here is
    never larger than that guesser's, and the bound grows with the number: it is exceeded no more
    often.

    Args:
        scores: one number for each canary, higher if it looks included.
        included: as many booleans, true for canaries that were among the records.
        num_guesses: number r, at most that of the canaries.

    Returns:
        The number of right guesses.

    Raises:
        ValueError, TypeError: an argument is not as described, or a score is NaN.

    Example:
        >>> import numpy as np
        >>> from jaxdp.privacy import num_correct_guesses
        >>> num_correct_guesses(np.array([2.0, -1.0]), np.array([True, False]), num_guesses=2)
        2
    """
    scores, included = _canaries(scores, included)
    _check_counts(0, num_guesses, len(scores))
    # A rank has a negative; unsigned numbers, truth values and the lowest integer have none.
    ranks = np.unique(scores, return_inverse=True)[1]
    num_out = num_guesses // 2
    right = _fewest_right(ranks, included, num_guesses - num_out)
    return right + _fewest_right(-ranks, ~included, num_out)


def _canaries(scores: Any, included: Any) -> tuple[np.ndarray, np.ndarray]:
    """The scores in their own type, and which canaries were included."""
    known, coins = recorded_scores("scores", scores), given_array("included", included)
    if coins.dtype != bool:
        raise TypeError(
            f"expected included to hold booleans, got {coins.dtype}: included == 1, for example"
        )
    if known.ndim != 1 or known.shape != coins.shape:
        raise ValueError(
            f"expected scores to hold one score for each canary, shape {coins.shape}, got shape "
            f"{known.shape}"
        )
    if (known != known).any():
        raise ValueError("expected scores that are numbers, got NaN")
    return known, coins


def _fewest_right(ranks: np.ndarray, is_right: np.ndarray, count: int) -> int:
    """How many guesses of the highest `count` ranks are right, at the least, whatever the ties."""
    if not count:
        return 0
    threshold = np.partition(ranks, len(ranks) - count)[len(ranks) - count]
    is_above, is_tied = ranks > threshold, ranks == threshold
    num_wrong = int((is_tied & ~is_right).sum())
    num_left = count - int(is_above.sum())
    return int((is_above & is_right).sum()) + max(0, num_left - num_wrong)


def one_run_epsilon(
    num_correct: int, *, num_guesses: int, num_canaries: int, delta: float, confidence: float = 0.95
) -> float:
    """The lower bound on epsilon that so many correct guesses show; 0.0 when none is shown.

    The largest epsilon at which `correct_guesses_tail` is at most 1 - `confidence`. Guesses may
    come from anybody who makes exactly `num_guesses` of them and sees nothing but what was
    released.

    Args:
        num_correct: number of right guesses, v.
        num_guesses: number of guesses, r.
        num_canaries: number of canaries, m >= r.
        delta: a number in [0, 1), well below 1/m.
        confidence: a number in (0, 1), default 0.95.

    Returns:
        The bound.

    Example:
        >>> from jaxdp.privacy import one_run_epsilon
        >>> shown = one_run_epsilon(95, num_guesses=100, num_canaries=1000, delta=1e-5)
        >>> print(f"{shown:.2f}")
        2.17
    """
    _check_counts(num_correct, num_guesses, num_canaries)
    require_audit_delta(delta)
    require_confidence(confidence)
    sizes = {"num_guesses": num_guesses, "num_canaries": num_canaries, "delta": delta}
    return largest_within(
        lambda epsilon: log_excess(
            correct_guesses_tail(num_correct, epsilon, **sizes), 1 - confidence
        ),
        _SMALLEST_EPSILON,
        _LARGEST_EPSILON,
    )


def correct_guesses_tail(
    num_correct: int, epsilon: float, *, num_guesses: int, num_canaries: int, delta: float
) -> float:
    r"""The largest probability of v = `num_correct` or more correct guesses of r.

    Under (epsilon, delta)-DP in each of m canaries: with b the probabilities of
    $W \sim \mathrm{Binomial}(r, e^\epsilon/(1 + e^\epsilon))$ and $\beta = P[W \ge v]$, it is
    $\beta + m \delta \beta (1 - \beta) / (v\, b_v)$, or 1 if that is more.

    Source: for $\delta = 0$, Steinke, Nasr and Jagielski (2023), Theorem 5.2. Its term for delta,
    $2 m \delta \max_i P[v > W \ge v - i] / i$, is larger wherever the whole is below 1/2, and too
    small for some v far below the mean of W.

    Derived: let $u_c$ be the probability of c correct guesses. That canary j is guessed
    correctly, one of c, becomes under a flip of its coin that it is guessed wrongly, beside
    c - 1 correct ones. The definition of (epsilon, delta)-DP, summed over the canaries, is
    $\sum_c (e_c)_+ \le m \delta$ with $e_c = c u_c - e^\epsilon (r - c + 1) u_{c-1}$, and
    $c b_c = e^\epsilon (r - c + 1) b_{c-1}$. With $g_c = u_c / b_c$, so that
    $e_c = c b_c (g_c - g_{c-1})$,

    $$P[N \ge v] - \beta = \sum_{c \ge v > d} b_c b_d (g_c - g_d) = \sum_{w=1}^r e_w
    \frac{P[W \ge \max(v, w)] P[W < \min(v, w)]}{w b_w}.$$

    As b is log-concave, the last factor is largest at w = v. The guesser whose only positive e is
    $e_v$, as far as probabilities allow, attains the bound.
    tests/privacy/audits/test_one_run_auditing.py finds the same value by linear programming over
    all mechanisms.
    """
    if num_correct == 0:
        return 1.0
    counts = np.arange(num_guesses + 1)
    # The binomial probabilities in logarithms: e^(r epsilon) would overflow.
    log_b = (
        scipy.special.gammaln(num_guesses + 1)
        - scipy.special.gammaln(counts + 1)
        - scipy.special.gammaln(num_guesses - counts + 1)
        + counts * epsilon
        - num_guesses * np.logaddexp(0, epsilon)
    )
    log_tail = np.logaddexp.reduce(log_b[num_correct:])
    log_rest = np.logaddexp.reduce(log_b[:num_correct])
    tail = math.exp(log_tail)
    if delta > 0:
        leaked = math.log(num_canaries * delta / num_correct)
        leaked += log_tail + log_rest - log_b[num_correct]
        tail += math.exp(min(leaked, 0.0))
    return min(tail, 1.0)


def _check_counts(num_correct: int, num_guesses: int, num_canaries: int) -> None:
    require_count("num_guesses", num_guesses)
    require_count("num_canaries", num_canaries)
    if num_guesses > num_canaries:
        raise ValueError(
            f"expected num_guesses <= num_canaries, got {num_guesses} guesses of {num_canaries}"
        )
    require_whole("num_correct", num_correct)
    if not 0 <= num_correct <= num_guesses:
        raise ValueError(
            f"expected num_correct from 0 to num_guesses = {num_guesses}, got {num_correct}"
        )
