"""The best algorithm in one setting, or over a box of settings, by descents from several starts.

Over a box the worst *regret* (risk over the best risk at that place) is minimised: the least worst
*risk* suits the worst corner alone.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Float

from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.core.arrays import as_wide_float
from jaxdp.core.checks import host_array, host_number
from jaxdp.core.description import AbstractDescription
from jaxdp.core.numerics.descent import descend
from jaxdp.core.numerics.precision import on_host
from jaxdp.planning.streams.families import (
    AbstractFamily,
    FreeForm,
    Knots,
    Parametric,
    log_clock,
    numbers_of,
    schedule_log_risk,
)
from jaxdp.planning.streams.greedy_arc import (
    STEPS,
    Optimal,
    best_greedy,
    greedy_schedule,
    isotropic_floor,
    noiseless_schedule,
)
from jaxdp.planning.streams.setting import AbstractSetting, Setting, SignalSetting, is_least_squares
from jaxdp.privacy.budgets import budget_of
from jaxdp.schedules import Hyperbolic

_CLIPS = np.geomspace(0.02, 4, 9)  # tried clip scales, over the size of the slopes at the start
# Up to this many tangents cost less than a reverse pass, except through the moments of a signal's
# slopes, which have their own rule.
_FEW = 4
_KNOTS = 32  # knots of the free form that replaces the best schedule without the theorem
_BELOW = 1e-4  # relative: a fit may seem to be better than the best of all by this much
_NOTHING = 1e-300
_NO_CLIP = 1e3  # clip scale, over the size of the slopes, beyond which nothing is clipped
_FASTER = (1.0, 2.0, 4.0)  # multiples of a simpler plan's rates, as starts
_SHARPNESS = (3.0, 10.0, 40.0, 200.0)  # sharpness of the regrets' smooth maximum
_BOX_STARTS = 4
_BOX_KNOTS = 24  # knots of the free form over a box
_BOX_SIDE = 3  # places along each side of a box


class Fit(NamedTuple):
    """The best member of a family: ln c followed by its numbers, and its risk."""

    point: Float[np.ndarray, " numbers"]
    risk: float  # of the released iterate; infinite if nothing sound was found


def fit(
    family: AbstractFamily,
    setting: AbstractSetting,
    starts: Float[np.ndarray, "starts numbers"],
    least: float,
) -> Fit:
    """The best clip scale and numbers, by descents; risks below `least` are numerical errors."""
    kept, tolerance = setting.effort
    with on_host():
        values = np.array(_values(family, jnp.asarray(starts), setting))
        values[~(values >= np.log(least))] = np.inf
        best = starts[np.argsort(values)[:kept]]
        points, values = descend(
            lambda points: _values_and_gradients(family, jnp.asarray(points), setting),
            best,
            tolerance=tolerance,
        )
    risks = np.where(values >= np.log(least), np.exp(values), np.inf)
    place = int(np.argmin(risks))
    return Fit(points[place], float(risks[place]))


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


class Solution(NamedTuple):
    """A schedule with its arguments, a clip scale, and the risk that the search saw."""

    make: Callable[..., Any]  # from the arguments to a schedule
    arguments: dict[str, Any]  # the first is a rate
    clip_scale: float  # c; infinite without noise
    risk: float  # of the released iterate

    def algorithm(self, rho: float, num_samples: int, **factors: float) -> OnePassDPSGD:
        """The algorithm, with some arguments (clip_scale among them) multiplied by factors."""
        given = {name: value * factors.get(name, 1.0) for name, value in self.arguments.items()}
        clip_scale = self.clip_scale * factors.get("clip_scale", 1.0)
        # Rounded down in JAX's default type: a larger rho would be less private.
        private = np.asarray(as_wide_float(rho))
        if float(private) > rho:
            private = np.nextafter(private, np.zeros_like(private))
        return OnePassDPSGD(self.make(**given), clip_scale, private, num_samples)


def family_of(schedule: Any) -> AbstractFamily | None:
    """The family that a schedule argument names; None for `Optimal`."""
    if schedule is Optimal or isinstance(schedule, Optimal):
        return None
    return schedule if isinstance(schedule, AbstractFamily) else Parametric(schedule)


def solve(family: AbstractFamily | None, setting: AbstractSetting) -> Solution:
    """The best member of a family; for None the best known schedule."""
    if not has_theorem(setting):
        return _by_descent(FreeForm(_KNOTS) if family is None else family, setting)
    point, risk = greedy(setting)
    if family is None:
        if np.isinf(setting.rho):
            knots = _knots(setting, STEPS + 1)
            values = noiseless_schedule(setting, knots)
        else:
            knots, values = greedy_schedule(point, setting)
        return Solution(Knots(knots), {"learning_rate": values}, math.exp(point[0]), risk)
    return _by_descent(family, setting, risk * (1 - _BELOW))


def has_theorem(setting: AbstractSetting) -> TypeGuard[Setting]:
    """Whether `Optimal`'s theorem holds: least squares with equal eigenvalues."""
    return is_least_squares(setting) and setting.is_isotropic


def best_risk(family: AbstractFamily | None, setting: AbstractSetting) -> float:
    """The risk of `solve`'s solution, without its schedule if possible."""
    if family is None and has_theorem(setting):
        return greedy(setting)[1]
    return solve(family, setting).risk


def greedy(setting: Setting) -> tuple[Float[np.ndarray, " two"], float]:
    """The best greedy plan's point and risk; without noise the floor, and no point."""
    if np.isinf(setting.rho):
        return np.full(2, np.inf), isotropic_floor(setting)
    points, risks = best_greedy(jax.tree.map(lambda leaf: np.asarray(leaf)[None], setting))
    return points[0], float(risks[0])


def _knots(setting: AbstractSetting, count: int) -> Float[np.ndarray, " knots"]:
    with on_host():
        return np.array(log_clock(jnp.asarray(setting.gamma), count).time)


def solution_of(family: AbstractFamily, found: Fit, setting: AbstractSetting) -> Solution:
    make, arguments = family.parts(found.point[1:], setting)
    return Solution(make, arguments, math.exp(found.point[0]), found.risk)


def warm_starts(family: FreeForm, setting: AbstractSetting) -> Float[np.ndarray, "starts numbers"]:
    """The best isotropic plan, or hyperbola, as a free form, and faster ones."""
    if is_least_squares(setting):
        one = solve(None, setting.isotropic())
    else:
        one = _by_descent(Parametric(Hyperbolic), setting)
    time = _knots(setting, family.num_knots)
    shares = np.asarray(one.make(**one.arguments)(time)) / float(setting.cap)
    forms = [numbers_of(np.minimum(shares * faster, 0.99)) for faster in _FASTER]
    clip_scale = min(one.clip_scale, _NO_CLIP * float(setting.slope_scale))
    return np.stack([np.append(math.log(clip_scale), form) for form in forms])


def _by_descent(
    family: AbstractFamily, setting: AbstractSetting, least: float = _NOTHING
) -> Solution:
    """The best member that descents find; risks below `least` do not count."""
    setting = setting.grouped()
    starts = cold_starts(family, setting)
    if isinstance(family, FreeForm):
        starts = np.concatenate([warm_starts(family, setting), starts])
    return solution_of(family, fit(family, setting, starts, least), setting)


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
    found = host_number("epsilon", budget_of(epsilon, delta).largest_mu)
    if found == 0:
        raise ValueError(f"expected an epsilon that some noise reaches, got {epsilon!r}")
    return found


class Box(AbstractDescription):
    """Ranges of R(0) and label noise for which a plan must be good: `uncertainty` of `jaxdp.plan`.

    Args:
        initial_risk: (low, high) of R(0), with 0 < low <= high, finite.
        label_noise: (low, high) of zeta, with 0 <= low <= high, finite.

    Raises:
        ValueError: the box is empty, or an end is out of range.

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
        """Corners, midpoints of the sides and centre, as (initial risk, label noise)."""
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
    spaced = np.geomspace if low > 0 else np.linspace
    return [low] if low == high else spaced(low, high, _BOX_SIDE).tolist()


def solve_box(family: AbstractFamily | None, setting: Setting, box: Box) -> tuple[Solution, float]:
    """The member of a family with the least worst regret, and this regret."""
    places = [_at(setting.grouped(), *place) for place in box.places()]
    least = np.log([best_risk(None, place) for place in places])
    family = FreeForm(_BOX_KNOTS) if family is None else family
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *places)
    starts_at: Any = warm_starts if isinstance(family, FreeForm) else cold_starts
    starts = np.concatenate([starts_at(family, place) for place in places])
    with on_host():
        values = np.array(_largest_regrets(family, jnp.asarray(starts), stacked, least))
        values[~np.isfinite(values)] = np.inf
        points = starts[np.argsort(values)[:_BOX_STARTS]]
        for sharpness in _SHARPNESS:
            points = descend(
                lambda points, sharpness=sharpness: _smooth(
                    family, jnp.asarray(points), stacked, least, jnp.asarray(sharpness)
                ),
                points,
            )[0]
        rows = np.resize(points, starts.shape)
        worst = np.array(_largest_regrets(family, jnp.asarray(rows), stacked, least))[: len(points)]
    worst[~np.isfinite(worst)] = np.inf
    place = int(np.argmin(worst))
    regret = float(np.exp(worst[place]))
    with on_host():
        value = _values(family, jnp.asarray(points[[place]]), setting.grouped())[0]
    found = Fit(points[place], float(np.exp(np.asarray(value))))
    return solution_of(family, found, setting), regret


def _at(setting: Setting, initial_risk: float, label_noise: float) -> Setting:
    scale = initial_risk / float(setting.initial_risk)
    changed = setting.modes.initial * scale, np.float64(label_noise)
    return eqx.tree_at(lambda each: (each.modes.initial, each.modes.label_noise), setting, changed)


def _log_regrets(family, point, settings, least) -> Float[jax.Array, " settings"]:
    risks = jax.vmap(lambda setting: log_risk(family, point, setting))(settings)
    return risks - least


@eqx.filter_jit
def _largest_regrets(family, points, settings, least):
    return jax.vmap(lambda point: jnp.max(_log_regrets(family, point, settings, least)))(points)


@eqx.filter_jit
def _smooth(family, points, settings, least, sharpness):
    def worst(point):
        regrets = _log_regrets(family, point, settings, least)
        return logsumexp(sharpness * regrets) / sharpness

    return jax.vmap(jax.value_and_grad(worst))(points)
