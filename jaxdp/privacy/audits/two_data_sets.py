r"""Audits: how private a mechanism is not, by a lower bound that holds with stated confidence.

A mechanism is run many times on two neighbouring inputs. An event of its score is chosen on some
of the runs; on the others it is counted under both inputs, and the two counts together bound the
privacy parameter from below. Papers: Jagielski, Ullman and Oprea (2020), "Auditing differentially
private machine learning"; Nasr et al. (2023), "Tight auditing of differentially private machine
learning". Left out: finding the two inputs. An audit proves no privacy: it can only refute.
"""

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
    host_number,
    require_callable,
    require_count,
    require_host,
    require_key,
)
from jaxdp.core.keys import run_keys
from jaxdp.privacy.audits.events import Epsilon, Mu, choose_event
from jaxdp.privacy.audits.two_proportions import lower_bound

_SELECTION_SHARE = 0.25


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
        mechanism: (data, key) -> scalar score, traceable.
        first: an input, a pytree of arrays.
        second: its neighbour, in the sense of the guarantee that is put to the test.
        num_trials: runs on each of the two; a quarter of them choose the event.
        delta: in [0, 1). No n trials show an epsilon above ln n: a Gaussian mechanism is audited
            best at a large delta.
        confidence: in (0, 1).
        key: used up by the runs.
        batch_size: runs that are in memory together.

    Returns:
        The bound; 0.0 when none is shown.

    Raises:
        TypeError: the score is not a real number, or another argument is of the wrong type.
        ValueError: the score is not a scalar, an argument is outside its range, or there are too
            few trials to show anything.

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
    require_confidence(confidence)
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
    and Su (2022), Definition 2.6, used so by Nasr et al. (2023). Their two intervals, one for each
    rate, are replaced by `lower_bound`'s joint region.

    Args:
        mechanism: (data, key) -> scalar score, traceable.
        first: an input, a pytree of arrays.
        second: its neighbour, in the sense of the guarantee that is put to the test.
        num_trials: runs on each of the two; a quarter of them choose the event.
        confidence: in (0, 1).
        key: used up by the runs.
        batch_size: runs that are in memory together.

    Returns:
        The bound; 0.0 when none is shown.

    Raises:
        TypeError, ValueError: as `audit`.

    Example:
        >>> import jax
        >>> from jaxdp.privacy import audit_mu
        >>> mechanism = lambda data, key: data + jax.random.normal(key)
        >>> bound = audit_mu(mechanism, 0.0, 2.0, num_trials=4000, key=jax.random.key(0))
        >>> 1.5 < bound < 2.0
        True
    """
    require_confidence(confidence)
    return _audit(Mu(), mechanism, first, second, num_trials, confidence, key, batch_size)


def require_confidence(confidence: float) -> None:
    """Raise ValueError unless confidence lies strictly between 0 and 1."""
    if not 0 < host_number("confidence", confidence) < 1:
        raise ValueError(f"expected 0 < confidence < 1, got {confidence}")


def require_audit_delta(delta: float) -> None:
    """Raise ValueError unless 0 <= delta < 1: pure differential privacy can be audited too."""
    if not 0 <= host_number("delta", delta) < 1:
        raise ValueError(f"expected 0 <= delta < 1, got {delta}")


def _audit(measure, mechanism, first, second, num_trials, confidence, key, batch_size) -> float:
    require_key(key)
    require_callable("mechanism", mechanism, "a function of data and key")
    require_host("first and second", (first, second))
    num_trials = require_count("num_trials", num_trials)
    batch_size = require_count("batch_size", batch_size)
    num_chosen_on = max(1, round(_SELECTION_SHARE * num_trials))
    num_counted, error = num_trials - num_chosen_on, 1 - confidence
    best = lower_bound(measure.value, num_counted, 0, num_counted, weights=(1, 1), error=error)
    if not best > 0:
        raise ValueError(
            f"expected enough trials to show something at confidence {confidence}, got num_trials "
            f"= {num_trials}: even scores that never overlap would not"
        )
    scores = []
    for data, data_key in zip((first, second), jr.split(key), strict=True):
        data = jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, float) else x, data)
        found = _scores(mechanism, data, data_key, num_trials, batch_size)
        scores.append(_ordered(found))
    first, second = scores
    event = choose_event(
        measure, first[:num_chosen_on], second[:num_chosen_on], num_counted=num_counted, error=error
    )
    if event is None:
        return 0.0
    high, low = event.counts(first[num_chosen_on:], second[num_chosen_on:])
    shown = lower_bound(measure.value, high, low, num_counted, weights=event.weights, error=error)
    return max(0.0, shown)


@eqx.filter_jit
def _scores(mechanism, data, key, num_trials, batch_size):
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


def _ordered(scores: Array) -> np.ndarray:
    """Scores in float64, NaN as the lowest value and kept apart from minus infinity."""
    known = np.asarray(scores).astype(np.float64)
    # Not the lowest float: the one below it has to be finite too.
    return np.where(np.isnan(known), -np.inf, np.maximum(known, np.finfo(np.float64).min / 2))
