"""Audits on two data sets: how private a mechanism is not, by a bound of stated confidence.

A mechanism is run many times on two neighbouring inputs, or its scores have been recorded. A
quarter of the scores chooses an event; on the others it is counted under both inputs, and the two
counts bound the privacy parameter from below. Recorded scores are shuffled first, by a digest of
their ranks: a bound depends on how the scores of both compare, as NumPy orders them, and not on
their type or on the order in which they come.

Papers: Jagielski, Ullman and Oprea (2020), "Auditing differentially private machine learning"; Nasr
et al. (2023), "Tight auditing of differentially private machine learning". Left out: finding the
two inputs. An audit proves no privacy: it can only refute.
"""

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

from jaxdp.core.checks import (
    given_array,
    require_callable,
    require_count,
    require_host,
    require_key,
    require_real,
)
from jaxdp.core.keys import numbered_key, run_keys
from jaxdp.privacy.audits.events import bound_of, error_of, measure_named, require_enough

# Runs by which a compiled mechanism is compared with itself; the second where no score varies.
_FEW, _MANY = 4, 64
_ROUNDING = 1e-3


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

    `audit(mechanism, first, second, num_trials=, key=)` runs it; `audit(first_scores,
    second_scores)` takes one number for each run that was made already. If the mechanism is
    $(\epsilon, \delta)$-DP for this pair, the bound exceeds $\epsilon$ with probability at most 1 -
    `confidence` over the runs; or if it is $\mu$-GDP, $\mu$. Candidates are the scores above and
    those below any threshold, in both directions of the definition. NaN is an outcome of its own,
    below minus infinity.

    Recorded runs have to be independent, with randomness of their own each, and their numbers and
    the score fixed before they are looked at. They may come in any order, and be more on one input
    than on the other. Several mechanisms or scores, of which the best is reported, need a
    confidence for all of them together.

    Args:
        mechanism: function of data and a key that returns a scalar score. One that JAX can trace is
            compiled. One that it cannot, or whose random numbers do not all come from its key
            (NumPy's, or those of `SecretNoise`), is called once a run.
        first: input, a pytree of arrays.
        second: its neighbour, in the sense of the guarantee that is put to the test.
        measure: "epsilon", the default, or "mu", which needs far fewer trials where the mechanism
            is Gaussian.
        delta: number in [0, 1) for epsilon, unused for mu. No n trials show an epsilon above ln n:
            a Gaussian mechanism is audited best at a large delta.
        confidence: number in (0, 1), default 0.95.
        num_trials: number of runs on each input; a quarter of them choose the event.
        key: `jax.random.key` that the runs use up.
        batch_size: number of compiled runs that are in memory together, default 1024.

    Returns:
        The bound; 0.0 when none is shown.

    Raises:
        ValueError, TypeError: a score is not a real number, or there are too few trials to show
            anything.

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
    asked, error = measure_named(measure, delta), error_of(confidence)
    if second is None and not callable(mechanism):
        recorded = {"first_scores": mechanism, "second_scores": first}
        pair = [recorded_scores(name, values) for name, values in recorded.items()]
        for name, one in zip(recorded, pair, strict=True):
            if one.ndim != 1 or not len(one):
                raise ValueError(f"expected {name} to hold one score a run, got shape {one.shape}")
        require_enough(asked, [len(one) for one in pair], error)
        return bound_of(asked, _shuffled(ranked(*pair)), error)
    require_key(key)
    require_callable("mechanism", mechanism, "a function of data and key, beside two inputs")
    require_host("first and second", (first, second))
    _require_neighbours(first, second)
    num_trials = require_count("num_trials", num_trials)
    batch_size = require_count("batch_size", batch_size)
    require_enough(asked, [num_trials, num_trials], error)
    return bound_of(asked, _run(mechanism, (first, second), key, num_trials, batch_size), error)


def recorded_scores(name: str, values: Any) -> np.ndarray:
    """Recorded scores in their own type, in which they are compared: float64 would join integers.

    TypeError unless they are real numbers that are known.
    """
    require_real(name, values)
    scores = given_array(name, values)
    if scores.dtype.kind == "O":
        scores = np.array(scores.tolist())
    return scores if scores.dtype.kind in "biuf" else scores.astype(np.float64)


def ranked(first: np.ndarray, second: np.ndarray) -> list[np.ndarray]:
    """Each score's place in the order of all: a bound depends on nothing else; NaN is -1."""
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


def _require_neighbours(first: Any, second: Any) -> None:
    """Raise ValueError where one input has rows and the other has not about as many."""
    sizes = [[np.shape(leaf)[:1] for leaf in jax.tree.leaves(data)] for data in (first, second)]
    for one, other in zip(*sizes, strict=False):
        if one and other and abs(one[0] - other[0]) > 1:
            raise ValueError(
                f"expected neighbours, which differ in one row, got {one[0]} and {other[0]} rows"
            )


def _run(mechanism, inputs, key, num_trials: int, batch_size: int) -> list[np.ndarray]:
    """The ranks of the scores on both inputs."""
    both = zip(inputs, jr.split(key), strict=True)
    return ranked(*(_scores(mechanism, *each, num_trials, batch_size) for each in both))


def _scores(mechanism, data, key, num_trials: int, batch_size: int) -> np.ndarray:
    """The score of every run: compiled, if that gives what the mechanism gives by itself."""
    data = jax.tree.map(lambda x: np.float64(x) if isinstance(x, float) else x, data)
    plain: list[float] = []

    def first_runs(count):
        for place in range(len(plain), min(count, num_trials)):
            score = _scalar(mechanism(data, numbered_key(key, place)))
            plain.append(float(np.asarray(score)))
        return np.asarray(plain)

    # Before anything is traced: an error of the mechanism is raised as it is.
    first_runs(_FEW)
    try:
        found = _compiled_scores(mechanism, data, key, num_trials, batch_size)
        found = np.asarray(found).astype(np.float64)
    except Exception:
        # Mostly what NumPy, secret noise or an `if` make of traced values. Whatever it was, the
        # mechanism has run without being traced.
        return first_runs(num_trials)
    # A coin that is thrown while a mechanism is traced is thrown once, for all runs.
    is_constant = np.all((found == found[0]) | np.isnan(found))
    some = first_runs(_MANY if is_constant else _FEW)
    # Runs that share their keys differ by rounding alone, on the scale of the scores.
    finite = found[np.isfinite(found)]
    spread = np.median(np.abs(finite - np.median(finite))) if finite.size else 0.0
    allowed = {"rtol": _ROUNDING, "atol": _ROUNDING * spread, "equal_nan": True}
    return found if np.allclose(found[: len(some)], some, **allowed) else first_runs(num_trials)


@eqx.filter_jit
def _compiled_scores(mechanism, data, key, num_trials, batch_size):
    # Batches of one size, so that the mechanism is compiled once; a few runs more than asked for.
    num_batches = -(-num_trials // batch_size)
    batch_size = -(-num_trials // num_batches)
    keys = run_keys(key, num_batches * batch_size)
    found = lax.map(lambda run: _scalar(mechanism(data, run)), keys, batch_size=batch_size)
    return found[:num_trials]


def _scalar(score):
    kinds = jnp.floating, jnp.integer, jnp.bool_
    is_number = eqx.is_array_like(score)
    if not is_number or not any(jnp.issubdtype(jnp.asarray(score).dtype, kind) for kind in kinds):
        raise TypeError(f"expected the mechanism to return a real scalar score, got {score}")
    if jnp.shape(score) != ():
        raise ValueError(
            f"expected the mechanism to return a scalar score, got shape {jnp.shape(score)}"
        )
    return score
