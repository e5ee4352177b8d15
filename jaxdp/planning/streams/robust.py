r"""Plans for what is not known: the least worst regret over a box.

The regret of a plan at one place is its risk there over the best risk there. A plan with the least
worst *risk* is the plan of the worst corner, since risk grows with R(0) and with $\zeta$, and is
tens of times worse than need be elsewhere: the regret is what is made small.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Float

from jaxdp.core.checks import host_array
from jaxdp.core.description import AbstractDescription
from jaxdp.core.numerics.precision import on_host
from jaxdp.planning.streams.families import AbstractFamily, FreeForm
from jaxdp.planning.streams.fit import Fit, cold_starts, descend, log_risk, risk_at
from jaxdp.planning.streams.setting import Setting
from jaxdp.planning.streams.solution import Solution, best_risk, solution_of, warm_starts

# How sharply the largest regret counts, one descent after the other.
_SHARPNESS = (3.0, 10.0, 40.0, 200.0)
_KEPT = 4
# Knots of the free form that stands for all schedules.
_KNOTS = 24
# Places along each side at which a regret is looked at.
_SIDE = 3


class Box(AbstractDescription):
    """Ranges of what a plan must be good for, in place of the problem's own numbers.

    Args:
        initial_risk: (low, high) of R(0), with 0 < low <= high.
        label_noise: (low, high) of zeta, with 0 <= low <= high.

    Raises:
        ValueError: the box is empty, or reaches out of range.

    Example:
        >>> import jaxdp
        >>> box = jaxdp.Box(initial_risk=(0.05, 5.0), label_noise=(0.1, 1.0))
        >>> len(box.places())
        9
    """

    initial_risk: tuple[float, float]
    label_noise: tuple[float, float]

    def __init__(self, initial_risk: tuple[float, float], label_noise: tuple[float, float]):
        self.initial_risk = _range("initial_risk", initial_risk)
        self.label_noise = _range("label_noise", label_noise)
        if not self.initial_risk[0] > 0:
            raise ValueError(f"expected initial_risk > 0 in the box, got {self.initial_risk[0]}")
        if not self.label_noise[0] >= 0:
            raise ValueError(f"expected label_noise >= 0 in the box, got {self.label_noise[0]}")

    def places(self) -> list[tuple[float, float]]:
        """Corners, middles of the sides and the centre, as initial risk and label noise."""
        return [
            (risk, noise)
            for risk in _side(*self.initial_risk)
            for noise in _side(*self.label_noise)
        ]


def _range(name: str, value: Any) -> tuple[float, float]:
    ends = host_array(name, value)
    if ends.shape != (2,):
        raise ValueError(f"expected {name} to be a pair (low, high), got shape {ends.shape}")
    low, high = ends.tolist()
    if not (low <= high and np.isfinite(high)):
        raise ValueError(f"expected {name} with low <= high, both finite, got ({low}, {high})")
    return low, high


def _side(low: float, high: float) -> list[float]:
    if low == high:
        return [low]
    if low > 0:
        return np.geomspace(low, high, _SIDE).tolist()
    return np.linspace(low, high, _SIDE).tolist()


def solve_box(family: AbstractFamily | None, setting: Setting, box: Box) -> tuple[Solution, float]:
    """The member of a family with the least worst regret, and this regret."""
    places = [_at(setting.grouped(), *place) for place in box.places()]
    least = np.log([best_risk(None, place) for place in places])
    family = FreeForm(_KNOTS) if family is None else family
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *places)
    starts = np.concatenate([_starts(family, place) for place in places])
    with on_host():
        values = np.array(_values(family, jnp.asarray(starts), stacked, least))
        values[~np.isfinite(values)] = np.inf
        points = starts[np.argsort(values)[:_KEPT]]
        for sharpness in _SHARPNESS:
            points = descend(
                lambda points, sharpness=sharpness: _smooth(
                    family, jnp.asarray(points), stacked, least, jnp.asarray(sharpness)
                ),
                points,
            )[0]
        # As many rows as there were starts, for which the program is compiled.
        rows = np.resize(points, starts.shape)
        worst = np.array(_values(family, jnp.asarray(rows), stacked, least))[: len(points)]
    worst[~np.isfinite(worst)] = np.inf
    place = int(np.argmin(worst))
    regret = float(np.exp(worst[place]))
    found = Fit(points[place], risk_at(family, points[place], setting.grouped()))
    return solution_of(family, found, setting), regret


def _at(setting: Setting, initial_risk: float, label_noise: float) -> Setting:
    scale = initial_risk / float(setting.initial_risk)
    changed = setting.modes.initial * scale, np.float64(label_noise)
    return eqx.tree_at(lambda each: (each.modes.initial, each.modes.label_noise), setting, changed)


def _starts(family: AbstractFamily, setting: Setting) -> Float[np.ndarray, "starts numbers"]:
    if isinstance(family, FreeForm):
        return warm_starts(family, setting)
    return cold_starts(family, setting)


def log_regrets(family, point, settings, least) -> Float[jax.Array, " settings"]:
    risks = jax.vmap(lambda setting: log_risk(family, point, setting))(settings)
    return risks - least


@eqx.filter_jit
def _values(family, points, settings, least):
    return jax.vmap(lambda point: jnp.max(log_regrets(family, point, settings, least)))(points)


@eqx.filter_jit
def _smooth(family, points, settings, least, sharpness):
    def worst(point):
        regrets = log_regrets(family, point, settings, least)
        return logsumexp(sharpness * regrets) / sharpness

    return jax.vmap(jax.value_and_grad(worst))(points)
