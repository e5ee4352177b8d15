r"""Audit by one run: many canaries, each included or not by its own coin, then guessed.

Source: Steinke, Nasr and Jagielski (2023), "Privacy auditing with one (1) training run",
Algorithm 1. Neighbours differ in whether one canary is included. Left out: f-DP other than
Gaussian DP, and sharper bounds on mu than those that follow from epsilon and delta.
"""

import math
from typing import Any, Literal

import numpy as np
import scipy
from jaxtyping import Bool, Real

from jaxdp.core.checks import given_array, require_count
from jaxdp.privacy.audits.events import MU, Measure, asked, recorded_scores
from jaxdp.privacy.conversions.bisection import largest_within, log_excess
from jaxdp.privacy.conversions.gaussian import gaussian_mu

_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-6, 1e3
_NUM_EPSILONS, _SMALLEST_DELTA = 200, 1e-300
# Guesses in units of the root of the number of canaries. Of Gaussian leaks (mu 0.5 to 4, 50 to 10^4
# canaries, delta 1e-5) the mean bound was within a third of that of the best number, mostly within
# a tenth.
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
    `included = numpy.random.default_rng().random(m) < 0.5`. If the run is $(\epsilon, \delta)$-DP
    in whether any one of them is included, the bound exceeds $\epsilon$ with probability at most
    1 - `confidence`; or if it is $\mu$-GDP, $\mu$. Nothing that makes the scores may see the coins.
    The highest scores are guessed to be included and as many of the lowest not to be. If all of r
    guesses are right, they show an epsilon of $\ln(r/3)$ at confidence 0.95; r is $5\sqrt{m}$.

    Args:
        scores: one number for each canary, higher if it looks included, (m,); only their order
            counts, and equal scores show nothing.
        included: m booleans, true for canaries that were among the records.
        measure: "epsilon", the default, or "mu" of Gaussian DP.
        delta: number in [0, 1), well below 1/m, for epsilon; unused for mu.
        num_guesses: number r <= m, chosen before the scores are seen. None, the default, takes the
            even number nearest to the smaller of $5\sqrt{m}$ and m/2, at least 1.
        confidence: number in (0, 1), default 0.95.

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
    """Number of right guesses: included for the highest scores, not included for the lowest.

    Half of `num_guesses` each, and an odd one for the highest. Among equal scores the wrong guesses
    come first, so that a canary's place, which may tell whether it was included, adds nothing.

    Derived: choose among equal scores by fresh random numbers. This guesser sees the scores alone,
    so that at most a share 1 - `confidence` of runs has a bound that is too high. The number here
    is never larger than that guesser's, and the bound grows with the number.
    """
    # A rank has a negative; unsigned numbers, truth values and the lowest integer have none.
    ranks = np.unique(scores, return_inverse=True)[1]
    num_out, num_right = num_guesses // 2, 0
    for place, is_right, num in (
        (ranks, included, num_guesses - num_out),
        (-ranks, ~included, num_out),
    ):
        # The highest come last, and among equal ones the right before the wrong.
        order = np.lexsort([~is_right, place])
        num_right += int(is_right[order[len(order) - num :]].sum())
    return num_right


def bound_from_guesses(
    measure: Measure, num_correct: int, *, num_guesses: int, num_canaries: int, error: float
) -> float:
    r"""The lower bound that so many right guesses show; it is too high in a share `error` of runs.

    That on epsilon is the largest at which `correct_guesses_tail` is at most `error`.

    Derived: $\mu$-GDP is $(\epsilon, \delta_\mu(\epsilon))$-DP at every $\epsilon$
    (`gaussian_delta`), so that v or more right guesses are no likelier than the least of the tails
    at these pairs. That least falls as v rises, as each of them does, and is therefore at most
    `error` in at most that share of runs. The bound on mu is the largest at which some epsilon has
    such a tail: the largest mu over pairs at which the tail is `error`, for it is linear in delta.
    """
    sizes = {"num_guesses": num_guesses, "num_canaries": num_canaries}
    largest = largest_within(
        lambda epsilon: log_excess(
            correct_guesses_tail(num_correct, epsilon, delta=measure.delta, **sizes), error
        ),
        _SMALLEST_EPSILON,
        _LARGEST_EPSILON,
    )
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
    test_one_run_auditing.py finds the same value by linear programming over
    all mechanisms.
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
