r"""Beyond AC: the theory on real tables and on their Gaussian surrogates.

For each table: the table itself, Gaussian rows of the same covariance, target and residual variance
at the same d, and the ODE. The surrogate's distance from the ODE is the effect of a small d; the
table's distance from its surrogate is the effect of rows that are not Gaussian. Both are repeated
with inputs of random scale, whose distribution is estimated from the lengths of the table's rows:
they show the part of the distance that the lengths explain.
"""

import dataclasses
import pathlib

import jax.random as jr
import numpy as np
import xarray
from matplotlib.figure import Figure

import jaxdp
from experiments import harness
from experiments.aggressive_clipping.real_tables_checks import COLUMNS
from experiments.aggressive_clipping.real_tables_checks import checks as checks
from experiments.aggressive_clipping.real_tables_checks import summary as summary
from experiments.harness import dataset, over_runs
from experiments.harness.drawing import BLACK, BLUE, GREEN, ORANGE, band, tidy
from experiments.harness.marks import legend
from experiments.tables import read
from jaxdp.core.numerics.clipped_moments import descent_factor, variance_factor

FOLDERS = {"data": "folder with the folders uci and mnist"}


# Fractions of the way from 0 to theta* at which descent is measured.
_PROGRESS = (0.0, 0.8)


@dataclasses.dataclass(frozen=True)
class Config:
    """The tables, the number of runs of each, and the hyper-parameters of the front page."""

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
    """Simulate each table and its surrogate, predict the surrogate, and measure the rows."""
    parts: list[xarray.Dataset] = []
    pairs = list(zip(config.tables, config.num_runs, strict=True))
    for number, (name, num_runs) in enumerate(harness.track(pairs, lambda pair: pair[0])):
        table = read(data, name).scaled()
        problem = jaxdp.TabularRegression(table.inputs, table.labels)
        schedule = jaxdp.Polynomial(config.peak, config.power)
        algorithm = jaxdp.OnePassDPSGD(schedule, config.clip_scale, config.rho, problem.num_steps)
        key = jr.fold_in(jr.key(config.seed), number)
        sizes = {"num_runs": num_runs, "records": config.records}
        curves = _curves(problem, algorithm, key=key, **sizes)
        scaled = jaxdp.LinearRegression.from_data(table.inputs, table.labels, input_scales=True)
        scales = _of_scales(scaled, algorithm, key=jr.fold_in(key, 1), **sizes)
        measured = measure(problem, config.clip_scale, config.seed)
        parts.append(xarray.merge([curves, scales, measured]).assign(num_runs=num_runs))
    return xarray.concat(parts, xarray.IndexVariable("table", list(config.tables)))


def plot(dataset: xarray.Dataset) -> Figure:
    """Top: mean risk of each table and its surrogate, and the ODE. Bottom: divided by the ODE."""
    count = dataset.sizes["table"]
    figure = Figure(figsize=(0.8 + 1.75 * count, 4.0), layout="constrained")
    rows = figure.subplots(2, count, sharex=True, sharey="row", squeeze=False)
    for above, below, name in zip(*rows, dataset.table.values, strict=True):
        at = dataset.sel(table=name)
        for axes, scale in ((above, xarray.ones_like(at.predicted)), (below, at.predicted)):
            for column, color in zip(COLUMNS, (BLUE, ORANGE), strict=True):
                runs = at.sel(column=column)
                label = "real rows" if column == "table" else "Gaussian rows, same $d$"
                mean, error = runs["mean"] / scale, 2 * runs.standard_error / scale
                band(axes, at.time, mean - error, mean + error, color, 0.3)
                axes.plot(at.time, mean, color=color, linewidth=1.4, label=label)
            line = {"color": BLACK, "linestyle": "--", "linewidth": 1.0, "label": "ODE"}
            axes.plot(at.time, at.predicted / scale, **line)
            line = {"color": GREEN, "linestyle": "-.", "label": "ODE, rows' lengths"}
            axes.plot(at.time, at.scaled_predicted / scale, linewidth=1.2, **line)
        tidy(above, f"{name.partition('-tertiary')[0]}\n$d$ = {at.dim.item()}")
        tidy(below)
        above.set_yscale("log", nonpositive="clip")
        below.set(xlim=(0, 1), xlabel="time $k/n$")
        below.set_xticks([0, 0.5, 1], ["0", "½", "1"])
    rows[0][0].set_ylabel("excess risk $R$")
    rows[1][0].set_ylabel("risk / ODE's risk")
    handles, labels = rows[0][0].get_legend_handles_labels()
    place = {"loc": "outside lower center", "ncols": 4, "fontsize": "medium"}
    legend(figure, handles=handles, labels=labels, **place)
    return figure


def _curves(problem: jaxdp.TabularRegression, algorithm, *, num_runs, records, key):
    columns: list[xarray.Dataset] = []
    for described, one in zip((problem, problem.surrogate), jr.split(key), strict=True):
        runs = jaxdp.simulate(described, algorithm, key=one, num_runs=num_runs, records=records)
        released = over_runs(runs.check().final_risk)
        clipped = over_runs(runs.observables["clipped_fraction"][:, -1])
        numbers = {f"final_{name}": value for name, value in released.items()}
        numbers["clipped_fraction"] = clipped["mean"]
        columns.append(harness.dataset({}, {"record": over_runs(runs.risk), (): numbers}))
    both = xarray.concat(columns, xarray.IndexVariable("column", list(COLUMNS)))
    predicted = jaxdp.predict(problem.surrogate, algorithm, records=records).check()
    return both.assign(
        time=("record", np.asarray(predicted.time, np.float64)),
        predicted=("record", np.asarray(predicted.risk, np.float64)),
        final_predicted=float(predicted.final_risk),
        predicted_clipped_fraction=float(predicted.observables["clipped_fraction"][-1]),
    )


def _of_scales(problem, algorithm, *, num_runs, records, key) -> xarray.Dataset:
    """Simulated and predicted risks of inputs of random scale, and the spread of the scale."""
    runs = jaxdp.simulate(problem, algorithm, key=key, num_runs=num_runs, records=records).check()
    predicted = jaxdp.predict(problem, algorithm, records=records).check()
    law = problem.input_scales
    values, weights = (np.asarray(part, np.float64) for part in (law.values, law.weights))
    risk = over_runs(runs.risk)
    curves = {
        "scaled_mean": risk["mean"],
        "scaled_standard_error": risk["standard_error"],
        "scaled_predicted": np.asarray(predicted.risk, np.float64),
    }
    numbers = {
        "scaled_final_mean": over_runs(runs.final_risk)["mean"],
        "scaled_final_predicted": float(predicted.final_risk),
        "scale_spread": np.sqrt(weights @ (values - 1) ** 2),
    }
    return harness.dataset({}, {"record": curves, (): numbers})


def measure(problem: jaxdp.TabularRegression, clip_scale: float, seed: int) -> xarray.Dataset:
    """Distance of a table's rows, and of a great many Gaussian rows, from the theory.

    Args:
        problem: the table.
        clip_scale: c.
        seed: seed of the Gaussian rows.
    """
    surrogate = problem.surrogate
    spectrum, target = (np.asarray(of, np.float64) for of in (surrogate.spectrum, surrogate.target))
    noise, dim = float(surrogate.label_noise), problem.dim
    inputs = np.asarray(problem.rows, np.float64)
    residuals = np.asarray(problem.centred_labels, np.float64) - inputs @ target
    random = np.random.default_rng(seed)
    count = max(len(inputs) // 2, 4_000_000 // dim)
    gaussian = random.normal(size=(count, dim)) * np.sqrt(spectrum)
    columns = [(inputs, residuals), (gaussian, noise * random.normal(size=count))]
    factors = [_factors(spectrum, target, noise, clip_scale, *rows) for rows in columns]
    square_sum = np.sum(spectrum**2)
    spread = np.std(np.sum(inputs**2, axis=1) / dim)
    # |x|^2/d has variance 2 tr(Sigma^2)/d^2 if x is Gaussian.
    spreads = [spread, np.sqrt(2 * square_sum) / dim]
    numbers = {
        "dim": dim,
        "num_rows": len(inputs),
        "initial_risk": np.sum(spectrum * target**2) / 2,
        "label_noise": noise,
        "effective_dim": dim**2 / square_sum,
        "residual_kurtosis": np.mean(residuals**4) / np.mean(residuals**2) ** 2 - 3,
    }
    descents, errors, noises = map(list, zip(*factors, strict=True))
    return dataset(
        {"column": COLUMNS, "progress": _PROGRESS},
        {
            (): numbers,
            "column": {"norm_spread": spreads, "noise_ratio": noises},
            ("column", "progress"): {"descent_ratio": descents, "descent_ratio_error": errors},
        },
    )


def _factors(spectrum, target, noise, clip_scale, inputs, residuals):
    r"""Clipped descent at each fraction of the way, its standard errors, and noise at theta*.

    Descent is $E[\mathrm{clip}(g)]^\top\nabla R$ over $\mu_c\|\nabla R\|^2$, noise is
    $E\|\mathrm{clip}(g)\|^2$ over $\nu_c\zeta^2 d$. Source: AC (27) to (30).
    """
    norms = np.linalg.norm(inputs, axis=1)
    limit = clip_scale * np.sqrt(len(spectrum))

    def clipped(residual):
        size = norms * np.abs(residual)
        return residual * limit / np.maximum(size, limit)

    means, errors = [], []
    for progress in _PROGRESS:
        offset = (1 - progress) * target
        slope = spectrum * offset
        scale = np.sqrt(np.sum(offset * slope) + noise**2)
        descents = clipped(inputs @ offset + residuals) * (inputs @ slope)
        descents /= float(descent_factor(clip_scale / scale)) * np.sum(slope**2)
        means.append(descents.mean())
        errors.append(descents.std() / len(descents) ** 0.5)
    power = np.mean((clipped(residuals) * norms) ** 2)
    variance = float(variance_factor(clip_scale / noise)) * noise**2 * len(spectrum)
    return means, errors, power / variance


claims = harness.claims_of(checks)
harness.main(__name__)
