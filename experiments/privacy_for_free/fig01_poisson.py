r"""PF Figure 1 at the paper's number of records, 50,000, on Poisson batches.

A full batch of 50,000 images at width 1000 takes seconds a step on two cores; a Poisson batch takes
a fiftieth of that, and at these budgets its noise is small enough. The budgets are for zero-out-one
neighbours, which promises less than the paper's replace-one. Run are widths 10 to 1000; of the
paper's size there remain full batches at this n, widths of 5000 and 10,000, a third seed and more
numbers of steps.
"""

import dataclasses
import functools
import pathlib

import numpy as np
import xarray
from matplotlib.figure import Figure

from experiments import harness
from experiments.harness.drawing import BLUE, GREEN, GREY, ORANGE, spread, tidy
from experiments.privacy_for_free.fig01_poisson_checks import PLATEAUS
from experiments.privacy_for_free.fig01_poisson_checks import checks as checks
from experiments.privacy_for_free.fig01_poisson_checks import summary as summary
from experiments.privacy_for_free.kept_runs import KeptRuns
from experiments.privacy_for_free.mnist_runs import FOLDERS as FOLDERS
from experiments.privacy_for_free.mnist_runs import (
    NUM_CLASSES,
    Budget,
    Task,
    best,
    outcome,
    poisson,
    prepare,
)
from jaxdp.data.mnist import read_mnist


@dataclasses.dataclass(frozen=True)
class Config:
    """Networks, budgets, and the numbers of steps that are tried: see `Budget.num_steps`."""

    widths: tuple[int, ...] = (10, 100, 1000)
    num_train: int = 50_000
    num_validation: int = 10_000
    epsilons: tuple[float, ...] = (1.0, 2.0, 4.0)
    learning_rate: float = 4.0
    horizons: tuple[float, ...] = (0.004, 0.008)
    sampling_rate: float = 0.02
    num_seeds: int = 2

    smoke = harness.size(
        widths=(4, 64),
        num_train=1000,
        num_validation=200,
        epsilons=(2.0, 8.0),
        learning_rate=1.0,
        horizons=(0.024,),
        sampling_rate=0.1,
        num_seeds=1,
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
    axes = {
        "epsilon": config.epsilons,
        "width": config.widths,
        "seed": range(config.num_seeds),
    }
    facts = {
        "num_train": config.num_train,
        "num_test": len(mnist.test_labels),
        "sampling_rate": config.sampling_rate,
    }
    dataset = harness.empty(axes, {tuple(axes): ["accuracy", "num_steps"]}, facts)
    cells = list(np.ndindex(dataset.accuracy.shape))

    def name_of(cell):
        values = [
            values[place] for values, place in zip(dataset.coords.values(), cell, strict=True)
        ]
        return "epsilon {:g}, width {}, seed {}".format(*(value.item() for value in values))

    for cell in harness.track(cells, name_of):
        budget = Budget(config.epsilons[cell[0]], config.num_train, config.learning_rate)
        width, seed = config.widths[cell[1]], cell[2]

        def train(horizon, budget=budget, width=width, seed=seed):
            steps, share = budget.num_steps(horizon), config.sampling_rate
            rows = [config.num_train, config.num_validation]
            known = {"way": "poisson", "steps": steps, "share": share, "rows": rows}
            return kept.outcome(
                budget._asdict() | known | {"width": width, "seed": seed},
                lambda: outcome(_optimiser(budget, steps, share), Task(digits, width), seed),
            )

        found = best(train(horizon) for horizon in config.horizons)
        dataset.accuracy[cell], dataset.num_steps[cell] = found.test, found.num_steps
    # Those of the stretches in which the networks were trained, whenever that was.
    dataset.attrs["training_seconds"] = kept.seconds
    num_pixels = mnist.train_images.shape[1]
    return dataset.assign(
        num_parameters=("width", [(num_pixels + NUM_CLASSES) * w for w in config.widths])
    )


# The search for the noise takes seconds, and networks of all widths and seeds ask for the same.
_optimiser = functools.cache(poisson)


def plot(dataset: xarray.Dataset) -> Figure:
    """Accuracy against p, and where the paper's full batches level off."""
    figure = Figure(figsize=(5.2, 4.0), layout="constrained")
    axes = figure.subplots()
    parameters = dataset.num_parameters.values
    colors = dict(zip(dataset.epsilon.values, (BLUE, GREEN, ORANGE), strict=False))
    for epsilon, color in colors.items():
        at = dataset.accuracy.sel(epsilon=epsilon)
        spread(axes, parameters, at, color)
        label = rf"Poisson (zero-out-one), $\varepsilon$ = {epsilon:g}"
        line = {"marker": "^", "markersize": 4, "linewidth": 1.3, "markerfacecolor": "w"}
        axes.plot(parameters, at.mean("seed"), color=color, label=label, **line)
        if epsilon in PLATEAUS:
            axes.axhline(PLATEAUS[epsilon], color=color, linewidth=0.9, linestyle="--")
    axes.plot([], [], color=GREY, linestyle="--", label="PF's full batches (replace-one)")
    axes.axvline(dataset.attrs["num_train"], color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
    axes.set_xscale("log")
    axes.set_xlabel("number of parameters $p$   (dotted: $p = n$)")
    axes.set_ylabel("test accuracy")
    figure.legend(frameon=False, fontsize="small", loc="outside lower center", ncols=2)
    share = dataset.attrs["sampling_rate"]
    tidy(axes, f"MNIST, $n$ = {dataset.attrs['num_train']:,}, batches of {share:.0%}")
    return figure


claims = harness.claims_of(checks)
harness.main(__name__)
