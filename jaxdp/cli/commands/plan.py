"""`jaxdp plan`: how to run private linear regression within a budget."""

import argparse
import math
from typing import Any

import numpy as np

import jaxdp
from jaxdp.cli import output
from jaxdp.core.progress import listening_where_seen
from jaxdp.plots import plot_plan

_FILES = {"picture": "plan.png", "numbers": "plan.json"}
_SEARCH = "searching for the best schedule, about ten seconds the first time"
_SCHEDULES = {
    "optimal": jaxdp.Optimal,
    "constant": jaxdp.Constant,
    "polynomial": jaxdp.Polynomial,
    "hyperbolic": jaxdp.Hyperbolic,
}
_A_BUDGET = 2.0
# Default number of samples for each dimension.
_SAMPLES = 100
# The search for the naive choice: constant rates in a round, rounds between the neighbours of the
# best, and the least rate as a share of the cap, or of 1.
_NUM_RATES, _ROUNDS, _LEAST_RATE = 13, 4, 1e-5


def plan(options: argparse.Namespace) -> None:
    """Plan, predict, print and draw."""
    files = output.prepared_files(options, _FILES)
    output.check_sizes(directions=(options.dim,))
    problem = jaxdp.LinearRegression.power_law(
        options.dim,
        condition_number=options.condition_number,
        label_noise=options.label_noise,
        initial_risk=options.initial_risk,
    )
    figure = None
    is_seen = False if options.quiet or options.json else None
    with listening_where_seen(is_seen, _SEARCH, keep=False) as progress:
        inverse = _inverse(options, problem)
        summary = {"options": output.described_options(options), **inverse}
        lines = [_in_words(options, inverse)] if inverse else []
        budget = _budget(options, inverse)
        if budget is not None:
            schedule = _SCHEDULES[options.schedule]
            found = jaxdp.plan(problem, schedule=schedule, progress=progress, **budget)
            answer, told, figure = _planned(options, problem, found)
            summary, lines = summary | answer, lines + told
    if figure is None:
        # The target cannot be reached.
        del files["picture"]
    else:
        output.write_picture(files["picture"], figure)
    output.finish(options, files, summary, lines)


def _planned(options: argparse.Namespace, problem, found) -> tuple[dict[str, Any], list[str], Any]:
    """Return numbers, lines and a picture of a plan."""
    algorithm = found.algorithm
    predicted = jaxdp.predict(problem, algorithm, theory=jaxdp.Fluctuations())
    error_bar = float(np.asarray(predicted.final_std))
    naive = _naive(problem, found)
    cost = jaxdp.account(algorithm, delta=options.delta)
    answer = {
        "line": found.line,
        "num_samples": int(algorithm.num_steps),
        "clip_scale": float(algorithm.clip_scale),
        "clip_norm": found.clip_norm,
        "rho": float(algorithm.rho),
        "epsilon": found.epsilon,
        "delta": found.delta,
        "budget": None if found.budget is None else repr(found.budget),
        "predicted": {"final_risk": found.final_risk, "standard_deviation": error_bar},
        "floor": float(found.floor),
        "naive": naive,
        "sensitivities": {name: each._asdict() for name, each in found.sensitivities.items()},
        "assumptions": list(found.assumptions),
        "cost": {name: getattr(cost, name) for name in ("epsilon", "delta", "mu", "adjacency")},
    }
    lines = [
        str(found).rstrip(),
        f"Error bar: a single run differs from the predicted risk by {error_bar:.2g} "
        "(standard deviation)",
        f"A naive choice, clip scale 1 and the best constant rate ({naive['learning_rate']:.3g}): "
        f"risk {naive['final_risk']:.5g}, {naive['times']:.3g} times as large",
        str(cost),
    ]
    title = (
        f"$d$ = {options.dim}, $n$ = {int(algorithm.num_steps)}, "
        f"$\\rho$ = {float(algorithm.rho):.3g}, $\\zeta$ = {options.label_noise:g}, "
        f"$\\kappa$ = {options.condition_number:g}"
    )
    return answer, lines, plot_plan(found, predicted, title=title)


def _inverse(options: argparse.Namespace, problem) -> dict[str, Any]:
    """Find the samples for a target risk if a budget is given, and epsilon if samples are."""
    if "target_risk" not in options:
        return {}
    budget, schedule = _given_budget(options), _SCHEDULES[options.schedule]
    if not budget and "num_samples" not in options:
        raise ValueError(
            "expected with --target-risk a budget (--epsilon or --rho), to find the samples, or "
            "--num-samples, to find epsilon"
        )
    risk = options.target_risk
    needed: dict[str, Any] = {"target_risk": risk}
    if budget:
        needed["required_samples"] = jaxdp.required_samples(
            problem, risk, schedule=schedule, **budget
        )
    if "num_samples" in options:
        given = {"num_samples": options.num_samples, "delta": options.delta}
        needed["required_epsilon"] = jaxdp.required_epsilon(
            problem, risk, schedule=schedule, **given
        )
    return needed


def _given_budget(options: argparse.Namespace) -> dict[str, Any]:
    if "rho" in options:
        return {"rho": options.rho}
    return output.asked_budget(options) if "epsilon" in options else {}


def _budget(options: argparse.Namespace, inverse: dict[str, Any]) -> dict[str, Any] | None:
    """Return samples and budget of the plan; None if the target cannot be reached."""
    budget = _given_budget(options)
    if not budget:
        epsilon = inverse.get("required_epsilon", _A_BUDGET)
        if not 0 < epsilon < math.inf:
            return None
        budget = {"epsilon": epsilon, "delta": options.delta}
    samples = inverse.get("required_samples", _SAMPLES * options.dim)
    samples = getattr(options, "num_samples", samples)
    output.check_sizes(one_pass=(samples,))
    return {"num_samples": samples, **budget}


def _in_words(options: argparse.Namespace, inverse: dict[str, Any]) -> str:
    parts = []
    if "required_samples" in inverse:
        parts.append(f"{inverse['required_samples']} samples at this budget")
    epsilon = inverse.get("required_epsilon")
    if epsilon == math.inf:
        parts.append(f"more than {options.num_samples} samples at any epsilon")
    elif epsilon is not None:
        parts.append(
            f"epsilon {epsilon:.5g} (delta {options.delta:g}) with {options.num_samples} samples"
        )
    return f"A risk of {options.target_risk:g} needs {', or '.join(parts)}."


def _naive(problem, found) -> dict[str, float]:
    """Find the constant rate with the least predicted risk at clip scale 1."""
    one = found.algorithm.replace(clip_scale=1.0)
    cap = 2 * int(one.num_steps) / problem.dim

    def risk_of(rate: float) -> float:
        schedule = one.learning_rate
        # A constant, if possible as the kind of schedule that is compiled already.
        if isinstance(schedule, jaxdp.PiecewiseLinear):
            flat = schedule.replace(values=np.full(schedule.values.shape, rate))
        else:
            flat = jaxdp.Constant(rate)
        risk = jaxdp.predict(problem, one.replace(learning_rate=flat)).final_risk
        return math.inf if math.isnan(risk) else float(risk)

    low, high = _LEAST_RATE * min(1.0, cap), cap
    for _ in range(_ROUNDS):
        rates = np.geomspace(low, high, _NUM_RATES)
        risks = [risk_of(rate) for rate in rates]
        best = int(np.argmin(risks))
        low, high = rates[max(best - 1, 0)], rates[min(best + 1, _NUM_RATES - 1)]
    rate, risk = float(rates[best]), risks[best]
    return {"learning_rate": rate, "final_risk": risk, "times": risk / found.final_risk}
