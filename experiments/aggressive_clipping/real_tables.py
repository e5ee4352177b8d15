r"""Beyond AC: the theory on real tables, beside their Gaussian surrogates.

For each table: the table itself, Gaussian rows of the same covariance, target and residual variance
at the same d, and the ODE. The surrogate's distance from the ODE is what a small d does; the
table's distance from its surrogate is what rows that are not Gaussian do. Beside each of the two,
the same with inputs of random scale, whose law is estimated from the lengths of the table's rows:
what of the distance the lengths explain.
"""

import dataclasses
import pathlib

import jax.random as jr
import numpy as np
import xarray
from matplotlib.figure import Figure

import jaxdp
from experiments import harness
from experiments.aggressive_clipping.real_tables_checks import checks as checks
from experiments.aggressive_clipping.real_tables_checks import summary as summary
from experiments.aggressive_clipping.row_measures import COLUMNS, measure
from experiments.harness import over_runs
from experiments.harness.drawing import BLACK, BLUE, GREEN, ORANGE, band, tidy
from experiments.tables import read

FOLDERS = {"data": "folder with the folders uci and mnist"}


@dataclasses.dataclass(frozen=True)
class Config:
    """The tables and how many runs of each; hyper-parameters are the front page's."""

    tables: tuple[str, ...] = (
        "power-plant",
        "concrete",
        "kin8nm",
        "protein-tertiary-structure",
        "wine-quality-red",
        "mnist",
    )
    num_runs: tuple[int, ...] = (1000, 1000, 1000, 400, 1000, 40)
    peak: float = 3.0
    power: float = 0.5
    clip_scale: float = 1.0
    rho: float = 1.0
    records: int = 100
    seed: int = 3

    smoke = harness.size(tables=("concrete", "mnist"), num_runs=(200, 10), records=10)


def run(config: Config, data: pathlib.Path) -> xarray.Dataset:
    """Simulate each table and its surrogate, predict the surrogate, and measure the rows.

    Args:
        config: tables, runs and hyper-parameters.
        data: folder with `uci/<table>.txt` and `mnist/`.
    """
    parts: list[xarray.Dataset] = []
    pairs = list(zip(config.tables, config.num_runs, strict=True))
    for number, (name, num_runs) in enumerate(harness.track(pairs, lambda pair: pair[0])):
        table = read(data, name).scaled()
        problem = jaxdp.TabularRegression(table.inputs, table.labels)
        key = jr.fold_in(jr.key(config.seed), number)
        curves = _curves(config, problem, num_runs, key)
        scaled = jaxdp.LinearRegression.from_data(table.inputs, table.labels, input_scales=True)
        scales = _of_scales(config, scaled, problem.num_steps, num_runs, jr.fold_in(key, 1))
        measured = measure(problem, config.clip_scale, config.seed)
        parts.append(xarray.merge([curves, scales, measured]).assign(num_runs=num_runs))
    return xarray.concat(parts, xarray.IndexVariable("table", list(config.tables)))


def plot(dataset: xarray.Dataset) -> Figure:
    """Above, each table's mean risk, its surrogate's and the ODE; below, over the ODE."""
    count = dataset.sizes["table"]
    figure = Figure(figsize=(0.8 + 1.75 * count, 4.0), layout="constrained")
    rows = figure.subplots(2, count, sharex=True, sharey="row", squeeze=False)
    for above, below, name in zip(*rows, dataset.table.values, strict=True):
        at = dataset.sel(table=name)
        for column, color in zip(COLUMNS, (BLUE, ORANGE), strict=True):
            runs = at.sel(column=column)
            label = "real rows" if column == "table" else "Gaussian rows, same $d$"
            for axes, scale in ((above, 1.0), (below, at.predicted)):
                mean, error = runs["mean"] / scale, 2 * runs.standard_error / scale
                band(axes, at.time, mean - error, mean + error, color, 0.3)
                axes.plot(at.time, mean, color=color, linewidth=1.4, label=label)
        line = {"color": BLACK, "linestyle": "--", "linewidth": 1.0, "label": "ODE"}
        above.plot(at.time, at.predicted, **line)
        below.plot(at.time, np.ones_like(at.time), **line)
        dots = {"color": GREEN, "linestyle": "-.", "linewidth": 1.2, "label": "ODE, rows' lengths"}
        above.plot(at.time, at.scaled_predicted, **dots)
        below.plot(at.time, at.scaled_predicted / at.predicted, **dots)
        tidy(above, f"{name.partition('-tertiary')[0]}\n$d$ = {at.dim.item()}")
        tidy(below)
        above.set_yscale("log", nonpositive="clip")
        below.set_xlim(0, 1)
        below.set_xticks([0, 0.5, 1], ["0", "½", "1"])
        below.set_xlabel("time $k/n$")
    rows[0][0].set_ylabel("excess risk $R$")
    rows[1][0].set_ylabel("risk / ODE's risk")
    handles, labels = rows[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _curves(config: Config, problem: jaxdp.TabularRegression, num_runs: int, key) -> xarray.Dataset:
    algorithm = _algorithm(config, problem.num_steps)
    columns: list[xarray.Dataset] = []
    for described, one in zip((problem, problem.surrogate), jr.split(key), strict=True):
        runs = jaxdp.simulate(
            described, algorithm, key=one, num_runs=num_runs, records=config.records
        ).check()
        released = over_runs(runs.final_risk)
        clipped = over_runs(runs.observables["clipped_fraction"][:, -1])
        numbers = {f"final_{name}": value for name, value in released.items()}
        numbers["clipped_fraction"] = clipped["mean"]
        columns.append(harness.dataset({}, {"record": over_runs(runs.risk), (): numbers}))
    both = xarray.concat(columns, xarray.IndexVariable("column", list(COLUMNS)))
    predicted = jaxdp.predict(problem.surrogate, algorithm, records=config.records).check()
    return both.assign(
        time=("record", np.asarray(predicted.time, np.float64)),
        predicted=("record", np.asarray(predicted.risk, np.float64)),
        final_predicted=float(predicted.final_risk),
        predicted_clipped_fraction=float(predicted.observables["clipped_fraction"][-1]),
    )


def _of_scales(config, problem, num_steps: int, num_runs: int, key) -> xarray.Dataset:
    """Simulated and predicted risks of inputs of random scale, and the spread of the scale."""
    algorithm = _algorithm(config, num_steps)
    runs = jaxdp.simulate(
        problem, algorithm, key=key, num_runs=num_runs, records=config.records
    ).check()
    predicted = jaxdp.predict(problem, algorithm, records=config.records).check()
    values, weights = (
        np.asarray(part, np.float64)
        for part in (problem.input_scales.values, problem.input_scales.weights)
    )
    return harness.dataset(
        {},
        {
            "record": {
                "scaled_mean": over_runs(runs.risk)["mean"],
                "scaled_standard_error": over_runs(runs.risk)["standard_error"],
                "scaled_predicted": np.asarray(predicted.risk, np.float64),
            },
            (): {
                "scaled_final_mean": over_runs(runs.final_risk)["mean"],
                "scaled_final_predicted": float(predicted.final_risk),
                "scale_spread": np.sqrt(weights @ (values - 1) ** 2),
            },
        },
    )


def _algorithm(config: Config, num_steps: int) -> jaxdp.OnePassDPSGD:
    schedule = jaxdp.Polynomial(config.peak, config.power)
    return jaxdp.OnePassDPSGD(schedule, config.clip_scale, config.rho, num_steps)


claims = harness.claims_of(checks)
harness.main(__name__)
