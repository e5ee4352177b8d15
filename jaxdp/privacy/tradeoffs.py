r"""The best membership test against a mechanism: its rates, its area and its advantage.

Somebody who knows all records but one tests whether that one was used (or which of two was): with a
true-positive rate $\beta$ at a false-positive rate $\alpha$. The largest $\beta$ is known exactly
for $\mu$-GDP, $\Phi(\Phi^{-1}(\alpha) + \mu)$, and from privacy loss distributions for sums over
Poisson batches, in both orders of the neighbours. Other mechanisms prove pairs $(\epsilon,
\delta)$, which hold together; each gives $\beta \le \delta + e^\epsilon\alpha$, $\beta \le 1 -
e^{-\epsilon}(1 - \delta - \alpha)$, and so $\beta - \alpha \le (e^\epsilon - 1 +
2\delta)/(e^\epsilon + 1)$. Source: Wasserman and Zhou (2010), Theorem 2.4; Kairouz, Oh and
Viswanath (2015), Theorem 2.1; Dong, Roth and Su (2022). Derived:
tests/unit/privacy/test_membership_bounds.py.
"""

import functools
import math
from typing import Any

import numpy as np
import scipy
from jaxtyping import Float

from jaxdp.privacy.conversions.subsampling import (
    Curve,
    SampledGaussian,
    tradeoff_curves,
    unamplified_mu,
)
from jaxdp.privacy.mechanisms import AbstractMechanism, Composition
from jaxdp.privacy.release import release_of

# Half the number of panels of an area, and the normal quantile at which the outermost begin.
_PANELS, _FARTHEST = 2000, 8.0


def mechanism_of(thing: Any, adjacency: str | None = None) -> tuple[AbstractMechanism, str]:
    """The mechanism of an algorithm or a release, or the argument itself, and its adjacency."""
    if not isinstance(thing, AbstractMechanism):
        release = release_of(thing)
        if adjacency not in (None, release.adjacency):
            raise ValueError(f"expected no adjacency beside a release, got {adjacency!r}")
        return release.mechanism, release.adjacency
    known = thing.adjacencies
    if adjacency is None and (len(known) == 1 or thing.proved.mu is not None):
        return thing, known[0]
    if adjacency not in known:
        raise ValueError(f"expected adjacency to be one of {known}, got {adjacency!r}")
    return thing, adjacency


def best_rate(
    mechanism: AbstractMechanism, adjacency: str, rates: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "..."]:
    """A bound on every test's true-positive rate, in the worse order of the neighbours."""
    return functools.reduce(np.maximum, (one.at(rates) for one in curves(mechanism, adjacency)))


def best_area(mechanism: AbstractMechanism, adjacency: str) -> float:
    """A bound on the area under every test's ROC curve; exchanging neighbours keeps an area."""
    if (mu := mechanism.proved.mu) is not None:
        return float(scipy.special.ndtr(mu / math.sqrt(2)))
    ends = scipy.special.ndtr(np.linspace(-_FARTHEST, _FARTHEST, 2 * _PANELS + 1))
    ends = np.concatenate([[0.0], ends, [1.0]])
    middles, widths = (ends[1:] + ends[:-1]) / 2, np.diff(ends)
    # A concave curve has no more than its value in the middle of a panel as its mean there.
    # In blocks, which bound the memory of curves of many lines.
    blocks = [*zip(np.array_split(middles, 32), np.array_split(widths, 32), strict=True)]
    areas = [
        sum(one.at(at) @ width for at, width in blocks) for one in curves(mechanism, adjacency)
    ]
    return min(1.0, float(max(areas)))


def best_advantage(mechanism: AbstractMechanism, adjacency: str) -> float:
    """A bound on the true-positive less the false-positive rate of every test."""
    return max(one.advantage for one in curves(mechanism, adjacency))


def gaussian_parameter(mechanism: AbstractMechanism) -> float:
    """The proved mu, or for batches that never overflow that without sampling, or infinity."""
    if (mu := mechanism.proved.mu) is not None:
        return mu
    runs = _runs(mechanism)
    return unamplified_mu(runs) if runs and not any(run.failure for run in runs) else math.inf


def in_words(area: float, rate: float, unit: str = "one record") -> str:
    """The area, and the true-positive rate at 1 % false positives, in a sentence, rounded up."""
    area, rate = (min(1.0, math.ceil(10**4 * value - 1e-9) / 10**4) for value in (area, rate))
    return (
        f"a test whether {unit} was used, by someone who knows all others: AUC {area:g} at "
        f"most, true-positive rate {rate:g} at most at 1 % false positives"
    )


def _runs(mechanism: AbstractMechanism) -> tuple[SampledGaussian, ...]:
    """The runs of sums over Poisson batches that a mechanism is, or none."""
    parts = mechanism._parts if isinstance(mechanism, Composition) else [mechanism]
    runs = [part.sampled for part in parts]
    return tuple(run for run in runs if run is not None) if None not in runs else ()


def curves(mechanism: AbstractMechanism, adjacency: str) -> tuple[Curve, ...]:
    """The bounds on tests, each for one order of two neighbours or for both."""
    try:
        return _curves(mechanism, adjacency)
    except TypeError:
        # Mechanisms that hold arrays have no hash.
        return _curves.__wrapped__(mechanism, adjacency)


@functools.lru_cache(maxsize=8)
def _curves(mechanism: AbstractMechanism, adjacency: str) -> tuple[Curve, ...]:
    if (mu := mechanism.proved.mu) is not None:
        return (Curve(mu),)
    runs = _runs(mechanism)
    if runs and (found := tradeoff_curves(runs, adjacency)) is not None:
        return found
    epsilons, deltas = mechanism.pairs(adjacency)
    with np.errstate(over="ignore"):
        gain = np.min(np.tanh(epsilons / 2) + 2 * deltas / (1 + np.exp(epsilons)))
    mirrored = 1 - np.exp(-epsilons) * (1 - deltas)
    lines = np.append(epsilons, [*-epsilons, 0]), np.append(deltas, [*mirrored, gain])
    return (Curve(math.inf, 0.0, *lines),)
