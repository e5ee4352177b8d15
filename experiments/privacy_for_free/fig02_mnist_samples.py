r"""PF Figure 2: test accuracy on MNIST against the number of training samples, width fixed.

GD needs few samples to learn the digits; further ones pay for privacy. The left end of the
published curves is an artefact: dividing by the standard deviation + 1e-8 sends a test image that
lights a pixel which is dark in all training images 1e8 away. Here columns have a floor instead;
the second panel has both.

Source: PF Figure 2.
"""

import dataclasses
import functools
import pathlib
from typing import Any

import numpy as np
import xarray
from matplotlib.figure import Figure

from experiments import harness
from experiments.harness.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, RED, spread, tidy
from experiments.privacy_for_free.fig02_checks import checks as checks
from experiments.privacy_for_free.fig02_checks import summary as summary
from experiments.privacy_for_free.kept_runs import KeptRuns
from experiments.privacy_for_free.mnist_runs import FOLDERS as FOLDERS
from experiments.privacy_for_free.mnist_runs import (
    SCALINGS,
    Budget,
    Digits,
    NonPrivateOptimiser,
    Task,
    best,
    exact,
    outcome,
    prepare,
    published,
    sgd,
)
from jaxdp.data.mnist import Mnist, read_mnist


@dataclasses.dataclass(frozen=True)
class Config:
    """Samples, budgets, and the numbers of steps that are tried: see `Budget.num_steps`."""

    num_train: tuple[int, ...] = (5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
    num_validation: int = 10_000
    width: int = 1000
    epsilons: tuple[float, ...] = (1.0, 2.0, 4.0)
    learning_rate: float = 2.0
    published_horizons: tuple[float, ...] = (0.003, 0.006)
    exact_horizons: tuple[float, ...] = (0.006, 0.012)
    gradient_descent: tuple[float, int] = (0.3, 300)
    num_seeds: int = 1
    microbatch_size: int | None = None

    smoke = harness.size(
        num_train=(10, 1000),
        num_validation=200,
        width=32,
        epsilons=(4.0, 16.0),
        learning_rate=1.0,
        published_horizons=(0.003,),
        exact_horizons=(0.006,),
        gradient_descent=(0.3, 40),
        num_seeds=1,
    )

    paper = harness.size(
        num_train=(5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000),
        learning_rate=0.1,
        published_horizons=tuple(np.geomspace(0.0003, 0.0056, 20).tolist()),
        exact_horizons=tuple(np.geomspace(0.0006, 0.0112, 20).tolist()),
        gradient_descent=(0.1, 100_000),
        num_seeds=3,
        microbatch_size=10_000,
    )


def run(
    config: Config,
    data: pathlib.Path | None = None,
    store: pathlib.Path | KeptRuns | None = None,
) -> xarray.Dataset:
    """Train one network on every number of samples, under every budget and scaling.

    Args:
        config: the setting.
        data: folder with `mnist/`; None fetches the digits.
        store: folder where networks are kept; None keeps none.
    """
    kept = KeptRuns.of(store)
    mnist = read_mnist(None if data is None else data / "mnist")
    axes = {
        "scaling": SCALINGS,
        "calibration": ["published", "exact"],
        "epsilon": config.epsilons,
        "num_train": config.num_train,
        "seed": range(config.num_seeds),
    }
    trial = ("num_train", "seed")
    dataset = harness.empty(
        axes,
        {("scaling", *trial): ["gd"], tuple(axes): ["accuracy"], trial: ["lit_share"]},
        {"width": config.width, "num_test": len(mnist.test_labels)},
    )
    cells = list(np.ndindex(dataset.lit_share.shape))

    def name_of(cell):
        return f"n = {config.num_train[cell[0]]}, seed {cell[1]}"

    for number, seed in harness.track(cells, name_of):
        num_train = config.num_train[number]
        for scaling, (name, scale) in enumerate(SCALINGS.items()):
            digits = prepare(mnist, num_train, config.num_validation, scale, part=seed)
            every = list(np.ndindex(2, len(config.epsilons)))
            # The published scaling is drawn for the least noise only.
            wanted = every if scaling == 0 else every[-1:]
            rows = {"scaling": name, "rows": [num_train, config.num_validation], "seed": seed}
            gd, private = _accuracies(config, digits, wanted, kept, rows)
            dataset.gd[scaling, number, seed] = gd
            dataset.accuracy[scaling, :, :, number, seed] = private
        dataset.lit_share[number, seed] = _lit_share(mnist, digits)
    # Those of the stretches in which the networks were trained, whenever that was.
    dataset.attrs["training_seconds"] = kept.seconds
    return dataset


def plot(dataset: xarray.Dataset) -> Figure:
    """GD and DP-GD against n; beside it what the published standardisation does."""
    figure = Figure(figsize=(9.6, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    num_train = dataset.num_train.values
    colors = dict(zip(dataset.epsilon.values, (BLUE, GREEN, ORANGE), strict=False))

    def draw(axes, runs, label, marker="o", **style):
        spread(axes, num_train, runs, style["color"])
        line = {"marker": marker, "markersize": 3.5, "linewidth": 1.3, "label": label}
        axes.plot(num_train, runs.mean("seed"), **line, **style)

    floored = dataset.sel(scaling="floored")
    draw(left, floored.gd, "GD, no privacy", "D", color=BLACK)
    for calibration, style in (("published", "-"), ("exact", "--")):
        for epsilon, color in colors.items():
            runs = floored.accuracy.sel(calibration=calibration, epsilon=epsilon)
            label = rf"DP-GD, $\varepsilon$ = {epsilon:g}, {calibration}"
            face = color if calibration == "published" else "w"
            draw(left, runs, label, color=color, linestyle=style, markerfacecolor=face)
    tidy(left, f"columns scaled with a floor, width {dataset.attrs['width']}")
    left.set_ylabel("test accuracy")
    most = dataset.epsilon.values[-1]
    for scaling, face, style in (("floored", None, "-"), ("published", "w", "--")):
        at = dataset.sel(scaling=scaling)
        ending = "floor" if scaling == "floored" else "std + $10^{-8}$"
        for runs, name, marker, color in (
            (at.gd, "GD", "D", BLACK),
            (at.accuracy.sel(calibration="exact", epsilon=most), "DP-GD", "o", colors[most]),
        ):
            shown = {"color": color, "linestyle": style, "markerfacecolor": face or color}
            draw(right, runs, f"{name}, {ending}", marker, **shown)
    share = dataset.lit_share.mean("seed")
    right.plot(num_train, share, color=RED, linewidth=1.1, label="images with a lit dead pixel")
    tidy(right, rf"what std + $10^{{-8}}$ does (exact, $\varepsilon$ = {most:g})")
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_xlabel("training samples $n$")
        axes.axhline(0.1, color=GREY, linewidth=0.7, linestyle=(0, (1, 2)))
        axes.set_ylim(0, 1)
        axes.legend(frameon=False, fontsize="x-small")
    return figure


def _accuracies(
    config: Config,
    digits: Digits,
    wanted: list[tuple[int, ...]],
    kept: KeptRuns,
    rows: dict[str, Any],
):
    """Test accuracy of GD, and of DP-GD at the wanted places among calibrations and epsilons."""
    task = Task(digits, config.width)

    def train(optimiser, facts):
        return kept.outcome(
            facts | rows | {"width": config.width},
            lambda: outcome(
                optimiser(), task, rows["seed"], microbatch_size=config.microbatch_size
            ),
        )

    rate, num_steps = config.gradient_descent
    descent = functools.partial(NonPrivateOptimiser, sgd(rate), num_steps)
    gd = train(descent, {"way": "gd", "rate": rate, "steps": num_steps}).test
    ways = [(published, config.published_horizons), (exact, config.exact_horizons)]
    private = np.full((len(ways), len(config.epsilons)), np.nan)
    for way, number in wanted:
        make, horizons = ways[way]
        epsilon = config.epsilons[number]
        budget = Budget(epsilon, len(digits.train.labels), config.learning_rate)
        lengths = sorted({budget.num_steps(horizon) for horizon in horizons})
        private[way, number] = best(
            train(
                functools.partial(make, budget, steps),
                budget._asdict() | {"way": make.__name__, "steps": steps},
            )
            for steps in lengths
        ).test
    return gd, private


def _lit_share(mnist: Mnist, digits: Digits) -> float:
    """The share of test images that light a pixel which is dark in all training images."""
    dead = np.ptp(np.asarray(digits.train.inputs), axis=0) == 0
    return float(np.any(mnist.test_images[:, dead] > 0, axis=1).mean())


claims = harness.claims_of(checks)
harness.main(__name__)
