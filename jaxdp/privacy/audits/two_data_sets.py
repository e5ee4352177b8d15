r"""Audits: how private a mechanism is not, by a lower bound that holds with stated confidence.

A mechanism is run many times on two neighbouring inputs, and what its scores show is computed
(`scores`). A mechanism that JAX can trace is compiled, and its runs are made in batches; any other,
such as training with secret noise, is called once for each key. Papers: Jagielski, Ullman and Oprea
(2020), "Auditing differentially private machine learning"; Nasr et al. (2023), "Tight auditing of
differentially private machine learning". Left out: finding the two inputs. An audit proves no
privacy: it can only refute.
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

from jaxdp.core.checks import require_callable, require_count, require_host, require_key
from jaxdp.core.keys import numbered_key, run_keys
from jaxdp.privacy.audits.events import Epsilon, Mu
from jaxdp.privacy.audits.scores import (
    bound_of,
    require_audit_delta,
    require_confidence,
    require_enough,
)

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
        mechanism: (data, key) -> scalar score, as of `audit`.
        first: an input, a pytree of arrays.
        second: its neighbour, in the sense of the guarantee that is put to the test.
        num_trials: runs on each of the two; a quarter of them choose the event.
        confidence: in (0, 1).
        key: used up by the runs.
        batch_size: compiled runs that are in memory together.

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


def _audit(measure, mechanism, first, second, num_trials, confidence, key, batch_size) -> float:
    require_confidence(confidence)
    require_key(key)
    require_callable("mechanism", mechanism, "a function of data and key")
    require_host("first and second", (first, second))
    num_trials = require_count("num_trials", num_trials)
    batch_size = require_count("batch_size", batch_size)
    require_enough(measure, (num_trials, num_trials), confidence)
    first_scores, second_scores = (
        _scores(mechanism, data, data_key, num_trials, batch_size)
        for data, data_key in zip((first, second), jr.split(key), strict=True)
    )
    return bound_of(measure, first_scores, second_scores, confidence)


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
    """Whether runs that share their keys differ by rounding alone, beside how much scores vary."""
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
