r"""PF Figure 4: validation error on MNIST against the number of steps T and the clip norm C.

The noise depends on T, so each point is a run of its own. Time is $\eta T$, by which curves of
other learning rates fall together. Published calibration throughout; beyond the paper, a network
of three layers and one curve with the exact calibration.
"""

import dataclasses
import pathlib
import sys
from typing import NamedTuple

import numpy as np
import xarray
from matplotlib.figure import Figure

from experiments import command
from experiments.command import Check
from experiments.drawing import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, tidy
from experiments.privacy_for_free.mnist_runs import (
    FOLDER,
    Budget,
    Task,
    exact,
    outcome,
    prepare,
    published,
)
from jaxdp.problems.mnist import read_mnist

# Errors that count as equal: of a network at another's best time, and of two clip norms.
_TRANSFER = 0.03
_NEAR = 0.05


class Curve(NamedTuple):
    """A line of the first panel."""

    width: int
    num_hidden: int
    calibration: str

    @property
    def name(self) -> str:
        if self.num_hidden == 1:
            ending = ", exact calibration" if self.calibration == "exact" else ""
            return f"width {self.width}{ending}"
        return f"{self.num_hidden + 1} layers of width {self.width}"


_CALIBRATIONS = {"published": published, "exact": exact}


@dataclasses.dataclass(frozen=True)
class Config:
    """Budget, networks and grids; the heat map has a learning rate that suits large clip norms."""

    num_train: int = 5000
    num_validation: int = 10_000
    epsilon: float = 4.0
    widths: tuple[int, ...] = (10, 100, 500)
    deep: tuple[int, int] = (100, 2)
    exact_width: int = 100
    learning_rate: float = 1.0
    num_steps: tuple[int, ...] = (2, 5, 10, 20, 40, 80, 160, 320)
    num_seeds: int = 2
    heat_width: int = 100
    heat_learning_rate: float = 0.5
    heat_num_steps: tuple[int, ...] = (2, 5, 12, 30, 75, 190, 480)
    clip_norms: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)
    microbatch_size: int | None = None

    @classmethod
    def smoke(cls) -> "Config":
        return cls(
            num_train=500,
            num_validation=200,
            epsilon=16.0,
            widths=(8, 16),
            deep=(16, 2),
            exact_width=16,
            num_steps=(1, 40, 800),
            num_seeds=1,
            heat_width=16,
            heat_num_steps=(2, 77, 307),
            clip_norms=(0.3, 1.0, 300.0),
        )

    @classmethod
    def paper(cls) -> "Config":
        return cls(
            num_train=50_000,
            epsilon=1.0,
            widths=(10, 100, 1000, 10_000),
            deep=(1000, 2),
            exact_width=1000,
            learning_rate=0.1,
            num_steps=tuple(np.unique(np.geomspace(10, 5000, 20).astype(int)).tolist()),
            num_seeds=3,
            heat_width=1000,
            heat_learning_rate=0.1,
            heat_num_steps=tuple(np.unique(np.geomspace(10, 5000, 19).astype(int)).tolist()),
            clip_norms=tuple(np.geomspace(0.1, 1000, 20).tolist()),
            microbatch_size=10_000,
        )

    @property
    def curves(self) -> list[Curve]:
        """The first panel's lines."""
        shallow = [Curve(width, 1, "published") for width in self.widths]
        return [*shallow, Curve(*self.deep, "published"), Curve(self.exact_width, 1, "exact")]


def run(config: Config, data: pathlib.Path | None = None) -> xarray.Dataset:
    """Validation error for every number of steps, of every curve and every clip norm.

    Args:
        config: the setting.
        data: folder with `mnist/`; None fetches the digits.
    """
    mnist = read_mnist(None if data is None else data / "mnist")
    digits = prepare(mnist, config.num_train, config.num_validation)
    budget = Budget(config.epsilon, config.num_train, config.learning_rate)
    heat_budget = budget._replace(learning_rate=config.heat_learning_rate)

    def error(make, budget: Budget, task: Task, num_steps: int, seed: int) -> float:
        optimiser = make(budget, num_steps)
        found = outcome(optimiser, task, seed, microbatch_size=config.microbatch_size)
        return 1 - found.validation

    seeds = range(config.num_seeds)
    errors = np.zeros((len(config.curves), len(config.num_steps), len(seeds)))
    heat = np.zeros((len(config.clip_norms), len(config.heat_num_steps)))
    rows = [*enumerate(config.curves), *enumerate(config.clip_norms)]

    def name_of(row):
        return row[1].name if isinstance(row[1], Curve) else f"C = {row[1]:g}"

    for number, row in command.track(rows, name_of):
        if isinstance(row, Curve):
            task = Task(digits, row.width, row.num_hidden)
            make = _CALIBRATIONS[row.calibration]
            for step, num_steps in enumerate(config.num_steps):
                for seed in seeds:
                    errors[number, step, seed] = error(make, budget, task, num_steps, seed)
        else:
            task, at = Task(digits, config.heat_width), heat_budget._replace(clip_norm=row)
            for step, num_steps in enumerate(config.heat_num_steps):
                heat[number, step] = error(published, at, task, num_steps, 0)
    return xarray.Dataset(
        {
            "error": (("curve", "time", "seed"), errors),
            "heat": (("clip_norm", "heat_time"), heat),
        },
        {
            "curve": [curve.name for curve in config.curves],
            "calibration": ("curve", [curve.calibration for curve in config.curves]),
            "width": ("curve", [curve.width for curve in config.curves]),
            "time": config.learning_rate * np.asarray(config.num_steps),
            "seed": list(seeds),
            "clip_norm": list(config.clip_norms),
            "heat_time": config.heat_learning_rate * np.asarray(config.heat_num_steps),
        },
        attrs={
            "num_train": config.num_train,
            "epsilon": config.epsilon,
            "heat_width": config.heat_width,
            "learning_rate": config.learning_rate,
            "heat_learning_rate": config.heat_learning_rate,
        },
    )


def checks(dataset: xarray.Dataset) -> list[Check]:
    """What PF says of this figure."""
    error = dataset.error.mean("seed")
    least = error.min("time")
    ends = xarray.concat([error.isel(time=0), error.isel(time=-1)], "end") - least
    shared = error.sel(curve=dataset.calibration == "published")
    wide = shared.sel(curve=shared.width == shared.width.max())
    transferred = shared.sel(time=wide.min("curve").idxmin("time")) - shared.min("time")
    exact_name = dataset.curve[dataset.calibration == "exact"]
    exactly = least.sel(curve=exact_name).item()
    same = (dataset.calibration == "published") & (
        dataset.width == dataset.width.sel(curve=exact_name).item()
    )
    gain = least.sel(curve=same)[0].item() - exactly
    per_norm = dataset.heat.min("heat_time")
    best = per_norm.min().item()
    near = dataset.clip_norm[per_norm < best + _NEAR].values
    products = near * dataset.heat.sel(clip_norm=near).idxmin("heat_time").values
    largest = per_norm.isel(clip_norm=-1).item()
    worst = dataset.heat.max().item()
    corner = dataset.heat.isel(clip_norm=0, heat_time=0).item()
    return [
        Check(
            "too few steps and too many both cost: the error has its minimum in between",
            f"ends are at least {float(ends.min()):.3f} above it",
            bool((ends > 0).all()),
        ),
        Check(
            "the best time of the widest network is within .03 of the best error of every other",
            f"at most {float(transferred.max()):.3f} above",
            bool((transferred <= _TRANSFER).all()),
        ),
        Check(
            "the exact calibration has a smaller error at its best time",
            f"{exactly:.3f}, {gain:.3f} less than with the published one",
            gain > 0,
        ),
        Check(
            "a range of clip norms is as good as the best one (to .05), each at its own time",
            f"C = {near.min():g} to {near.max():g} at errors from {best:.3f}",
            bool(near.max() >= 3 * near.min()),
        ),
        Check(
            "among them C times the best time is constant, within a factor of 4",
            f"{products.min():.3g} to {products.max():.3g}",
            bool(products.max() <= 4 * products.min()),
        ),
        Check(
            "a clip norm far above the gradients' norms is worse",
            f"{largest:.3f} at C = {dataset.clip_norm[-1].item():g}",
            largest > best + 2 * _NEAR,
        ),
        Check(
            "few steps with a small clip norm have not learnt",
            f"{corner:.3f} there, {best:.3f} at best, {worst:.3f} at worst",
            corner > best + 2 * _NEAR,
        ),
    ]


def claims(dataset: xarray.Dataset) -> dict[str, bool]:
    """Each claim and whether the dataset bears it out."""
    return {check.claim: check.holds for check in checks(dataset)}


def summary(dataset: xarray.Dataset) -> str:
    """What is shown, and the minima."""
    facts, error = dataset.attrs, dataset.error.mean("seed")
    lines = ["| curve | least validation error | at ηT |", "|---|---|---|"]
    for curve in dataset.curve:
        at = error.sel(curve=curve)
        lines.append(f"| {curve.item()} | {at.min().item():.3f} | {at.idxmin('time').item():g} |")
    for norm in dataset.clip_norm:
        at = dataset.heat.sel(clip_norm=norm)
        lines.append(
            f"| C = {norm.item():g}, width {facts['heat_width']} | {at.min().item():.3f} | "
            f"{at.idxmin('heat_time').item():g} |"
        )
    text = (
        f"n = {facts['num_train']:,}, ε = {facts['epsilon']:g}, δ = 1/n; first panel C = 1, "
        f"η = {facts['learning_rate']:g}, {dataset.sizes['seed']} seeds; heat map η = "
        f"{facts['heat_learning_rate']:g}, one seed. The default's n ε is of the order of the "
        "paper's 50,000, with fewer records. Every gradient is longer than 1 at the start, so C = "
        "1 clips them all. As in the random-feature map, short steps are made up for by more of "
        "them, along C ηT constant, until C reaches the gradients' norms. Unlike there, many steps "
        "with a large C do not diverge: the error saturates, here at "
        f"{dataset.heat[-1, -1].item():.2f}, near .25 in the paper's panel."
    )
    return text + "\n\n" + "\n".join(lines)


def plot(dataset: xarray.Dataset) -> Figure:
    """Error against time for several networks; the heat map over clip norm and time."""
    figure = Figure(figsize=(9.4, 3.7), layout="constrained")
    left, right = figure.subplots(1, 2)
    colors = [SKY, BLUE, GREEN, PURPLE]
    colors = [*colors[: dataset.sizes["curve"] - 2], ORANGE, BLACK]
    for number, curve in enumerate(dataset.curve.values):
        at = dataset.error.sel(curve=curve)
        # The last two lines are the deep network's and the exact calibration's.
        style = {"color": colors[number], "linestyle": "-"}
        if number >= len(colors) - 2:
            style["linestyle"] = "-." if number == len(colors) - 2 else "--"
        low, high = at.min("seed"), at.max("seed")
        left.fill_between(dataset.time, low, high, color=style["color"], alpha=0.15, linewidth=0)
        line = {"marker": "o", "markersize": 3.5, "linewidth": 1.3, "label": curve}
        left.plot(dataset.time, at.mean("seed"), **line, **style)
    left.set_xscale("log")
    left.set_xlabel(r"training time $\eta T$")
    left.set_ylabel("validation error")
    left.set_ylim(0, 1)
    left.legend(frameon=False, fontsize="small")
    budget = rf"$n$ = {dataset.attrs['num_train']:,}, $\varepsilon$ = {dataset.attrs['epsilon']:g}"
    tidy(left, f"$C$ = 1, {budget}")
    norms, times = dataset.clip_norm.values, dataset.heat_time.values
    shown = right.pcolormesh(
        np.arange(len(norms)), np.arange(len(times)), dataset.heat.T, cmap="viridis_r", vmax=1
    )
    for (norm, time), value in np.ndenumerate(dataset.heat.values):
        dark = value > 0.55
        right.text(
            norm,
            time,
            f"{value:.2f}".removeprefix("0"),
            ha="center",
            va="center",
            fontsize="xx-small" if len(norms) > 12 else "x-small",
            color="w" if dark else "k",
        )
    right.set_xticks(np.arange(len(norms)), [_short(norm) for norm in norms])
    right.set_yticks(np.arange(len(times)), [_short(time) for time in times])
    right.set_xlabel("clip norm $C$")
    right.set_ylabel(r"training time $\eta T$")
    tidy(right, f"width {dataset.attrs['heat_width']}, {budget}")
    right.tick_params(length=0)
    right.spines[["left", "bottom"]].set_visible(False)
    figure.colorbar(shown, ax=right, label="validation error")
    return figure


def _short(value: float) -> str:
    """Two digits, and no exponent."""
    return f"{float(f'{value:.2g}'):g}"


if __name__ == "__main__":
    sys.exit(command.main(sys.modules[__name__], optional_folders=FOLDER))
