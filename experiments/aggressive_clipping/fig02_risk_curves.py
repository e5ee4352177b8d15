r"""AC Figure 2: simulated risk against the deterministic equivalent and its bounds.

Output perturbation and DP-SGD with constant noise, isotropic data and condition number 2. The
caption's learning rate, 3, is taken, not the text's 1; "a power law with appropriate exponent" is
$\lambda_i \propto i^{-\ln\kappa/\ln d}$; the target is flat in the eigenbasis instead of random.
Beyond the paper: many more runs, so that standard errors show the O(1/d) bias, and tight bounds.

Source: AC Figure 2.
"""

import dataclasses
import itertools
from typing import Any

import jax
import jax.random as jr
import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import jaxdp
from experiments import harness
from experiments.aggressive_clipping.fig02_checks import checks as checks
from experiments.harness import over_runs
from experiments.harness.drawing import BLACK, BLUE, GREEN, ORANGE, RED, band, tidy

_BOUNDS = {
    "lower": jaxdp.LowerBound(),
    "tight lower": jaxdp.TightLowerBound(),
    "tight upper": jaxdp.TightUpperBound(),
    "upper": jaxdp.UpperBound(),
}


@dataclasses.dataclass(frozen=True)
class Config:
    """The figure's setting; `num_runs` stands beside `dims`."""

    dims: tuple[int, ...] = (10, 100, 1000)
    num_runs: tuple[int, ...] = (40_000, 4_000, 400)
    powers: tuple[float, ...] = (0.0, 0.5)
    condition_numbers: tuple[int, ...] = (1, 2)
    gamma: float = 0.1
    rho: float = 1.0
    label_noise: float = 0.3
    peak: float = 3.0
    clip_scale: float = 1.0
    initial_risk: float = 0.5
    records: int = 100
    seed: int = 2

    def __post_init__(self):
        steps = [round(dim / self.gamma) for dim in self.dims]
        if any(count % self.records for count in steps):
            raise ValueError(f"expected step counts {steps} that {self.records} records divide")

    smoke = harness.size(dims=(10, 100), num_runs=(4_000, 400), condition_numbers=(2,), records=20)


def run(config: Config) -> xarray.Dataset:
    """Simulate every panel at every dimension, and predict it."""
    axes = {
        "power": config.powers,
        "condition_number": config.condition_numbers,
        "dim": config.dims,
        "time": np.arange(config.records + 1) / config.records,
        "bound": list(_BOUNDS),
    }
    panel, names = ("power", "condition_number"), ("mean", "standard_error", "std", "predicted")
    dataset = harness.empty(
        axes,
        {
            (*panel, "dim", "time"): names,
            (*panel, "dim"): [f"{kind}_{name}" for kind in ("final", "jump") for name in names],
            ("bound", *panel, "time"): ["bounds"],
            ("bound", *panel): ["final_bounds"],
        },
    )

    def name_of(cell):
        power, condition, dim = cell
        return (
            f"power {config.powers[power]:g}, condition number "
            f"{config.condition_numbers[condition]}, d = {config.dims[dim]}"
        )

    cells = list(np.ndindex(dataset.final_mean.shape))
    for number, cell in enumerate(harness.track(cells, name_of)):
        problem, algorithm = _describe(config, *cell)
        simulated = jaxdp.simulate(
            problem,
            algorithm,
            key=jr.fold_in(jr.key(config.seed), number),
            num_runs=config.num_runs[cell[2]],
            records=config.records,
        ).check()
        predicted = jaxdp.predict(problem, algorithm, records=config.records).check()
        for kind, of in (("", _path), ("final_", _released), ("jump_", _jump)):
            for name, value in over_runs(of(simulated)).items():
                dataset[kind + name][cell] = value
            dataset[kind + "predicted"][cell] = of(predicted)
        if cell[2] == len(config.dims) - 1:
            for index, theory in enumerate(_BOUNDS.values()):
                bound = jaxdp.predict(
                    problem, algorithm, theory=theory, records=config.records
                ).check()
                dataset.bounds[index, *cell[:2]] = bound.risk
                dataset.final_bounds[index, *cell[:2]] = bound.final_risk
    jump = 2 * (config.clip_scale * config.peak * config.gamma / config.rho) ** 2
    return dataset.assign(num_runs=("dim", list(config.num_runs)), noise_jump=jump)


def summary(dataset: xarray.Dataset) -> str:
    """What the experiment shows, in a short paragraph."""
    runs = ", ".join(
        f"{int(count)} at d = {int(dim)}"
        for count, dim in zip(dataset.num_runs, dataset.dim, strict=True)
    )
    return (
        f"Mean and band of one standard deviation over runs ({runs}; the paper has 10), the "
        "coupled ODE, and the bounds at the largest d. The ODE is a limit: at d = 10 it is "
        "visibly off (too low), and the error shrinks like 1/d; a single run stays within about "
        "1/sqrt(d). The power-law spectrum tends to the identity as d grows, so the curve at "
        "condition number 2 is nearly the isotropic one, and the bounds that see only the extreme "
        "eigenvalues are loose."
    )


def plot(dataset: xarray.Dataset) -> Figure:
    """A panel for each schedule and condition number; released iterates beyond time 1."""
    figure = Figure(figsize=(10.5, 3.3), layout="constrained")
    cells = list(itertools.product(dataset.power.values, dataset.condition_number.values))
    row = figure.subplots(1, len(cells), sharey=True, squeeze=False)[0]
    names = {0.0: "output perturbation", 0.5: "constant noise"}
    for axes, (power, condition) in zip(row, cells, strict=True):
        panel = dataset.sel(power=power, condition_number=condition)
        _draw(axes, panel)
        name = names.get(power, f"power {power:g}")
        tidy(axes, f"{name}, $\\kappa$ = {condition}")
    row[0].set_ylabel("excess risk $R$")
    entries = {}
    for axes in row:
        handles, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    style = {"frameon": False, "fontsize": "small", "columnspacing": 1.5}
    handles, labels = entries.values(), entries.keys()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(entries), **style)
    return figure


def _describe(config: Config, power: int, condition_number: int, dim: int):
    size, kappa = config.dims[dim], config.condition_numbers[condition_number]
    given: dict[str, Any] = {
        "label_noise": config.label_noise,
        "initial_risk": config.initial_risk,
    }
    if kappa == 1:
        problem = jaxdp.LinearRegression.isotropic(size, **given)
    else:
        problem = jaxdp.LinearRegression.power_law(size, condition_number=kappa, **given)
    # Power 0 is the constant schedule of output perturbation. Source: AC (6).
    schedule = jaxdp.Polynomial(config.peak, power=config.powers[power])
    num_steps = round(size / config.gamma)
    return problem, jaxdp.OnePassDPSGD(schedule, config.clip_scale, config.rho, num_steps)


def _path(trajectory: jaxdp.Trajectory) -> jax.Array:
    return trajectory.risk


def _released(trajectory: jaxdp.Trajectory) -> jax.Array:
    return trajectory.final_risk


def _jump(trajectory: jaxdp.Trajectory) -> jax.Array:
    """What the last step's noise adds, after time 1."""
    return trajectory.final_risk - trajectory.risk[..., -1]


def _draw(axes: Axes, panel: xarray.Dataset) -> None:
    time = panel.time.values
    # Released iterates stand beyond time 1, side by side.
    slots = np.linspace(1.06, 1.2, panel.sizes["dim"])
    for dim, color, slot in zip(panel.dim.values, (ORANGE, GREEN, BLUE), slots, strict=False):
        at = panel.sel(dim=dim)
        mean, std = at["mean"].values, at["std"].values
        band(axes, time, np.maximum(mean - std, 1e-4), mean + std, color, 0.25)
        axes.plot(time, mean, color=color, linewidth=1.3, label=f"$d$ = {dim}")
        final = at.final_mean.item(), at.final_std.item()
        axes.errorbar(slot, *final, fmt="o", color=color, markersize=3.5, capsize=2)
    largest = panel.isel(dim=-1)
    curves: list[tuple[str, Any, Any, str, Any, float]] = [
        ("ODE", largest.predicted, largest.final_predicted, BLACK, (0, (4, 2)), 1.2)
    ]
    if panel.condition_number != 1:
        for name, style, width in (
            ("upper", "-", 1.1),
            ("lower", "--", 1.1),
            ("tight upper", "-", 0.6),
            ("tight lower", "--", 0.6),
        ):
            at = panel.sel(bound=name)
            curves.append((f"{name} bound", at.bounds, at.final_bounds, RED, style, width))
    for label, risk, final, color, style, width in curves:
        line = {"color": color, "linestyle": style, "linewidth": width}
        axes.plot(time, risk, label=label, **line)
        axes.plot([1.03, 1.23], [final.item()] * 2, **line)
    axes.axvspan(1.0, 1.26, color="0.95", zorder=0)
    axes.set_xlim(0, 1.26)
    axes.set_yscale("log")
    axes.set_xticks([0, 0.5, 1, 1.13], ["0", "½", "1", "\nreleased"])
    axes.set_xlabel("time $k/n$")


claims = harness.claims_of(checks)
harness.main(__name__)
