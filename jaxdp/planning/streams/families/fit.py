"""Fits a family of schedules: the clip scale and the free numbers with the least risk.

The risk has several local minima in these numbers, so that descents begin at several starts, all
of them rows of one batch (`descent`).
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxdp.core.numerics.precision import on_host
from jaxdp.planning.streams.equations.schedule_risk import schedule_log_risk
from jaxdp.planning.streams.equations.setting import AbstractSetting
from jaxdp.planning.streams.equations.signal_setting import SignalSetting
from jaxdp.planning.streams.families.descent import descend
from jaxdp.planning.streams.families.family import AbstractFamily

# Clip scales over the size of the slopes at the start, that are tried.
_CLIPS = np.geomspace(0.02, 4, 9)
# So many tangents cost less than a reverse pass. Not through the moments of a signal's slopes,
# whose own rule takes derivatives forward in a reverse pass too.
_FEW = 4


class Fit(NamedTuple):
    """The best member of a family.

    Attributes:
        point: ln c, then the family's numbers.
        risk: of what is released; infinite where nothing sound was found.
    """

    point: Float[np.ndarray, " numbers"]
    risk: float


def fit(
    family: AbstractFamily,
    setting: AbstractSetting,
    starts: Float[np.ndarray, "starts numbers"],
    least: float,
) -> Fit:
    """The best clip scale and parameters, from starts of which the best few are improved.

    Args:
        family: of schedules.
        setting: one.
        starts: points, ln c first.
        least: a risk below which nothing can be; what seems to be is an error of the integration.
    """
    kept, tolerance = setting.effort
    with on_host():
        values = np.array(_values(family, jnp.asarray(starts), setting))
        values[~(values >= np.log(least))] = np.inf
        best = starts[np.argsort(values)[:kept]]
        found = descend(
            lambda points: _values_and_gradients(family, jnp.asarray(points), setting),
            best,
            tolerance=tolerance,
        )
    risks = np.where(found.values >= np.log(least), np.exp(found.values), np.inf)
    place = int(np.argmin(risks))
    return Fit(found.points[place], float(risks[place]))


def risk_at(
    family: AbstractFamily, point: Float[np.ndarray, " numbers"], setting: AbstractSetting
) -> float:
    """The risk of one member."""
    with on_host():
        return float(np.exp(np.asarray(_values(family, jnp.asarray(point)[None], setting))[0]))


def cold_starts(
    family: AbstractFamily, setting: AbstractSetting
) -> Float[np.ndarray, "starts numbers"]:
    """Every clip scale with each of the family's own starts."""
    weakest = min(1.0, min(1.0, float(setting.rho)) ** 2 / float(setting.gamma) ** 0.5)
    clips = np.log(float(setting.slope_scale) * _CLIPS * min(1.0, 10 * weakest))
    numbers = family.starts(setting)
    return np.concatenate(
        [np.repeat(clips, len(numbers))[:, None], np.tile(numbers, (len(clips), 1))], axis=1
    )


def log_risk(family: AbstractFamily, point, setting: AbstractSetting):
    """The logarithm of the risk at a point."""
    schedule = family.schedule(point[1:], setting)
    return schedule_log_risk(schedule, point[0], setting, family.clock(setting))


@eqx.filter_jit
def _values(family, points, setting):
    return jax.vmap(lambda point: log_risk(family, point, setting))(points)


@eqx.filter_jit
def _values_and_gradients(family, points, setting):
    def value(point):
        return log_risk(family, point, setting)

    def twice(point):
        found = value(point)
        return found, found

    if points.shape[-1] > _FEW or isinstance(setting, SignalSetting):
        return jax.vmap(jax.value_and_grad(value))(points)
    gradients, values = jax.vmap(jax.jacfwd(twice, has_aux=True))(points)
    return values, gradients
