r"""Loss and accuracy of DP-SGD on the last layer, predicted and simulated, against epsilon.

The private rows are digits, seen through random ReLU features or through the hidden layers of a
network that was trained on other digits. `GaussianClosure(rank=0)` predicts the mean test loss and
accuracy after T Poisson batches from the same description that is simulated. A prediction with the
noise left out is drawn beside it: at small budgets it is wrong, so that agreement there says
something about noise.
"""

import dataclasses
import pathlib
import time

import jax.random as jr
import numpy as np
import optax
import xarray
from matplotlib.figure import Figure

import jaxdp
from experiments import harness
from experiments.everyday_dp_sgd.frozen_features import FOLDERS as FOLDERS
from experiments.everyday_dp_sgd.frozen_features import (
    Body,
    pretrained,
    private_problem,
    random_relu,
)
from experiments.everyday_dp_sgd.mnist_checks import checks as checks
from experiments.everyday_dp_sgd.mnist_checks import summary as summary
from experiments.harness.drawing import BLUE, GREY, ORANGE, tidy
from jaxdp.data.mnist import read_mnist
from jaxdp.privacy import PoissonSampler

_COLORS = {"random ReLU": BLUE, "pretrained body": ORANGE}
_THEORY = jaxdp.GaussianClosure(rank=0)
_TICKS = 0.03, 0.1, 0.3, 1.0, 3.0
_LOSSES = 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50
_MARKERS = {"random ReLU": "o", "pretrained body": "s"}

_BODY = Body()


@dataclasses.dataclass(frozen=True)
class Config:
    """Rows, budgets and hyper-parameters; learning rates are one for each number of rows."""

    num_train: tuple[int, ...] = (1000, 20_000)
    learning_rates: tuple[float, ...] = (4.0, 16.0)
    num_public: int = 30_000
    num_features: int = 500
    body: Body = _BODY
    epsilons: tuple[float, ...] = (0.03, 0.055, 0.1, 0.17, 0.3, 0.55, 1.0, 3.0)
    simulated: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0, 3.0)
    delta: float = 1e-5
    sampling_rate: float = 0.02
    num_steps: int = 100
    clip_norm: float = 0.25
    num_runs: int = 12
    seed: int = 17

    smoke = harness.size(
        num_train=(300,),
        learning_rates=(4.0,),
        num_public=600,
        num_features=40,
        body=Body(width=16, num_steps=60),
        epsilons=(0.03, 0.1, 3.0),
        simulated=(0.03, 0.1, 3.0),
        sampling_rate=0.05,
        num_steps=20,
        num_runs=40,
    )


def run(config: Config, data: pathlib.Path | None = None) -> xarray.Dataset:
    """Predict and simulate every budget for every kind of features and number of rows.

    Args:
        config: the setting.
        data: folder with `mnist/`; None fetches the digits.
    """
    mnist = read_mnist(None if data is None else data / "mnist")
    key = jr.key(config.seed)
    kinds = {
        "random ReLU": random_relu(mnist, config.num_public, config.num_features, key=key),
        "pretrained body": pretrained(mnist, config.num_public, config.body, key=key),
    }
    cell = "kind", "num_train"
    dataset = harness.empty(
        {
            "kind": list(kinds),
            "num_train": config.num_train,
            "epsilon": config.epsilons,
            "run": config.num_runs,
        },
        {
            cell: ["noiseless_loss", "noiseless_accuracy", "clipped", "seconds"],
            (*cell, "epsilon"): ["predicted_loss", "predicted_accuracy"],
            (*cell, "epsilon", "run"): ["loss", "accuracy"],
            ("num_train", "epsilon"): ["noise_multiplier"],
        },
        {"num_test": len(mnist.test_labels), "body_accuracy": kinds["pretrained body"].accuracy},
    )
    for number, count in enumerate(config.num_train):
        algorithms = [_calibrated(config, number, epsilon) for epsilon in config.epsilons]
        dataset.noise_multiplier[number] = [float(one.noise_multiplier) for one in algorithms]
        for place, kind in enumerate(harness.track(list(kinds), f"{{}}, n = {count}".format)):
            problem = private_problem(mnist, kinds[kind], config.num_public, count)
            found = _of_features(config, problem, algorithms, key=jr.fold_in(key, number))
            for name, values in found.items():
                dataset[name][place, number] = values
    return harness.in_units(dataset, seconds="s")


def plot(dataset: xarray.Dataset) -> Figure:
    """Accuracy and loss against epsilon, for each number of rows."""
    figure = Figure(figsize=(8.4, 5.6), layout="constrained")
    counts = dataset.num_train.values
    panels = figure.subplots(2, len(counts), sharex=True, sharey="row", squeeze=False)
    runs = dataset.sizes["run"]
    for row, name in enumerate(("accuracy", "loss")):
        for axes, count in zip(panels[row], counts, strict=True):
            for kind, color in _COLORS.items():
                at = dataset.sel(kind=kind, num_train=count)
                axes.plot(at.epsilon, at[f"predicted_{name}"], color=color, linewidth=1.3)
                flat = at[f"noiseless_{name}"].item()
                axes.axhline(flat, color=color, linewidth=0.9, linestyle=(0, (4, 3)), alpha=0.7)
                measured = at[name].dropna("epsilon")
                style = {"marker": _MARKERS[kind], "markersize": 4.5, "linestyle": "none"}
                style |= {"color": color, "markerfacecolor": "w", "capsize": 2.5}
                mean, std = measured.mean("run"), measured.std("run", ddof=1)
                axes.errorbar(measured.epsilon, mean, std, elinewidth=1, label=kind, **style)
            axes.set_xscale("log")
            tidy(axes, f"$n$ = {count:,}" if row == 0 else "")
        panels[row, 0].set_ylabel(f"test {name}" if row == 0 else "test loss (cross entropy)")
    for axes in panels[1]:
        axes.set_yscale("log")
        axes.set_xlabel(r"$\varepsilon$")
        ticks = [value for value in dataset.epsilon.values if value in _TICKS]
        axes.set_xticks(ticks, [f"{value:g}" for value in ticks])
        axes.minorticks_off()
        ticks = [value for value in _LOSSES if axes.get_ylim()[0] <= value <= axes.get_ylim()[1]]
        axes.set_yticks(ticks, [f"{value:g}" for value in ticks])
    legend = panels[0, -1]
    legend.plot([], [], color=GREY, linewidth=1.3, label="predicted")
    legend.plot([], [], color=GREY, linewidth=0.9, linestyle=(0, (4, 3)), label="without noise")
    title = f"simulated: mean and standard\ndeviation of {runs} runs"
    legend.legend(frameon=False, fontsize="small", title=title, title_fontsize="small")
    return figure


def _calibrated(config: Config, number: int, epsilon: float) -> jaxdp.PrivateOptimiser:
    """DP-SGD at a budget, for one of the numbers of rows."""
    sampler = PoissonSampler(config.num_train[number], config.sampling_rate)
    return jaxdp.PrivateOptimiser.calibrated(
        optax.sgd,
        epsilon,
        config.delta,
        learning_rate=config.learning_rates[number],
        clip_norm=config.clip_norm,
        num_steps=config.num_steps,
        sampler=sampler,
    )


def _of_features(config: Config, problem, algorithms, *, key) -> dict[str, np.ndarray]:
    """What is predicted and what is simulated on one problem, over the budgets."""
    started = time.perf_counter()
    *private, noiseless = (
        jaxdp.predict(problem, one, theory=_THEORY, records=1)
        for one in (*algorithms, algorithms[0].replace(noise_multiplier=0.0))
    )
    seconds = (time.perf_counter() - started) / (len(algorithms) + 1)
    shape = len(algorithms), config.num_runs
    loss, accuracy = np.full(shape, np.nan), np.full(shape, np.nan)
    for place, epsilon in enumerate(config.epsilons):
        if epsilon in config.simulated:
            runs = jaxdp.simulate(
                problem,
                algorithms[place],
                key=jr.fold_in(key, place),
                num_runs=config.num_runs,
                simulator=jaxdp.FunctionSpace(),
                records=1,
            )
            loss[place], accuracy[place] = runs.final_risk, runs.observables["accuracy"][:, -1]
    return {
        "predicted_loss": np.array([one.final_risk for one in private]),
        "predicted_accuracy": np.array([one.observables["accuracy"][-1] for one in private]),
        "noiseless_loss": np.asarray(noiseless.final_risk),
        "noiseless_accuracy": np.asarray(noiseless.observables["accuracy"][-1]),
        "clipped": np.asarray(noiseless.observables["clipped_fraction"][-1]),
        "seconds": np.asarray(seconds),
        "loss": loss,
        "accuracy": accuracy,
    }


claims = harness.claims_of(checks)
harness.main(__name__)
