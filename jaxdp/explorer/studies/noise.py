"""The noise multiplier of a budget, searched for from the last answer, as sliders move it little.

A search without a start asks for the cost of Poisson batches some ten times, and each answer takes
a tenth of a second. Near a known answer the logarithm of epsilon is nearly linear in that of the
noise, so that the secant method asks two or three times.
"""

import math
import threading
from collections.abc import Hashable

from jaxdp.privacy import calibrated_noise_multiplier
from jaxdp.privacy.batches.base import AbstractSampler

# How closely the search ends: epsilon is not above the budget, and at most so much below.
_CLOSE = 2e-3
_MOST_STEPS = 6
_MOST_KNOWN = 1000
# Of epsilon in the noise where little of it is known.
_SLOPE = -1.2


class NoiseFinder:
    """Remembers answers, the last one as a point from which the next search begins."""

    def __init__(self):
        self._known: dict[Hashable, float] = {}
        self._last: tuple[float, float] | None = None
        self._lock = threading.Lock()

    def __call__(
        self, epsilon: float, delta: float, *, sampler: AbstractSampler, num_steps: int
    ) -> float:
        """A noise multiplier that keeps the budget, and hardly more than that.

        The other arguments are those of `jaxdp.privacy.calibrated_noise_multiplier`, whose answers
        and errors these are where the noise has a formula, and where the search does not end.
        """
        if sampler.mechanism(1.0, num_steps).proved.mu is not None:
            return calibrated_noise_multiplier(epsilon, delta, sampler=sampler, num_steps=num_steps)
        asked = epsilon, delta, repr(sampler), num_steps
        with self._lock:
            known, last = self._known.get(asked), self._last
        if known is not None:
            return known
        found = None if last is None else _secant(last, epsilon, delta, sampler, num_steps)
        if found is None:
            found = calibrated_noise_multiplier(
                epsilon, delta, sampler=sampler, num_steps=num_steps
            )
        with self._lock:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[asked], self._last = found, (found, epsilon)
        return found


def _secant(
    last: tuple[float, float],
    epsilon: float,
    delta: float,
    sampler: AbstractSampler,
    num_steps: int,
) -> float | None:
    """The noise multiplier, or None where the search did not end."""
    # Aimed at the middle of what is near enough.
    target = math.log(epsilon) - _CLOSE / 2
    place = math.log(last[0]) + (target - math.log(last[1])) / _SLOPE
    before: tuple[float, float] | None = None
    for _ in range(_MOST_STEPS):
        mechanism = sampler.mechanism(math.exp(place), num_steps)
        found = mechanism.epsilon(delta, sampler.adjacency)
        if not 0 < found < math.inf:
            return None
        value = math.log(found)
        if -_CLOSE / 2 <= value - target < _CLOSE / 2:
            return math.exp(place)
        slope = _SLOPE
        if before is not None and place != before[0]:
            slope = min((value - before[1]) / (place - before[0]), -0.2)
        before = place, value
        place += (target - value) / slope
    return None
