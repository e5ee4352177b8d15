r"""Bounds on the success of any test of whether a record was in the data.

A membership test has a true-positive rate $\beta$ on data sets with the record and a false-positive
rate $\alpha$ on those without it. An $(\epsilon, \delta)$ guarantee gives $\beta \le \delta +
e^\epsilon\alpha$ and, by the complement of the test, $\beta \le 1 - e^{-\epsilon}(1 - \delta -
\alpha)$; all pairs that an account proves hold together. $\mu$-GDP gives $\beta \le
\Phi(\Phi^{-1}(\alpha) + \mu)$ directly.

Source: Wasserman and Zhou (2010), Theorem 2.4; Kairouz, Oh and Viswanath (2015), Theorem 2.1; Dong,
Roth and Su (2022). Derived: tests/unit/privacy/test_membership_bounds.py.
"""

from typing import Any

import numpy as np
import scipy
from jaxtyping import ArrayLike, Float

from jaxdp.privacy.arguments import false_positive_rates
from jaxdp.privacy.conversions.gaussian import gaussian_tradeoff
from jaxdp.privacy.release import release_of

# Every delta gives a valid pair; more of them tighten the bound.
_DELTAS = np.concatenate([np.geomspace(1e-7, 1e-2, 11), np.linspace(0.02, 0.98, 25)])
_LEVELS = 2**14


def largest_true_positive_rate(
    thing: Any, false_positive_rate: ArrayLike
) -> Float[np.ndarray, "..."]:
    r"""The largest true-positive rate of any membership test with a given false-positive rate.

    Args:
        thing: an algorithm or a `Release`; its adjacency defines the neighbours.
        false_positive_rate: $\alpha$ in [0, 1], any shape.

    Returns:
        $\beta$, of the shape of `false_positive_rate`: exact for $\mu$-GDP; for Poisson batches
        from the account's epsilon at 36 values of delta, up to 0.002 too large in four cases.

    Raises:
        TypeError: `thing` does not state what it releases.
        ValueError: a rate is out of range.
        ImportError: a subsampled mechanism needs dp_accounting, which is not installed.

    Example:
        >>> from jaxdp.privacy import GaussianMechanism, Release, largest_true_positive_rate
        >>> release = Release("a noisy mean", "add-or-remove-one", GaussianMechanism(1.0))
        >>> largest_true_positive_rate(release, [0.001, 0.01]).round(3).tolist()
        [0.018, 0.092]
    """
    release = release_of(thing)
    rate = false_positive_rates(false_positive_rate)
    if (mu := release.mechanism.proved.mu) is not None:
        return 1 - gaussian_tradeoff(mu, rate)
    bound = np.ones(rate.shape)
    for delta in _DELTAS:
        epsilon = float(release.mechanism.epsilon(float(delta), release.adjacency))
        with np.errstate(over="ignore"):
            # A test without false positives is bounded by delta only where epsilon is finite.
            few = np.exp(epsilon) * np.maximum(rate, np.finfo(float).tiny) + delta
        bound = np.minimum(bound, few)
        bound = np.minimum(bound, 1 - np.exp(-epsilon) * (1 - delta - rate))
    return bound


def largest_membership_auc(thing: Any) -> float:
    r"""The largest area under the ROC curve of any membership test.

    It is the area under `largest_true_positive_rate`: $\Phi(\mu/\sqrt2)$ for $\mu$-GDP.

    Args:
        thing: an algorithm or a `Release`; errors are those of `largest_true_positive_rate`.

    Returns:
        A number from 0.5 (guessing) to 1; never below the area of the bound.

    Example:
        >>> import jaxdp
        >>> from jaxdp.privacy import largest_membership_auc
        >>> algorithm = jaxdp.DPGD(0.02, 1.0, num_steps=50, noise_scale=1.0)
        >>> print(f"mu {algorithm.mu:.1f}, area {largest_membership_auc(algorithm):.3f}")
        mu 1.0, area 0.760
    """
    mu = release_of(thing).mechanism.proved.mu
    if mu is not None:
        return float(scipy.special.ndtr(mu / np.sqrt(2)))
    # The curve rises, so right ends of the panels give an upper bound.
    right_ends = np.arange(1, _LEVELS + 1) / _LEVELS
    return float(largest_true_positive_rate(thing, right_ends).mean())
