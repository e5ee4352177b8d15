r"""One pass with correlated noise, against the best last iterate and against full batches.

For one-pass DP-SGD that releases only its last iterate, the best clip and the best non-increasing
rate can be planned. Here it is compared with few large batches whose correlated noise is partly
removed by later steps; they release all their iterates at the same rho. Full batches on the same
rows are compared too, and the Toeplitz matrices of few parameters that are used for long runs.

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
from experiments.everyday_dp_sgd.correlated_noise_plans import (
    FAMILIES,
    TOEPLITZ,
    Cell,
    Plan,
    planned,
    planned_freely,
    planned_optimal,
)
from experiments.everyday_dp_sgd.multi_pass_plans import Plan as FullBatchPlan
from experiments.everyday_dp_sgd.multi_pass_plans import (
    Setting,
    full_batch,
    least_squares_risk,
    planned_one_pass,
)
from experiments.harness import Check, over_runs
from experiments.harness.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, tidy
from experiments.harness.marks import legend, log_ticks
from experiments.harness.verdicts import listed, listing, span

_SCHEMES = (*FAMILIES, "optimal", "optimal, free rates")
_DELTA = 1e-5
# Random numbers drawn at once.
_AT_ONCE = 2e7
# The least predicted risk of a last iterate (coupled ODE), over the clip scale and all
# non-increasing rates: at every time the rate makes R + 2 (c gamma eta/rho)^2 fall fastest. The
# first rate and the clip scale are searched for. In float64, to 1e-4.
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

_SHARE, _SIGMAS = 0.02, 3
_SMALL, _COSTLY = 0.03, 0.01
_LABEL_NOISE = 0.3
# Two searches that end at the same optimum differ by less.
_SEARCH = 1e-4


@dataclasses.dataclass(frozen=True)
class Config:
    """Pairs of gamma = d/n and rho, numbers of batches; one cell for the Toeplitz matrices.

    `num_numbers` is the count of random inputs in all simulated passes of a cell.
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
    """Plan every strategy, and simulate the best one and full batches."""
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
            with jax.enable_x64():
                plans = [planned(setting, cell, count, family) for family in FAMILIES.values()]
                plans.append(planned_optimal(setting, cell, plans[-1]))
                plans.append(planned_freely(setting, cell, plans[-1]))
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
    places, unit = np.arange(dataset.sizes["cell"]), dataset.last_iterate
    for number, (scheme, color) in enumerate(zip(_SCHEMES, (GREY, SKY, BLUE, RED), strict=True)):
        ratio = dataset.risk.sel(scheme=scheme).min("num_steps") / unit
        left.plot(places + 0.09 * (number - 2), ratio, "o", color=color, label=scheme, ms=5)
    style = {"linestyle": "none", "capsize": 2.5, "elinewidth": 1, "markersize": 5, "mfc": "w"}
    full, full_error = full_batch_risk(dataset)
    marks = {
        "simulated": (0.18, RED, "o", dataset.simulated, dataset.standard_error),
        "full batches, simulated": (0.3, ORANGE, "s", full, full_error),
    }
    for label, (shift, color, marker, mean, error) in marks.items():
        points = {"color": color, "marker": marker, "label": label}
        left.errorbar(places + shift, mean / unit, 3 * error / unit, **style, **points)
    left.axhline(1, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    left.set(xlabel=r"$\gamma$, $\rho$", ylabel="excess risk over the best last iterate's")
    left.set_xticks(places, dataset.cell.values, rotation=25)
    log_ticks(left, "y", [0.2, 0.5, 1, 2])
    legend(left, fontsize="x-small", ncols=2)
    tidy(left, "best number of batches")
    colors = (SKY, GREEN, PURPLE, ORANGE, GREY, BLUE)
    for name, color, marker in zip(dataset.family.values, colors, "o^vsDo", strict=True):
        values = dataset.toeplitz.sel(family=name)
        right.plot(dataset.toeplitz_steps, values, color=color, marker=marker, ms=4, label=name)
    gamma, rho = dataset.attrs["cell_of_toeplitz"]
    right.set(xlabel="batches $K$", ylabel="predicted excess risk $R$")
    log_ticks(right, "x", dataset.toeplitz_steps.values)
    legend(right, fontsize="x-small")
    tidy(right, rf"$\gamma$ = {gamma:g}, $\rho$ = {rho:g}, hyperbolic rates")
    return figure


def _simulated(setting: Setting, cell: Cell, plan: Plan, config: Config, *, key):
    """The plan on fresh rows, and its privacy cost."""
    num_steps, dim, problem = len(plan.rates), config.dim, setting.stream()
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
        jaxdp.simulate(problem, algorithm, key=part, num_runs=at_once, records=1).final_risk
        for part in jr.split(key, max(2, round(config.num_numbers / numbers / at_once)))
    ]
    found = over_runs(np.concatenate(risks))
    return {
        "best_steps": num_steps,
        "predicted": jaxdp.predict(problem, algorithm, records=1).final_risk,
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
            plans.append(planned_optimal(setting, cell, plans[0]))
            dataset.toeplitz[place] = [plan.risk for plan in plans]


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Theory against simulation, cost, and which noise is best."""
    return [*_agreement(dataset), *_strategies(dataset), *_against_others(dataset)]


def _agreement(dataset: xarray.Dataset) -> list[Check]:
    gap = dataset.simulated / dataset.predicted - 1
    error = dataset.standard_error / dataset.predicted
    costs = abs(xarray.concat([dataset.mu, dataset.mu_full], "way") / dataset.rho - 1)
    return [
        Check(
            f"the Volterra system is within {_SHARE:.0%} + {_SIGMAS} standard errors of the "
            "simulated mean in every cell",
            f"{span(gap, '+.1%')}, standard errors up to {float(error.max()):.1%}",
            bool((abs(gap) <= _SHARE + _SIGMAS * error).all()),
        ),
        Check(
            "one pass and full batches, each with all iterates released, cost rho-GDP for "
            "replace-one by their own accounts, to 1e-6",
            f"{float(costs.max()):.0e} apart at most",
            bool((costs.fillna(0) < 1e-6).all()),
        ),
    ]


def _strategies(dataset: xarray.Dataset) -> list[Check]:
    ordered = dataset.risk.sel(scheme=["optimal, free rates", "optimal", "square root"])
    saved = 1 - ordered.shift(scheme=1).isel(scheme=slice(1, None)) / ordered
    lost = dataset.risk.sel(scheme="square root") / dataset.risk.sel(scheme="independent")
    few, most = (_best_steps(dataset, name) for name in ("independent", "optimal"))
    toeplitz = dataset.toeplitz / dataset.toeplitz.sel(family="optimal") - 1
    toeplitz = toeplitz.drop_sel(family="optimal")
    return [
        Check(
            "at every number of batches free rates are better than hyperbolic ones, the optimal "
            "strategy is better than the square root with the same family of rates, and the square "
            "root is no worse than independent noise",
            f"{span(saved[..., 0], '+.1%')} by free rates, {span(saved[..., 1], '+.1%')} by the "
            f"optimal strategy, {span(1 - lost, '+.1%')} by the square root",
            bool((saved > -_SEARCH).all() and (lost < 1 + _SEARCH).all()),
        ),
        Check(
            "in every cell the best number of batches with independent noise is below the largest "
            "that was tried, and with the optimal strategy it is no smaller",
            f"{span(few, '.0f')} and {span(most, '.0f')} of up to {int(dataset.num_steps.max())} "
            "that were tried",
            bool((few < dataset.num_steps.max()).all() and (few <= most).all()),
        ),
        Check(
            "with hyperbolic rates every Toeplitz matrix loses against the optimal strategy, and "
            "loses more with more batches",
            ", ".join(
                f"K = {int(count)}: {span(toeplitz.sel(toeplitz_steps=count), '+.1%')}"
                for count in dataset.toeplitz_steps.values
            ),
            bool(
                (toeplitz > 0).all() and (toeplitz.min("family").diff("toeplitz_steps") > 0).all()
            ),
        ),
    ]


def _against_others(dataset: xarray.Dataset) -> list[Check]:
    best, is_small = dataset.risk.min("num_steps"), dataset.gamma <= _SMALL
    free, smooth = (best.sel(scheme=name) for name in ("optimal, free rates", "optimal"))
    ratio, family = free / dataset.last_iterate, smooth / dataset.last_iterate_hyperbolic
    full, full_error = full_batch_risk(dataset)
    one_pass = np.minimum(free, dataset.last_iterate)
    sigmas = (one_pass - full) / full_error
    costly = sigmas.where(dataset.gamma / dataset.rho >= _COSTLY * (1 - 1e-9))
    return [
        Check(
            "with the optimal noise and free rates, all iterates have less predicted risk than the "
            f"best last iterate at gamma <= {_SMALL:g}, and more at larger gamma; at gamma <= "
            f"{_SMALL:g} they also have less with hyperbolic rates on both sides",
            f"{span(ratio.where(is_small) - 1, '+.1%')} at small gamma, "
            f"{span(ratio.where(~is_small) - 1, '+.1%')} beyond; "
            f"{span(family.where(is_small) - 1, '+.1%')} with hyperbolic rates",
            bool(((ratio < 1) == is_small).all() and (family.where(is_small).fillna(0) < 1).all()),
        ),
        Check(
            "full batches have less simulated risk than both in every cell in which they were run, "
            f"by {_SIGMAS} standard errors if d/(n rho) >= {_COSTLY:g}",
            f"by factors of {span(one_pass / full, '.2f')}, at least {float(costly.min()):.0f} "
            f"standard errors in those cells and {float(sigmas.min()):.1f} in all",
            bool(sigmas.min() > 0 and costly.min() > _SIGMAS),
        ),
    ]


def summary(dataset: xarray.Dataset) -> str:
    """Risks by cell, and by the number of batches for the Toeplitz matrices."""
    full, error = full_batch_risk(dataset)
    shown = dataset.assign(full_risk=full, full_error=error)

    def least(scheme):
        return lambda at: f"{at.risk.sel(scheme=scheme).min():.4g} ({_best_steps(at, scheme):.0f})"

    columns = {
        "γ": lambda at: f"{at.gamma:g}",
        "ρ": lambda at: f"{at.rho:g}",
        "last iterate, hyperbolic": lambda at: f"{at.last_iterate_hyperbolic:.4g}",
        "last iterate, best": lambda at: f"{at.last_iterate:.4g}",
    }
    columns |= {name: least(name) for name in dataset.scheme.values}
    columns |= {
        "that, simulated": lambda at: f"{at.simulated:.4g} ± {at.standard_error:.1g}",
        "full batches, simulated": lambda at: (
            f"{at.full_risk:.4g} ± {at.full_error:.1g}" if np.isfinite(at.full_risk) else "-"
        ),
    }
    matrices = {"K": lambda at: at.toeplitz_steps.item()} | {
        name: lambda at, name=name: f"{at.toeplitz.sel(family=name):.4g}"
        for name in dataset.family.values
    }
    gamma, rho = dataset.attrs["cell_of_toeplitz"]
    text = (
        f"d = {dataset.attrs['dim']}, label noise 0.3, R(0) = 1/2, replace-one, isotropic inputs. "
        "Predicted risks at the best number of batches (in brackets; tried: "
        f"{listed(dataset.num_steps, '.0f')}), with hyperbolic rates unless free ones are "
        "named. The best last iterate is over all non-increasing rates, and releases nothing "
        "else; all others release every iterate. ± is one standard error, over "
        f"{span(dataset.passes, '.0f')} passes over fresh rows, or over {dataset.sizes['draw']} "
        f"draws of the rows with {dataset.sizes['run']} runs each (minus the deviation of least "
        "squares on the same draw from its known mean). Full batches use the plans of multi_pass, "
        "of 12 or 24 steps, and were not planned at gamma = 0.001. All searches are local."
    )
    below = (
        f"Predicted risk of Toeplitz matrices at γ = {gamma:g}, ρ = {rho:g}, with hyperbolic rates "
        "and their own parameters planned together; columns are divided by their norms, except in "
        "the family with one scale."
    )
    tables = listing(shown, ("cell",), columns), listing(dataset, ("toeplitz_steps",), matrices)
    return f"{text}\n\n{tables[0]}\n\n{below}\n\n{tables[1]}"


def full_batch_risk(dataset: xarray.Dataset) -> tuple[xarray.DataArray, xarray.DataArray]:
    r"""Mean risk of full batches over draws of the rows, and its standard error.

    Minus the deviation of least squares on the same rows from its exact mean,
    $\zeta^2d/(2(n - d - 1))$: at small gamma this is most of the difference between draws.
    """
    count, dim = (dataset.attrs["dim"] / dataset.gamma).round(), dataset.attrs["dim"]
    known = _LABEL_NOISE**2 / 2 * dim / (count - dim - 1)
    risks = dataset.full.mean("run") - (dataset.least_squares - known)
    return risks.mean("draw"), harness.standard_error(risks, "draw")


def _best_steps(dataset: xarray.Dataset, scheme: str) -> xarray.DataArray:
    return dataset.num_steps[dataset.risk.sel(scheme=scheme).argmin("num_steps")]


claims = harness.claims_of(checks)
harness.main(__name__)
