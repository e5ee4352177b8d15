"""The best algorithm of a schedule's kind in one setting, before anything is said about it."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.core.precision import on_host
from jaxdp.planning.streams.clock import log_clock
from jaxdp.planning.streams.family import (
    AbstractFamily,
    FreeForm,
    Knots,
    Parametric,
    numbers_of,
)
from jaxdp.planning.streams.fit import cold_starts, fit, risk_at
from jaxdp.planning.streams.floor import isotropic_floor
from jaxdp.planning.streams.optimal import is_optimal
from jaxdp.planning.streams.privacy_budget import rounded_down
from jaxdp.planning.streams.search import best_greedy, greedy_schedule
from jaxdp.planning.streams.setting import Setting

# Knots of the free form that stands for the best schedule where the theorem does not hold.
_KNOTS = 32
# Relative: by how much a fit may seem to be better than the best of all.
_BELOW = 1e-4
_NOTHING = 1e-300
# By how much faster than the isotropic plan the descents through unequal modes begin.
_FASTER = (1.0, 2.0, 4.0)


class Solution(NamedTuple):
    """A schedule with its arguments, a clip scale, and the risk that the search saw.

    Attributes:
        make: from the arguments to a schedule.
        arguments: the best ones; the first is a rate.
        clip_scale: c; infinite without noise.
        risk: of what is released.
    """

    make: Callable[..., Any]
    arguments: dict[str, Any]
    clip_scale: float
    risk: float

    def algorithm(self, rho: float, num_samples: int, **factors: float) -> OnePassDPSGD:
        """The algorithm, with some arguments (clip_scale among them) multiplied by factors."""
        given = {name: value * factors.get(name, 1.0) for name, value in self.arguments.items()}
        clip_scale = self.clip_scale * factors.get("clip_scale", 1.0)
        return OnePassDPSGD(self.make(**given), clip_scale, rounded_down(rho), num_samples)


def family_of(schedule: Any) -> AbstractFamily | None:
    """The family that a schedule argument names; None for the best of all schedules.

    Raises:
        TypeError: it names none.
    """
    if is_optimal(schedule):
        return None
    return schedule if isinstance(schedule, AbstractFamily) else Parametric(schedule)


def solve(family: AbstractFamily | None, setting: Setting) -> Solution:
    """The best member of a family; of None, the best schedule of all that is known."""
    if not setting.is_isotropic:
        return _through_modes(FreeForm(_KNOTS) if family is None else family, setting)
    point, risk = greedy(setting)
    if family is None:
        return _greedy_solution(point, risk, setting)
    starts = cold_starts(family, setting)
    if isinstance(family, FreeForm):
        starts = np.concatenate([warm_starts(family, setting, point), starts])
    return solution_of(family, fit(family, setting, starts, risk * (1 - _BELOW)), setting)


def greedy(setting: Setting) -> tuple[Float[np.ndarray, " two"], float]:
    """The best greedy plan's point and risk."""
    found = best_greedy(jax.tree.map(lambda leaf: np.asarray(leaf)[None], setting))
    return found.points[0], float(found.risk[0])


def _greedy_solution(point, risk: float, setting: Setting) -> Solution:
    knots, values = greedy_schedule(point, setting)
    clip_scale = math.inf if math.isinf(setting.rho) else math.exp(point[0])
    return Solution(Knots(knots), {"learning_rate": values}, clip_scale, risk)


def solution_of(
    family: AbstractFamily, point: Float[np.ndarray, " numbers"], setting: Setting
) -> Solution:
    """A member of a family as a solution; ln c comes first."""
    make, arguments = family.parts(point[1:], setting)
    return Solution(make, arguments, math.exp(point[0]), risk_at(family, point, setting))


def warm_starts(
    family: FreeForm, setting: Setting, point: Float[np.ndarray, " two"] | None = None
) -> Float[np.ndarray, "starts numbers"]:
    """The greedy plan (of the same setting with equal eigenvalues) as a free form, and faster ones.

    Args:
        family: the free form.
        setting: with any eigenvalues.
        point: of the greedy plan, where it is known.
    """
    setting = setting if setting.is_isotropic else setting.isotropic()
    point = greedy(setting)[0] if point is None else point
    knots, values = greedy_schedule(point, setting)
    with on_host():
        time = np.asarray(log_clock(jnp.asarray(setting.gamma), family.num_knots).time)
    shares = np.interp(time, knots, values) / float(setting.cap)
    forms = [numbers_of(np.minimum(shares * faster, 0.99)) for faster in _FASTER]
    return np.stack([np.append(point[0], form) for form in forms])


def _through_modes(family: AbstractFamily, setting: Setting) -> Solution:
    """The best member for unequal eigenvalues, through all modes."""
    setting = setting.grouped()
    starts = cold_starts(family, setting)
    if isinstance(family, FreeForm):
        starts = np.concatenate([warm_starts(family, setting), starts])
    return solution_of(family, fit(family, setting, starts, _NOTHING), setting)


def floor_of(setting: Setting) -> float:
    """The best risk without privacy: of unequal eigenvalues the best that was found."""
    if setting.is_isotropic:
        return isotropic_floor(setting)
    quiet = eqx.tree_at(lambda each: each.rho, setting, np.float64(math.inf))
    return _through_modes(FreeForm(_KNOTS), quiet).risk
