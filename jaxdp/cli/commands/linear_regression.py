"""`jaxdp compare` for private linear regression, on synthetic data or on a table."""

import argparse
import dataclasses

from jaxdp.cli.output import (
    COMPARE_FILES,
    named,
    seeded_keys,
    settle,
    simulate_named,
    write,
)
from jaxdp.cli.sizes import check_sizes, check_steps

_MOST_NAMED = 12
# Distinct eigenvalues up to which the standard deviation over runs is predicted, in a second or so.
_MOST_SPREAD = 100
_DEFAULTS = {"peak": 3.0, "power": 0.5, "clip_scale": 1.0, "rho": 1.0, "delta": 1e-5}
_SYNTHETIC = {"dim": 1000, "label_noise": 0.3, "condition_number": 1.0}
_OF_A_TABLE = {"target": None, "drop": "", "drop_constant": False, "header": None}
_OF_FEATURES = ("num_train", "num_test", "epsilon", "duration")


def compare(options: argparse.Namespace) -> None:
    """Simulate, predict, tabulate and draw."""
    import jaxdp
    from jaxdp.comparison import average
    from jaxdp.comparison.picture import plot_comparison

    foreign = {name: "needs --num-features, or --optimiser with --data" for name in _OF_FEATURES}
    is_table = "data" in options
    if is_table:
        foreign |= {
            name: "describes synthetic data; leave it out with --data" for name in _SYNTHETIC
        }
        settle(options, _DEFAULTS | _OF_A_TABLE, foreign)
        described, table = _table(options)
        problem = described.surrogate
        settle(options, {"num_steps": described.num_steps}, {})
        if options.num_steps > described.num_steps:
            raise ValueError(
                f"expected --num-steps <= {described.num_steps}, half the rows, got "
                f"{options.num_steps}"
            )
        title = f"{options.data.stem}: {named(table.label_name)} from {problem.dim} columns"
        title = title.replace("$", "\\$")
    else:
        foreign |= {name: "needs --data" for name in _OF_A_TABLE}
        settle(options, _DEFAULTS | _SYNTHETIC, foreign)
        settle(options, {"num_steps": 10 * options.dim}, {})
        check_sizes(all_runs=(options.num_runs, options.dim))
        check_steps(options.num_steps)
        described = problem = _synthetic(options)
        title = (
            f"$d$ = {options.dim}, $n$ = {options.num_steps}, "
            f"$\\kappa$ = {options.condition_number:g}, $\\zeta$ = {options.label_noise:g}"
        )
    algorithm = jaxdp.OnePassDPSGD(
        jaxdp.Polynomial(options.peak, options.power),
        options.clip_scale,
        options.rho,
        options.num_steps,
    )
    cost = jaxdp.account(algorithm, delta=options.delta)
    first_key, second_key = seeded_keys(options, 2, *COMPARE_FILES)
    name = "table" if is_table else "simulated"
    simulated = simulate_named(name, described, algorithm, first_key, options.num_runs)
    ode = _ode(problem, algorithm).check()
    if is_table:
        bounds = []
        beside = simulate_named("surrogate", problem, algorithm, second_key, options.num_runs)
    else:
        bounds = [
            jaxdp.predict(problem, algorithm, theory=theory()).check()
            for theory in (jaxdp.LowerBound, jaxdp.UpperBound)
        ]
        beside = simulate_named(
            "SDE", problem, algorithm, second_key, options.num_runs, jaxdp.HomogenizedSDE()
        )
    comparison = jaxdp.compare(simulated, ode, *bounds, average(beside))
    figure = plot_comparison(simulated, ode, *bounds, beside=[beside], title=title)
    numbers = {
        "problem": repr(described) if is_table else "linear regression",
        "dim": described.dim,
        "num_steps": algorithm.num_steps,
    }
    if is_table:
        numbers |= {"target": table.label_name, "inputs": list(table.input_names)}
        shown = ", ".join(table.input_names[:_MOST_NAMED])
        more = len(table.input_names) - _MOST_NAMED
        more = f" and {more} more" if more > 0 else ""
        heading = [
            repr(described),
            f"target: {named(table.label_name)}; inputs: {shown}{more}",
            "standard errors are over runs; the ODE is a limit of many columns",
        ]
    else:
        heading = [_plain(title)]
    write(options, comparison, cost, figure, numbers, heading)


def _ode(problem, algorithm):
    """The prediction, with the standard deviation over runs where it is cheap."""
    import jaxdp

    if len(problem.blocks.sizes) > _MOST_SPREAD:
        return jaxdp.predict(problem, algorithm)
    predicted = jaxdp.predict(problem, algorithm, theory=jaxdp.Fluctuations())
    return dataclasses.replace(predicted, label="ODE")


def _synthetic(options: argparse.Namespace):
    import jaxdp

    kappa, noise = options.condition_number, options.label_noise
    if kappa == 1:
        return jaxdp.LinearRegression.isotropic(options.dim, label_noise=noise)
    return jaxdp.LinearRegression.power_law(options.dim, condition_number=kappa, label_noise=noise)


def _table(options: argparse.Namespace):
    """The table as a problem, and as it was read."""
    import jaxdp
    from jaxdp.cli.declared import listed_names
    from jaxdp.data.datasets import read_table

    table = read_table(
        options.data,
        options.target,
        drop=listed_names(options.drop),
        drop_constant=options.drop_constant,
        header=options.header,
    ).scaled()
    return jaxdp.TabularRegression(table.inputs, table.labels), table


def _plain(title: str) -> str:
    """A picture's title as text."""
    greek = {"\\kappa": "kappa", "\\zeta": "zeta", "$": ""}
    for mark, word in greek.items():
        title = title.replace(mark, word)
    return f"linear regression: {title}"
