"""Audits by one run: many canaries, each included or not by its own coin, then guessed.

Source: Steinke, Nasr and Jagielski (2023), "Privacy auditing with one (1) training
run", Algorithm 1.
"""

import math
from typing import Any, Literal

import numpy as np
import scipy
from jaxtyping import Bool, Real

from jaxdp.core.checks import given_array, require_count
from jaxdp.privacy.audits.two_data_sets import MU, Measure, asked, recorded_scores
from jaxdp.privacy.conversions.bisection import largest_within, log_excess
from jaxdp.privacy.conversions.gaussian import gaussian_mu

_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-6, 1e3
_NUM_EPSILONS, _SMALLEST_DELTA = 200, 1e-300
# Number of guesses over the root of the number of canaries. For Gaussian leaks (mu 0.5 to 4, 50 to
# 10^4 canaries, delta 1e-5) the mean bound was at most a third below the best number's.
_GUESSES = 5.0


def audit_one_run(
    scores: Real[Any, " canaries"],
    included: Bool[Any, " canaries"],
    *,
    measure: Literal["epsilon", "mu"] = "epsilon",
    delta: float | None = None,
    num_guesses: int | None = None,
    confidence: float = 0.95,
) -> float:
    r"""A lower bound on epsilon or mu, from the scores of one run's canaries.

    Each of m canaries is put among the training records, or left out, by a fair coin of its own:
    `included = numpy.random.default_rng().random(m) < 0.5`. Nothing that makes the scores may see
    the coins. If the run is $(\epsilon, \delta)$-DP (or $\mu$-GDP) in whether any one canary is
    included, the bound exceeds $\epsilon$ ($\mu$) with probability at most 1 - `confidence`. The
    canaries with the highest scores are guessed to be included, and as many with the lowest to be
    left out; r guesses that are all right show an epsilon of $\ln(r/3)$ at confidence 0.95.

    Args:
        scores: one number for each canary, (m,), higher if it looks included; only their order
            counts, and equal scores show nothing.
        included: m booleans, true for canaries that were among the records.
        measure: "epsilon" (default) or "mu" of Gaussian DP.
        delta: number in [0, 1), well below 1/m; required for epsilon, unused for mu.
        num_guesses: number r <= m, chosen before the scores are seen. None (default): the even
            number nearest to the smaller of $5\sqrt{m}$ and m/2, at least 1.
        confidence: number in (0, 1), default 0.95.

    Returns:
        The bound; 0.0 if none is shown.

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
    kind, error = asked(measure, delta, confidence)
    known, coins = recorded_scores("scores", scores), given_array("included", included)
    if coins.dtype != bool:
        raise TypeError(f"expected included to hold booleans, got {coins.dtype}")
    if known.shape != coins.shape:
        raise ValueError(f"expected one score for each canary, {coins.shape}, got {known.shape}")
    if (known != known).any():
        raise ValueError("expected scores that are numbers, got NaN")
    count = len(known)
    if num_guesses is None:
        num_guesses = max(1, 2 * round(min(_GUESSES * math.sqrt(count), count / 2) / 2))
    if require_count("num_guesses", num_guesses) > count:
        raise ValueError(f"expected num_guesses <= num_canaries, got {num_guesses} of {count}")
    num_correct = num_correct_guesses(known, coins, num_guesses)
    sizes = {"num_guesses": num_guesses, "num_canaries": count, "error": error}
    return bound_from_guesses(kind, num_correct, **sizes)


def num_correct_guesses(scores: np.ndarray, included: np.ndarray, num_guesses: int) -> int:
    """Number of right guesses: included for the highest scores, left out for the lowest.

    Derived: a guesser who breaks ties by fresh random numbers sees the scores alone, so its bound
    is too high with probability at most 1 - `confidence`. Here the wrong guesses come first among
    equal scores, so the number is never larger than that guesser's, and the bound grows with the
    number.
    """
    # Among equal scores the included canaries come first: wrong for the lowest, as the last of
    # equal scores, which are left out, are wrong for the highest.
    ordered = included[np.lexsort([~included, scores])]
    num_out = num_guesses // 2
    num_in = num_guesses - num_out
    return int((~ordered[:num_out]).sum() + ordered[len(ordered) - num_in :].sum())


def bound_from_guesses(
    measure: Measure, num_correct: int, *, num_guesses: int, num_canaries: int, error: float
) -> float:
    r"""The lower bound from a number of right guesses; too high with probability at most `error`.

    The bound on epsilon is the largest at which `correct_guesses_tail` is at most `error`.

    Derived: $\mu$-GDP is $(\epsilon, \delta_\mu(\epsilon))$-DP at every $\epsilon$
    (`gaussian_delta`), so v or more right guesses have at most the least of the tails at these
    pairs as probability. Each tail falls as v rises, so the least does, and it is at most `error`
    in at most a share `error` of runs. The bound on mu is the largest mu at which some epsilon has
    a tail of at most `error`: the largest over the pairs with a tail of `error`, as the tail is
    linear in delta.
    """
    sizes = {"num_guesses": num_guesses, "num_canaries": num_canaries}

    def excess(epsilon):
        return log_excess(
            correct_guesses_tail(num_correct, epsilon, delta=measure.delta, **sizes), error
        )

    largest = largest_within(excess, _SMALLEST_EPSILON, _LARGEST_EPSILON)
    if measure is not MU:
        return largest
    bound = 0.0
    for epsilon in np.linspace(0, largest, _NUM_EPSILONS, endpoint=False) if largest else ():
        log_tail, log_leak = _tail_and_leak(num_correct, epsilon, **sizes)
        delta = math.exp(math.log(error - math.exp(log_tail)) - log_leak)
        if delta >= _SMALLEST_DELTA:
            bound = max(bound, gaussian_mu(epsilon, delta))
    return bound


def correct_guesses_tail(
    num_correct: int, epsilon: float, *, num_guesses: int, num_canaries: int, delta: float
) -> float:
    r"""The largest probability of v = `num_correct` or more right guesses of r.

    Under (epsilon, delta)-DP in each of m canaries, with b the probabilities of
    $W \sim \mathrm{Binomial}(r, e^\epsilon/(1 + e^\epsilon))$ and $\beta = P[W \ge v]$, it is
    $\beta + m \delta \beta (1 - \beta) / (v\, b_v)$, or 1 if that is more.

    Source: for $\delta = 0$, Steinke, Nasr and Jagielski (2023), Theorem 5.2. Its term for delta,
    $2 m \delta \max_i P[v > W \ge v - i] / i$, is larger wherever the whole is below 1/2, and too
    small for some v far below the mean of W.

    Derived: let $u_c$ be the probability of c right guesses. A flip of canary j's coin turns the
    event that j is one of c right guesses into the event that j is guessed wrongly and c - 1 others
    rightly. The definition of (epsilon, delta)-DP, summed over the canaries, is
    $\sum_c (e_c)_+ \le m \delta$ with $e_c = c u_c - e^\epsilon (r - c + 1) u_{c-1}$, and
    $c b_c = e^\epsilon (r - c + 1) b_{c-1}$. With $g_c = u_c / b_c$, so that
    $e_c = c b_c (g_c - g_{c-1})$,

    $$P[N \ge v] - \beta = \sum_{c \ge v > d} b_c b_d (g_c - g_d) = \sum_{w=1}^r e_w
    \frac{P[W \ge \max(v, w)] P[W < \min(v, w)]}{w b_w}.$$

    As b is log-concave, the last factor is largest at w = v. The guesser whose only positive e is
    $e_v$, as far as probabilities allow, attains the bound. test_one_run_auditing.py finds the same
    value by linear programming over all mechanisms.
    """
    if num_correct == 0:
        return 1.0
    log_tail, log_leak = _tail_and_leak(num_correct, epsilon, num_guesses, num_canaries)
    leaked = math.exp(min(math.log(delta) + log_leak, 0.0)) if delta > 0 else 0.0
    return min(math.exp(log_tail) + leaked, 1.0)


def _tail_and_leak(
    num_correct: int, epsilon: float, num_guesses: int, num_canaries: int
) -> tuple[float, float]:
    """The logarithms of the tail without delta, and of what one unit of delta adds to it."""
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
    log_leak = math.log(num_canaries / num_correct) + log_tail + log_rest - log_b[num_correct]
    return log_tail, log_leak
