r"""The price of tuning: the cost of the best of a random number K of private runs.

*Statement.* P and Q are the outputs of one run on two neighbours. By a run's account an event of
probability a on one has at most g(a) on the other, and $P(E) - tQ(E) \le H(t)$ for every event E,
in both directions. Let $\varphi(v) = E[v^K]$ and
$W(c) = \max_{0 \le v \le 1} (\varphi'(v) - c\,\varphi'(1 - g(1 - v)))_+$. If
$W(c) \le \sum_j w_j (c_j - c)_+$ for $c \ge 0$, with $w_j, c_j \ge 0$, then the best run is
$(\epsilon, \delta)$-DP at $\delta = \sum_j w_j c_j H(e^\epsilon / c_j)$, $\epsilon \ge 0$.

*Proof.* A uniform number, attached to each run's output and removed at the end, breaks ties. Let
F(y) and G(y) be the probabilities under P and Q that a run is worse than y. All K runs are worse
with probability $\varphi(F(y))$, so the best has the density $\varphi'(F)\,dP$, or
$\varphi'(G)\,dQ$. Being no worse than y is an event, so $G \ge 1 - g(1 - F)$; and $\varphi'$
increases. With v = F(y) and $c = e^\epsilon dQ/dP$,
$$ \varphi'(F)\,dP - e^\epsilon\varphi'(G)\,dQ \le (\varphi'(v) - c\,\varphi'(1 - g(1 - v)))\,dP
\le W(c)\,dP \le \sum_j w_j (c_j\,dP - e^\epsilon dQ)_+ , $$
whose integral is at most $\sum_j w_j c_j H(e^\epsilon/c_j)$. If K = 0 both release the same.

W is convex, so its chords are such a sum. A run that draws its settings at random has the g and H
that all settings have. Derived: tests/unit/privacy/test_tuning.py enumerates discrete mechanisms,
and attains the bound for Gaussian ones within 2 %. A sum of one term is due to Koskela, Redberg and
Wang (2024), *Privacy profiles for private selection*. The bounds from Renyi divergences in Papernot
and Steinke (2022), *Hyperparameter tuning with Renyi differential privacy*, Theorems 2 and 6, are
larger, except for Poisson K if mu is tiny.
"""

import abc
import dataclasses
import decimal
import itertools
import math
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import numpy as np
import scipy

from jaxdp.core.checks import host_number, require_host, require_kind, require_positive
from jaxdp.privacy.adjacency import REPLACE_ONE
from jaxdp.privacy.budgets import AbstractBudget, budget_of
from jaxdp.privacy.conversions.bisection import largest_within, log_excess
from jaxdp.privacy.mechanisms import AbstractMechanism, GaussianMechanism, require_mechanism
from jaxdp.privacy.release import Release, release_of
from jaxdp.privacy.secret.secret_noise import SecretNoise
from jaxdp.privacy.tradeoffs import best_rate, mechanism_of

# Above the rounding of the formulas.
_ROUNDING = 1e-9
# Numbers of levels v and multiples c, and of deltas in a decade, at which a run is evaluated; any
# serve. The deltas are the same ones for all budgets, as accounts remember their answers.
_NUM_LEVELS, _NUM_CHORDS, _DELTAS_OF_DECADE = 2**14, 80, 10
_LARGEST_EPSILON = 200.0
# 150 digits of 512 bits give K to 1e-120 in total variation, for which a millionth of delta pays.
_DIGITS, _TAIL, _DISTANCE, _RESERVE = 150, decimal.Decimal("1e-140"), 1e-120, 1e-6


class AbstractRepetitions(eqx.Module):
    """The distribution of the number K of runs."""

    def __check_init__(self):
        if not self.log_slope(0.0) <= math.log(1e6):
            raise ValueError(f"expected at most 1e6 runs on average, got more by {self}")

    @property
    def mean(self) -> float:
        """The expected number of runs."""
        return float(np.exp(self.log_slope(0.0)))

    @abc.abstractmethod
    def log_slope(self, rest: Any) -> Any:
        """The logarithm of the derivative of E[v^K] at v = 1 - rest."""

    @abc.abstractmethod
    def probabilities(self) -> Iterator[tuple[int, decimal.Decimal]]:
        """All numbers of runs in order with their probabilities, in the digits of the context."""

    def draw(self, noise: SecretNoise | None = None) -> int:
        """The number of runs to make, which stays secret, as does the time that they take.

        Args:
            noise: source of random bits, None (default) for the operating system's. A seed, which
                is for tests, gives one number at every call.
        """
        noise = SecretNoise() if noise is None else noise
        require_kind("noise", noise, SecretNoise, "a jaxdp.privacy.SecretNoise(), or None")
        bits = int.from_bytes(noise.words(8, "number of runs").tobytes(), "little")
        with decimal.localcontext(prec=_DIGITS):
            left = decimal.Decimal(bits) / 2**512
            for count, probability in self.probabilities():
                left -= probability
                if left < 0 or (probability < _TAIL and count > self.mean):
                    return count
        raise AssertionError


class NegativeBinomialRepetitions(AbstractRepetitions):
    r"""K >= 1 runs from a truncated negative binomial distribution, by default a geometric one.

    $P[K = k]$ is proportional to $(1-\gamma)^k \prod_{l<k} (l + \eta)/(l + 1)$. Source: Papernot
    and Steinke (2022), Definition 1.

    Args:
        gamma: number in (0, 1); 1 / gamma is the mean for eta = 1.
        eta: number > -1, default 1; 0 gives a logarithmic distribution.

    Example:
        >>> from jaxdp.privacy import NegativeBinomialRepetitions
        >>> NegativeBinomialRepetitions(gamma=0.1).draw() >= 1
        True
    """

    gamma: float = eqx.field(converter=lambda value: host_number("gamma", value))
    eta: float = eqx.field(default=1.0, converter=lambda value: host_number("eta", value))

    def __check_init__(self):
        if not 0 < self.gamma < 1:
            raise ValueError(f"expected 0 < gamma < 1, got {self.gamma}")
        if not -1 < self.eta <= 1e3 or 0 < abs(self.eta) < 1e-6:
            raise ValueError(f"expected -1 < eta <= 1000, 0 or not within 1e-6, got {self.eta}")

    def log_slope(self, rest):
        level = -math.log(self.gamma)
        # The factor eta / (gamma^-eta - 1), without overflow.
        power = self.eta * level
        factor = max(power, 0) + math.log(level * scipy.special.exprel(-abs(power)))
        inner = np.log(self.gamma + (1 - self.gamma) * np.asarray(rest))
        return math.log1p(-self.gamma) - factor - (1 + self.eta) * inner

    def probabilities(self):
        gamma, eta = decimal.Decimal(self.gamma), decimal.Decimal(self.eta)
        share = eta / ((-eta * gamma.ln()).exp() - 1) if eta else -1 / gamma.ln()
        for count in itertools.count(1):
            share *= 1 - gamma
            yield count, share
            share *= (count + eta) / (count + 1)


class PoissonRepetitions(AbstractRepetitions):
    """K >= 0 runs from a Poisson distribution; nothing is released if K = 0.

    Args:
        rate: expected number of runs, > 0.

    Example:
        >>> from jaxdp.privacy import PoissonRepetitions
        >>> PoissonRepetitions(8.0).draw() >= 0
        True
    """

    rate: float = eqx.field(converter=lambda value: host_number("rate", value))

    def __check_init__(self):
        require_positive("rate", self.rate)

    def log_slope(self, rest):
        return math.log(self.rate) - self.rate * np.asarray(rest)

    def probabilities(self):
        rate = decimal.Decimal(self.rate)
        share = (-rate).exp()
        for count in itertools.count():
            yield count, share
            share *= rate / (count + 1)


class BestOfRuns(AbstractMechanism):
    """The best of a random number of runs of a mechanism, at the cost that this module proves.

    Epsilon is infinite if it were above 200.
    """

    mechanism: AbstractMechanism
    repetitions: AbstractRepetitions

    def __check_init__(self):
        require_mechanism("mechanism", self.mechanism)
        expected = "a number of runs, such as PoissonRepetitions(8.0)"
        require_kind("repetitions", self.repetitions, AbstractRepetitions, expected)

    @property
    def adjacencies(self):
        return self.mechanism.adjacencies

    @property
    def assumptions(self):
        return (
            *self.mechanism.assumptions,
            f"the best of K runs alone is released; K, drawn by {self.repetitions}, stays secret",
            "all runs draw their settings alike, with fresh noise; a score is computed from the "
            "run's release, from public rows, or within the run's cost",
        )

    def for_groups(self, records_per_person):
        # The proof takes any neighbours.
        return BestOfRuns(self.mechanism.for_groups(records_per_person), self.repetitions)

    def epsilon(self, delta, adjacency):
        require_host("arguments for the price of tuning", (delta, self))
        # Through the constructor, whose checks a copy may have skipped.
        dataclasses.replace(self.repetitions)
        delta = float(delta)
        points, values = self._account(delta, adjacency)
        knots, shares = self._chords(adjacency)

        def excess(epsilon):
            ratio = math.exp(epsilon) / knots
            found = np.interp(np.maximum(ratio, 1 / ratio), points, values)
            # H(t) = 1 - t + t H(1/t), from the other direction.
            found = np.where(ratio < 1, 1 - ratio + ratio * found, found)
            return -log_excess(float(shares @ found) * (1 + _ROUNDING), delta * (1 - _RESERVE))

        if not len(knots):
            return math.inf
        if excess(0.0) >= 0:
            return 0.0
        found = max(largest_within(excess, 1e-9, _LARGEST_EPSILON, strictly=True), 1e-9)
        found *= 1 + _ROUNDING
        paid = found < math.inf and (1 + math.exp(found)) * _DISTANCE <= _RESERVE * delta
        return found if paid else math.inf

    def _account(self, delta: float, adjacency: str) -> tuple[np.ndarray, np.ndarray]:
        """Values of t >= 1 and bounds on H(t); H is convex, so that chords between are bounds."""
        least = max(1e-4 * delta / max(self.repetitions.mean, 1.0), 1e-300)
        num = math.ceil(-_DELTAS_OF_DECADE * math.log10(least)) + 1
        values = 0.9 * 10.0 ** (-np.arange(num) / _DELTAS_OF_DECADE)
        epsilons = [float(self.mechanism.epsilon(value, adjacency)) for value in values.tolist()]
        logs, values = np.array([0.0, *epsilons]), np.array([1.0, *values])
        is_known = logs < 2 * _LARGEST_EPSILON
        return np.maximum.accumulate(np.exp(logs[is_known])), values[is_known]

    def _chords(self, adjacency: str) -> tuple[np.ndarray, np.ndarray]:
        """All c_j and w_j c_j; none if the bound is above `_LARGEST_EPSILON`."""
        tails = scipy.special.expit(np.linspace(-25, 25, _NUM_LEVELS // 4))
        rest = np.sort(np.concatenate([np.linspace(0, 1, _NUM_LEVELS), tails]))[::-1]
        others = best_rate(self.mechanism, adjacency, rest)
        others = np.minimum(others * (1 + _ROUNDING) + 1e-12, 1.0)
        # Between two levels of v, phi' is at most the upper and its other value at least the lower.
        upper, lower = self.repetitions.log_slope(rest[1:]), self.repetitions.log_slope(others[:-1])
        # W is 0 beyond.
        largest = float(np.max(upper - lower)) + _ROUNDING
        if largest > _LARGEST_EPSILON:
            return np.empty(0), np.empty(0)
        knots = np.concatenate([[0.0], np.geomspace(0.1, math.exp(largest), _NUM_CHORDS)])
        upper, lower = np.exp(upper) * (1 + _ROUNDING), np.exp(lower) * (1 - _ROUNDING)
        heights = [max(float(np.max(upper - knot * lower)), 0.0) for knot in knots[:-1]]
        slopes = np.diff([*heights, 0.0]) / np.diff(knots)
        return knots[1:], np.maximum(np.diff(slopes, append=0.0), 0.0) * knots[1:]


def tuned(thing: Any, *, repetitions: AbstractRepetitions) -> Release:
    """What the best of a random number of runs releases, for `jaxdp.account`.

    Args:
        thing: one run, an algorithm, a `Release` or a mechanism, whose cost includes its score.
        repetitions: distribution of the number of runs; its `draw` gives the number to make.

    Returns:
        The release of the best run, certified if `thing` is.

    Raises:
        TypeError: an argument is not as described.

    Example:
        >>> import jaxdp
        >>> from jaxdp.privacy import NegativeBinomialRepetitions, tuned
        >>> run = jaxdp.DPGD(0.02, 1.0, num_steps=50, noise_scale=2.0)
        >>> best = tuned(run, repetitions=NegativeBinomialRepetitions(gamma=0.1))
        >>> print([round(jaxdp.account(each, delta=1e-5).epsilon, 2) for each in (run, best)])
        [1.99, 3.01]
    """
    if isinstance(thing, AbstractMechanism):
        mechanism, adjacency = mechanism_of(thing)
        thing = Release("a run's output", adjacency, mechanism)
    release = release_of(thing)
    return Release(
        what=f"the best of several runs, each {release.what}",
        adjacency=release.adjacency,
        mechanism=BestOfRuns(release.mechanism, repetitions),
        assumptions=release.assumptions,
        is_certified=release.is_certified,
        num_records=release.num_records,
        records_per_person=release.records_per_person,
    )


def tuned_mu(
    epsilon: float | AbstractBudget, delta: float | None = None, *, repetitions: AbstractRepetitions
) -> float:
    """The largest mu of each run for which the best of the mu-GDP runs meets a budget.

    Args:
        epsilon, delta: budget of the whole search, or one such as `MembershipAdvantage(0.1)`.
        repetitions: distribution of the number of runs.

    Returns:
        mu, never too large.

    Raises:
        ValueError: the budget is out of range, or too small for so many runs.

    Example:
        >>> from jaxdp.privacy import PoissonRepetitions, gaussian_mu, tuned_mu
        >>> mu = tuned_mu(2.0, 1e-5, repetitions=PoissonRepetitions(4.0))
        >>> print(f"each run {mu:.3f}, one run alone {gaussian_mu(2.0, 1e-5):.3f}")
        each run 0.368, one run alone 0.502
    """
    budget = budget_of(epsilon, delta)

    def cost(mu):
        return budget.measured(BestOfRuns(GaussianMechanism(mu), repetitions), REPLACE_ONE)

    found = largest_within(lambda mu: log_excess(cost(mu), budget.limit), 1e-6, 1e3)
    if found == 0:
        least = cost(1e-6)
        wanted = f"{budget.named_limit} of at least {least:.3g} for the best of these runs"
        if math.isinf(least):
            wanted = "a budget other than mu, which is not proved for the best of several runs"
        raise ValueError(f"expected {wanted}, got {budget!r}")
    return found
