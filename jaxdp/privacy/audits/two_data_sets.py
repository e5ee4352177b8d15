"""Audits on two data sets: lower bounds on the privacy parameter with a stated confidence."""

import hashlib
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Key

from jaxdp.core.checks import require_callable, require_count, require_host, require_key
from jaxdp.core.keys import numbered_key, run_keys
from jaxdp.privacy.audits.events import asked, bound_of, recorded_scores

# Runs by which a compiled mechanism is compared with itself; the second if no score varies.
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
    and Su (2022), Definition 2.6, used so by Nasr et al. (2023), by two intervals.

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
            raise TypeError("expected no num_trials and no key beside scores that were recorded")
        recorded = {"first_scores": mechanism, "second_scores": first}
        pair = (recorded_scores(name, values) for name, values in recorded.items())
        return bound_of(known, _shuffled(ranked(*pair)), error)
    require_key(key)
    require_callable("mechanism", mechanism, "a function of data and key, beside two inputs")
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
    # A coin that is thrown while a mechanism is traced is thrown once, for all runs.
    is_constant = np.all((found == found[0]) | np.isnan(found))
    some = found[: _MANY if is_constant else _FEW]
    plain = [float(mechanism(data, numbered_key(key, place))) for place in range(len(some))]
    # Runs that share their keys differ by rounding alone, on the scale of the scores.
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
    # Batches of one size, so that the mechanism is compiled once; a few runs more than asked for.
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
