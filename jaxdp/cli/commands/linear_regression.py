"""`jaxdp compare` for private linear regression, on synthetic data or on a table."""

import argparse
import dataclasses

import jaxdp
from jaxdp.cli.output import (
    COMPARE_FILES,
    finish_comparison,
    gaussian_rows,
    listed,
    named,
    prepared_files,
    seeded_keys,
    settle,
    simulate_named,
)
from jaxdp.cli.values import check_sizes, check_steps, listed_names
from jaxdp.comparison import average
from jaxdp.data.datasets import NumericTable, read_table
from jaxdp.plots import plot_comparison

# Distinct eigenvalues up to which the standard deviation over runs is predicted, in a second or so.
_MOST_SPREAD = 100
_DEFAULTS = {"peak": 3.0, "power": 0.5, "clip_scale": 1.0, "rho": 1.0, "delta": 1e-5}
_SYNTHETIC = {"dim": 1000, "label_noise": 0.3, "condition_number": 1.0}
_OF_A_TABLE = {"target": None, "drop": "", "drop_constant": False, "header": None}
_OF_FEATURES = ("num_train", "num_test", "epsilon", "duration")
_NEEDS_FEATURES = "needs --num-features, or --optimiser with --data"


def compare(options: argparse.Namespace) -> None:
    """Simulate, predict, tabulate and draw."""
    foreign = dict.fromkeys(_OF_FEATURES, _NEEDS_FEATURES)
    if "data" in options:
        foreign |= dict.fromkeys(_SYNTHETIC, "describes synthetic data; leave it out with --data")
        settle(options, _DEFAULTS | _OF_A_TABLE, foreign)
        _compare_table(options)
    else:
        settle(
            options, _DEFAULTS | _SYNTHETIC, foreign | dict.fromkeys(_OF_A_TABLE, "needs --data")
        )
        _compare_gaussian_rows(options)


def _compare_gaussian_rows(options: argparse.Namespace) -> None:
    settle(options, {"num_steps": 10 * options.dim})
    check_sizes(all_runs=(options.num_runs, options.dim))
    check_steps(options.num_steps)
    kappa, noise = options.condition_number, options.label_noise
    problem, algorithm = gaussian_rows(options.dim, kappa, noise), _algorithm(options)
    cost = jaxdp.account(algorithm, delta=options.delta)
    first_key, second_key = seeded_keys(options, 2)
    files = prepared_files(options, COMPARE_FILES)
    simulated = simulate_named("simulated", problem, algorithm, first_key, options.num_runs)
    ode = _ode(problem, algorithm)
    bounds = [
        jaxdp.predict(problem, algorithm, theory=theory()).check()
        for theory in (jaxdp.LowerBound, jaxdp.UpperBound)
    ]
    sde = simulate_named(
        "SDE", problem, algorithm, second_key, options.num_runs, jaxdp.HomogenizedSDE()
    )
    title = (
        f"$d$ = {options.dim}, $n$ = {options.num_steps}, $\\kappa$ = {kappa:g}, "
        f"$\\zeta$ = {noise:g}"
    )
    plain = title.replace("$", "").replace("\\", "")
    finish_comparison(
        options,
        files,
        jaxdp.compare(simulated, ode, *bounds, average(sde)),
        cost,
        plot_comparison(simulated, ode, *bounds, beside=[sde], title=title),
        {"problem": "linear regression", "dim": options.dim, "num_steps": algorithm.num_steps},
        [f"linear regression: {plain}"],
    )


def _compare_table(options: argparse.Namespace) -> None:
    table = scaled_table(options)
    described = jaxdp.TabularRegression(table.inputs, table.labels)
    settle(options, {"num_steps": described.num_steps})
    if options.num_steps > described.num_steps:
        raise ValueError(
            f"expected --num-steps <= {described.num_steps}, half the rows, got {options.num_steps}"
        )
    algorithm = _algorithm(options)
    cost = jaxdp.account(algorithm, delta=options.delta)
    first_key, second_key = seeded_keys(options, 2)
    files = prepared_files(options, COMPARE_FILES)
    surrogate, target = described.surrogate, named(table.label_name)
    simulated = simulate_named("table", described, algorithm, first_key, options.num_runs)
    ode = _ode(surrogate, algorithm)
    beside = simulate_named("surrogate", surrogate, algorithm, second_key, options.num_runs)
    title = f"{options.data.stem}: {target} from {described.dim} columns".replace("$", "\\$")
    finish_comparison(
        options,
        files,
        jaxdp.compare(simulated, ode, average(beside)),
        cost,
        plot_comparison(simulated, ode, beside=[beside], title=title),
        {
            "problem": repr(described),
            "dim": described.dim,
            "num_steps": algorithm.num_steps,
            "target": table.label_name,
            "inputs": list(table.input_names),
        },
        [
            repr(described),
            f"target: {target}; inputs: {listed(table.input_names)}",
            "standard errors are over runs; the ODE is a limit of many columns",
        ],
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


def _algorithm(options: argparse.Namespace) -> jaxdp.OnePassDPSGD:
    schedule = jaxdp.Polynomial(options.peak, options.power)
    return jaxdp.OnePassDPSGD(schedule, options.clip_scale, options.rho, options.num_steps)


def _ode(problem, algorithm) -> jaxdp.Trajectory:
    """The prediction, with the standard deviation over runs where it is cheap."""
    if len(problem.blocks.sizes) > _MOST_SPREAD:
        return jaxdp.predict(problem, algorithm).check()
    predicted = jaxdp.predict(problem, algorithm, theory=jaxdp.Fluctuations())
    return dataclasses.replace(predicted, label="ODE").check()
