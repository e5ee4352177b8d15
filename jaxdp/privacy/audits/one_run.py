r"""Audit by one run: many canaries, each included or not by its own coin, then guessed.

Source: Steinke, Nasr and Jagielski (2023), "Privacy auditing with one (1) training run",
Algorithm 1. Neighbours differ in whether one canary is included. Left out: the same for f-DP.
"""

import math
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy
from jaxtyping import Array, Bool, Float, Int, Key

from jaxdp.core.checks import (
    require_callable,
    require_count,
    require_key,
    require_real,
    require_whole,
)
from jaxdp.core.keys import purpose_key
from jaxdp.privacy.audits.two_data_sets import require_audit_delta, require_confidence
from jaxdp.privacy.conversions.bisection import largest_within, log_excess

_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-6, 1e3


def audit_one_run(
    mechanism: Callable[[Bool[Array, " canaries"], Key[Array, ""]], Float[Array, " canaries"]],
    num_canaries: int,
    *,
    num_guesses: int,
    delta: float,
    confidence: float = 0.95,
    key: Key[Array, ""],
) -> float:
    r"""A lower bound on epsilon at delta, from one run with many canaries.

    Each canary is included with probability 1/2, independently. If the mechanism is
    $(\epsilon, \delta)$-DP in whether any one of them is included, the bound exceeds $\epsilon$
    with probability at most 1 - `confidence` over `key`.

    Args:
        mechanism: (included, key) -> one score a canary, higher where it looks included;
            traceable. For one that is not, use `num_correct_guesses` and `one_run_epsilon`.
        num_canaries: m.
        num_guesses: r <= m: the half with the highest scores is guessed included, the half with
            the lowest not included, and the rest is not guessed. To be fixed before the run.
        delta: in [0, 1); well below 1/m, or little is shown.
        confidence: in (0, 1).
        key: used up by the canaries' coins and the run.

    Returns:
        The bound; 0.0 when none is shown.

    Example:
        >>> import jax
        >>> from jaxdp.privacy import audit_one_run, gaussian_epsilon
        >>> mechanism = lambda included, key: 2.0 * included + jax.random.normal(key, (1000,))
        >>> rules = {"num_guesses": 200, "delta": 1e-3}
        >>> bound = audit_one_run(mechanism, 1000, **rules, key=jax.random.key(0))
        >>> 1.0 < bound < gaussian_epsilon(2.0, 1e-3)
        True
    """
    _check_counts(0, num_guesses, num_canaries)
    require_audit_delta(delta)
    require_confidence(confidence)
    require_key(key)
    require_callable("mechanism", mechanism, "a function of included and key")
    correct = _one_run(mechanism, num_canaries, num_guesses, key)
    return one_run_epsilon(
        int(correct),
        num_guesses=num_guesses,
        num_canaries=num_canaries,
        delta=delta,
        confidence=confidence,
    )


@eqx.filter_jit
def _one_run(mechanism, num_canaries, num_guesses, key):
    included = jr.bernoulli(purpose_key(key, "sampling"), 0.5, (num_canaries,))
    scores = mechanism(included, purpose_key(key, "noise"))
    return num_correct_guesses(scores, included, num_guesses)


def num_correct_guesses(
    scores: Float[Array, " canaries"], included: Bool[Array, " canaries"], num_guesses: int
) -> Int[Array, ""]:
    """Number of right guesses: included for the highest scores, not included for the lowest.

    Half of `num_guesses` each, and an odd one for the highest. Equal scores are told apart by
    their place, and one that is not a number counts as the lowest.

    Args:
        scores: one a canary, higher where it looks included.
        included: which canaries were.
        num_guesses: r, at most as many as there are canaries.

    Returns:
        The number of right guesses.

    Example:
        >>> import numpy as np
        >>> from jaxdp.privacy import num_correct_guesses
        >>> int(num_correct_guesses(np.array([2.0, -1.0]), np.array([True, False]), num_guesses=2))
        2
    """
    require_real("scores", scores)
    require_real("included", included)
    scores, included = jnp.asarray(scores), jnp.asarray(included, bool)
    if scores.ndim != 1 or scores.shape != included.shape:
        raise ValueError(
            f"expected scores to hold one score a canary, shape {included.shape}, got shape "
            f"{scores.shape}"
        )
    _check_counts(0, num_guesses, len(scores))
    order = jnp.argsort(jnp.where(jnp.isnan(scores), -jnp.inf, scores))
    num_out = num_guesses // 2
    num_in = num_guesses - num_out
    return jnp.sum(included[order[len(scores) - num_in :]]) + jnp.sum(~included[order[:num_out]])


def one_run_epsilon(
    num_correct: int, *, num_guesses: int, num_canaries: int, delta: float, confidence: float = 0.95
) -> float:
    """The lower bound on epsilon that so many correct guesses show; 0.0 when none is shown.

    The largest epsilon at which `correct_guesses_tail` is at most 1 - `confidence`. Guesses may
    come from anybody who makes exactly `num_guesses` of them and sees nothing but what was
    released.

    Args:
        num_correct: how many guesses were right.
        num_guesses, num_canaries, delta, confidence: as of `audit_one_run`.

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
