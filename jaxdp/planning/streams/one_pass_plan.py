"""A plan of one-pass DP-SGD: its algorithm, its prediction, and how it is made."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxdp.algorithms.one_pass_dp_sgd import OnePassDPSGD
from jaxdp.core.checks import host_number, require_count, require_host, require_kind
from jaxdp.core.display import AbstractExplained, Explanation, Row
from jaxdp.core.trajectory import Status, Trajectory
from jaxdp.planning.streams.best_schedule import (
    Box,
    Solution,
    family_of,
    floor_of,
    has_theorem,
    rho_of,
    solve,
    solve_box,
)
from jaxdp.planning.streams.setting import (
    AbstractSetting,
    SignalSetting,
    is_least_squares,
    require_least_squares,
    setting_of,
)
from jaxdp.privacy.arguments import warn_of_large_delta
from jaxdp.privacy.budgets import AbstractBudget, warn_of_budget
from jaxdp.problems.streams.linear import LinearRegression
from jaxdp.problems.streams.signal import AbstractSignalProblem
from jaxdp.schedules import AbstractSchedule, Constant, Hyperbolic, PiecewiseLinear, Polynomial
from jaxdp.theory import CoupledODE, predict

_WRITTEN = (Constant, Hyperbolic, PiecewiseLinear, Polynomial)  # written by their fields
_CLOSE = 1e-2  # relative error of the knots of a schedule that is written out
_LOOKED_AT = "if the problem was estimated from private rows, no cost covers that"
_NAMES = {"exchange": "clip_scale at a fixed product with the rate"}
_KNOWN = (
    "the problem's numbers ({}) are taken as known: their estimation from private data is not "
    "covered by rho"
)
_ROWS = (
    "rows are {} and come once; the risk is that of the deterministic equivalent, from which the "
    "mean over runs differs by O(1/d)"
)
_BEST_FOUND = "schedule and floor for {} are the best that were found, not proved best"
_IN_THE_BOX = (
    "the regret is the largest at the corners, midpoints of the sides and centre of the box, of "
    "schedules found by descent; the prediction is for the problem as given"
)
# Allowed relative gap of the search's risk to that of `CoupledODE`; and if it joined eigenvalues.
_AGREEMENT, _GROUPED = 1e-3, 2e-2


class Sensitivity(NamedTuple):
    """Relative rise of the risk if an argument is halved or doubled: 1.0 is twice the risk."""

    halved: float
    doubled: float


class OnePassPlan(AbstractExplained, eqx.Module):
    """How to run one-pass DP-SGD within a budget, as `jaxdp.plan` found it.

    Attributes:
        algorithm, predicted: algorithm to run, and its trajectory by `CoupledODE`.
        floor: best risk of one pass over as many samples without privacy.
        sensitivities: rise of the risk by argument. "learning_rate" is the whole schedule,
            "exchange" the clip scale at a fixed product with the learning rate; others belong to
            the schedule.
        assumptions: limits of the plan, in sentences.
        status: `Status.OK`, or what went wrong.
        regret: with `uncertainty`, the largest risk over the best risk at `Box.places`; else None.
        dim: dimension of the problem, which turns the clip scale into a clip norm; None if unknown.
        epsilon, delta: budget as given; None if it was given as rho or as an object.
        budget: budget as it was given as an object, or None.

    Example:
        >>> import jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> plan = jaxdp.plan(problem, num_samples=1000, rho=1.0)
        >>> print(f"risk {plan.final_risk:.4f}, without privacy {plan.floor:.4f}")
        risk 0.0565, without privacy 0.0076
    """

    algorithm: OnePassDPSGD
    predicted: Trajectory
    floor: float = eqx.field(static=True)
    sensitivities: dict[str, Sensitivity]
    assumptions: tuple[str, ...] = eqx.field(static=True)
    status: Status = eqx.field(static=True)
    regret: float | None = eqx.field(static=True, default=None)
    dim: int | None = eqx.field(static=True, default=None)
    epsilon: float | None = eqx.field(static=True, default=None)
    delta: float | None = eqx.field(static=True, default=None)
    budget: AbstractBudget | None = eqx.field(static=True, default=None)

    @property
    def final_risk(self) -> float:
        """The predicted risk of the released iterate."""
        return float(self.predicted.final_risk)

    @property
    def adjacency(self) -> str:
        """The adjacency for which the budget holds."""
        return self.algorithm.release().adjacency

    @property
    def clip_norm(self) -> float | None:
        """The clip norm, that is the clip scale times the root of `dim`; None without `dim`."""
        scale = float(self.algorithm.clip_scale)
        return None if self.dim is None else scale * math.sqrt(self.dim)

    @property
    def line(self) -> str:
        """The algorithm as a line of Python, to five digits and with as few knots as needed."""
        one = self.algorithm
        clip_scale, rho = f"{float(one.clip_scale):.5g}", repr(float(one.rho))
        # Infinity has no literal in Python.
        scale, rho = ('float("inf")' if text == "inf" else text for text in (clip_scale, rho))
        numbers = f"clip_scale={scale}, rho={rho}, num_steps={int(one.num_steps)}"
        return f"jaxdp.OnePassDPSGD({_schedule_text(one.learning_rate)}, {numbers})"

    def __str__(self):
        one = self.algorithm
        first, last = self._rates
        lines = [
            f"Plan for {int(one.num_steps):,} samples at {self._budget}; {_LOOKED_AT}",
            f"{self._clipping}; learning rate {first:.4g} to {last:.4g}, in units of 1/number of "
            "steps",
            f"neighbours differ in one record that is replaced ({self.adjacency})",
            f"predicted risk {self.final_risk:.5g} by the {self.predicted.label}; without privacy "
            f"{self.floor:.5g} at best",
        ]
        if self.regret is not None:
            lines.append(
                f"at most {self.regret:.3g} times the best risk at the corners, the middles of the "
                "sides and the centre of the box"
            )
        lines += [
            f"{_NAMES.get(name, name)}: risk {1 + each.halved:.3g} times as large when halved, "
            f"{1 + each.doubled:.3g} when doubled"
            for name, each in self.sensitivities.items()
        ]
        if self.status != Status.OK:
            lines.append(f"status: {self.status.name}")
        lines += [self.line, *(f"Note: {sentence}." for sentence in self.assumptions)]
        return "\n".join(lines) + "\n"

    def __repr__(self):
        return str(self)

    @property
    def _rates(self) -> tuple[float, float]:
        rate = self.algorithm.learning_rate
        return float(rate(jnp.asarray(0.0))), float(rate(jnp.asarray(1.0)))

    @property
    def _budget(self) -> str:
        rho = float(self.algorithm.rho)
        if self.budget is not None:
            return f"{self.budget!r} (rho = {rho:.3g} in Gaussian DP)"
        if self.epsilon is None or self.delta is None:
            return f"rho = {rho:.5g} in Gaussian DP"
        return f"epsilon {self.epsilon:g}, delta {self.delta:g} (rho = {rho:.3g} in Gaussian DP)"

    @property
    def _clipping(self) -> str:
        scale, norm = float(self.algorithm.clip_scale), self.clip_norm
        if math.isinf(scale):
            return "no clipping"
        if norm is None:
            return f"clip scale {scale:.4g}, the clip norm over sqrt(dim)"
        return f"clip norm {norm:.4g} (clip scale {scale:.4g} times sqrt({self.dim}))"

    def _explanation(self):
        one = self.algorithm
        first, last = self._rates
        rows = [Row("num_steps", f"{int(one.num_steps):,}", "samples, each used once")]
        for name, asked in (("epsilon", self.epsilon), ("delta", self.delta)):
            if asked is not None:
                rows.append(Row(name, f"{asked:g}", "of the budget"))
        rows += [
            Row("rho", f"{float(one.rho):.5g}", "Gaussian DP parameter mu of the release"),
            Row("adjacency", self.adjacency, "who the neighbours are"),
            Row("clip_scale", f"{float(one.clip_scale):.4g}", "clip norm over sqrt(dim)"),
        ]
        if self.clip_norm is not None:
            rows.append(Row("clip_norm", f"{self.clip_norm:.4g}", "longest gradient of a record"))
        rows += [
            Row("learning_rate", f"{first:.4g} to {last:.4g}", "in units of 1/number of steps"),
            Row("final_risk", f"{self.final_risk:.5g}", f"by the {self.predicted.label}"),
            Row("floor", f"{self.floor:.5g}", "best risk without privacy"),
        ]
        if self.regret is not None:
            rows.append(Row("regret", f"{self.regret:.3g}", "times the best risk, at worst"))
        rows += [
            Row(
                _NAMES.get(name, name),
                f"{1 + each.halved:.3g} and {1 + each.doubled:.3g}",
                "times the risk when halved and when doubled",
            )
            for name, each in self.sensitivities.items()
        ]
        rows.append(Row("status", self.status.name.lower(), "of the search"))
        title = f"Plan of one-pass DP-SGD; {_LOOKED_AT}"
        return Explanation(title, tuple(rows), (self.line, *self.assumptions))


def _schedule_text(schedule: AbstractSchedule) -> str:
    if not isinstance(schedule, _WRITTEN):
        return "SCHEDULE"
    arguments = {name: np.asarray(value, np.float64) for name, value in vars(schedule).items()}
    if "knots" in arguments:
        kept = _needed(arguments["knots"], arguments["values"])
        arguments = {name: values[kept] for name, values in arguments.items()}
    texts = (
        f"[{', '.join(f'{each:.5g}' for each in value)}]" if value.ndim else f"{value:.5g}"
        for value in arguments.values()
    )
    return f"jaxdp.{type(schedule).__name__}({', '.join(texts)})"


def _needed(knots: np.ndarray, values: np.ndarray) -> list[int]:
    """Places of few knots, between which straight lines follow all others closely."""
    kept, first = [0], 0
    while first < len(knots) - 1:
        last = first + 1
        while last + 1 < len(knots):
            inner = slice(first + 1, last + 1)
            ends = [knots[first], knots[last + 1]], [values[first], values[last + 1]]
            gap = np.abs(np.interp(knots[inner], *ends) - values[inner])
            if np.any(gap > _CLOSE * values[inner]):
                break
            last += 1
        kept.append(last)
        first = last
    return kept


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
    asked = epsilon if isinstance(epsilon, AbstractBudget) else None
    if asked is not None:
        epsilon = None
        warn_of_budget(asked, count, stacklevel=3)
    if delta is not None:
        warn_of_large_delta(delta, count, stacklevel=3)
    setting = stream_setting_of(problem, count, rho)
    family = family_of(schedule)
    if uncertainty is None:
        found, regret = solve(family, setting), None
    else:
        require_kind("uncertainty", uncertainty, Box, "a jaxdp.Box of what is not known")
        require_least_squares(problem, "uncertainty")
        assert is_least_squares(setting)
        found, regret = solve_box(family, setting, uncertainty)
    if not math.isfinite(found.risk):
        raise RuntimeError("expected a finite predicted risk of some schedule, found none")
    algorithm = found.algorithm(rho, count)
    predicted = predict(problem, algorithm, theory=CoupledODE(), records=100)
    return OnePassPlan(
        algorithm=algorithm,
        predicted=predicted,
        floor=floor_of(setting),
        sensitivities=_sensitivities(problem, found, algorithm, float(predicted.final_risk)),
        assumptions=(*_assumptions(problem, setting), *(() if regret is None else (_IN_THE_BOX,))),
        status=_status(predicted, found, setting),
        regret=regret,
        dim=problem.dim,
        epsilon=None if epsilon is None else host_number("epsilon", epsilon),
        delta=None if delta is None else host_number("delta", delta),
        budget=asked,
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
    """The limits of a plan of this problem, in sentences."""
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
    """The prediction's status; UNSTABLE if it disagrees with the search."""
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
        predicted = predict(problem, changed, theory=CoupledODE(), records=100)
        return float(predicted.final_risk) / risk - 1

    rises = {
        name: Sensitivity(rise(**{name: 0.5}), rise(**{name: 2.0}))
        for name in ("clip_scale", *found.arguments)
    }
    exchanged = [rise(**{"clip_scale": factor, first: 1 / factor}) for factor in (0.5, 2.0)]
    return {**rises, "exchange": Sensitivity(*exchanged)}
