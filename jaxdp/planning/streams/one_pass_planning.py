"""Planning one-pass DP-SGD: from a problem and a budget to an algorithm and what it reaches."""

import math
from typing import Any

import jax
import numpy as np

from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.core.checks import host_number, require_count, require_host, require_kind
from jaxdp.core.trajectory import Status, Trajectory
from jaxdp.planning.streams.one_pass_plan import OnePassPlan, Sensitivity
from jaxdp.planning.streams.robust import Box, solve_box
from jaxdp.planning.streams.setting import (
    AbstractSetting,
    is_least_squares,
    require_least_squares,
    setting_of,
)
from jaxdp.planning.streams.signal_setting import SignalSetting
from jaxdp.planning.streams.solution import (
    Solution,
    family_of,
    floor_of,
    has_theorem,
    rho_of,
    solve,
)
from jaxdp.privacy.arguments import warn_of_large_delta
from jaxdp.problems.streams.linear import LinearRegression
from jaxdp.problems.streams.signal import AbstractSignalProblem
from jaxdp.theory import CoupledODE

_KNOWN = (
    "the problem's numbers ({}) are taken as known: what was learnt of them from private data is "
    "not covered by rho"
)
_ROWS = (
    "rows are {} and come once; the risk is that of the deterministic equivalent, from which the "
    "mean over runs differs by O(1/d)"
)
_BEST_FOUND = "for {} schedule and floor are the best that were found, not proved best"
_IN_THE_BOX = (
    "the regret is the largest at the corners, the middles of the sides and the centre of the box, "
    "of schedules that were found by descent; what is predicted is for the problem as given"
)
# Relative: between the risk that the search saw and the one that `CoupledODE` predicts; and where
# the search saw many eigenvalues as few.
_AGREEMENT, _GROUPED = 1e-3, 2e-2


def plan_one_pass(
    problem: LinearRegression | AbstractSignalProblem,
    *,
    num_samples: Any,
    rho: Any = None,
    epsilon: Any = None,
    delta: Any = None,
    schedule: Any,
    uncertainty: Any = None,
) -> OnePassPlan:
    """The plan of `jaxdp.plan` for a stream."""
    require_host("problem", problem)
    count = require_count("num_samples", num_samples)
    rho = rho_of(rho, epsilon, delta)
    if delta is not None:
        # Seen from the caller of `jaxdp.plan`.
        warn_of_large_delta(delta, count, stacklevel=3)
    setting = stream_setting_of(problem, count, rho)
    family, regret = family_of(schedule), None
    if uncertainty is not None:
        require_kind("uncertainty", uncertainty, Box, "a jaxdp.Box of what is not known")
        require_least_squares(problem, "uncertainty")
    if uncertainty is None:
        found = solve(family, setting)
    else:
        assert is_least_squares(setting)
        found, regret = solve_box(family, setting, uncertainty)
    if not math.isfinite(found.risk):
        raise RuntimeError("expected a finite predicted risk of some schedule, found none")
    algorithm = found.algorithm(rho, count)
    predicted = CoupledODE().predict(problem, algorithm, records=100)
    floor = floor_of(setting)
    sensitivities = _sensitivities(problem, found, algorithm, float(predicted.final_risk))
    return OnePassPlan(
        algorithm=algorithm,
        predicted=predicted,
        floor=floor,
        sensitivities=sensitivities,
        assumptions=(*_assumptions(problem, setting), *(() if regret is None else (_IN_THE_BOX,))),
        status=_status(predicted, found, setting),
        regret=regret,
        dim=problem.dim,
        epsilon=None if epsilon is None else host_number("epsilon", epsilon),
        delta=None if delta is None else host_number("delta", delta),
    )


def stream_setting_of(
    problem: LinearRegression | AbstractSignalProblem, num_samples: float, rho: float
) -> AbstractSetting:
    """The setting of any problem on a stream, with concrete numbers."""
    if isinstance(problem, AbstractSignalProblem):
        wide = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), problem)
        return SignalSetting(np.float64(problem.dim / num_samples), np.float64(rho), wide)
    setting = setting_of(problem, num_samples, rho)
    if not setting.initial_risk > 0:
        raise ValueError("expected a problem with something to learn, got a target of zero")
    return setting


def _assumptions(problem, setting: AbstractSetting) -> tuple[str, ...]:
    """Sentences: the limits of a plan of this problem, and whether its schedule is proved best."""
    if isinstance(problem, AbstractSignalProblem):
        known, rows, where = "the signal", "isotropic Gaussian", f"{type(problem).__name__}"
    else:
        known, rows, where = "initial risk, label noise, spectrum", "Gaussian", ""
        if problem.input_scales is not None:
            known, rows = f"{known}, input scales", "elliptical"
            where = "inputs of random scale"
        elif not is_least_squares(setting):
            where = f"the loss {type(problem.loss).__name__}"
        elif not setting.is_isotropic:
            where = "unequal eigenvalues"
    found = () if has_theorem(setting) else (_BEST_FOUND.format(where),)
    return _KNOWN.format(known), _ROWS.format(rows), *found


def _status(predicted: Trajectory, found: Solution, setting: AbstractSetting) -> Status:
    """The prediction's; unstable where it is not what the search saw."""
    status = Status(int(predicted.status))
    is_whole = setting.start.shape == setting.grouped().start.shape
    allowed = _AGREEMENT if is_whole else _GROUPED
    gap = abs(float(predicted.final_risk) / found.risk - 1)
    return Status.UNSTABLE if status == Status.OK and not gap < allowed else status


def _sensitivities(
    problem: LinearRegression | AbstractSignalProblem,
    found: Solution,
    algorithm: OnePassDPSGD,
    risk: float,
) -> dict[str, Sensitivity]:
    first, *_ = found.arguments
    count, rho = int(algorithm.num_steps), float(algorithm.rho)

    def rise(**factors):
        changed = found.algorithm(rho, count, **factors)
        predicted = CoupledODE().predict(problem, changed, records=100)
        return float(predicted.final_risk) / risk - 1

    rises = {
        name: Sensitivity(rise(**{name: 0.5}), rise(**{name: 2.0}))
        for name in ("clip_scale", *found.arguments)
    }
    exchanged = [rise(**{"clip_scale": factor, first: 1 / factor}) for factor in (0.5, 2.0)]
    return {**rises, "exchange": Sensitivity(*exchanged)}
