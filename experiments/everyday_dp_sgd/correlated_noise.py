r"""One pass with correlated noise, against the best last iterate and against full batches.

One-pass DP-SGD that releases its last iterate alone can be planned to the best clip and the best
non-increasing rate. Here few large batches with noise that later steps take back release all their
iterates at the same rho. Full batches on the same rows stand beside both, and so do the noises of
few numbers (Toeplitz matrices) that are used for long runs.

Least squares on isotropic inputs, replace-one; the loss is half a square, the clip norm $c\sqrt d$.
"""

import dataclasses

import jax
import jax.random as jr
import numpy as np
import xarray
from matplotlib.figure import Figure

import jaxdp
from experiments import harness
from experiments.everyday_dp_sgd.correlated_noise_checks import checks as checks
from experiments.everyday_dp_sgd.correlated_noise_checks import full_batch_risk
from experiments.everyday_dp_sgd.correlated_noise_checks import summary as summary
from experiments.everyday_dp_sgd.correlated_noise_plans import (
    FAMILIES,
    TOEPLITZ,
    Cell,
    Plan,
    planned,
    planned_optimal,
)
from experiments.everyday_dp_sgd.multi_pass_plans import Plan as FullBatchPlan
from experiments.everyday_dp_sgd.multi_pass_plans import (
    Setting,
    full_batch,
    least_squares_risk,
    planned_one_pass,
)
from experiments.harness import over_runs
from experiments.harness.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, tidy

_SCHEMES = (*FAMILIES, "optimal", "optimal, free rates")
_DELTA = 1e-5
# Numbers that are drawn at once.
_AT_ONCE = 2e7
# The least risk that the coupled ODE predicts of a last iterate, over the clip scale and all
# non-increasing rates: at every time the rate lets R + 2 (c gamma eta/rho)^2 fall fastest, from a
# first rate on that is searched for with the clip scale. In float64, to 1e-4.
_BEST_LAST_ITERATE = {
    (0.1, 1.0): 0.0564845,
    (0.03, 1.0): 0.0052953,
    (0.01, 1.0): 0.00089065,
    (0.001, 1.0): 5.2554e-5,
    (0.01, 0.3): 0.0038299,
    (0.01, 3.0): 0.00056410,
    (0.1, 3.0): 0.0156391,
}
# The plans of `multi_pass`: first rate, knee, clip scale and steps, by the Gaussian closure on
# other rows, over 12 and 24 steps.
_FULL_BATCH = {
    (0.1, 1.0): (26.5562, 0.0700976, 0.0234274, 24),
    (0.03, 1.0): (3.58405, 0.0262601, 0.259093, 24),
    (0.01, 1.0): (7.50872, 0.0130316, 0.287742, 24),
    (0.01, 0.3): (34955.4, 0.0165739, 3.92094e-05, 24),
    (0.01, 3.0): (13.92, 0.0126085, 0.317644, 24),
    (0.1, 3.0): (18.8029, 0.015348, 0.178546, 24),
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Pairs of gamma = d/n and rho, numbers of batches; one cell for the Toeplitz matrices.

    `num_numbers` are drawn for the inputs of all simulated passes of a cell.
    """

    cells: tuple[tuple[float, float], ...] = tuple(_BEST_LAST_ITERATE)
    num_steps: tuple[int, ...] = (2, 3, 4, 8, 16, 32)
    toeplitz_cell: tuple[float, float] = (0.01, 1.0)
    toeplitz_steps: tuple[int, ...] = (8, 16, 64)
    dim: int = 100
    num_numbers: float = 4e8
    num_draws: int = 10
    num_runs: int = 20
    seed: int = 7

    smoke = harness.size(
        cells=((0.1, 1.0), (0.03, 1.0)),
        num_steps=(3, 8),
        toeplitz_steps=(4, 8),
        num_numbers=2e7,
        num_draws=3,
    )


def run(config: Config) -> xarray.Dataset:
    """Plan every strategy, simulate the best one, and simulate full batches beside it."""
    setting = Setting(config.dim)
    labels = [f"{gamma:g}, {rho:g}" for gamma, rho in config.cells]
    dataset = harness.empty(
        {
            "cell": labels,
            "num_steps": config.num_steps,
            "scheme": list(_SCHEMES),
            "toeplitz_steps": config.toeplitz_steps,
            "family": [*TOEPLITZ, "optimal"],
            "draw": config.num_draws,
            "run": config.num_runs,
        },
        {
            ("cell",): [
                *("gamma", "rho", "last_iterate", "last_iterate_hyperbolic", "best_steps"),
                *("predicted", "simulated", "standard_error", "passes", "mu", "mu_full"),
            ],
            ("cell", "num_steps", "scheme"): ["risk"],
            ("cell", "draw"): ["least_squares"],
            ("cell", "draw", "run"): ["full"],
            ("toeplitz_steps", "family"): ["toeplitz"],
        },
        {"dim": config.dim, "cell_of_toeplitz": list(config.toeplitz_cell)},
    )
    for place, cell in enumerate(harness.track([Cell(*pair) for pair in config.cells], str)):
        dataset.gamma[place], dataset.rho[place] = cell
        dataset.last_iterate[place] = _BEST_LAST_ITERATE[cell]
        hyperbolic = planned_one_pass(setting, "hyperbolic", *cell, config.dim)
        dataset.last_iterate_hyperbolic[place] = hyperbolic.risk
        best = None
        for number, count in enumerate(config.num_steps):
            plans = _plans(setting, cell, count)
            dataset.risk[place, number] = [plan.risk for plan in plans]
            best = plans[-1] if best is None or plans[-1].risk < best.risk else best
        assert best is not None
        keys = jr.split(jr.fold_in(jr.key(config.seed), place))
        for name, value in _simulated(setting, cell, best, config, key=keys[0]).items():
            dataset[name][place] = value
        if cell in _FULL_BATCH:
            _full_batches(dataset, place, setting, cell, key=keys[1])
    _toeplitz(dataset, setting, Cell(*config.toeplitz_cell))
    return dataset


def plot(dataset: xarray.Dataset) -> Figure:
    """Risk over the best last iterate's in every cell, and over K in the cell of the matrices."""
    figure = Figure(figsize=(9.6, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.25, 1])
    colors = dict(zip(_SCHEMES, (GREY, SKY, BLUE, RED), strict=True))
    places, unit = np.arange(dataset.sizes["cell"]), dataset.last_iterate
    for number, scheme in enumerate(_SCHEMES):
        ratio = dataset.risk.sel(scheme=scheme).min("num_steps") / unit
        left.plot(
            places + 0.09 * (number - 2), ratio, "o", color=colors[scheme], label=scheme, ms=5
        )
    ratio, error = dataset.simulated / unit, 3 * dataset.standard_error / unit
    style = {"linestyle": "none", "capsize": 2.5, "elinewidth": 1, "markersize": 5}
    left.errorbar(
        places + 0.18, ratio, error, color=RED, marker="o", mfc="w", label="simulated", **style
    )
    full, error = full_batch_risk(dataset)
    points = {"color": ORANGE, "marker": "s", "mfc": "w", "label": "full batches, simulated"}
    left.errorbar(places + 0.3, full / unit, 3 * error / unit, **points, **style)
    left.axhline(1, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    left.set(yscale="log", ylabel="excess risk over the best last iterate's")
    left.set_xticks(places, dataset.cell.values, rotation=25)
    left.set_xlabel(r"$\gamma$, $\rho$")
    left.set_yticks([0.2, 0.5, 1, 2], ["0.2", "0.5", "1", "2"])
    left.minorticks_off()
    tidy(left, "best number of batches")
    left.legend(frameon=False, fontsize="x-small", ncols=2)
    styles = zip((SKY, GREEN, PURPLE, ORANGE, GREY, BLUE), "o^vsDo", strict=True)
    for name, (color, marker) in zip(dataset.family.values, styles, strict=True):
        values = dataset.toeplitz.sel(family=name)
        right.plot(dataset.toeplitz_steps, values, color=color, marker=marker, ms=4, label=name)
    gamma, rho = dataset.attrs["cell_of_toeplitz"]
    right.set(xscale="log", xlabel="batches $K$", ylabel="predicted excess risk $R$")
    right.set_xticks(dataset.toeplitz_steps.values, dataset.toeplitz_steps.values)
    right.minorticks_off()
    tidy(right, rf"$\gamma$ = {gamma:g}, $\rho$ = {rho:g}, hyperbolic rates")
    right.legend(frameon=False, fontsize="x-small")
    return figure


def _plans(setting: Setting, cell: Cell, num_steps: int) -> list[Plan]:
    """One for each scheme, in the order of their names."""
    with jax.enable_x64():
        plans = [planned(setting, cell, num_steps, family) for family in FAMILIES.values()]
        return [*plans, *planned_optimal(setting, cell, plans[-1])]


def _simulated(setting: Setting, cell: Cell, plan: Plan, config: Config, *, key):
    """The plan on fresh rows, and what it costs."""
    num_steps, dim = len(plan.rates), config.dim
    algorithm = jaxdp.CorrelatedDPSGD(
        plan.rates,
        plan.clip_scale,
        cell.rho,
        batch_size=round(dim / cell.gamma / num_steps),
        strategy=plan.strategy,
    )
    numbers = num_steps * algorithm.batch_size * dim
    at_once = max(2, round(_AT_ONCE / numbers))
    risks = [
        jaxdp.simulate(
            setting.stream(), algorithm, key=part, num_runs=at_once, records=1
        ).final_risk
        for part in jr.split(key, max(2, round(config.num_numbers / numbers / at_once)))
    ]
    found = over_runs(np.concatenate(risks))
    return {
        "best_steps": num_steps,
        "predicted": jaxdp.predict(setting.stream(), algorithm, records=1).final_risk,
        "simulated": found["mean"],
        "standard_error": found["standard_error"],
        "passes": at_once * len(risks),
        "mu": jaxdp.account(algorithm, delta=_DELTA).mu,
    }


def _full_batches(dataset: xarray.Dataset, place: int, setting: Setting, cell: Cell, *, key):
    """Descent on all rows in every step, on fresh draws of the rows."""
    plan = FullBatchPlan(*_FULL_BATCH[cell], risk=np.nan)
    count = round(setting.dim / cell.gamma)
    algorithm = full_batch(count, setting.dim, cell.rho, *plan[:4])
    dataset.mu_full[place] = jaxdp.account(algorithm, delta=_DELTA).mu
    for draw, draw_key in enumerate(jr.split(key, dataset.sizes["draw"])):
        rows_key, runs_key = jr.split(draw_key)
        problem = setting.rows(count, key=rows_key)
        dataset.least_squares[place, draw] = least_squares_risk(problem)
        runs = jaxdp.simulate(
            problem, algorithm, key=runs_key, num_runs=dataset.sizes["run"], records=1
        )
        dataset.full[place, draw] = runs.final_risk


def _toeplitz(dataset: xarray.Dataset, setting: Setting, cell: Cell) -> None:
    with jax.enable_x64():
        for place, count in enumerate(harness.track(dataset.toeplitz_steps.values.tolist(), str)):
            plans = [planned(setting, cell, count, family) for family in TOEPLITZ.values()]
            optimal, _ = planned_optimal(setting, cell, plans[0])
            dataset.toeplitz[place] = [plan.risk for plan in (*plans, optimal)]


claims = harness.claims_of(checks)
harness.main(__name__)
