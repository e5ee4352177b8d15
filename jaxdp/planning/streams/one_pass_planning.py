"""Planning one-pass DP-SGD: from a problem and a budget to an algorithm and what it reaches."""

from typing import Any

from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.core.checks import require_count, require_host, require_kind
from jaxdp.core.trajectory import Status, Trajectory
from jaxdp.planning.streams.box import Box
from jaxdp.planning.streams.one_pass_plan import OnePassPlan, Sensitivity
from jaxdp.planning.streams.privacy_budget import rho_of
from jaxdp.planning.streams.robust import solve_box
from jaxdp.planning.streams.setting import Setting, setting_of
from jaxdp.planning.streams.solution import Solution, family_of, floor_of, solve
from jaxdp.problems.linear import LinearRegression
from jaxdp.theory import CoupledODE

_ASSUMPTIONS = (
    "the problem's numbers (initial risk, label noise, spectrum) are taken as known: what was "
    "learnt of them from private data is not covered by rho",
    "rows are Gaussian and come once; the risk is that of the deterministic equivalent, from which "
    "the mean over runs differs by O(1/d)",
)
_BEST_FOUND = (
    "for unequal eigenvalues schedule and floor are the best that were found, not proved best"
)
_IN_THE_BOX = (
    "the regret is the largest at the corners, the middles of the sides and the centre of the box, "
    "of schedules that were found by descent; what is predicted is for the problem as given"
)
# Relative: between the risk that the search saw and the one that `CoupledODE` predicts; and where
# the search saw many eigenvalues as few.
_AGREEMENT, _GROUPED = 1e-3, 2e-2


def plan_one_pass(
    problem: LinearRegression,
    *,
    num_samples: Any,
    rho: Any = None,
    epsilon: Any = None,
    delta: Any = None,
    schedule: Any,
    uncertainty: Any = None,
) -> OnePassPlan:
    """The plan of `jaxdp.plan` for linear regression."""
    require_host("problem", problem)
    count = require_count("num_samples", num_samples)
    rho = rho_of(rho, epsilon, delta)
    setting = setting_of(problem, count, rho)
    if not setting.initial_risk > 0:
        raise ValueError("expected a problem with something to learn, got a target of zero")
    family, regret = family_of(schedule), None
    if uncertainty is None:
        found = solve(family, setting)
    else:
        require_kind("uncertainty", uncertainty, Box, "a jaxdp.Box of what is not known")
        found, regret = solve_box(family, setting, uncertainty)
    algorithm = found.algorithm(rho, count)
    predicted = predict_plan(problem, algorithm)
    return OnePassPlan(
        algorithm=algorithm,
        predicted=predicted,
        floor=floor_of(setting),
        sensitivities=_sensitivities(problem, found, algorithm, float(predicted.final_risk)),
        assumptions=(
            *_ASSUMPTIONS,
            *(() if setting.is_isotropic else (_BEST_FOUND,)),
            *(() if regret is None else (_IN_THE_BOX,)),
        ),
        status=_status(predicted, found, setting),
        regret=regret,
    )


def predict_plan(problem: LinearRegression, algorithm: OnePassDPSGD) -> Trajectory:
    """What `CoupledODE` says of an algorithm."""
    return CoupledODE().predict(problem, algorithm, records=100)


def _status(predicted: Trajectory, found: Solution, setting: Setting) -> Status:
    """The prediction's; unstable where it is not what the search saw."""
    status = Status(int(predicted.status))
    allowed = (
        _AGREEMENT if len(setting.eigenvalues) == len(setting.grouped().eigenvalues) else _GROUPED
    )
    gap = abs(float(predicted.final_risk) / found.risk - 1)
    return Status.UNSTABLE if status == Status.OK and not gap < allowed else status


def _sensitivities(
    problem: LinearRegression, found: Solution, algorithm: OnePassDPSGD, risk: float
) -> dict[str, Sensitivity]:
    first, *_ = found.arguments
    count, rho = int(algorithm.num_steps), float(algorithm.rho)

    def rise(**factors):
        changed = found.algorithm(rho, count, **factors)
        return float(predict_plan(problem, changed).final_risk) / risk - 1

    rises = {
        name: Sensitivity(rise(**{name: 0.5}), rise(**{name: 2.0}))
        for name in ("clip_scale", *found.arguments)
    }
    exchanged = [rise(**{"clip_scale": factor, first: 1 / factor}) for factor in (0.5, 2.0)]
    return {**rises, "exchange": Sensitivity(*exchanged)}
