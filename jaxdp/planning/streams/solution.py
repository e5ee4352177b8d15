"""The best algorithm in one setting, by the search that its kind of schedule needs.

Three searches exist: along the greedy arc for equal eigenvalues, for a free form on all other
problems, and for the numbers of a family that the caller names. Without noise and with equal
eigenvalues the plan is in closed form. What is found is a `Solution`; `one_pass_planning` then
predicts it and says what it leaves out.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.core.arrays import as_wide_float
from jaxdp.core.checks import host_number
from jaxdp.core.numerics.precision import on_host
from jaxdp.planning.streams.families import AbstractFamily, FreeForm, Knots, Parametric, numbers_of
from jaxdp.planning.streams.fit import Fit, cold_starts, fit
from jaxdp.planning.streams.isotropic_search import (
    STEPS,
    best_greedy,
    greedy_schedule,
    isotropic_floor,
    noiseless_schedule,
)
from jaxdp.planning.streams.optimal import is_optimal
from jaxdp.planning.streams.schedule_risk import log_clock
from jaxdp.planning.streams.setting import AbstractSetting, Setting, is_least_squares
from jaxdp.privacy.arguments import check_budget
from jaxdp.privacy.conversions.gaussian import gaussian_mu
from jaxdp.schedules import Hyperbolic

# Knots of the free form that stands for the best schedule where the theorem does not hold.
_KNOTS = 32
# Relative: by how much a fit may seem to be better than the best of all.
_BELOW = 1e-4
_NOTHING = 1e-300
# c over the standard deviation of a label beyond which nothing is clipped.
_NO_CLIP = 1e3
# By how much faster than a simpler plan the descents without a theorem begin.
_FASTER = (1.0, 2.0, 4.0)


class Solution(NamedTuple):
    """A schedule with its arguments, a clip scale, and the risk that the search saw."""

    make: Callable[..., Any]  # from the arguments to a schedule
    arguments: dict[str, Any]  # the best ones; the first is a rate
    clip_scale: float  # c; infinite without noise
    risk: float  # of what is released

    def algorithm(self, rho: float, num_samples: int, **factors: float) -> OnePassDPSGD:
        """The algorithm, with some arguments (clip_scale among them) multiplied by factors."""
        given = {name: value * factors.get(name, 1.0) for name, value in self.arguments.items()}
        clip_scale = self.clip_scale * factors.get("clip_scale", 1.0)
        # In JAX's default type, not larger: a larger rho would be less private.
        private = np.asarray(as_wide_float(rho))
        if float(private) > rho:
            private = np.nextafter(private, np.zeros_like(private))
        return OnePassDPSGD(self.make(**given), clip_scale, private, num_samples)


def family_of(schedule: Any) -> AbstractFamily | None:
    """The family that a schedule argument names; None for the best of all schedules."""
    if is_optimal(schedule):
        return None
    return schedule if isinstance(schedule, AbstractFamily) else Parametric(schedule)


def solve(family: AbstractFamily | None, setting: AbstractSetting) -> Solution:
    """The best member of a family; of None, the best schedule of all that is known."""
    if not has_theorem(setting):
        return _by_descent(FreeForm(_KNOTS) if family is None else family, setting)
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


def has_theorem(setting: AbstractSetting) -> TypeGuard[Setting]:
    """Whether the best of all schedules is known: for least squares with equal eigenvalues."""
    return is_least_squares(setting) and setting.is_isotropic


def best_risk(family: AbstractFamily | None, setting: AbstractSetting) -> float:
    """The risk of what `solve` finds, with as little work as it takes."""
    if family is None and has_theorem(setting):
        return greedy(setting)[1]
    return solve(family, setting).risk


def greedy(setting: Setting) -> tuple[Float[np.ndarray, " two"], float]:
    """The best greedy plan's point and risk; without noise the floor, and no point."""
    if np.isinf(setting.rho):
        return np.full(2, np.inf), isotropic_floor(setting)
    points, risks = best_greedy(jax.tree.map(lambda leaf: np.asarray(leaf)[None], setting))
    return points[0], float(risks[0])


def _noiseless(setting: Setting) -> Solution:
    time = _knots(setting, STEPS + 1)
    rates = noiseless_schedule(setting, time)
    return Solution(Knots(time), {"learning_rate": rates}, math.inf, isotropic_floor(setting))


def _knots(setting: AbstractSetting, count: int) -> Float[np.ndarray, " knots"]:
    with on_host():
        return np.array(log_clock(jnp.asarray(setting.gamma), count).time)


def solution_of(family: AbstractFamily, found: Fit, setting: AbstractSetting) -> Solution:
    make, arguments = family.parts(found.point[1:], setting)
    return Solution(make, arguments, math.exp(found.point[0]), found.risk)


def warm_starts(family: FreeForm, setting: AbstractSetting) -> Float[np.ndarray, "starts numbers"]:
    """A simpler plan as a free form, and faster ones.

    For least squares that is the best plan with equal eigenvalues; elsewhere the best hyperbola.
    """
    if is_least_squares(setting):
        one = solve(None, setting.isotropic())
    else:
        one = _by_descent(Parametric(Hyperbolic), setting)
    time = _knots(setting, family.num_knots)
    shares = np.asarray(one.make(**one.arguments)(time)) / float(setting.cap)
    forms = [numbers_of(np.minimum(shares * faster, 0.99)) for faster in _FASTER]
    clip_scale = min(one.clip_scale, _NO_CLIP * float(setting.slope_scale))
    return np.stack([np.append(math.log(clip_scale), form) for form in forms])


def _by_descent(family: AbstractFamily, setting: AbstractSetting) -> Solution:
    """The best member that descents find, where no theorem helps."""
    setting = setting.grouped()
    starts = cold_starts(family, setting)
    if isinstance(family, FreeForm):
        starts = np.concatenate([warm_starts(family, setting), starts])
    return solution_of(family, fit(family, setting, starts, _NOTHING), setting)


def floor_of(setting: AbstractSetting) -> float:
    """The best risk without privacy; without a theorem the best that was found."""
    if has_theorem(setting):
        return isotropic_floor(setting)
    return _by_descent(FreeForm(_KNOTS), setting.without_privacy()).risk


def rho_of(rho: Any, epsilon: Any, delta: Any) -> float:
    r"""$\rho$ of a budget: the algorithm is exactly $\rho$-GDP."""
    if (rho is None) == (epsilon is None):
        came = "both" if rho is not None else "neither"
        raise ValueError(f"expected either rho or epsilon and delta, got {came}")
    if rho is not None:
        if delta is not None:
            raise ValueError("expected rho alone or epsilon and delta, got rho and delta")
        known = host_number("rho", rho)
        if not known > 0:
            raise ValueError(f"expected rho > 0, got {known}")
        return known
    if delta is None:
        raise ValueError("expected delta with epsilon, got epsilon alone")
    check_budget(host_number("epsilon", epsilon), host_number("delta", delta))
    found = float(gaussian_mu(float(epsilon), float(delta)))
    if found == 0:
        raise ValueError(f"expected an epsilon that some noise reaches, got {epsilon}")
    return found
