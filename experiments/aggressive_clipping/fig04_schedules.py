r"""AC Figure 4: schedules $\tilde\eta(0)(1-t)^\alpha$ against each other as n grows at d = 1000.

For each alpha and n the clip and the learning rate are those of least risk by the coupled ODE;
there Algorithm 1 is simulated with `Reduced`. The right panel divides by output perturbation. The
paper has 10 trials and tunes on simulations; here the band of one standard deviation is of more.

Source: AC Figure 4.
"""

import dataclasses
import itertools
from typing import Any

import jax.random as jr
import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments import harness
from experiments.aggressive_clipping.fig04_checks import checks as checks
from experiments.aggressive_clipping.tuning import Setting, simulated, tune
from experiments.harness import over_runs
from experiments.harness.drawing import BLACK, BLUE, GREEN, ORANGE, RED, band, tidy

_COLORS = ORANGE, BLUE, GREEN, RED
_MARKERS = "osD^"


@dataclasses.dataclass(frozen=True)
class Config:
    """The figure's setting; the first power is what the right panel divides by."""

    powers: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0)
    num_steps: tuple[int, ...] = (
        *(1_000, 2_000, 3_000, 5_000, 7_000, 10_000, 20_000, 30_000),
        *(50_000, 100_000, 200_000, 300_000, 500_000, 1_000_000),
    )
    dim: int = 1000
    num_runs: int = 100
    seed: int = 4

    smoke = harness.size(num_steps=(500, 700, 1_000, 5_000), dim=100, num_runs=400)


def run(config: Config) -> xarray.Dataset:
    """Tune every schedule at every n, and simulate it there."""
    shape = len(config.powers), len(config.num_steps)
    powers, lengths = np.meshgrid(config.powers, config.num_steps, indexing="ij")
    best = tune(Setting(), powers.ravel(), config.dim / lengths.ravel())
    clip_scale, rate, risk, is_interior = (np.reshape(part, shape) for part in best)
    columns = []
    for number, length in enumerate(
        harness.track(config.num_steps, lambda length: f"n = {length}")
    ):
        at = clip_scale[:, number], rate[:, number]
        key = jr.fold_in(jr.key(config.seed), number)
        risks, _ = simulated(
            Setting(), config.dim, length, config.powers, *at, key=key, num_runs=config.num_runs
        )
        columns.append(over_runs(risks.T))
    averages = {name: np.stack([column[name] for column in columns], 1) for name in columns[0]}
    tuned = {"predicted": risk, "clip_scale": clip_scale, "rate": rate, "is_interior": is_interior}
    return harness.dataset(
        {"power": config.powers, "num_steps": config.num_steps},
        {("power", "num_steps"): averages | tuned},
        {"dim": config.dim, "num_runs": config.num_runs},
    )


def summary(dataset: xarray.Dataset) -> str:
    """What the experiment shows, with a table of risks and of the tuned hyper-parameters."""
    rows = []
    for length in dataset.num_steps.values:
        at = dataset.sel(num_steps=length)
        cells = [
            f"{cell.predicted:.4g} / {cell['mean']:.4g} ± {cell.standard_error:.1g} "
            f"({cell.clip_scale:.3f}, {cell.rate:.2f})"
            for cell in (at.sel(power=power) for power in dataset.power.values)
        ]
        rows.append([length, *cells])
    head = ["n", *(f"α = {power:g}" for power in dataset.power.values)]
    return (
        f"d = {dataset.attrs['dim']}, rho = 1; c and η̃(0) tuned by the ODE for each schedule and "
        f"n, {dataset.attrs['num_runs']} runs there (the paper has 10). With few samples per "
        "dimension output perturbation is best, and each faster decay takes the lead at a larger "
        "n. The tuned clip grows with n towards a constant of the label noise's order: it does "
        "not vanish.\n\nPredicted / simulated risk (c, η̃(0)):\n\n" + harness.table(head, rows)
    )


def plot(dataset: xarray.Dataset) -> Figure:
    """Risk against n, and over that of the first schedule."""
    figure = Figure(figsize=(8.4, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    base = dataset.predicted.isel(power=0)
    for (number, power), color, marker in zip(
        enumerate(dataset.power.values), itertools.cycle(_COLORS), itertools.cycle(_MARKERS)
    ):
        at = dataset.isel(power=number)
        name = f"$\\alpha$ = {power:g}"
        style: dict[str, Any] = {"color": color, "marker": marker, "markersize": 4}
        _draw(left, at, 1, style, name)
        _draw(right, at, base, style, name)
    left.set(yscale="log", ylabel="released risk $R$")
    left.legend(frameon=False, fontsize="small", title="simulated, and its band")
    right.axhline(1, color=BLACK, linewidth=0.6)
    right.set(yscale="log", ylabel=f"over that of $\\alpha$ = {dataset.power.values[0]:g}")
    right.set_yticks([0.2, 0.5, 1, 2, 5], ["0.2", "0.5", "1", "2", "5"])
    right.minorticks_off()
    right.plot([], [], color=BLACK, linewidth=1, label="ODE")
    handles, labels = right.get_legend_handles_labels()
    right.legend(handles[-1:], labels[-1:], frameon=False, fontsize="small")
    for axes, title in ((left, "tuned by the ODE"), (right, "relative to output perturbation")):
        axes.set_xscale("log")
        axes.set_xlabel(f"samples $n$, $d$ = {dataset.attrs['dim']}")
        tidy(axes, title)
    return figure


def _draw(axes: Axes, at: xarray.Dataset, base, style: dict[str, Any], name: str) -> None:
    samples, mean, std = at.num_steps, at["mean"] / base, at["std"] / base
    band(axes, samples, mean - std, mean + std, style["color"], 0.2)
    axes.plot(samples, at.predicted / base, color=style["color"], linewidth=1)
    axes.plot(samples, mean, linestyle="none", label=name, **style)


claims = harness.claims_of(checks)
harness.main(__name__)
