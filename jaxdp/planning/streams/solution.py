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
from jaxdp.core.numerics.precision import on_host
from jaxdp.planning.streams.clock import log_clock
from jaxdp.planning.streams.family import (
    AbstractFamily,
    FreeForm,
    Knots,
    Parametric,
    numbers_of,
)
from jaxdp.planning.streams.fit import Fit, cold_starts, fit
from jaxdp.planning.streams.floor import isotropic_floor, noiseless_schedule
from jaxdp.planning.streams.optimal import is_optimal
from jaxdp.planning.streams.privacy_budget import rounded_down
from jaxdp.planning.streams.search import STEPS, best_greedy, greedy_schedule
from jaxdp.planning.streams.setting import Setting

# Knots of the free form that stands for the best schedule where the theorem does not hold.
_KNOTS = 32
# Relative: by how much a fit may seem to be better than the best of all.
_BELOW = 1e-4
_NOTHING = 1e-300
# c over the standard deviation of a label beyond which nothing is clipped.
_NO_CLIP = 1e3
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
    if family is None and np.isinf(setting.rho):
        return _noiseless(setting)
    point, risk = greedy(setting)
    if family is None:
        knots, values = greedy_schedule(point, setting)
        return Solution(Knots(knots), {"learning_rate": values}, math.exp(point[0]), risk)
    starts = cold_starts(family, setting)
    if isinstance(family, FreeForm):
        starts = np.concatenate([warm_starts(family, setting), starts])
    return solution_of(family, fit(family, setting, starts, risk * (1 - _BELOW)), setting)


def best_risk(family: AbstractFamily | None, setting: Setting) -> float:
    """The risk of what `solve` finds, with as little work as it takes."""
    if family is None and setting.is_isotropic:
        return greedy(setting)[1]
    return solve(family, setting).risk


def greedy(setting: Setting) -> tuple[Float[np.ndarray, " two"], float]:
    """The best greedy plan's point and risk; without noise the floor, and no point."""
    if np.isinf(setting.rho):
        return np.full(2, np.inf), isotropic_floor(setting)
    found = best_greedy(jax.tree.map(lambda leaf: np.asarray(leaf)[None], setting))
    return found.points[0], float(found.risk[0])


def _noiseless(setting: Setting) -> Solution:
    time = _knots(setting, STEPS + 1)
    rates = noiseless_schedule(setting, time)
    return Solution(Knots(time), {"learning_rate": rates}, math.inf, isotropic_floor(setting))


def _knots(setting: Setting, count: int) -> Float[np.ndarray, " knots"]:
    with on_host():
        return np.array(log_clock(jnp.asarray(setting.gamma), count).time)


def solution_of(family: AbstractFamily, found: Fit, setting: Setting) -> Solution:
    """A member of a family as a solution."""
    make, arguments = family.parts(found.point[1:], setting)
    return Solution(make, arguments, math.exp(found.point[0]), found.risk)


def warm_starts(family: FreeForm, setting: Setting) -> Float[np.ndarray, "starts numbers"]:
    """The best plan of the same setting with equal eigenvalues as a free form, and faster ones."""
    one = solve(None, setting.isotropic())
    time = _knots(setting, family.num_knots)
    shares = np.asarray(one.make(**one.arguments)(time)) / float(setting.cap)
    forms = [numbers_of(np.minimum(shares * faster, 0.99)) for faster in _FASTER]
    clip_scale = min(one.clip_scale, _NO_CLIP * math.sqrt(setting.label_variance))
    return np.stack([np.append(math.log(clip_scale), form) for form in forms])


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
