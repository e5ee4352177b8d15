r"""Audits on two data sets: lower bounds on the privacy parameter with a stated confidence.

An event of probability p under one input and q under the other proves
$\epsilon \ge \ln((p - \delta)/q)$ and $\mu \ge \Phi^{-1}(p) - \Phi^{-1}(q)$. Combining the exact
p-values of both counts needs 2.5 times fewer trials than two separate intervals if both counts
matter alike.
"""

import hashlib
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy
from jax import lax
from jaxtyping import Array, ArrayLike, Float, Key

from jaxdp.core.checks import (
    given_array,
    host_number,
    require_callable,
    require_count,
    require_host,
    require_key,
    require_real,
)
from jaxdp.core.keys import numbered_key, run_keys

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


# Lambdas, because importing `scipy.special` takes long.
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
    # The best case: scores that never overlap, with either input as the first.
    both, options = (sizes[:, 0], sizes[::-1, 0]), {"weights": (1, 1), "error": error}
    if max(lower_bound(measure.value, each[0], 0, each, **options) for each in both) <= 0:
        came = f"{len(pair[0])} on one input and {len(pair[1])} on the other"
        wanted = f"enough trials to show something at confidence {1 - error:g}"
        raise ValueError(f"expected {wanted}, got {came}")
    scores = np.concatenate(seen)
    # Above the number before a score is the same as at or above that score.
    thresholds = np.unique([scores, scores - 1])
    not_above = np.stack([np.searchsorted(np.sort(one), thresholds, "right") for one in seen])
    # Axes: side of the threshold, input with the larger probability, threshold.
    p = (np.stack([lengths - not_above, not_above]) + 1) / (lengths + 2)
    q = p[:, ::-1]
    # Standard errors of one trial.
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
    each is at most u with probability at most u. So $w_p\Phi^{-1}(U) + w_q\Phi^{-1}(V)$, for
    $w_p^2 + w_q^2 = 1$ and $w \ge 0$, is at most $\Phi^{-1}(a)$ with probability at most a. If
    $a + 2b$ is `error`, then with probability at least 1 - `error` this sum is above
    $\Phi^{-1}(a)$, U > b and V > b. The bound is the least value in that region. Along its edge U
    falls as V rises, and each point is the corner of a Clopper-Pearson rectangle; between two
    neighbouring points the worse end of each is taken.
    tests/unit/privacy/audits/test_two_proportions.py sums the failures exactly.

    Args:
        value: function of arrays, non-decreasing in p and non-increasing in q.
        high_count, low_count: X and Y.
        num_trials: n and m, or one number for both.
        weights: relative importance of each count's error, chosen without these counts; best are
            the standard errors that the counts give to the value.
        error: number in (0, 1).
    """
    high_trials, low_trials = np.broadcast_to(num_trials, 2)
    # Both counts are used.
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


# Runs that check a compiled mechanism against itself; the second if no score varies.
_FEW, _MANY = 4, 64
_ROUNDING = 1e-3
_RECORD = ": run it yourself, and audit(first_scores, second_scores)"


def audit(
    mechanism: Callable[[Any, Key[Array, ""]], Float[Array, ""]] | Float[Any, " first"],
    first: Any,
    second: Any = None,
    *,
    measure: Literal["epsilon", "mu"] = "epsilon",
    delta: float | None = None,
    confidence: float = 0.95,
    num_trials: int | None = None,
    key: Key[Array, ""] | None = None,
    batch_size: int = 1024,
) -> float:
    r"""A lower bound on what a mechanism leaks, from many runs on two neighbouring inputs.

    `audit(mechanism, first, second, num_trials=, key=)` runs the mechanism; `audit(first_scores,
    second_scores)` takes one score from each earlier run. If the mechanism is $(\epsilon,
    \delta)$-DP (or $\mu$-GDP) for this pair, the bound exceeds $\epsilon$ ($\mu$) with probability
    at most 1 - `confidence` over the runs. An audit can refute a guarantee, never prove one. Events
    are the scores above or below a threshold, in both directions of the definition; NaN counts as a
    value below minus infinity. A quarter of the scores choose the event, the others count it.

    Recorded runs must be independent, and their number and the score fixed before anybody sees
    them. They may come in any order, and there may be more on one input. To report the best of
    several mechanisms or scores, divide 1 - `confidence` among them.

    Args:
        mechanism: function of data and a key that returns a scalar score. JAX must be able to trace
            it, and all its random numbers must come from its key; for others, record the scores.
        first: input, a pytree of arrays.
        second: its neighbour under the adjacency of the guarantee.
        measure: "epsilon" (default), or "mu", which needs far fewer trials for Gaussian mechanisms.
        delta: number in [0, 1), required for epsilon, unused for mu. No n trials show an epsilon
            above ln n, so Gaussian mechanisms are audited best at a large delta.
        confidence: number in (0, 1), default 0.95.
        num_trials: number of runs on each input.
        key: a `jax.random.key` for the runs, used up.
        batch_size: number of runs in memory at once, default 1024.

    Returns:
        The bound; 0.0 if none is shown.

    Raises:
        ValueError, TypeError: a score is not a real number, the trials are too few to show
            anything, or the mechanism cannot be traced or draws random numbers outside its key.

    Source: $\mu \ge -\Phi^{-1}(\mathrm{FPR}) - \Phi^{-1}(\mathrm{FNR})$ for every test, Dong, Roth
    and Su (2022), Definition 2.6, used so by Nasr et al. (2023), "Tight auditing of differentially
    private machine learning", by two intervals; audits: Jagielski, Ullman and Oprea (2020).

    Derived: $P[S] \le e^\epsilon Q[S] + \delta$ for every event S;
    tests/unit/privacy/audits/test_auditing.py counts how often the bound fails.

    Example:
        >>> import jax, numpy as np
        >>> from jaxdp.privacy import audit, gaussian_epsilon
        >>> mechanism = lambda data, key: data + jax.random.normal(key)
        >>> runs = {"num_trials": 4000, "key": jax.random.key(0)}
        >>> 0.5 < audit(mechanism, 0.0, 2.0, delta=0.1, **runs) < gaussian_epsilon(2.0, 0.1)
        True
        >>> recorded = np.random.default_rng(0).normal([[0.0], [2.0]], size=(2, 4000))
        >>> 1.5 < audit(*recorded, measure="mu") < 2.0
        True
    """
    known, error = asked(measure, delta, confidence)
    if second is None and not callable(mechanism):
        if num_trials is not None or key is not None:
            raise TypeError("expected no num_trials and no key with recorded scores")
        recorded = {"first_scores": mechanism, "second_scores": first}
        pair = (recorded_scores(name, values) for name, values in recorded.items())
        return bound_of(known, _shuffled(ranked(*pair)), error)
    require_key(key)
    require_callable("mechanism", mechanism, "a function of data and key")
    require_host("first and second", (first, second))
    num_trials = require_count("num_trials", num_trials)
    batch_size = require_count("batch_size", batch_size)
    assert key is not None
    both = zip((first, second), jr.split(key), strict=True)
    pair = (_scores(mechanism, *each, num_trials, batch_size) for each in both)
    return bound_of(known, ranked(*pair), error)


def ranked(first: np.ndarray, second: np.ndarray) -> list[np.ndarray]:
    """Each score's rank among all; a bound depends on nothing else. NaN has rank -1."""
    # Python compares numbers of different types without rounding.
    kind = first.dtype if first.dtype == second.dtype else object
    scores = np.concatenate([first.astype(kind), second.astype(kind)])
    is_number = scores == scores
    ranks = np.full(len(scores), -1)
    ranks[is_number] = np.unique(scores[is_number], return_inverse=True)[1]
    return np.split(ranks, [len(first)])


def _shuffled(pair: list[np.ndarray]) -> list[np.ndarray]:
    """The scores shuffled by a digest of their values, so that their own order does not count."""
    known = [np.sort(scores) for scores in pair]
    digest = hashlib.sha256(repr([len(scores) for scores in known]).encode())
    for scores in known:
        digest.update(scores.tobytes())
    rng = np.random.default_rng(int.from_bytes(digest.digest()))
    return [rng.permutation(scores) for scores in known]


def _scores(mechanism, data, key, num_trials: int, batch_size: int) -> np.ndarray:
    data = jax.tree.map(lambda x: np.float64(x) if isinstance(x, float) else x, data)
    try:
        found = np.asarray(_compiled_scores(mechanism, data, key, num_trials, batch_size))
    except jax.errors.JAXTypeError as error:
        raise TypeError(f"expected a mechanism that JAX can trace{_RECORD}") from error
    found = found.astype(np.float64)
    # A coin thrown during tracing is thrown once for all runs.
    is_constant = np.all((found == found[0]) | np.isnan(found))
    some = found[: _MANY if is_constant else _FEW]
    plain = [float(mechanism(data, numbered_key(key, place))) for place in range(len(some))]
    # Runs with equal keys differ by rounding alone, on the scale of the scores.
    finite = found[np.isfinite(found)]
    spread = np.median(np.abs(finite - np.median(finite))) if finite.size else 0.0
    if not np.allclose(some, plain, rtol=_ROUNDING, atol=_ROUNDING * spread, equal_nan=True):
        raise ValueError(
            "expected a mechanism whose random numbers all come from its key, got other scores "
            f"each time it is called{_RECORD}"
        )
    return found


@eqx.filter_jit
def _compiled_scores(mechanism, data, key, num_trials, batch_size):
    # Batches of one size compile once; a few surplus runs are dropped.
    num_batches = -(-num_trials // batch_size)
    batch_size = -(-num_trials // num_batches)
    keys = run_keys(key, num_batches * batch_size)
    found = lax.map(lambda run: _scalar(mechanism(data, run)), keys, batch_size=batch_size)
    return found[:num_trials]


def _scalar(score):
    if not eqx.is_array_like(score) or jnp.iscomplexobj(score) or jnp.shape(score) != ():
        is_real = eqx.is_array_like(score) and not jnp.iscomplexobj(score)
        came = f"shape {jnp.shape(score)}" if is_real else type(score).__name__
        raise TypeError(f"expected the mechanism to return a real scalar score, got {came}")
    return score
