r"""PF Figure 1: test accuracy of DP-GD on MNIST against the number of parameters, n fixed.

Networks of two layers, cross-entropy, full batches, C = 1. The default has fewer records than the
paper's 50,000, and fewer and longer steps: what is learnt depends on $\eta T$ far more than on
$\eta$. Beyond the paper: the exact calibration of the same budget, and DP-SGD on Poisson batches.

Source: PF Figure 1.
"""

import dataclasses
import functools
import pathlib
from typing import Any

import numpy as np
import xarray
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments import harness
from experiments.harness.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, spread, tidy
from experiments.privacy_for_free.fig01_checks import checks as checks
from experiments.privacy_for_free.fig01_checks import summary as summary
from experiments.privacy_for_free.kept_runs import KeptRuns
from experiments.privacy_for_free.mnist_runs import FOLDERS as FOLDERS
from experiments.privacy_for_free.mnist_runs import (
    NUM_CLASSES,
    Budget,
    NonPrivateOptimiser,
    Outcome,
    Task,
    best,
    exact,
    outcome,
    poisson,
    prepare,
    published,
    sgd,
)
from jaxdp.data.mnist import read_mnist

_MARKERS = {"published": "o", "exact": "s"}


@dataclasses.dataclass(frozen=True)
class Config:
    """Networks, budgets, and the numbers of steps that are tried: see `Budget.num_steps`."""

    widths: tuple[int, ...] = (5, 10, 20, 50, 100, 200, 500)
    num_train: int = 10_000
    num_validation: int = 10_000
    epsilons: tuple[float, ...] = (1.0, 2.0, 4.0)
    learning_rate: float = 4.0
    published_horizons: tuple[float, ...] = (0.003, 0.006)
    exact_horizons: tuple[float, ...] = (0.006, 0.012)
    poisson_horizons: tuple[float, ...] = (0.012, 0.024)
    sampling_rate: float = 0.1
    gradient_descent: tuple[float, int] = (0.3, 400)
    num_seeds: int = 2
    microbatch_size: int | None = None

    smoke = harness.size(
        widths=(4, 64),
        num_train=1000,
        num_validation=200,
        epsilons=(2.0, 8.0),
        learning_rate=1.0,
        published_horizons=(0.006,),
        exact_horizons=(0.012,),
        poisson_horizons=(0.012,),
        gradient_descent=(0.3, 60),
        num_seeds=1,
    )

    paper = harness.size(
        widths=(5, 10, 50, 100, 500, 1000, 5000, 10_000),
        num_train=50_000,
        learning_rate=0.1,
        published_horizons=tuple(np.geomspace(0.0003, 0.0083, 20).tolist()),
        exact_horizons=tuple(np.geomspace(0.0006, 0.0166, 20).tolist()),
        gradient_descent=(0.1, 100_000),
        num_seeds=3,
        microbatch_size=10_000,
    )


def run(
    config: Config,
    data: pathlib.Path | None = None,
    store: pathlib.Path | KeptRuns | None = None,
) -> xarray.Dataset:
    """Train every network under every budget.

    Args:
        config: the setting.
        data: folder with `mnist/`; None fetches the digits.
        store: folder where networks are kept; None keeps none.
    """
    kept = KeptRuns.of(store)
    mnist = read_mnist(None if data is None else data / "mnist")
    digits = prepare(mnist, config.num_train, config.num_validation)
    widths, trial = config.widths, ("width", "seed")
    dataset = harness.empty(
        {
            "calibration": ["published", "exact"],
            "epsilon": config.epsilons,
            "width": widths,
            "seed": range(config.num_seeds),
        },
        {trial: ["gd", "poisson"], ("calibration", "epsilon", *trial): ["accuracy", "num_steps"]},
        {"num_train": config.num_train, "num_test": len(mnist.test_labels)},
    )
    cells = list(np.ndindex(dataset.gd.shape))
    for cell in harness.track(cells, lambda cell: f"width {widths[cell[0]]}, seed {cell[1]}"):
        task = Task(digits, widths[cell[0]])

        def train(optimiser, facts, task=task, seed=cell[1]) -> Outcome:
            known = {"rows": [config.num_train, config.num_validation], "width": task.width}
            return kept.outcome(
                facts | known | {"seed": seed},
                lambda: outcome(optimiser(), task, seed, microbatch_size=config.microbatch_size),
            )

        rate, num_steps = config.gradient_descent
        descent = functools.partial(NonPrivateOptimiser, sgd(rate), num_steps)
        dataset.gd[cell] = train(descent, {"way": "gd", "rate": rate, "steps": num_steps}).test
        tightest = _budget(config, config.epsilons[0])
        found = []
        for horizon in config.poisson_horizons:
            steps, share = tightest.num_steps(horizon), config.sampling_rate
            facts = tightest._asdict() | {"way": "poisson", "steps": steps, "share": share}
            found.append(train(functools.partial(poisson, tightest, steps, share), facts))
        dataset.poisson[cell] = best(found).test
        for number, epsilon in enumerate(config.epsilons):
            budget = _budget(config, epsilon)
            for calibration, (make, horizons) in enumerate(
                [(published, config.published_horizons), (exact, config.exact_horizons)]
            ):
                lengths = [budget.num_steps(horizon) for horizon in horizons]
                chosen = best(
                    train(
                        functools.partial(make, budget, steps),
                        budget._asdict() | {"way": make.__name__, "steps": steps},
                    )
                    for steps in lengths
                )
                dataset.accuracy[calibration, number, *cell] = chosen.test
                dataset.num_steps[calibration, number, *cell] = chosen.num_steps
    num_pixels = mnist.train_images.shape[1]
    return dataset.assign(
        num_parameters=("width", [(num_pixels + NUM_CLASSES) * w for w in widths])
    )


def plot(dataset: xarray.Dataset) -> Figure:
    """Accuracy against p: a colour for each epsilon, a line style for each calibration."""
    figure = Figure(figsize=(5.6, 3.7), layout="constrained")
    axes = figure.subplots()
    parameters = dataset.num_parameters.values
    colors = dict(zip(dataset.epsilon.values, (BLUE, GREEN, ORANGE), strict=False))

    def draw(runs: xarray.DataArray, marker: str, **style):
        spread(axes, parameters, runs, style["color"])
        axes.plot(
            parameters, runs.mean("seed"), marker=marker, markersize=3.5, linewidth=1.3, **style
        )

    draw(dataset.gd, "D", color=BLACK)
    for epsilon, color in colors.items():
        at = dataset.accuracy.sel(epsilon=epsilon)
        draw(at.sel(calibration="published"), "o", color=color)
        draw(at.sel(calibration="exact"), "s", color=color, linestyle="--", markerfacecolor="w")
    first = dataset.epsilon.values[0]
    poisson_style: dict[str, Any] = {
        "color": colors[first],
        "linestyle": ":",
        "markerfacecolor": "w",
    }
    draw(dataset.poisson, "^", **poisson_style)
    axes.axvline(dataset.attrs["num_train"], color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
    axes.text(
        dataset.attrs["num_train"] * 1.06,
        0.02,
        "$p = n$",
        color=GREY,
        fontsize="small",
        transform=axes.get_xaxis_transform(),
    )
    axes.set_xscale("log")
    axes.set_xlabel("number of parameters $p$")
    axes.set_ylabel("test accuracy")
    tidy(axes, f"MNIST, $n$ = {dataset.attrs['num_train']:,}, two layers")
    line: dict[str, Any] = {"linewidth": 1.3, "markersize": 3.5}
    handles = [Line2D([], [], color=BLACK, marker="D", label="GD, no privacy", **line)]
    handles += [
        Line2D([], [], color=color, label=rf"$\varepsilon$ = {epsilon:g}", **line)
        for epsilon, color in colors.items()
    ]
    handles += [
        Line2D([], [], color=GREY, marker="o", label="DP-GD, published\n(replace-one)", **line),
        Line2D(
            [],
            [],
            color=GREY,
            marker="s",
            markerfacecolor="w",
            linestyle="--",
            label="DP-GD, exact\n(replace-one)",
            **line,
        ),
        Line2D(
            [],
            [],
            marker="^",
            label=rf"Poisson, $\varepsilon$ = {first:g}" + "\n(zero-out-one)",
            **poisson_style,
            **line,
        ),
    ]
    figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize="small")
    return figure


def _budget(config: Config, epsilon: float) -> Budget:
    return Budget(epsilon, config.num_train, config.learning_rate)


claims = harness.claims_of(checks)
harness.main(__name__)
