r"""PF Figure 3: random features of any width under DP-GD, and the cost of the calibration.

The paper's setting: tanh, Gaussian rows, d = 100, n = 2000, epsilon = 4, $C = \sqrt p/2$, theta*
by the pseudo-inverse, T chosen by the mean *test* loss (which is not privatised, and C is not
tuned). Three things differ. The learning rate is $\tau/T$, with one T for all $\tau$ that is as
small as stability allows; the paper has 3e-5 and up to 1.7 million steps. A panel shows that T
hardly matters, and the axis in T is that of the paper's rate. Rows are shared by all widths of a
seed, and weights are nested. Runs are simulated in function space, which is exact in distribution.

Beyond the paper: the exact calibration, infinite width, runs without noise, hyper-parameters
carried over from narrow models, and the dependence on T.

Source: PF Figure 3.
"""

import dataclasses
import math
import time

import jax.numpy as jnp
import jax.random as jr
import matplotlib
import numpy as np
import xarray
from jaxtyping import Array, Key
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

import jaxdp
from experiments import harness
from experiments.harness.drawing import BLACK, BLUE, GREEN, GREY, tidy
from experiments.harness.marks import legend, log_ticks, means
from experiments.privacy_for_free.batches import (
    CALIBRATIONS,
    AtWidth,
    at_widths,
    final_risks,
    noise_per_root_time,
    risks_on_grid,
    steps_for,
)
from experiments.privacy_for_free.fig03_checks import best_risk, transferred, tuned_there
from experiments.privacy_for_free.fig03_checks import checks as checks
from experiments.privacy_for_free.fig03_checks import summary as summary

# The paper's widths, and its heat map's.
_WIDTHS = tuple(sorted({*np.logspace(1.5, 5.3, 20).astype(int).tolist(), 40_000}))

_COLORS = {"published": BLUE, "exact": GREEN}
# The paper's learning rate, for the axis in T.
_PAPER_RATE = 3e-5
_LOWEST = 0.35


def _logspace(low: float, high: float, count: int) -> tuple[float, ...]:
    return tuple(np.logspace(low, high, count).tolist())


@dataclasses.dataclass(frozen=True)
class Config:
    r"""The figure's setting; infinite width always comes after the widths.

    Attributes:
        num_train, num_test, dim, epsilon: n, m, d; delta is 1/n.
        clip: $C/\sqrt p$ of the curves.
        widths: p, rising.
        num_seeds: data sets, each with its weights and noises.
        times: $\tau p/d$ of the curves.
        fewest_steps: T, unless stability needs more.
        tuned_widths, tuned_seeds, tuned_clips, tuned_times: grid that is tuned and transferred.
        heat_width, heat_seeds, heat_clips, heat_times: grid of the heat map.
        step_counts, step_runs, step_time: grid of the panel against T, at infinite width.
    """

    num_train: int = 2000
    num_test: int = 1000
    dim: int = 100
    epsilon: float = 4.0
    clip: float = 0.5
    widths: tuple[int, ...] = _WIDTHS
    num_seeds: int = 10
    times: tuple[float, ...] = _logspace(0, 1.2, 20)
    fewest_steps: int = 16
    tuned_widths: tuple[float, ...] = (316, 1258, 5011, 40_000, math.inf)
    tuned_seeds: int = 5
    tuned_clips: tuple[float, ...] = _logspace(-1, 0.5, 7)
    tuned_times: tuple[float, ...] = _logspace(0, 1.6, 9)
    heat_width: int = 40_000
    heat_seeds: int = 3
    heat_clips: tuple[float, ...] = _logspace(-2, 1.5, 20)
    heat_times: tuple[float, ...] = _logspace(-1.5, 2.5, 20)
    step_counts: tuple[int, ...] = (4, 8, 16, 32, 64, 128)
    step_runs: int = 16
    step_time: float = 4.3
    seed: int = 4

    def __post_init__(self):
        unknown = {self.heat_width, *self.tuned_widths} - {*self.widths, math.inf}
        if unknown:
            raise ValueError(f"expected heat_width and tuned_widths among widths, got {unknown}")

    smoke = harness.size(
        num_train=200,
        num_test=200,
        dim=20,
        widths=(50, 200, 800, 4000),
        num_seeds=5,
        seed=0,
        times=_logspace(-0.2, 1.2, 8),
        tuned_widths=(50, 800, math.inf),
        tuned_clips=_logspace(-1, 0.5, 4),
        tuned_times=_logspace(0, 1.6, 5),
        heat_width=800,
        heat_clips=_logspace(-2, 1.5, 6),
        heat_times=_logspace(-1.5, 2.5, 6),
        step_counts=(8, 32, 128),
    )


def run(config: Config) -> xarray.Dataset:
    """All seeds, each from narrow to wide."""
    dataset, seconds = _empty(config), dict.fromkeys(_PARTS, 0.0)
    for seed in harness.track(range(config.num_seeds), lambda seed: f"seed {seed}"):
        keys = jr.split(jr.fold_in(jr.key(config.seed), seed), 3)
        sizes = config.num_train, config.num_test, config.dim
        limit = jaxdp.RandomFeatures.sample(*sizes, None, activation=jnp.tanh, key=keys[0])
        for number, at in enumerate(at_widths(limit, dataset.width.data, key=keys[1])):
            cell = Cell(config, at, jr.fold_in(keys[2], number))
            wanted = {
                "curves": True,
                "transfer": at.width in config.tuned_widths and seed < config.tuned_seeds,
                "heat map": at.width == config.heat_width and seed < config.heat_seeds,
                "steps": math.isinf(at.width),
            }
            for part, measure in _PARTS.items():
                if wanted[part]:
                    started = time.perf_counter()
                    measure(cell, dataset.sel(seed=seed))
                    seconds[part] += time.perf_counter() - started
    return dataset.assign_coords(part=list(seconds)).assign(
        seconds=("part", list(seconds.values()), {"units": "s"})
    )


def _empty(config: Config) -> xarray.Dataset:
    """Everything that will be measured, NaN where it will not."""
    axes = {
        "calibration": CALIBRATIONS,
        "width": [*map(float, config.widths), math.inf],
        "time": config.times,
        "seed": range(config.num_seeds),
        "tuned_width": list(map(float, config.tuned_widths)),
        "tuned_clip": config.tuned_clips,
        "tuned_time": config.tuned_times,
        "heat_clip": config.heat_clips,
        "heat_time": config.heat_times,
        "step_count": config.step_counts,
    }
    dataset = harness.empty(
        axes,
        {
            ("seed", "width", "time", "calibration"): ["risk", "clipped"],
            ("seed", "width"): ["num_steps", "interpolator"],
            ("seed", "time"): ["noiseless"],
            ("seed", "tuned_width", "tuned_time", "tuned_clip", "calibration"): ["tuned_risk"],
            ("seed", "heat_time", "heat_clip"): ["heat_risk", "heat_clipped"],
            ("seed", "step_count"): ["step_risk"],
        },
    )
    names = ("num_train", "num_test", "dim", "epsilon", "clip", "heat_width")
    return dataset.assign({name: getattr(config, name) for name in names})


class Cell:
    """One width of one seed, and hyper-parameters in its units."""

    def __init__(self, config: Config, at: AtWidth, key: Key[Array, ""]):
        self.config, self.at = config, at
        self.curve_key, self.tuning_key, self.heat_key, self.step_key = jr.split(key, 4)
        self.stability_limit = at.problem.stability_limit()
        # Infinite width has no p.
        scale = 1.0 if math.isinf(at.width) else at.width
        self.per_time, self.per_clip = config.dim / scale, math.sqrt(scale)
        delta = 1 / config.num_train
        levels = (noise_per_root_time(config.epsilon, delta, name) for name in CALIBRATIONS)
        self.noises = dict(zip(CALIBRATIONS, levels, strict=True))

    def grid(self, times, clips, calibrations, key):
        return risks_on_grid(
            self.at.problem,
            self.per_time * np.asarray(times),
            self.per_clip * np.asarray(clips),
            np.asarray([self.noises[name] for name in calibrations]),
            stability_limit=self.stability_limit,
            fewest_steps=self.config.fewest_steps,
            key=key,
        )


def _curves(cell: Cell, into: xarray.Dataset) -> None:
    """Risks at every time with the figure's clip, and the interpolator's."""
    config, at = cell.config, cell.at
    # Infinite width also has a run without noise.
    levels = [*cell.noises.values(), *([0.0] if math.isinf(at.width) else [])]
    durations = cell.per_time * np.repeat(config.times, len(levels))
    settings = durations, np.full_like(durations, cell.per_clip * config.clip)
    settings = *settings, np.tile(levels, len(config.times))
    steps = steps_for(durations.max(), cell.stability_limit, config.fewest_steps)
    risks, clipped = (
        np.asarray(values).reshape(len(config.times), len(levels))
        for values in final_risks(
            at.problem,
            *(jnp.asarray(values, float) for values in settings),
            num_steps=jnp.asarray(steps),
            key=cell.curve_key,
        )
    )
    here = {"width": at.width}
    into.risk.loc[here] = risks[:, : len(CALIBRATIONS)]
    into.clipped.loc[here] = clipped[:, : len(CALIBRATIONS)]
    into.num_steps.loc[here] = float(steps)
    into.interpolator.loc[here] = at.interpolator_risk
    if math.isinf(at.width):
        into.noiseless[:] = risks[:, -1]


def _tuning(cell: Cell, into: xarray.Dataset) -> None:
    grid = cell.config.tuned_times, cell.config.tuned_clips, CALIBRATIONS
    into.tuned_risk.loc[{"tuned_width": cell.at.width}] = cell.grid(*grid, cell.tuning_key)[0]


def _heat(cell: Cell, into: xarray.Dataset) -> None:
    """Risks over the heat map's grid, and the share of clipped gradients."""
    grid = cell.config.heat_times, cell.config.heat_clips, ["published"]
    risks, clipped = cell.grid(*grid, cell.heat_key)
    into.heat_risk[:], into.heat_clipped[:] = risks[..., 0], clipped[..., 0]


def _numbers_of_steps(cell: Cell, into: xarray.Dataset) -> None:
    """Risks against the number of steps, at one time."""
    config, noise = cell.config, cell.noises["published"]
    setting = config.step_time * cell.per_time, config.clip * cell.per_clip, noise
    for count in config.step_counts:
        risks, _ = final_risks(
            cell.at.problem,
            *(jnp.full(1, value) for value in setting),
            num_steps=jnp.asarray(count),
            key=cell.step_key,
            num_runs=config.step_runs,
        )
        into.step_risk.loc[{"step_count": count}] = float(risks.mean())


_PARTS = {"curves": _curves, "transfer": _tuning, "heat map": _heat, "steps": _numbers_of_steps}


def plot(dataset: xarray.Dataset) -> Figure:
    """The paper's four panels, then transfer and the number of steps."""
    figure = Figure(figsize=(11.5, 6.4), layout="constrained")
    panels = figure.subplots(2, 3).ravel()
    _draw_widths(panels[0], dataset)
    _draw_times(panels[1], dataset, in_steps=True)
    _draw_times(panels[2], dataset, in_steps=False)
    _draw_heat_map(figure, panels[3], dataset)
    _draw_transfer(panels[4], dataset)
    _draw_steps(panels[5], dataset)
    titles = (
        "test error against width",
        "against the number of steps, published",
        "the same in time",
        f"$p$ = {int(dataset.heat_width)}, published",
        "hyper-parameters carried over",
        "steps hardly matter",
    )
    for axes, title in zip(panels, titles, strict=True):
        tidy(axes, title)
    for axes in panels[[0, 1, 2, 4]]:
        axes.set_ylabel("test error")
    return figure


def _draw_widths(axes: Axes, dataset: xarray.Dataset) -> None:
    finite, count = dataset.width.data[:-1], float(dataset.num_train)
    risks = best_risk(dataset)
    median = dataset.interpolator.median("seed")
    axes.plot(finite, median[:-1], color=GREY, linewidth=1.2, label="$\\theta^*$ (median)")
    axes.axhline(float(median[-1]), color=GREY, linestyle=":", linewidth=1)
    for name, color in _COLORS.items():
        here = risks.sel(calibration=name)
        style = {"color": color, "markersize": 3, "capsize": 1.5, "label": f"DP-GD, {name}"}
        means(axes, finite, here.isel(width=slice(None, -1)), "seed", fmt="o-", **style)
        axes.axhline(float(here.isel(width=-1).mean()), color=color, linestyle=":", linewidth=1)
    axes.axvline(count, color="0.85", linewidth=1, zorder=0)
    place = {"xytext": (-3, 3), "textcoords": "offset points", "ha": "right"}
    axes.annotate("$p = n$", (count, _LOWEST), fontsize="small", **place)
    axes.set(xscale="log", ylim=(_LOWEST, 1))
    axes.set_xlabel("number of features $p$   (dotted: infinite)")
    legend(axes, loc="upper right")


def _draw_times(axes: Axes, dataset: xarray.Dataset, *, in_steps: bool) -> None:
    mean = dataset.risk.sel(calibration="published").mean("seed")
    finite = dataset.width.data[:-1]
    wide = finite[finite >= dataset.num_train.item() / 10]
    shown = wide[np.unique(np.linspace(0, len(wide) - 1, 7).astype(int))]
    colors = matplotlib.colormaps["viridis"](np.linspace(0.05, 0.9, len(shown)))
    for width, color in zip(shown, colors, strict=True):
        unit = width / float(dataset.dim) * _PAPER_RATE if in_steps else 1
        axes.plot(dataset.time / unit, mean.sel(width=width), color=color, label=f"{width:.0f}")
    axes.set_xscale("log")
    axes.set_xlabel(
        "number of steps $T$ at $\\eta = 3\\cdot10^{-5}$" if in_steps else "$\\eta T p/d$"
    )
    if not in_steps:
        axes.plot(dataset.time, mean.isel(width=-1), color=BLACK, linestyle=":", label="infinite")
        words = {"title": "$p$", "title_fontsize": "small", "fontsize": "x-small"}
        legend(axes, ncols=2, loc="upper right", **words)
    for line in axes.lines:
        line.set_linewidth(1.2)


def _draw_heat_map(figure: Figure, axes: Axes, dataset: xarray.Dataset) -> None:
    clips, times = dataset.heat_clip.data, dataset.heat_time.data
    risks = np.minimum(dataset.heat_risk.mean("seed"), 10)
    style = {"norm": LogNorm(0.4, 10), "cmap": "viridis_r", "shading": "nearest"}
    image = axes.pcolormesh(clips, times, risks, rasterized=True, **style)
    axes.plot(clips, 3 / clips, color="white", linestyle="--", linewidth=1)
    axes.set(xscale="log", yscale="log", ylim=(times[0] / 1.27, times[-1] * 1.27))
    axes.set_xlabel("$C/\\sqrt{p}$   (dashed: $C\\,\\eta T p/d = 3\\sqrt{p}$)")
    axes.set_ylabel("$\\eta T p/d$")
    bar = figure.colorbar(image, ax=axes, extend="max", ticks=[0.4, 0.6, 1, 3, 10])
    bar.ax.set_yticklabels(["0.4", "0.6", "1", "3", "10"])
    bar.ax.minorticks_off()
    bar.ax.tick_params(labelsize="small")


def _draw_transfer(axes: Axes, dataset: xarray.Dataset) -> None:
    widths, own = dataset.tuned_width.data, tuned_there(dataset)
    places = np.arange(len(widths))
    for name, color in _COLORS.items():
        label = f"tuned there, {name}"
        means(axes, places, own.sel(calibration=name), "seed", color=color, fmt="-", label=label)
        for marker, source in zip("os", widths[:2], strict=False):
            risks = transferred(dataset, source).sel(calibration=name).mean("seed")
            label = f"tuned at $p$ = {source:.0f}" if name == "published" else None
            axes.plot(places, risks, marker, color=color, markersize=5, mfc="none", label=label)
    axes.set_xticks(places, ["∞" if math.isinf(width) else f"{width:.0f}" for width in widths])
    axes.set_xlabel("number of features $p$ trained")
    legend(axes)


def _draw_steps(axes: Axes, dataset: xarray.Dataset) -> None:
    last = dataset.step_count[-1]
    gaps = dataset.step_risk - dataset.step_risk.sel(step_count=last)
    axes.axhspan(-0.005, 0.005, color="0.93", linewidth=0, zorder=0)
    means(axes, dataset.step_count, gaps, "seed", color=BLUE, fmt="o-", markersize=3)
    axes.set_ylim(-0.02, 0.02)
    log_ticks(axes, "x", dataset.step_count.data)
    axes.set_xlabel("number of steps $T$, infinite width")
    axes.set_ylabel(f"test error over that at $T$ = {int(last)}")


claims = harness.claims_of(checks)
harness.main(__name__)
