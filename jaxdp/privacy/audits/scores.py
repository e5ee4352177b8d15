r"""Audits of recorded scores: what runs on two neighbouring inputs show, wherever they were made.

A quarter of the scores chooses an event; on the others it is counted under both inputs, and the two
counts together bound the privacy parameter from below (`lower_bound`). What was recorded may
have been sorted, so it is shuffled first. The shuffle is made from a digest of the scores: a bound
depends on which scores there are, not on their order.
"""

import hashlib
from typing import Any

import numpy as np
from jaxtyping import Float

from jaxdp.core.checks import host_array, host_number
from jaxdp.privacy.audits.events import Epsilon, Mu, choose_event, lower_bound

_SELECTION_SHARE = 0.25


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
        TypeError: the scores are traced, or not real numbers.
        ValueError: they are not two vectors, an argument is outside its range, or there are too few
            scores to show anything.

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
        first_scores: one number a run on the first input, in any order.
        second_scores: likewise on its neighbour; there may be more of them, or fewer.
        confidence: in (0, 1).

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
    scores = [host_array(name, values) for name, values in given.items()]
    for name, values in zip(given, scores, strict=True):
        if values.ndim != 1 or not len(values):
            raise ValueError(f"expected {name} to hold one score a run, got shape {values.shape}")
    require_enough(measure, (len(scores[0]), len(scores[1])), confidence)
    first, second = _shuffled(*scores)
    return bound_of(measure, first, second, confidence)


def _shuffled(first: np.ndarray, second: np.ndarray) -> list[np.ndarray]:
    """The scores in an order that tells nothing of them, the same for every order of them."""
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
    # Not the lowest float: the one below it has to be finite too.
    return np.where(np.isnan(known), -np.inf, np.maximum(known, np.finfo(np.float64).min / 2))
