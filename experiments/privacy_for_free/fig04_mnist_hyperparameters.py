r"""PF Figure 4: validation error on MNIST against the number of steps T and the clip norm C.

The noise depends on T, so each point is a run of its own. Time is $\eta T$, by which curves of
other learning rates fall together. Published calibration throughout; beyond the paper, a network
of three layers and one curve with the exact calibration.

Source: PF Figure 4.
"""

import dataclasses
import pathlib
from typing import NamedTuple

import numpy as np
import xarray
from matplotlib.figure import Figure

from experiments import harness
from experiments.harness.drawing import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, spread, tidy
from experiments.privacy_for_free.fig04_checks import checks as checks
from experiments.privacy_for_free.fig04_checks import summary as summary
from experiments.privacy_for_free.kept_runs import KeptRuns
from experiments.privacy_for_free.mnist_runs import FOLDERS as FOLDERS
from experiments.privacy_for_free.mnist_runs import (
    Budget,
    Task,
    exact,
    outcome,
    prepare,
    published,
)
from jaxdp.data.mnist import read_mnist


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
    widths: tuple[int, ...] = (10, 100, 1000)
    deep: tuple[int, int] = (100, 2)
    exact_width: int = 1000
    learning_rate: float = 1.0
    num_steps: tuple[int, ...] = (2, 5, 10, 20, 40, 80, 160, 320)
    num_seeds: int = 2
    heat_width: int = 1000
    heat_learning_rate: float = 0.5
    heat_num_steps: tuple[int, ...] = (2, 5, 12, 30, 75, 190, 480)
    clip_norms: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)
    microbatch_size: int | None = None

    smoke = harness.size(
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

    paper = harness.size(
        num_train=50_000,
        epsilon=1.0,
        widths=(10, 100, 1000, 10_000),
        deep=(1000, 2),
        learning_rate=0.1,
        num_steps=tuple(np.unique(np.geomspace(10, 5000, 20).astype(int)).tolist()),
        num_seeds=3,
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


def run(
    config: Config,
    data: pathlib.Path | None = None,
    store: pathlib.Path | KeptRuns | None = None,
) -> xarray.Dataset:
    """Validation error for every number of steps, of every curve and every clip norm.

    Args:
        config: the setting.
        data: folder with `mnist/`; None fetches the digits.
        store: folder where networks are kept; None keeps none.
    """
    kept = KeptRuns.of(store)
    mnist = read_mnist(None if data is None else data / "mnist")
    digits = prepare(mnist, config.num_train, config.num_validation)
    budget = Budget(config.epsilon, config.num_train, config.learning_rate)
    heat_budget = budget._replace(learning_rate=config.heat_learning_rate)

    def error(make, budget: Budget, task: Task, num_steps: int, seed: int) -> float:
        facts = {
            "way": make.__name__,
            "steps": num_steps,
            "rows": [config.num_train, config.num_validation],
            "width": task.width,
            "num_hidden": task.num_hidden,
            "seed": seed,
        }
        found = kept.outcome(
            budget._asdict() | facts,
            lambda: outcome(
                make(budget, num_steps), task, seed, microbatch_size=config.microbatch_size
            ),
        )
        return 1 - found.validation

    seeds, curves = range(config.num_seeds), config.curves
    dataset = harness.empty(
        {
            "curve": [curve.name for curve in curves],
            "time": config.learning_rate * np.asarray(config.num_steps),
            "seed": seeds,
            "clip_norm": config.clip_norms,
            "heat_time": config.heat_learning_rate * np.asarray(config.heat_num_steps),
        },
        {("curve", "time", "seed"): ["error"], ("clip_norm", "heat_time"): ["heat"]},
        {
            "num_train": config.num_train,
            "epsilon": config.epsilon,
            "heat_width": config.heat_width,
            "learning_rate": config.learning_rate,
            "heat_learning_rate": config.heat_learning_rate,
        },
    ).assign_coords(
        calibration=("curve", [curve.calibration for curve in curves]),
        width=("curve", [curve.width for curve in curves]),
    )
    rows = [*enumerate(curves), *enumerate(config.clip_norms)]

    def name_of(row):
        return row[1].name if isinstance(row[1], Curve) else f"C = {row[1]:g}"

    for number, row in harness.track(rows, name_of):
        if isinstance(row, Curve):
            task = Task(digits, row.width, row.num_hidden)
            make = _CALIBRATIONS[row.calibration]
            for step, num_steps in enumerate(config.num_steps):
                for seed in seeds:
                    dataset.error[number, step, seed] = error(make, budget, task, num_steps, seed)
        else:
            task, at = Task(digits, config.heat_width), heat_budget._replace(clip_norm=row)
            for step, num_steps in enumerate(config.heat_num_steps):
                dataset.heat[number, step] = error(published, at, task, num_steps, 0)
    # Those of the stretches in which the networks were trained, whenever that was.
    dataset.attrs["training_seconds"] = kept.seconds
    return dataset


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
        spread(left, dataset.time, at, style["color"])
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


claims = harness.claims_of(checks)
harness.main(__name__)
