r"""AC Figure 3: released risk over the clip c and the learning rate $\tilde\eta(0)$.

Output perturbation and DP-SGD with constant noise at gamma = .1 and .01, every cell simulated with
`Reduced` and predicted by the coupled ODE. The paper's axes carry no numbers in its text; here c
runs from .01 to 10 and the rate from 1 to 500, which holds all three of its dashed lines. Beyond
the paper: the equation beside the simulation, and its optima found to four digits.

Source: AC Figure 3.
"""

import dataclasses
import functools
import itertools
import sys
import time

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import jaxdp
from experiments import harness
from experiments.aggressive_clipping.fig03_checks import checks as checks
from experiments.aggressive_clipping.fig03_checks import optimum
from experiments.aggressive_clipping.tuning import Setting, tune
from experiments.harness import over_runs
from experiments.harness.drawing import BLACK, RED, tidy

_NAMES = {0.0: "output perturbation", 0.5: "constant noise"}


@dataclasses.dataclass(frozen=True)
class Config:
    """The figure's setting; `optimum_runs` are made at the optima that the ODE finds."""

    powers: tuple[float, ...] = (0.0, 0.5)
    gammas: tuple[float, ...] = (0.1, 0.01)
    dim: int = 1000
    clip_scales: tuple[float, float, int] = (0.01, 10.0, 40)
    rates: tuple[float, float, int] = (1.0, 500.0, 40)
    num_runs: int = 10
    optimum_runs: int = 1000
    seed: int = 3

    smoke = harness.size(
        gammas=(0.1,),
        dim=100,
        clip_scales=(0.01, 10.0, 13),
        rates=(1.0, 500.0, 13),
        num_runs=20,
        optimum_runs=400,
    )


def run(config: Config) -> xarray.Dataset:
    """Every cell of every panel, and the optimum of each panel."""
    cell = functools.partial(_cell, dim=config.dim, num_runs=config.num_runs)
    axes = {
        "power": config.powers,
        "gamma": config.gammas,
        "clip_scale": jnp.geomspace(*config.clip_scales),
        "rate": jnp.geomspace(*config.rates),
    }
    started = time.perf_counter()
    swept = jaxdp.sweep(cell, axes, key=jr.key(config.seed), quiet=not sys.stderr.isatty())
    seconds = time.perf_counter() - started
    averages = over_runs(np.moveaxis(swept.risk.values, -1, 0))
    panel = ("power", "gamma")
    variables = {name: (tuple(axes), value) for name, value in averages.items()}
    variables |= {name: (panel, value) for name, value in _optima(config).items()}
    dataset = swept[["predicted", "capped_fraction", "clipped_fraction"]].assign(variables)
    return dataset.assign_attrs(dim=config.dim, num_runs=config.num_runs, sweep_seconds=seconds)


def _cell(*, key, power, gamma, clip_scale, rate, dim, num_runs):
    """Released risks of the runs in one cell, and the risk that is predicted."""
    problem, algorithm = Setting().describe(dim, rate, power, clip_scale, round(dim / gamma))
    runs = jaxdp.simulate(
        problem, algorithm, key=key, num_runs=num_runs, simulator=jaxdp.Reduced(), records=1
    )
    shares = {
        name: runs.observables[name][:, -1].mean()
        for name in ("clipped_fraction", "capped_fraction")
    }
    predicted = jaxdp.predict(problem, algorithm, records=1)
    return {"risk": runs.final_risk, "predicted": predicted.final_risk, **shares}


def _optima(config: Config) -> dict[str, np.ndarray]:
    """For each panel: where the ODE is least, how little, and what simulation says there."""
    panels = list(itertools.product(config.powers, config.gammas))
    powers, gammas = np.transpose(panels)
    best = tune(Setting(), powers, gammas)
    values = {
        "best_clip_scale": best.clip_scale,
        "best_rate": best.rate,
        "best_risk": best.risk,
        "best_is_interior": best.is_interior,
    }
    runs = []
    key = jr.fold_in(jr.key(config.seed), len(panels))
    for number, (power, gamma) in enumerate(panels):
        at = Setting().describe(
            config.dim,
            best.rate[number],
            power,
            best.clip_scale[number],
            round(config.dim / gamma),
        )
        simulated = jaxdp.simulate(
            *at,
            key=jr.fold_in(key, number),
            num_runs=config.optimum_runs,
            simulator=jaxdp.Reduced(),
            records=1,
        )
        runs.append(simulated.check().final_risk)
    there = over_runs(np.stack(runs, axis=1))
    values |= {f"best_{name}": value for name, value in there.items()}
    shape = len(config.powers), len(config.gammas)
    return {name: value.reshape(shape) for name, value in values.items()}


def summary(dataset: xarray.Dataset) -> str:
    """What the experiment shows, with a table of the optima."""
    rows = []
    for power, gamma in itertools.product(dataset.power.values, dataset.gamma.values):
        at = dataset.sel(power=power, gamma=gamma)
        clip, rate, cell = optimum(at["mean"])
        cells = [_NAMES.get(power, power), f"{gamma:g}", f"{at.best_risk:.4g}"]
        cells += [f"{at.best_clip_scale:.4f}", f"{at.best_rate:.3f}"]
        cells += [f"{at.best_clip_scale * at.best_rate:.2f}", f"{np.log(1 / gamma):.2f}"]
        cells += [f"{at.best_mean:.4g} ± {at.best_standard_error:.1g}", f"{cell:.4g}"]
        rows.append([*cells, f"{clip:.3f}, {rate:.2f}"])
    head = ["schedule", "γ", "least R", "at c", "at η̃(0)", "c η̃(0)", "ln(1/γ)"]
    head += ["simulated there", "least cell simulated", "at c, η̃(0)"]
    return (
        f"{dataset.attrs['num_runs']} runs in each of {dataset['mean'].size} cells at d = "
        f"{dataset.attrs['dim']}, by `Reduced`, beside the ODE; the picture is capped at 1 like "
        "the paper's. The optimum of the equation is found by `tuning.py` and simulated with many "
        "more runs; the least cell of the simulation is the least of many noisy means and so a "
        "little too small. Where c exceeds 1 or the rate 2/gamma the risk is larger, and left of "
        "the optimum the valley follows c times the rate = const, as the paper says; its constant "
        "is ln(1/gamma) within a factor of two.\n\n" + harness.table(head, rows)
    )


def plot(dataset: xarray.Dataset) -> Figure:
    """Simulated maps above, predicted ones below; the paper's lines and both optima."""
    panels = list(itertools.product(dataset.power.values, dataset.gamma.values))
    figure = Figure(figsize=(2.75 * len(panels) + 0.9, 5.4), layout="constrained")
    grid = figure.subplots(2, len(panels), sharex=True, sharey=True, squeeze=False)
    kinds = (("mean", "simulated"), ("predicted", "ODE"))
    images = []
    for row, (name, kind) in zip(grid, kinds, strict=True):
        for axes, (power, gamma) in zip(row, panels, strict=True):
            at = dataset.sel(power=power, gamma=gamma)
            images.append(_draw(axes, at, at[name]))
            tidy(axes, f"{_NAMES.get(power, f'power {power:g}')}, $\\gamma$ = {gamma:g}")
        row[0].set_ylabel(f"{kind}\nclip $c$")
    for axes in grid[1]:
        axes.set_xlabel(r"learning rate $\tilde\eta(0)$")
    figure.colorbar(images[0], ax=grid, label="released risk $R$, capped at 1", shrink=0.8)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    style = {"frameon": False, "fontsize": "small"}
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), **style)
    return figure


def _draw(axes: Axes, at: xarray.Dataset, risk: xarray.DataArray):
    rates, clips = at.rate.values, at.clip_scale.values
    least = float(at.best_risk)
    # One colour scale a figure, so that panels compare.
    image = axes.pcolormesh(
        rates,
        clips,
        np.minimum(risk, 1),
        norm="log",
        vmin=1e-3,
        vmax=1,
        cmap="viridis",
        shading="nearest",
        rasterized=True,
    )
    axes.contour(rates, clips, risk, levels=[2 * least], colors="white", linewidths=0.7)
    gamma = float(at.gamma)
    line = {"color": RED, "linestyle": "--", "linewidth": 1.0}
    axes.axhline(1, **line)
    axes.axvline(2 / gamma, **line)
    axes.plot(rates, np.log(1 / gamma) / rates, label=_LINES, **line)
    clip, rate, _ = optimum(risk)
    axes.plot(rate, clip, "s", color="white", markeredgecolor=BLACK, markersize=5, label=_LEAST)
    axes.plot(
        at.best_rate, at.best_clip_scale, "x", color=BLACK, markersize=6, label="optimum of the ODE"
    )
    axes.set(xscale="log", yscale="log", xlim=rates[[0, -1]], ylim=clips[[0, -1]])
    return image


_LINES = r"$c = 1$,  $\tilde\eta(0) = 2/\gamma$,  $c\,\tilde\eta(0) = \ln(1/\gamma)$"
_LEAST = "least cell"


claims = harness.claims_of(checks)
harness.main(__name__)
