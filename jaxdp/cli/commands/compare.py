"""`jaxdp compare` for private linear regression, on synthetic data or on a table."""

import argparse
import dataclasses
from typing import Any

import jax
import numpy as np

import jaxdp
from jaxdp.cli import output
from jaxdp.comparison import Comparison, average, plot_comparison
from jaxdp.core.progress import listening_where_seen
from jaxdp.data.datasets import NumericTable, read_table

_FILES = {"picture": "compare.png", "numbers": "compare.json"}
# Largest number of distinct eigenvalues for which the standard deviation over runs takes seconds.
_MOST_SPREAD = 100
_SYNTHETIC = {"dim": 1000, "label_noise": 0.3, "condition_number": 1.0}
_OF_A_TABLE = {"target": None, "drop": "", "drop_constant": False, "header": None}


def compare(options: argparse.Namespace) -> None:
    """Simulate, predict, tabulate and draw."""
    is_table = "data" in options
    if is_table:
        foreign = dict.fromkeys(_SYNTHETIC, "describes synthetic data; leave it out with --data")
        output.settle(options, _OF_A_TABLE, foreign)
        described, numbers, heading, title = _table(options)
        problem, beside_it = described.surrogate, ("surrogate", None)
    else:
        output.settle(options, _SYNTHETIC, dict.fromkeys(_OF_A_TABLE, "needs --data"))
        described, numbers, heading, title = _synthetic(options)
        problem, beside_it = described, ("SDE", jaxdp.HomogenizedSDE())
    schedule = jaxdp.Polynomial(options.peak, options.power)
    algorithm = jaxdp.OnePassDPSGD(schedule, options.clip_scale, options.rho, options.num_steps)
    cost = jaxdp.account(algorithm, delta=options.delta)
    first_key, second_key = jax.random.split(jax.random.key(options.seed))
    files = output.prepared_files(options, _FILES)
    count = options.num_runs
    simulated = _runs("table" if is_table else "simulated", described, algorithm, first_key, count)
    ode = _ode(problem, algorithm)
    theories = () if is_table else (jaxdp.LowerBound(), jaxdp.UpperBound())
    bounds = [jaxdp.predict(problem, algorithm, theory=each).check() for each in theories]
    name, simulator = beside_it
    beside = _runs(name, problem, algorithm, second_key, count, simulator)
    comparison = jaxdp.compare(simulated, ode, *bounds, average(beside))
    figure = plot_comparison(simulated, ode, *bounds, beside=[beside], title=title)
    output.write_picture(files["picture"], figure)
    numbers |= {
        "dim": described.dim,
        "num_steps": algorithm.num_steps,
        "num_runs": count,
        "seed": options.seed,
        "options": output.described_options(options),
        **_compared(comparison),
        "cost": vars(cost),
    }
    output.finish(options, files, numbers, [*heading, comparison, cost])


def _synthetic(options: argparse.Namespace) -> tuple[Any, dict[str, Any], list[str], str]:
    """Return the problem, its numbers and lines in the output, and the picture's title."""
    output.settle(options, {"num_steps": 10 * options.dim})
    output.check_sizes(all_runs=(options.num_runs, options.dim), one_pass=(options.num_steps,))
    kappa, noise = options.condition_number, options.label_noise
    title = (
        f"$d$ = {options.dim}, $n$ = {options.num_steps}, $\\kappa$ = {kappa:g}, "
        f"$\\zeta$ = {noise:g}"
    )
    plain = title.replace("$", "").replace("\\", "")
    spectrum = {"condition_number": kappa, "label_noise": noise}
    problem = jaxdp.LinearRegression.power_law(options.dim, **spectrum)
    return problem, {"problem": "linear regression"}, [f"linear regression: {plain}"], title


def _table(options: argparse.Namespace) -> tuple[Any, dict[str, Any], list[str], str]:
    """Return the same as `_synthetic` for a table."""
    table = scaled_table(options)
    problem = jaxdp.TabularRegression(table.inputs, table.labels)
    output.settle(options, {"num_steps": problem.num_steps})
    numbers = {
        "problem": repr(problem),
        "target": table.label_name,
        "inputs": list(table.input_names),
    }
    target = f"column {table.label_name}" if table.label_name.isdigit() else table.label_name
    heading = [
        repr(problem),
        f"target: {target}; inputs: {output.listed(table.input_names)}",
        "standard errors are over runs; the ODE is a limit of many columns",
    ]
    title = f"{options.data.stem}: {target} from {problem.dim} columns".replace("$", "\\$")
    return problem, numbers, heading, title


def scaled_table(options: argparse.Namespace) -> NumericTable:
    """Read the table, and scale its columns and target by their own means and deviations."""
    return read_table(
        options.data,
        options.target,
        drop=output.listed_names(options.drop),
        drop_constant=options.drop_constant,
        header=options.header,
    ).scaled()


def _runs(name: str, problem, algorithm, key, num_runs: int, simulator=None) -> jaxdp.Trajectory:
    """Simulate runs with a progress bar."""
    with listening_where_seen(None, name, keep=False) as progress:
        runs = jaxdp.simulate(
            problem, algorithm, key=key, num_runs=num_runs, simulator=simulator, progress=progress
        )
    return dataclasses.replace(runs, label=name)


def _ode(problem, algorithm) -> jaxdp.Trajectory:
    """Predict the risk, with the standard deviation over runs if that is cheap."""
    if len(problem.blocks.sizes) > _MOST_SPREAD:
        return jaxdp.predict(problem, algorithm).check()
    predicted = jaxdp.predict(problem, algorithm, theory=jaxdp.Fluctuations())
    return dataclasses.replace(predicted, label="ODE").check()


def _compared(comparison: Comparison) -> dict[str, Any]:
    """Return the numbers of a comparison for the JSON object."""

    def floats(values):
        return np.asarray(values, np.float64).tolist()

    def prediction(trajectory):
        return {"final_risk": float(trajectory.final_risk), "risk": floats(trajectory.risk)}

    first, *rest = comparison.predictions
    return {
        "time": floats(comparison.time),
        "simulated": {
            "final_risk": comparison.final_mean,
            "standard_error": comparison.final_standard_error,
            "risk": floats(comparison.mean),
            "risk_standard_error": floats(comparison.standard_error),
        },
        "predicted": prediction(first),
        "beside": {trajectory.label: prediction(trajectory) for trajectory in rest},
        "gap": comparison.final_gap,
        "gap_in_standard_errors": comparison.final_sigmas,
        "max_gap": comparison.max_gap,
    }
