"""`jaxdp plan`: how to run private linear regression within a budget, and what to expect."""

import argparse
import math
from typing import Any

import numpy as np

from jaxdp.cli.files import write_picture, write_text
from jaxdp.cli.output import as_json, described_options, prepare_folder, progress_bar
from jaxdp.cli.sizes import check_sizes, check_steps

PLAN_FILES = "plan.png", "plan.json"
_SEARCH = "searching for the best schedule, about ten seconds the first time"
_A_BUDGET = 2.0
# Samples for each dimension, where nobody says how many there are.
_SAMPLES = 100
# Constant rates among which the naive choice is looked for, up to the cap: how many at once, how
# often between the neighbours of the best, and the least one as a share of the cap, or of 1.
_NUM_RATES, _ROUNDS, _LEAST_RATE = 13, 4, 1e-5


def plan(options: argparse.Namespace) -> None:
    """Plan, predict, print and draw."""
    prepare_folder(options.out, *PLAN_FILES)
    check_sizes(directions=(options.dim,))
    with progress_bar(_SEARCH, quiet=options.quiet or options.json):
        lines, summary, figure = _answer(options)
    if figure is not None:
        write_picture(options.out / PLAN_FILES[0], figure)
    _finish(options, lines, summary, picture=figure is not None)


def _answer(options: argparse.Namespace) -> tuple[list[str], dict[str, Any], Any]:
    """Lines, numbers and a picture; no picture where the target is out of reach."""
    import jaxdp
    from jaxdp.plots import plot_plan

    problem = _problem(options)
    inverse = _inverse(options, problem)
    summary: dict[str, Any] = {"options": described_options(options), **inverse}
    lines = [_in_words(options, inverse)] if inverse else []
    budget = _budget(options, inverse)
    if budget is None:
        return lines, summary, None
    found = jaxdp.plan(problem, schedule=_schedule(options), **budget)
    algorithm = found.algorithm
    predicted = jaxdp.predict(problem, algorithm, theory=jaxdp.Fluctuations())
    error_bar = float(np.asarray(predicted.final_std))
    naive = _naive(problem, found)
    cost = jaxdp.account(algorithm, delta=options.delta)
    summary |= {
        "line": found.line,
        "num_samples": int(algorithm.num_steps),
        "clip_scale": float(algorithm.clip_scale),
        "clip_norm": found.clip_norm,
        "rho": float(algorithm.rho),
        "epsilon": found.epsilon,
        "delta": found.delta,
        "predicted": {
            "final_risk": found.final_risk,
            "standard_deviation": error_bar,
        },
        "floor": float(found.floor),
        "naive": naive,
        "sensitivities": {name: each._asdict() for name, each in found.sensitivities.items()},
        "assumptions": list(found.assumptions),
        "cost": {
            "epsilon": cost.epsilon,
            "delta": cost.delta,
            "mu": cost.mu,
            "adjacency": cost.adjacency,
        },
    }
    lines += [
        str(found).rstrip(),
        f"Error bar: a single run differs from the predicted risk by {error_bar:.2g} "
        "(standard deviation)",
        f"A naive choice, clip scale 1 and the best constant rate ({naive['learning_rate']:.3g}): "
        f"risk {naive['final_risk']:.5g}, {naive['times']:.3g} times as large",
        str(cost),
    ]
    return lines, summary, plot_plan(found, predicted, title=_title(options, algorithm))


def _problem(options: argparse.Namespace):
    import jaxdp

    return jaxdp.LinearRegression.power_law(
        options.dim,
        condition_number=options.condition_number,
        label_noise=options.label_noise,
        initial_risk=options.initial_risk,
    )


def _schedule(options: argparse.Namespace):
    import jaxdp

    return {
        "optimal": jaxdp.Optimal,
        "constant": jaxdp.Constant,
        "polynomial": jaxdp.Polynomial,
        "hyperbolic": jaxdp.Hyperbolic,
    }[options.schedule]


def _inverse(options: argparse.Namespace, problem) -> dict[str, Any]:
    """What a target risk needs: samples where the budget is given, epsilon where they are."""
    import jaxdp

    if "target_risk" not in options:
        return {}
    of_budget, schedule = _given_budget(options), _schedule(options)
    if not of_budget and "num_samples" not in options:
        raise ValueError(
            "expected with --target-risk a budget (--epsilon or --rho), to find the samples, or "
            "--num-samples, to find epsilon"
        )
    needed: dict[str, Any] = {"target_risk": options.target_risk}
    if of_budget:
        needed["required_samples"] = jaxdp.required_samples(
            problem, options.target_risk, schedule=schedule, **of_budget
        )
    if "num_samples" in options:
        needed["required_epsilon"] = jaxdp.required_epsilon(
            problem,
            options.target_risk,
            num_samples=options.num_samples,
            delta=options.delta,
            schedule=schedule,
        )
    return needed


def _given_budget(options: argparse.Namespace) -> dict[str, float]:
    if "rho" in options:
        if "epsilon" in options:
            raise ValueError("expected one of --rho and --epsilon, got both")
        return {"rho": options.rho}
    return {"epsilon": options.epsilon, "delta": options.delta} if "epsilon" in options else {}


def _budget(options: argparse.Namespace, inverse: dict[str, Any]) -> dict[str, Any] | None:
    """Samples and budget of the plan; None where the target is out of reach."""
    budget = _given_budget(options)
    if not budget:
        epsilon = inverse.get("required_epsilon", _A_BUDGET)
        if not 0 < epsilon < math.inf:
            return None
        budget = {"epsilon": epsilon, "delta": options.delta}
    samples = inverse.get("required_samples", _SAMPLES * options.dim)
    samples = getattr(options, "num_samples", samples)
    check_steps(samples, "--num-samples")
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
    """Clip scale 1 and the constant rate with the least predicted risk, beside the plan's."""
    import jaxdp

    one = found.algorithm.replace(clip_scale=1.0)
    cap = 2 * int(one.num_steps) / problem.dim

    def risk_of(rate):
        risk = jaxdp.predict(problem, one.replace(learning_rate=_flat(one, rate))).final_risk
        return math.inf if math.isnan(risk) else float(risk)

    low, high = _LEAST_RATE * min(1.0, cap), cap
    for _ in range(_ROUNDS):
        rates = np.geomspace(low, high, _NUM_RATES)
        risks = [risk_of(rate) for rate in rates]
        best = int(np.argmin(risks))
        low, high = rates[max(best - 1, 0)], rates[min(best + 1, _NUM_RATES - 1)]
    rate, risk = float(rates[best]), risks[best]
    return {"learning_rate": rate, "final_risk": risk, "times": risk / found.final_risk}


def _flat(algorithm, rate: float):
    """A constant rate, where possible in the form of schedule that is compiled already."""
    import jaxdp

    schedule = algorithm.learning_rate
    if isinstance(schedule, jaxdp.PiecewiseLinear):
        return schedule.replace(values=np.full(schedule.values.shape, rate))
    return jaxdp.Constant(rate)


def _title(options: argparse.Namespace, algorithm) -> str:
    return (
        f"$d$ = {options.dim}, $n$ = {int(algorithm.num_steps)}, "
        f"$\\rho$ = {float(algorithm.rho):.3g}, $\\zeta$ = {options.label_noise:g}, "
        f"$\\kappa$ = {options.condition_number:g}"
    )


def _finish(
    options: argparse.Namespace, lines: list[str], summary: dict[str, Any], *, picture: bool = False
) -> None:
    """The numbers as a file, and either them or the lines on standard output."""
    drawn, numbers = (options.out / name for name in PLAN_FILES)
    files = [drawn, numbers] if picture else [numbers]
    text = as_json(summary | {"files": [str(path) for path in files]})
    write_text(numbers, text)
    if options.json:
        print(text)
        return
    named = [f"picture: {drawn}"] if picture else []
    print(*lines, *named, f"numbers: {numbers}", sep="\n")
