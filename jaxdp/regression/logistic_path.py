r"""How far a descent of two classes has come along its own function, by a model of its outputs.

The slopes of classes are not linear in the outputs, and outputs are largest along the function
itself, so the rest of the error there is not that of a mean curvature. With outputs $o + f$ at the
minimiser, $f \sim N(b, v)$, and b such that classes are as frequent as at o, the descent multiplies
f by $a_t$, which follows

$$ a \gets a - \eta \lambda\, E[w(p)(p - p^*) f] / v, \quad p = \sigma(o + a f + \tau g), \quad
   p^* = \sigma(o + f) $$

(with momentum as the descent), where $\tau^2$ is the noise in an output. The variance v is the one
at which the average has the size that it was seen to have.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from jaxdp.regression.descent import Stage
from jaxdp.regression.descent_plan import variance_of_an_iterate

_HALVINGS = 40
_LARGEST = 400.0  # variance of outputs
# A sum over these nodes is a mean over normal numbers.
_POINTS, _WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


class LogisticPath(NamedTuple):
    """The share along the function that is left in the average, and the loss at the minimiser."""

    left: float
    curvature: float  # mean curvature at the minimiser, over that at the average
    along: float  # curvature at the minimiser along the function, over the mean one there
    square: float  # mean square of the slopes at the minimiser, over that at the average

    @classmethod
    def of(cls, stages: list[Stage], offset: float) -> "LogisticPath":
        """The path of a descent; all of public numbers."""
        last = stages[-1]
        modes = last.plan.values * last.plan.units**2
        _, noise = last.left_and_noise(modes)
        size = float(modes @ last.in_steps[:, 0] ** 2) - float(modes @ noise)
        low, high = 1e-6, _LARGEST
        for _ in range(_HALVINGS):
            middle = math.sqrt(low * high)
            low, high = (
                (middle, high)
                if _average(stages, offset, middle) ** 2 * middle < size
                else (low, middle)
            )
        variance = math.sqrt(low * high)
        average = _average(stages, offset, variance)
        end = math.sqrt(variance) * _POINTS + _shift(offset, variance)
        at_end, at_average = (_law(offset + share * end) for share in (1.0, average))
        bend, square, mean_bend, mean_square = (
            float(part @ _WEIGHTS) for part in (*at_end, *at_average)
        )
        along = float(at_end[0] * _POINTS**2 @ _WEIGHTS) / bend
        return cls(1 - average, bend / mean_bend, along, square / mean_square)


def _law(outputs: Float[np.ndarray, "..."]):
    """Curvature and mean square of the slopes of rows whose probabilities are those predicted."""
    chance = 1 / (1 + np.exp(-np.abs(outputs)))
    return (1 - chance) / 2, (1 - chance) / chance / 4


def _shift(offset: float, variance: float) -> float:
    """The mean of f, at which the classes are as frequent as at the offset alone."""
    wanted, low, high = _chance(np.array(offset)), -_LARGEST, _LARGEST
    for _ in range(2 * _HALVINGS):
        middle = (low + high) / 2
        found = _chance(offset + middle + math.sqrt(variance) * _POINTS) @ _WEIGHTS
        low, high = (middle, high) if found < wanted else (low, middle)
    return (low + high) / 2


def _chance(outputs: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    return 0.5 * (1 + np.tanh(outputs / 2))


def _average(stages: list[Stage], offset: float, variance: float) -> float:
    """The share of the function in the average."""
    signal, noise = math.sqrt(variance) * _POINTS[:, None], _POINTS[None]
    both = _WEIGHTS[:, None] * _WEIGHTS[None]
    whole = signal + _shift(offset, variance)
    target = _chance(offset + whole)
    share = 0.0
    for stage in stages:
        plan = stage.plan
        modes = plan.values * plan.units**2
        own = modes * stage.in_steps[:, 0] ** 2
        mode = float(own @ modes / max(own.sum(), 1e-300))
        spread = variance_of_an_iterate(plan, modes * stage.curvature)
        spread = math.sqrt(float(modes @ spread) * float(np.mean(stage.noise_stds**2)))
        share, speed, kept = (share if stage.start is not None else 0.0), 0.0, []
        for _ in range(plan.num_steps):
            chance = _chance(offset + share * whole + spread * noise)
            slopes = (chance - target) / (2 * np.maximum(chance, 1 - chance))
            pull = float(np.sum(both * slopes * signal)) / variance
            speed = plan.momentum * speed + mode * pull
            share -= plan.rate * speed
            kept.append(share)
        share = float(np.mean(kept[plan.num_steps // 2 :]))
    return share
