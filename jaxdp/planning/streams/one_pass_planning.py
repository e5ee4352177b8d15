"""Planning one-pass DP-SGD: from a problem and a budget to an algorithm and what it reaches."""

import math
from typing import Any

import jax
import numpy as np

from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.core.checks import require_count, require_host
from jaxdp.core.errors import NotCoveredError
from jaxdp.core.trajectory import Status, Trajectory
from jaxdp.planning.streams.floor import isotropic_floor
from jaxdp.planning.streams.one_pass_plan import OnePassPlan, Sensitivity
from jaxdp.planning.streams.optimal import is_optimal
from jaxdp.planning.streams.privacy_budget import rho_of, rounded_down
from jaxdp.planning.streams.search import best_greedy, greedy_schedule
from jaxdp.planning.streams.setting import Setting, setting_of
from jaxdp.problems.linear import LinearRegression
from jaxdp.schedules import PiecewiseLinear
from jaxdp.theory import CoupledODE

_ASSUMPTIONS = (
    "the problem's numbers (initial risk, label noise, spectrum) are taken as known: what was "
    "learnt of them from private data is not covered by rho",
    "rows are Gaussian and come once; the risk is that of the deterministic equivalent, from which "
    "the mean over runs differs by O(1/d)",
)
# Relative: between the risk that the search saw and the one that `CoupledODE` predicts.
_AGREEMENT = 1e-3


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
    if not float(setting.initial_risk) > 0:
        raise ValueError("expected a problem with something to learn, got a target of zero")
    if not is_optimal(schedule) or not setting.is_isotropic or uncertainty is not None:
        raise NotCoveredError("not yet")
    batch = jax.tree.map(lambda leaf: np.asarray(leaf)[None], setting)
    found = best_greedy(batch)
    knots, values = greedy_schedule(found.points[0], setting)
    algorithm = OnePassDPSGD(
        PiecewiseLinear(knots, values), math.exp(found.points[0, 0]), rounded_down(rho), count
    )
    return _finished(problem, algorithm, setting, float(found.risk[0]))


def _finished(
    problem: LinearRegression, algorithm: OnePassDPSGD, setting: Setting, risk: float
) -> OnePassPlan:
    predicted = predict_plan(problem, algorithm)
    final = float(predicted.final_risk)
    status = Status(int(predicted.status))
    if status == Status.OK and not abs(final / risk - 1) < _AGREEMENT:
        # What the search saw is not what the equations say.
        status = Status.UNSTABLE
    return OnePassPlan(
        algorithm=algorithm,
        predicted=predicted,
        floor=isotropic_floor(setting),
        sensitivities=_sensitivities(problem, algorithm, final),
        assumptions=_ASSUMPTIONS,
        status=status,
    )


def predict_plan(problem: LinearRegression, algorithm: OnePassDPSGD) -> Trajectory:
    """What `CoupledODE` says of an algorithm."""
    return CoupledODE().predict(problem, algorithm, records=100)


def _sensitivities(
    problem: LinearRegression, algorithm: OnePassDPSGD, risk: float
) -> dict[str, Sensitivity]:
    changes = {
        "clip_scale": lambda factor: (factor, 1.0),
        "learning_rate": lambda factor: (1.0, factor),
        "exchange": lambda factor: (factor, 1 / factor),
    }

    def rise(clip_factor, rate_factor):
        changed = algorithm.replace(
            clip_scale=clip_factor * algorithm.clip_scale,
            learning_rate=jax.tree.map(lambda leaf: leaf, algorithm.learning_rate).replace(
                values=rate_factor * algorithm.learning_rate.values
            ),
        )
        return float(predict_plan(problem, changed).final_risk) / risk - 1

    return {
        name: Sensitivity(rise(*factors(0.5)), rise(*factors(2.0)))
        for name, factors in changes.items()
    }
