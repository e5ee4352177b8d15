"""`jaxdp compare` for private linear regression, on synthetic data or on a table."""

import argparse
import dataclasses
from typing import Any

import jaxdp
from jaxdp.cli import output
from jaxdp.cli.values import check_sizes, check_steps, listed_names
from jaxdp.comparison import average, plot_comparison
from jaxdp.data.datasets import NumericTable, read_table

# Distinct eigenvalues up to which the standard deviation over runs is predicted, in a second or so.
_MOST_SPREAD = 100
_DEFAULTS = {"peak": 3.0, "power": 0.5, "clip_scale": 1.0, "rho": 1.0, "delta": 1e-5}
_SYNTHETIC = {"dim": 1000, "label_noise": 0.3, "condition_number": 1.0}
_OF_A_TABLE = {"target": None, "drop": "", "drop_constant": False, "header": None}
_OF_FEATURES = ("num_train", "num_test", "epsilon", "duration")


def compare(options: argparse.Namespace) -> None:
    """Simulate, predict, tabulate and draw."""
    is_table = "data" in options
    foreign = dict.fromkeys(_OF_FEATURES, "needs --num-features, or --optimiser with --data")
    if is_table:
        foreign |= dict.fromkeys(_SYNTHETIC, "describes synthetic data; leave it out with --data")
        output.settle(options, _DEFAULTS | _OF_A_TABLE, foreign)
        described, numbers, heading, title = _table(options)
        problem, beside_it = described.surrogate, ("surrogate", None)
    else:
        foreign |= dict.fromkeys(_OF_A_TABLE, "needs --data")
        output.settle(options, _DEFAULTS | _SYNTHETIC, foreign)
        described, numbers, heading, title = _synthetic(options)
        problem, beside_it = described, ("SDE", jaxdp.HomogenizedSDE())
    schedule = jaxdp.Polynomial(options.peak, options.power)
    algorithm = jaxdp.OnePassDPSGD(schedule, options.clip_scale, options.rho, options.num_steps)
    cost = jaxdp.account(algorithm, delta=options.delta)
    first_key, second_key = output.seeded_keys(options, 2)
    files = output.prepared_files(options, output.COMPARE_FILES)
    name, count = "table" if is_table else "simulated", options.num_runs
    simulated = output.simulate_named(name, described, algorithm, first_key, count)
    ode = _ode(problem, algorithm)
    theories = () if is_table else (jaxdp.LowerBound(), jaxdp.UpperBound())
    bounds = [jaxdp.predict(problem, algorithm, theory=each).check() for each in theories]
    name, simulator = beside_it
    beside = output.simulate_named(name, problem, algorithm, second_key, count, simulator)
    comparison = jaxdp.compare(simulated, ode, *bounds, average(beside))
    figure = plot_comparison(simulated, ode, *bounds, beside=[beside], title=title)
    numbers |= {"dim": described.dim, "num_steps": algorithm.num_steps}
    output.finish_comparison(options, files, comparison, cost, figure, numbers, heading)


def _synthetic(options: argparse.Namespace) -> tuple[Any, dict[str, Any], list[str], str]:
    """The problem, what is said of it in numbers and in lines, and the picture's title."""
    output.settle(options, {"num_steps": 10 * options.dim})
    check_sizes(all_runs=(options.num_runs, options.dim))
    check_steps(options.num_steps)
    kappa, noise = options.condition_number, options.label_noise
    title = (
        f"$d$ = {options.dim}, $n$ = {options.num_steps}, $\\kappa$ = {kappa:g}, "
        f"$\\zeta$ = {noise:g}"
    )
    plain = title.replace("$", "").replace("\\", "")
    problem = gaussian_rows(options.dim, kappa, noise)
    return problem, {"problem": "linear regression"}, [f"linear regression: {plain}"], title


def _table(options: argparse.Namespace) -> tuple[Any, dict[str, Any], list[str], str]:
    """A table as a problem, and what is said of it in numbers, in lines and in the title."""
    table = scaled_table(options)
    problem = jaxdp.TabularRegression(table.inputs, table.labels)
    output.settle(options, {"num_steps": problem.num_steps})
    if options.num_steps > problem.num_steps:
        raise ValueError(
            f"expected --num-steps <= {problem.num_steps}, half the rows, got {options.num_steps}"
        )
    numbers = {
        "problem": repr(problem),
        "target": table.label_name,
        "inputs": list(table.input_names),
    }
    target = output.named(table.label_name)
    heading = [
        repr(problem),
        f"target: {target}; inputs: {output.listed(table.input_names)}",
        "standard errors are over runs; the ODE is a limit of many columns",
    ]
    title = f"{options.data.stem}: {target} from {problem.dim} columns".replace("$", "\\$")
    return problem, numbers, heading, title


def gaussian_rows(dim: int, condition_number: float, label_noise: float):
    """Linear regression on Gaussian rows with a power-law spectrum, or an isotropic one."""
    if condition_number == 1:
        return jaxdp.LinearRegression.isotropic(dim, label_noise=label_noise)
    return jaxdp.LinearRegression.power_law(
        dim, condition_number=condition_number, label_noise=label_noise
    )


def scaled_table(options: argparse.Namespace) -> NumericTable:
    """The table of `--data`, its columns and target scaled by themselves."""
    return read_table(
        options.data,
        options.target,
        drop=listed_names(options.drop),
        drop_constant=options.drop_constant,
        header=options.header,
    ).scaled()


def _ode(problem, algorithm) -> jaxdp.Trajectory:
    """The prediction, with the standard deviation over runs where it is cheap."""
    if len(problem.blocks.sizes) > _MOST_SPREAD:
        return jaxdp.predict(problem, algorithm).check()
    predicted = jaxdp.predict(problem, algorithm, theory=jaxdp.Fluctuations())
    return dataclasses.replace(predicted, label="ODE").check()
