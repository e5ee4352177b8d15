r"""Plans for what is not known: the least worst regret over a box.

The regret of a plan at one place is its risk there over the best risk there. A plan with the least
worst *risk* is the plan of the worst corner, since risk grows with R(0) and with $\zeta$, and is
tens of times worse than need be elsewhere: the regret is what is made small.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Float

from jaxdp.core.numerics.precision import on_host
from jaxdp.planning.streams.box import Box
from jaxdp.planning.streams.equations.setting import Setting
from jaxdp.planning.streams.families.descent import descend
from jaxdp.planning.streams.families.family import AbstractFamily, FreeForm
from jaxdp.planning.streams.families.fit import Fit, cold_starts, log_risk, risk_at
from jaxdp.planning.streams.solution import Solution, best_risk, solution_of, warm_starts

# How sharply the largest regret counts, one descent after the other.
_SHARPNESS = (3.0, 10.0, 40.0, 200.0)
_KEPT = 4
# Knots of the free form that stands for all schedules.
_KNOTS = 24


def solve_box(family: AbstractFamily | None, setting: Setting, box: Box) -> tuple[Solution, float]:
    """The member of a family with the least worst regret, and this regret.

    Args:
        family: None stands for all non-increasing schedules, as a free form of 24 knots.
        setting: whose initial risk and label noise do not count.
        box: of which corners, middles and centre are looked at.
    """
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
            ).points
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
    changed = setting.initial * scale, np.float64(label_noise)
    return eqx.tree_at(lambda each: (each.initial, each.label_noise), setting, changed)


def _starts(family: AbstractFamily, setting: Setting) -> Float[np.ndarray, "starts numbers"]:
    if isinstance(family, FreeForm):
        return warm_starts(family, setting)
    return cold_starts(family, setting)


def log_regrets(family, point, settings, least) -> Float[jax.Array, " settings"]:
    """The logarithm of the regret at every place."""
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
