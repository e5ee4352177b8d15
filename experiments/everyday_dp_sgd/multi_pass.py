r"""One pass over the rows against full batches of the same rows, at the same rho, for replace-one.

One-pass DP-SGD (AC Algorithm 1) releases its last iterate; full-batch DP-SGD takes T steps on all n
rows and releases every iterate. Both are rho-GDP. Rates and clips of both are planned by theory:
the coupled ODE, and the Gaussian closure on rows of another draw (and of fewer dimensions, at the
same d/n). The loss is half a square, the clip norm $c\sqrt d$, and the test loss R exactly.
"""

import dataclasses

import jax.random as jr
import numpy as np
import xarray
from matplotlib.figure import Figure

import jaxdp
from experiments import harness
from experiments.everyday_dp_sgd.multi_pass_checks import checks as checks
from experiments.everyday_dp_sgd.multi_pass_checks import summary as summary
from experiments.everyday_dp_sgd.multi_pass_plans import (
    Plan,
    Setting,
    full_batch,
    least_squares_risk,
    one_pass,
    planned_full_batch,
    planned_one_pass,
    predicted_full_batch,
)
from experiments.harness import over_runs
from experiments.harness.drawing import BLUE, GREY, ORANGE, SKY, tidy

_FAMILIES = "polynomial", "hyperbolic"
_DELTA = 1e-5


@dataclasses.dataclass(frozen=True)
class Config:
    """Ratios gamma = d/n and budgets rho; the numbers of full-batch steps that are tried."""

    gammas: tuple[float, ...] = (0.1, 0.03, 0.01)
    rhos: tuple[float, ...] = (0.3, 1.0, 3.0)
    num_steps: tuple[int, ...] = (12, 24)
    dim: int = 100
    planned_dim: int = 40
    num_draws: int = 10
    num_runs: int = 30
    num_passes: int = 200
    seed: int = 5

    smoke = harness.size(
        gammas=(0.1,), rhos=(1.0,), num_steps=(10,), planned_dim=20, num_draws=4, num_runs=50
    )


def run(config: Config) -> xarray.Dataset:
    """Plan, predict and simulate both ways in every cell."""
    setting = Setting(config.dim)
    cell = "gamma", "rho"
    names = ["peak", "shape", "clip_scale"]
    dataset = harness.empty(
        {
            "gamma": config.gammas,
            "rho": config.rhos,
            "family": list(_FAMILIES),
            "draw": config.num_draws,
            "run": config.num_runs,
        },
        {
            ("gamma",): ["num_train"],
            cell: ["steps", "planned", "mu_full", *(f"full_{name}" for name in names)],
            (*cell, "family"): [
                *("one_pass_predicted", "one_pass", "one_pass_error", "mu_one_pass"),
                *(f"one_pass_{name}" for name in names),
            ],
            (*cell, "draw"): ["full_predicted", "is_beyond"],
            (*cell, "draw", "run"): ["full"],
            ("gamma", "draw"): ["least_squares"],
        },
        {"dim": config.dim, "planned_dim": config.planned_dim, "num_passes": config.num_passes},
    )
    key = jr.key(config.seed)
    for place, gamma in enumerate(harness.track(config.gammas, "gamma = {:g}".format)):
        key, planning, drawing = jr.split(key, 3)
        dataset.num_train[place] = count = round(config.dim / gamma)
        for number, rho in enumerate(config.rhos):
            for family_number, family in enumerate(_FAMILIES):
                plan = planned_one_pass(setting, family, gamma, rho, config.dim)
                found = _one_pass(setting, family, plan, rho, config.num_passes, key=key)
                for name, value in found.items():
                    dataset[name][place, number, family_number] = value
        proxy = Setting(config.planned_dim).rows(round(config.planned_dim / gamma), key=planning)
        plans = planned_full_batch(proxy, config.rhos, config.num_steps)
        for draw in range(config.num_draws):
            rows_key, runs_key = jr.split(jr.fold_in(drawing, draw))
            problem = setting.rows(count, key=rows_key)
            dataset.least_squares[place, draw] = least_squares_risk(problem)
            for number, (rho, plan) in enumerate(zip(config.rhos, plans, strict=True)):
                at = place, number, draw
                algorithm = full_batch(count, config.dim, rho, *plan[:4])
                found = predicted_full_batch(problem, rho, plan)
                dataset.full_predicted[at], dataset.is_beyond[at] = found
                runs = jaxdp.simulate(
                    problem,
                    algorithm,
                    key=runs_key,
                    num_runs=config.num_runs,
                    simulator=jaxdp.FunctionSpace(),
                    records=1,
                )
                dataset.full[at] = runs.final_risk
                for name in names:
                    dataset[f"full_{name}"][place, number] = getattr(plan, name)
                dataset.steps[place, number] = plan.num_steps
                dataset.planned[place, number] = plan.risk
                dataset.mu_full[place, number] = jaxdp.account(algorithm, delta=_DELTA).mu
    return dataset


def plot(dataset: xarray.Dataset) -> Figure:
    """Risk against n/d: a panel for each budget."""
    rhos = dataset.rho.values
    figure = Figure(figsize=(3.2 * len(rhos) + 0.4, 3.7), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(rhos), sharey=True))
    ratio = 1 / dataset.gamma
    full, floor = dataset.full.mean("run"), dataset.least_squares
    style = {"linestyle": "none", "markersize": 5, "capsize": 2.5, "elinewidth": 1}
    for axes, rho in zip(panels, rhos, strict=True):
        at = dataset.sel(rho=rho)
        for family, color, marker in zip(_FAMILIES, (SKY, BLUE), "^o", strict=True):
            one = at.sel(family=family)
            axes.plot(ratio, one.one_pass_predicted, color=color, linewidth=1.2)
            label = f"one pass, {family} rate"
            points = {"color": color, "marker": marker, "markerfacecolor": "w", "label": label}
            axes.errorbar(ratio, one.one_pass, 3 * one.one_pass_error, **style, **points)
        here = full.sel(rho=rho)
        axes.plot(ratio, at.full_predicted.mean("draw"), color=ORANGE, linewidth=1.2)
        points = {"color": ORANGE, "marker": "s", "markerfacecolor": "w"}
        points["label"] = "full batches"
        error = 3 * harness.standard_error(here, "draw")
        axes.errorbar(ratio, here.mean("draw"), error, **style, **points)
        axes.plot(ratio, floor.mean("draw"), color=GREY, linewidth=1, linestyle=(0, (4, 3)))
        axes.set(xscale="log", yscale="log", xlabel="rows per dimension $n/d$")
        axes.set_xticks(ratio.values, [f"{value:.0f}" for value in ratio.values])
        axes.minorticks_off()
        tidy(axes, rf"$\rho$ = {rho:g}")
    panels[0].set_ylabel("excess risk $R$")
    panels[0].plot([], [], color=GREY, linewidth=1.2, label="theory")
    text = "least squares, not private"
    panels[0].plot([], [], color=GREY, linewidth=1, linestyle=(0, (4, 3)), label=text)
    panels[0].legend(frameon=False, fontsize="x-small", loc="lower left")
    return figure


def _one_pass(setting: Setting, family: str, plan: Plan, rho: float, num_runs: int, *, key):
    """A planned pass, simulated on fresh rows, and what it costs."""
    algorithm = one_pass(family, plan, rho)
    runs = jaxdp.simulate(
        setting.stream(),
        algorithm,
        key=key,
        num_runs=num_runs,
        simulator=jaxdp.Reduced(),
        records=1,
    )
    found = over_runs(runs.final_risk)
    return {
        "one_pass_predicted": plan.risk,
        "one_pass": found["mean"],
        "one_pass_error": found["standard_error"],
        "mu_one_pass": jaxdp.account(algorithm, delta=_DELTA).mu,
        "one_pass_peak": plan.peak,
        "one_pass_shape": plan.shape,
        "one_pass_clip_scale": plan.clip_scale,
    }


claims = harness.claims_of(checks)
harness.main(__name__)
