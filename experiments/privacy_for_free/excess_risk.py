r"""The cost of privacy in PF Theorem 1, measured against n, d and epsilon, and the plateau.

$R_P$ is the mean test error of DP-GD minus that of theta*, the interpolator, at infinite width and
at one finite p. $\tau$ and C are tuned by the mean *test* error of the cell, which is not
privatised. They are not taken from (4.3), whose $\log^2 n$ make the noise astronomic at any size
that fits a computer. The theorem's terms $d/(n\epsilon)$, $\sqrt{d/n}$ and $\sqrt{n/d^{3/2}}$ are
drawn with constants of one and without their logarithms: they bound, they do not predict.
"""

import dataclasses
import itertools
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import matplotlib
import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

import jaxdp
from experiments import harness
from experiments.harness.drawing import BLACK, BLUE, GREEN, GREY, tidy
from experiments.harness.marks import legend, log_ticks, means
from experiments.privacy_for_free.batches import (
    CALIBRATIONS,
    interpolator_risk,
    noise_per_root_time,
    risks_on_grid,
)
from experiments.privacy_for_free.excess_risk_checks import (
    CONSTANT,
    LINEAR_FLOOR,
    best_risk,
    excess_risk,
    num_cubics,
    power_law,
    privacy_limited,
    terms,
)
from experiments.privacy_for_free.excess_risk_checks import checks as checks
from experiments.privacy_for_free.excess_risk_checks import summary as summary

_COLORS = {"published": BLUE, "exact": GREEN}
_MARKERS = "osD^v"


@dataclasses.dataclass(frozen=True)
class Config:
    r"""Sizes; `finite_width` is measured at `finite_dim` only.

    Attributes:
        dims, nums_train: d and n, each pair a cell; delta is 1/n.
        times, clips: the grid of $\tau p/d$ and $C/\sqrt p$ over which each cell is tuned.
        num_seeds: data sets of each cell, with one run of each setting.
    """

    dims: tuple[int, ...] = (10, 20, 40, 80)
    nums_train: tuple[int, ...] = (100, 200, 400, 800, 1600, 3200)
    num_test: int = 1000
    epsilons: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0)
    finite_dim: int = 40
    finite_width: int = 12_800
    times: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0)
    clips: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
    fewest_steps: int = 12
    num_seeds: int = 4
    seed: int = 15

    def __post_init__(self):
        if self.finite_dim not in self.dims:
            raise ValueError(f"expected finite_dim among dims, got {self.finite_dim}")

    smoke = harness.size(
        dims=(10, 40),
        nums_train=(100, 400, 800),
        num_test=300,
        epsilons=(0.5, 2.0, 8.0),
        finite_width=3200,
        times=(2.0, 8.0),
        clips=(0.003, 0.03, 0.3),
        num_seeds=3,
        seed=6,
    )


def run(config: Config) -> xarray.Dataset:
    """Every cell at infinite width; cells of one dimension also at a finite width."""
    dataset = _empty(config)
    cells = list(itertools.product(config.dims, config.nums_train))
    for number, (dim, num_train) in enumerate(
        harness.track(cells, "d = {0[0]}, n = {0[1]}".format)
    ):
        for seed in range(config.num_seeds):
            row_key, *keys = jr.split(jr.fold_in(jr.fold_in(jr.key(config.seed), number), seed), 3)
            at = {"num_train": num_train, "seed": seed}
            limit, finite = ("", None, at | {"dim": dim}), ("finite_", config.finite_width, at)
            widths = (limit, finite) if dim == config.finite_dim else (limit,)
            for (prefix, width, here), key in zip(widths, keys, strict=False):
                sizes = num_train, config.num_test, dim, width
                # The same rows at either width.
                problem = jaxdp.RandomFeatures.sample(*sizes, activation=jnp.tanh, key=row_key)
                risks, interpolator = _measure(config, problem, key)
                dataset[f"{prefix}risk"].loc[here] = risks
                dataset[f"{prefix}interpolator"].loc[here] = interpolator
    return dataset


def _empty(config: Config) -> xarray.Dataset:
    axes = {
        "dim": config.dims,
        "num_train": config.nums_train,
        "seed": range(config.num_seeds),
        "time": config.times,
        "clip_scale": config.clips,
        "calibration": CALIBRATIONS,
        "epsilon": config.epsilons,
    }
    cell, grid = ("num_train", "seed"), ("time", "clip_scale", "calibration", "epsilon")
    dataset = harness.empty(
        axes,
        {
            ("dim", *cell, *grid): ["risk"],
            ("dim", *cell): ["interpolator"],
            (*cell, *grid): ["finite_risk"],
            cell: ["finite_interpolator"],
        },
    )
    return dataset.assign(finite_dim=config.finite_dim, finite_width=config.finite_width)


def _measure(config: Config, problem: jaxdp.RandomFeatures, key):
    """Test errors over the grid, (times, clips, calibrations, epsilons), and the interpolator's."""
    reduced = problem.reduced()
    # Infinite width has no p.
    scale = problem.num_features or 1
    budgets = itertools.product(CALIBRATIONS, config.epsilons)
    noises = [noise_per_root_time(eps, 1 / problem.num_train, name) for name, eps in budgets]
    risks, _ = risks_on_grid(
        reduced,
        np.asarray(config.times) * problem.dim / scale,
        np.asarray(config.clips) * scale**0.5,
        np.asarray(noises),
        stability_limit=reduced.stability_limit(),
        fewest_steps=config.fewest_steps,
        key=key,
    )
    shape = (*risks.shape[:2], len(CALIBRATIONS), len(config.epsilons))
    return risks.reshape(shape), interpolator_risk(reduced)


def plot(dataset: xarray.Dataset) -> Figure:
    """Excess risk against the theorem's terms, and test errors on the way through the plateau."""
    figure = Figure(figsize=(9.6, 7.0), layout="constrained")
    panels = figure.subplots(2, 2).ravel()
    epsilon = float(dataset.epsilon.sel(epsilon=4.0, method="nearest"))
    _against_privacy_term(panels[0], dataset)
    _against_samples(panels[1], dataset, epsilon)
    _errors(panels[2], dataset.interpolator)
    _errors(panels[3], best_risk(dataset).sel(calibration="exact", epsilon=epsilon))
    for axes in panels[1:]:
        log_ticks(axes, "x", dataset.num_train.data)
    titles = (
        "excess risk against the term of privacy",
        f"against $n$, $d$ = {int(dataset.dim[-1])}, exact",
        "test error of $\\theta^*$",
        f"of DP-GD, exact, $\\epsilon$ = {epsilon:g}",
    )
    for axes, title in zip(panels, titles, strict=True):
        tidy(axes, title)
    return figure


def _against_privacy_term(axes: Axes, dataset: xarray.Dataset) -> None:
    mean, handles = excess_risk(dataset).mean("seed"), []
    lines = np.geomspace(1e-3, 1, 50)
    for name, color in _COLORS.items():
        for marker, dim in zip(_MARKERS, dataset.dim.data, strict=False):
            inside = (dataset.num_train >= 4 * dim) & (dataset.num_train <= dim**2)
            here = mean.sel(dim=dim, calibration=name, num_train=inside)
            places, here = xarray.broadcast(dim / (here.num_train * here.epsilon), here)
            style = {"color": color, "markersize": 4, "mfc": "none"}
            axes.plot(places.data.ravel(), here.data.ravel(), marker, **style)
        slope, spread, factor = power_law(*privacy_limited(dataset, name))
        label = f"{name}: slope {slope:.2f} ± {spread:.2f}"
        handles += axes.plot(lines, factor * lines**slope, color=color, lw=1, label=label)
    style = {"color": GREY, "linestyle": "--", "linewidth": 1, "label": "$d/(n\\epsilon)$"}
    handles += axes.plot(lines, lines, **style)
    style |= {"linestyle": ":", "linewidth": 1.2, "label": f"${CONSTANT}\\,d/(n\\epsilon)$"}
    handles += axes.plot(lines, CONSTANT * lines, **style)
    for marker, dim in zip(_MARKERS, dataset.dim.data, strict=False):
        label = f"$d$ = {dim}"
        handles.append(Line2D([], [], color=BLACK, marker=marker, mfc="none", ls="", label=label))
    legend(axes, handles=handles, ncols=2, loc="lower right")
    axes.set(xscale="log", yscale="log", xlim=(1.5e-3, 1), ylim=(1.5e-4, 1))
    axes.set_xlabel("$d/(n\\epsilon)$,  $4d\\leq n\\leq d^2$")
    axes.set_ylabel("excess risk $R_P$ where positive")


def _against_samples(axes: Axes, dataset: xarray.Dataset, epsilon: float) -> None:
    dim = int(dataset.dim[-1])
    here = excess_risk(dataset).sel(dim=dim, calibration="exact")
    colors = matplotlib.colormaps["viridis"](np.linspace(0.05, 0.85, dataset.sizes["epsilon"]))
    for one, color in zip(dataset.epsilon.data, colors, strict=True):
        style: dict[str, Any] = {"color": color, "fmt": "o-", "label": f"$\\epsilon$ = {one:g}"}
        means(axes, dataset.num_train, here.sel(epsilon=one), "seed", **style)
    names = (f"$d/(n\\epsilon)$, $\\epsilon$ = {epsilon:g}", "$\\sqrt{d/n}$", "$\\sqrt{n/d^{3/2}}$")
    samples = np.geomspace(dataset.num_train.data[0], dataset.num_train.data[-1], 50)
    of_theorem = terms(dim, samples, epsilon)
    for name, dashes, values in zip(names, ("--", ":", "-."), of_theorem, strict=True):
        axes.plot(samples, values, color=GREY, linestyle=dashes, linewidth=1.2, label=name)
    axes.axhline(0, color=BLACK, linewidth=0.6)
    axes.set(ylim=(-0.2, 1.5), xlabel="number of samples $n$", ylabel="excess risk $R_P$")
    legend(axes, ncols=2, loc="upper left")


def _errors(axes: Axes, risk: xarray.DataArray) -> None:
    colors = matplotlib.colormaps["plasma"](np.linspace(0, 0.8, risk.sizes["dim"]))
    samples = risk.num_train.data
    for dim, color in zip(risk.dim.data, colors, strict=True):
        style = {"color": color, "fmt": "o-", "label": f"$d$ = {dim}"}
        means(axes, samples, risk.sel(dim=dim), "seed", **style)
        for marker, size in (("|", dim**1.5), ("x", num_cubics(int(dim)))):
            if samples[0] <= size <= samples[-1]:
                axes.plot(size, 0.315, marker, color=color, markersize=7, mew=1.6, clip_on=False)
    axes.axhline(LINEAR_FLOOR, color=GREY, linestyle=":", linewidth=1)
    axes.set(ylim=(0.3, 1), ylabel="test error")
    axes.set_xlabel("number of samples $n$   (| $d^{3/2}$, × cubics)")
    legend(axes)


claims = harness.claims_of(checks)
harness.main(__name__)
