r"""Loss and accuracy of DP-SGD on the last layer, predicted and simulated, against epsilon.

The private rows are digits, seen through random ReLU features or through the hidden layers of a
network that was trained on other digits. `GaussianClosure(rank=0)` predicts the mean test loss and
accuracy after T Poisson batches from the same description that is simulated. A prediction without
noise is drawn for comparison. It is wrong at small budgets, so agreement at these budgets tests the
noise.
"""

import dataclasses
import itertools
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
from experiments.harness import Check
from experiments.harness.drawing import BLUE, GREY, ORANGE, tidy
from experiments.harness.marks import legend, log_ticks
from experiments.harness.verdicts import listed, span
from experiments.tables import read_digits
from jaxdp.privacy import PoissonSampler

_COLORS = {"random ReLU": BLUE, "pretrained body": ORANGE}
_THEORY = jaxdp.GaussianClosure(rank=0)
_TICKS = 0.03, 0.1, 0.3, 1.0, 3.0
_LOSSES = 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50
_MARKERS = {"random ReLU": "o", "pretrained body": "s"}

_BODY = Body()

# The project's promised error of the mean test loss and its equivalent in accuracy; then the errors
# measured for independent outputs if noise is of the size of the logits.
_SHARES, _ACCURACIES, _SIGMAS = (0.02, 0.12), (0.01, 0.02), 3
# Budgets at which noise decides.
_SMALL = 0.1


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
    """Predict and simulate every budget for every kind of features and number of rows."""
    mnist = read_digits(data)
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
    dashes = {"linewidth": 0.9, "linestyle": (0, (4, 3))}
    for row, name in zip(panels, ("accuracy", "loss"), strict=True):
        for axes, count in zip(row, counts, strict=True):
            for kind, color in _COLORS.items():
                at = dataset.sel(kind=kind, num_train=count)
                axes.plot(at.epsilon, at[f"predicted_{name}"], color=color, linewidth=1.3)
                axes.axhline(at[f"noiseless_{name}"].item(), color=color, alpha=0.7, **dashes)
                measured = at[name].dropna("epsilon")
                style = {"marker": _MARKERS[kind], "markersize": 4.5, "linestyle": "none"}
                style |= {"color": color, "markerfacecolor": "w", "capsize": 2.5, "elinewidth": 1}
                mean, std = measured.mean("run"), measured.std("run", ddof=1)
                axes.errorbar(measured.epsilon, mean, std, label=kind, **style)
            axes.set_xscale("log")
            tidy(axes, f"$n$ = {count:,}" if name == "accuracy" else "")
        row[0].set_ylabel("test accuracy" if name == "accuracy" else "test loss (cross entropy)")
    for axes in panels[1]:
        axes.set_xlabel(r"$\varepsilon$")
        log_ticks(axes, "x", [value for value in dataset.epsilon.values if value in _TICKS])
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        log_ticks(axes, "y", [value for value in _LOSSES if low <= value <= high])
    last = panels[0, -1]
    last.plot([], [], color=GREY, linewidth=1.3, label="predicted")
    last.plot([], [], color=GREY, label="without noise", **dashes)
    title = f"simulated: mean and standard\ndeviation of {dataset.sizes['run']} runs"
    legend(last, title=title, title_fontsize="small")
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
    """Predictions and simulations on one problem, over the budgets."""
    started = time.perf_counter()
    *private, noiseless = (
        jaxdp.predict(problem, one, theory=_THEORY, records=1)
        for one in (*algorithms, algorithms[0].replace(noise_multiplier=0.0))
    )
    seconds = (time.perf_counter() - started) / (len(algorithms) + 1)
    shape = len(algorithms), config.num_runs
    loss, accuracy = np.full((2, *shape), np.nan)
    given = {"num_runs": config.num_runs, "simulator": jaxdp.FunctionSpace(), "records": 1}
    for place, epsilon in enumerate(config.epsilons):
        if epsilon in config.simulated:
            runs = jaxdp.simulate(problem, algorithms[place], key=jr.fold_in(key, place), **given)
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


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Agreement with noise, disagreement without it, and what helps."""
    found = []
    least = dataset.epsilon.min()
    usual, noisiest = dataset.sel(epsilon=dataset.epsilon > least), dataset.sel(epsilon=[least])
    small = dataset.sel(epsilon=dataset.epsilon <= _SMALL)
    for name, words, more in (("loss", "2 %", "12 %"), ("accuracy", "0.01", "0.02")):
        apart, noisy = _apart(usual, name, "predicted"), _apart(noisiest, name, "predicted", 1)
        silent, where = _apart(small, name, "noiseless"), ""
        if name == "accuracy":
            cost = abs(small.noiseless_accuracy - small.predicted_accuracy)
            silent = silent.where(cost > _ACCURACIES[0])
            where = " in which noise is predicted to cost 0.01 of it"
        found += [
            Check(
                f"the predicted {name} is within {words} + {_SIGMAS} standard errors of the "
                f"simulated mean in every cell with epsilon above {least.item():g}, and within "
                f"{more} + {_SIGMAS} at that epsilon, with noise of the size of the logits",
                f"{int(apart.count())} cells, at most {float(apart.max()):.0%} of the tolerance, "
                f"then {float(noisy.max()):.0%}; "
                f"{int((_apart(noisiest, name, 'predicted') <= 1).sum())} of {int(noisy.count())} "
                f"of these within {words} + {_SIGMAS}",
                bool(apart.max() <= 1 and noisy.max() <= 1),
            ),
            # Shows that the agreement at small budgets tests the noise.
            Check(
                f"without noise the predicted {name} fails the same check in every cell with "
                f"epsilon <= {_SMALL:g}{where}",
                f"{int(silent.count())} cells, {span(silent, '.1f')} times the tolerance",
                bool(silent.min() > 1),
            ),
        ]
    rise, mean = dataset.predicted_accuracy.diff("epsilon"), dataset.accuracy.mean("run")
    ahead = mean.sel(kind="pretrained body") - mean.sel(kind="random ReLU")
    return [
        *found,
        Check(
            "a larger epsilon gives a higher predicted accuracy, for all features and n",
            f"by {float(rise.min()):.4f} at least from one epsilon to the next",
            bool((rise > 0).all()),
        ),
        Check(
            "a body that was trained on other digits is more accurate at every budget and n",
            f"simulated {span(ahead, '+.3f')}",
            bool(ahead.min() > 0),
        ),
    ]


def summary(dataset: xarray.Dataset) -> str:
    """The setting, and predicted and simulated numbers."""
    measured = dataset.dropna("epsilon", subset=["loss"])
    rows = []
    for kind, count in itertools.product(dataset.kind.values, dataset.num_train.values):
        at = measured.sel(kind=kind, num_train=count)
        for name in ("loss", "accuracy"):
            error = harness.standard_error(at[name], "run").values
            numbers = zip(
                at[f"predicted_{name}"].values, at[name].mean("run").values, error, strict=True
            )
            cells = ["{:.4f} / {:.4f} ± {:.4f}".format(*each) for each in numbers]
            rows.append([kind, f"{count:,}", name, *cells, f"{at[f'noiseless_{name}']:.4f}"])
    head = ["features", "n", "", *(f"ε = {value:g}" for value in measured.epsilon.values)]
    text = (
        f"Predicted / simulated mean ± standard error of {dataset.sizes['run']} runs on "
        f"{dataset.attrs['num_test']:,} test digits, conditional on features and private rows. "
        "Neighbours differ in one record that is left out (zero-out-one); noise multipliers "
        f"{listed(measured.noise_multiplier.isel(num_train=0), '.3g')}. The mean of the public "
        "digits is subtracted from features, which are scaled to unit norm. Learning rates and "
        "clip norm were chosen among a few by predictions on private rows and test digits. That "
        "is not accounted for: theory and simulation are compared here. The network whose hidden "
        f"layers are the body has accuracy {dataset.attrs['body_accuracy']:.3f}. Without noise "
        f"{span(dataset.clipped, '.0%')} of the gradients are clipped. A prediction took "
        f"{float(dataset.seconds.min()):.1f} to {float(dataset.seconds.max()):.0f} s, with "
        "compilation shared in a row, and with other programs running. The error at the smallest "
        "epsilon comes from assuming independent outputs; `ModewiseClosure` keeps them "
        "correlated, at a higher cost."
    )
    return text + "\n\n" + harness.table([*head, "without noise"], rows)


def _apart(dataset: xarray.Dataset, name: str, which: str, level: int = 0) -> xarray.DataArray:
    """Gap of prediction and simulated mean over the tolerance; NaN for cells that were not run."""
    mean = dataset[name].mean("run")
    error = harness.standard_error(dataset[name], "run")
    share, room = _SHARES[level], _ACCURACIES[level]
    allowed = (share * mean if name == "loss" else room) + _SIGMAS * error
    return abs(dataset[f"{which}_{name}"] - mean) / allowed


claims = harness.claims_of(checks)
harness.main(__name__)
