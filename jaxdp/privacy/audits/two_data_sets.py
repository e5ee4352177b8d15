"""Audits on two data sets: how private a mechanism is not, by a bound of stated confidence.

A mechanism is run many times on two neighbouring inputs, or its scores have been recorded. A
quarter of the scores chooses an event; on the others it is counted under both inputs, and the two
counts bound the privacy parameter from below (`lower_bound`). Recorded scores are shuffled first,
by a digest of their ranks: a bound depends on how the scores of both compare, as NumPy orders them,
and not on their type or on the order in which they come.

Papers: Jagielski, Ullman and Oprea (2020), "Auditing differentially private machine learning"; Nasr
et al. (2023), "Tight auditing of differentially private machine learning". Left out: finding the
two inputs. An audit proves no privacy: it can only refute.
"""

import hashlib
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Key

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
from jaxdp.privacy.audits.events import Epsilon, Mu, choose_event, lower_bound

_SELECTION_SHARE = 0.25
# Runs by which a compiled mechanism is compared with itself; the second where no score varies.
_FEW, _MANY = 4, 64
_ROUNDING = 1e-3


def audit(
    mechanism: Callable[[Any, Key[Array, ""]], Float[Array, ""]],
    first: Any,
    second: Any,
    *,
    num_trials: int,
    delta: float,
    confidence: float = 0.95,
    key: Key[Array, ""],
    batch_size: int = 1024,
) -> float:
    r"""A lower bound on epsilon at delta, from many runs on two neighbouring inputs.

    If the mechanism is $(\epsilon, \delta)$-DP for this pair, the bound exceeds $\epsilon$ with
    probability at most 1 - `confidence` over `key`. Candidates are the scores above and those
    below any threshold, in both directions of the definition. NaN is an outcome of its own, below
    minus infinity.

    Args:
        mechanism: (data, key) -> scalar score. One that JAX can trace is compiled. One that it
            cannot, or whose random numbers do not all come from its key (NumPy's, or those of
            `SecretNoise`), is called once a run.
        first: an input, a pytree of arrays.
        second: its neighbour, in the sense of the guarantee that is put to the test.
        num_trials: runs on each of the two; a quarter of them choose the event.
        delta: in [0, 1). No n trials show an epsilon above ln n: a Gaussian mechanism is audited
            best at a large delta.
        confidence: in (0, 1).
        key: used up by the runs.
        batch_size: compiled runs that are in memory together.

    Returns:
        The bound; 0.0 when none is shown.

    Raises:
        ValueError, TypeError: the score is not a real scalar, or there are too few trials to show
            anything.

    Derived: $P[S] \le e^\epsilon Q[S] + \delta$ for every event S;
    tests/privacy/audits/test_auditing.py counts how often the bound fails.

    Example:
        >>> import jax
        >>> from jaxdp.privacy import audit, gaussian_epsilon
        >>> mechanism = lambda data, key: data + jax.random.normal(key)
        >>> bound = audit(mechanism, 0.0, 2.0, num_trials=4000, delta=0.1, key=jax.random.key(0))
        >>> 0.5 < bound < gaussian_epsilon(2.0, 0.1)
        True
    """
    require_audit_delta(delta)
    measure = Epsilon(float(delta))
    return _audit(measure, mechanism, first, second, num_trials, confidence, key, batch_size)


def audit_mu(
    mechanism: Callable[[Any, Key[Array, ""]], Float[Array, ""]],
    first: Any,
    second: Any,
    *,
    num_trials: int,
    confidence: float = 0.95,
    key: Key[Array, ""],
    batch_size: int = 1024,
) -> float:
    r"""A lower bound on mu of Gaussian DP, from many runs on two neighbouring inputs.

    If the mechanism is $\mu$-GDP for this pair, the bound exceeds $\mu$ with probability at most
    1 - `confidence` over `key`. Where the mechanism is Gaussian, this needs far fewer trials.

    Source: $\mu \ge -\Phi^{-1}(\mathrm{FPR}) - \Phi^{-1}(\mathrm{FNR})$ for every test, Dong, Roth
    and Su (2022), Definition 2.6, used so by Nasr et al. (2023), by two intervals.

    Args:
        mechanism, first, second, num_trials, confidence, key, batch_size: as of `audit`.

    Returns:
        The bound; 0.0 when none is shown.

    Example:
        >>> import jax
        >>> from jaxdp.privacy import audit_mu
        >>> mechanism = lambda data, key: data + jax.random.normal(key)
        >>> bound = audit_mu(mechanism, 0.0, 2.0, num_trials=4000, key=jax.random.key(0))
        >>> 1.5 < bound < 2.0
        True
    """
    return _audit(Mu(), mechanism, first, second, num_trials, confidence, key, batch_size)


def audit_scores(
    first_scores: Float[Any, " first"],
    second_scores: Float[Any, " second"],
    *,
    delta: float,
    confidence: float = 0.95,
) -> float:
    r"""A lower bound on epsilon at delta, from recorded scores of runs on two neighbouring inputs.

    If the mechanism is $(\epsilon, \delta)$-DP for this pair, the bound exceeds $\epsilon$ with
    probability at most 1 - `confidence` over the runs. They have to be independent, with randomness
    of their own each, and their numbers and the score fixed before they are looked at. Several
    mechanisms or scores, of which the best is reported, need a confidence for all of them together.

    Args:
        first_scores: one number a run on the first input, in any order; NaN is an outcome of its
            own, below minus infinity.
        second_scores: likewise on its neighbour; there may be more of them, or fewer.
        delta: in [0, 1). No n trials show an epsilon above ln n.
        confidence: in (0, 1).

    Returns:
        The bound; 0.0 when none is shown.

    Raises:
        ValueError: there are too few scores to show anything.

    Derived: $P[S] \le e^\epsilon Q[S] + \delta$ for every event S;
    tests/privacy/audits/test_scores.py counts how often the bound fails.

    Example:
        >>> import numpy as np
        >>> from jaxdp.privacy import audit_scores, gaussian_epsilon
        >>> noise = np.random.default_rng(0).normal(size=(2, 4000))
        >>> 0.5 < audit_scores(noise[0], 2.0 + noise[1], delta=0.1) < gaussian_epsilon(2.0, 0.1)
        True
    """
    require_audit_delta(delta)
    return _audited(Epsilon(float(delta)), first_scores, second_scores, confidence)


def audit_scores_mu(
    first_scores: Float[Any, " first"],
    second_scores: Float[Any, " second"],
    *,
    confidence: float = 0.95,
) -> float:
    r"""A lower bound on mu of Gaussian DP, from recorded scores of runs on two neighbouring inputs.

    If the mechanism is $\mu$-GDP for this pair, the bound exceeds $\mu$ with probability at most
    1 - `confidence` over the runs, of which `audit_scores` says what they have to be.

    Args:
        first_scores, second_scores, confidence: as of `audit_scores`.

    Returns:
        The bound; 0.0 when none is shown.

    Example:
        >>> import numpy as np
        >>> from jaxdp.privacy import audit_scores_mu
        >>> noise = np.random.default_rng(0).normal(size=(2, 4000))
        >>> 1.5 < audit_scores_mu(noise[0], 2.0 + noise[1]) < 2.0
        True
    """
    return _audited(Mu(), first_scores, second_scores, confidence)


def require_confidence(confidence: float) -> None:
    """Raise ValueError unless confidence lies strictly between 0 and 1."""
    if not 0 < host_number("confidence", confidence) < 1:
        raise ValueError(f"expected 0 < confidence < 1, got {confidence}")


def require_audit_delta(delta: float) -> None:
    """Raise ValueError unless 0 <= delta < 1: pure differential privacy can be audited too."""
    if not 0 <= host_number("delta", delta) < 1:
        raise ValueError(f"expected 0 <= delta < 1, got {delta}")


def require_enough(measure: Epsilon | Mu, sizes: tuple[int, int], confidence: float) -> None:
    """Raise ValueError where so many trials on the two inputs show nothing, whatever they give."""
    first, second = (size - _num_chosen_on(size) for size in sizes)
    most = max(
        lower_bound(measure.value, trials[0], 0, trials, weights=(1, 1), error=1 - confidence)
        for trials in ((first, second), (second, first))
    )
    if not most > 0:
        raise ValueError(
            f"expected enough trials to show something at confidence {confidence}, got {sizes[0]} "
            f"on one input and {sizes[1]} on the other: even scores that never overlap would not"
        )


def bound_of(
    measure: Epsilon | Mu, first: np.ndarray, second: np.ndarray, confidence: float
) -> float:
    """The bound from scores of runs in an order that does not depend on them.

    The first quarter of the scores on each input chooses the event; the others bound it.
    """
    first, second = _ordered(first), _ordered(second)
    begins = _num_chosen_on(len(first)), _num_chosen_on(len(second))
    counted, error = (first[begins[0] :], second[begins[1] :]), 1 - confidence
    sizes = len(counted[0]), len(counted[1])
    event = choose_event(
        measure, first[: begins[0]], second[: begins[1]], num_counted=sizes, error=error
    )
    if event is None:
        return 0.0
    counts = event.counts(*counted)
    return max(0.0, lower_bound(measure.value, *counts, weights=event.weights, error=error))


def _audited(measure: Epsilon | Mu, first_scores: Any, second_scores: Any, confidence: float):
    require_confidence(confidence)
    given = {"first_scores": first_scores, "second_scores": second_scores}
    scores = [recorded_scores(name, values) for name, values in given.items()]
    for name, values in zip(given, scores, strict=True):
        if values.ndim != 1 or not len(values):
            raise ValueError(f"expected {name} to hold one score a run, got shape {values.shape}")
    require_enough(measure, (len(scores[0]), len(scores[1])), confidence)
    first, second = _shuffled(*_ranked(*scores))
    return bound_of(measure, first, second, confidence)


def recorded_scores(name: str, values: Any) -> np.ndarray:
    """Recorded scores in their own type, in which they are compared: float64 would join integers.

    TypeError unless they are real numbers that are known.
    """
    require_real(name, values)
    scores = given_array(name, values)
    if scores.dtype.kind == "O":
        scores = np.array(scores.tolist())
    return scores if scores.dtype.kind in "biuf" else scores.astype(np.float64)


def _ranked(first: np.ndarray, second: np.ndarray) -> list[np.ndarray]:
    """Each score's place in the order of all: a bound depends on nothing else; NaN is -1."""
    # Python compares numbers of different types without rounding.
    kind = first.dtype if first.dtype == second.dtype else object
    scores = np.concatenate([first.astype(kind), second.astype(kind)])
    is_number = scores == scores
    ranks = np.full(len(scores), -1)
    ranks[is_number] = np.unique(scores[is_number], return_inverse=True)[1]
    return np.split(ranks, [len(first)])


def _shuffled(first: np.ndarray, second: np.ndarray) -> list[np.ndarray]:
    """The scores shuffled by a digest of their values, so that their own order does not count."""
    known = [np.sort(scores) for scores in (first, second)]
    digest = hashlib.sha256(repr([len(scores) for scores in known]).encode())
    for scores in known:
        digest.update(scores.tobytes())
    rng = np.random.default_rng(int.from_bytes(digest.digest()))
    return [rng.permutation(scores) for scores in known]


def _num_chosen_on(num_trials: int) -> int:
    return max(1, round(_SELECTION_SHARE * num_trials))


def _ordered(scores: Any) -> np.ndarray:
    """Scores in float64, NaN as the lowest value and kept apart from minus infinity."""
    known = np.asarray(scores).astype(np.float64)
    # Half of the lowest float, as the float below a score has to be finite too.
    return np.where(np.isnan(known), -np.inf, np.maximum(known, np.finfo(np.float64).min / 2))


def _audit(measure, mechanism, first, second, num_trials, confidence, key, batch_size) -> float:
    require_confidence(confidence)
    require_key(key)
    require_callable("mechanism", mechanism, "a function of data and key")
    require_host("first and second", (first, second))
    _require_neighbours(first, second)
    num_trials = require_count("num_trials", num_trials)
    batch_size = require_count("batch_size", batch_size)
    require_enough(measure, (num_trials, num_trials), confidence)
    first_scores, second_scores = (
        _scores(mechanism, data, data_key, num_trials, batch_size)
        for data, data_key in zip((first, second), jr.split(key), strict=True)
    )
    return bound_of(measure, first_scores, second_scores, confidence)


def _require_neighbours(first: Any, second: Any) -> None:
    """Raise ValueError where one input has rows and the other has not about as many."""
    sizes = [[np.shape(leaf)[:1] for leaf in jax.tree.leaves(data)] for data in (first, second)]
    for one, other in zip(*sizes, strict=False):
        if one and other and abs(one[0] - other[0]) > 1:
            raise ValueError(
                f"expected neighbours, which differ in one row, got {one[0]} and {other[0]} rows"
            )


def _scores(mechanism, data, key, num_trials: int, batch_size: int) -> np.ndarray:
    """The score of every run: compiled, where that gives what the mechanism gives by itself."""
    arrays = jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, float) else x, data)
    data = jax.tree.map(lambda x: np.float64(x) if isinstance(x, float) else x, data)

    def run_on(plain, stop):
        places = range(len(plain), min(stop, num_trials))
        runs = (_scalar(mechanism(data, numbered_key(key, place))) for place in places)
        return [*plain, *(float(np.asarray(score)) for score in runs)]

    # Before anything is traced: an error of the mechanism is raised as it is.
    plain = run_on([], _FEW)
    try:
        found = _compiled_scores(mechanism, arrays, key, num_trials, batch_size)
        found = np.asarray(found).astype(np.float64)
    except Exception:
        # Mostly what NumPy, secret noise or an `if` make of traced values. Whatever it was, the
        # mechanism has run without being traced.
        return np.asarray(run_on(plain, num_trials))
    if np.all((found == found[0]) | np.isnan(found)):
        # A coin that is thrown while a mechanism is traced is thrown once, for all runs.
        plain = run_on(plain, _MANY)
    if _is_close(found[: len(plain)], np.asarray(plain), found):
        return found
    return np.asarray(run_on(plain, num_trials))


def _is_close(found: np.ndarray, plain: np.ndarray, scores: np.ndarray) -> bool:
    """Whether runs that share their keys differ by rounding alone, on the scale of the scores."""
    finite = scores[np.isfinite(scores)]
    spread = np.median(np.abs(finite - np.median(finite))) if finite.size else 0.0
    return np.allclose(found, plain, rtol=_ROUNDING, atol=_ROUNDING * spread, equal_nan=True)


@eqx.filter_jit
def _compiled_scores(mechanism, data, key, num_trials, batch_size):
    # Batches of one size, so that the mechanism is compiled once; a few runs more than asked for.
    num_batches = -(-num_trials // batch_size)
    batch_size = -(-num_trials // num_batches)
    keys = run_keys(key, num_batches * batch_size)
    found = lax.map(lambda run: _scalar(mechanism(data, run)), keys, batch_size=batch_size)
    return found[:num_trials]


def _scalar(score):
    kinds = (jnp.floating, jnp.integer, jnp.bool_)
    if not eqx.is_array_like(score) or not any(
        jnp.issubdtype(jnp.asarray(score).dtype, kind) for kind in kinds
    ):
        raise TypeError(f"expected the mechanism to return a real scalar score, got {score}")
    if jnp.shape(score) != ():
        raise ValueError(
            f"expected the mechanism to return a scalar score, got shape {jnp.shape(score)}"
        )
    return score
