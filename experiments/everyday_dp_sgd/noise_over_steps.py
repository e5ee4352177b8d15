r"""A plan's noise beside prefix-sum strategies, BISR and Poisson batches, on one real head.

Ten outputs learn the digits from principal components by least squares on one-hot labels. Gradients
are clipped on their joint norm. Each method has the settings of the least predicted risk on one
grid: sampling rate, training time, schedule, clip norm and, for a strategy, its number of bands.
The choice is made on the problem itself and is not accounted for. Then each is simulated.
"""

import dataclasses
import pathlib
import time

import jax.random as jr
import numpy as np
import xarray
from matplotlib.figure import Figure

from experiments import harness
from experiments.everyday_dp_sgd.frozen_features import FOLDERS as FOLDERS
from experiments.everyday_dp_sgd.noise_over_steps_rivals import Head, best_settings, head, simulate
from experiments.harness import Check
from experiments.harness.drawing import BLUE, GREEN, GREY, ORANGE, tidy
from experiments.harness.marks import legend, log_ticks
from experiments.harness.verdicts import listing, span
from experiments.tables import read_digits

OURS = "plan"
RIVALS = ("prefix sums", "BISR", "Poisson")
_COLORS = dict(zip((OURS, *RIVALS), (BLUE, ORANGE, GREEN, GREY), strict=True))
_SHARE, _SIGMAS = 0.05, 3
# Excess risks at epsilon 2, after two and eight epochs, that a plan must not exceed.
_GOALS = {2: 0.0061, 8: 0.0048}


@dataclasses.dataclass(frozen=True)
class Config:
    """Rows, budgets and the grid that all methods share."""

    num_private: int = 10_000
    num_features: int = 64
    epsilons: tuple[float, ...] = (0.5, 2.0, 8.0)
    delta: float = 1e-5
    epochs: tuple[int, ...] = (2, 8)
    batches: tuple[int, ...] = (16, 64)
    times: tuple[float, ...] = (95.0, 165.0, 290.0, 510.0, 890.0)
    clip_norms: tuple[float, ...] = (0.5, 0.73, 1.0)
    bands: tuple[int, ...] = (4, 8, 16, 64)
    num_runs: int = 50
    seed: int = 23

    smoke = harness.size(
        num_private=600,
        num_features=16,
        epsilons=(2.0, 8.0),
        epochs=(2,),
        batches=(4, 8),
        times=(10.0, 30.0),
        clip_norms=(0.7,),
        bands=(4, 8),
        num_runs=10,
    )


def run(config: Config, data: pathlib.Path | None = None) -> xarray.Dataset:
    """Tune and simulate every method at every budget and number of epochs."""
    digits = head(read_digits(data), config.num_private, config.num_features)
    cell = "epochs", "epsilon", "method"
    axes = {"epochs": config.epochs, "epsilon": config.epsilons, "method": [OURS, *RIVALS]}
    settings = ["batches", "bands", "time", "is_linear", "clip_norm", "multiplier"]
    found = harness.empty(
        axes | {"run": config.num_runs},
        {cell: ["predicted", "seconds", *settings], (*cell, "run"): ["excess"]},
        {"num_private": config.num_private, "num_features": config.num_features},
    )
    key = jr.key(config.seed)
    for place, epochs in enumerate(harness.track(config.epochs, "{} epochs".format)):
        tuned = best_settings(digits, config, epochs, RIVALS, key=key)
        for number, epsilon in enumerate(config.epsilons):
            at = place, number
            keys = jr.split(jr.fold_in(jr.fold_in(key, place + 1), number), len(RIVALS) + 1)
            for rank, one in enumerate(tuned[epsilon].values(), 1):
                started = time.perf_counter()
                given = [one.run] * config.num_runs, one.method, one.multiplier
                weights = simulate(digits, *given, key=keys[rank])
                found.excess[(*at, rank)] = digits.excess(weights)
                found.seconds[(*at, rank)] = time.perf_counter() - started
                found.predicted[(*at, rank)] = one.predicted
                for setting in settings:
                    found[setting][(*at, rank)] = one.settings[setting]
            for name, value in _planned(digits, config, epsilon, epochs, key=keys[0]).items():
                found[name][(*at, 0)] = value
    return harness.in_units(found, seconds="s")


def _planned(digits: Head, config: Config, epsilon: float, epochs: int, *, key) -> dict:
    """Predicted and simulated excess risk of `jaxdp.plan(..., noise="correlated")`."""
    # To be filled in: the plan, its prediction less digits.least, and its simulated runs.
    del digits, config, epsilon, epochs, key
    return {}


def _errors(dataset: xarray.Dataset) -> tuple[xarray.DataArray, xarray.DataArray]:
    return dataset.excess.mean("run"), harness.standard_error(dataset.excess, "run")


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Agreement of predictions, and where a plan's noise is ahead."""
    mean, error = _errors(dataset)
    gap = (mean / dataset.predicted - 1).drop_sel(method=OURS)
    allowed = 2 * _SHARE + _SIGMAS * error / dataset.predicted
    found = [
        Check(
            f"the linear prediction of the rivals is within {2 * _SHARE:.0%} + {_SIGMAS} standard "
            "errors of the simulated mean",
            span(gap, "+.1%"),
            bool((abs(gap) <= allowed).all()),
        ),
    ]
    prefix, poisson = (mean.sel(method=name) for name in ("prefix sums", "Poisson"))
    ratio = (prefix / poisson - 1).sel(epsilon=dataset.epsilon.max())
    found.append(
        Check(
            f"at epsilon {dataset.epsilon.max():g} prefix-sum strategies have less risk than "
            "independent noise",
            span(ratio, "+.1%"),
            bool((ratio < 0).all()),
        )
    )
    return (
        [*found, *_of_plans(dataset)] if dataset.excess.sel(method=OURS).notnull().all() else found
    )


def _of_plans(dataset: xarray.Dataset) -> list[Check]:
    """Claims of the plan's noise."""
    mean, error = _errors(dataset)
    ours, predicted = mean.sel(method=OURS), dataset.predicted.sel(method=OURS)
    gap, best = ours / predicted - 1, mean.drop_sel(method=OURS).min("method")
    lead, spread = ours / best - 1, _SIGMAS * np.hypot(error.sel(method=OURS), error.max("method"))
    found = [
        Check(
            f"the plan's prediction is within {_SHARE:.0%} + {_SIGMAS} standard errors of the "
            "simulated mean in every cell",
            span(gap, "+.1%"),
            bool((abs(gap) <= _SHARE + _SIGMAS * error.sel(method=OURS) / predicted).all()),
        ),
        Check(
            f"no rival has less risk than the plan by {_SIGMAS} standard errors and 2 %",
            f"the plan's risk over the best rival's: {span(lead, '+.1%')}",
            bool((ours - best <= spread + 0.02 * best).all()),
        ),
    ]
    for epochs, goal in _GOALS.items():
        if dataset.attrs["num_private"] == 10_000 and epochs in dataset.epochs.values:
            value = float(ours.sel(epsilon=2, epochs=epochs))
            words = f"at epsilon 2 and {epochs} epochs the plan's risk is at most {goal:g}"
            found.append(Check(words, f"{value:.5f}", value <= goal))
    return found


def plot(dataset: xarray.Dataset) -> Figure:
    """Excess risk against epsilon, a panel for each number of epochs."""
    mean, error = _errors(dataset)
    figure = Figure(figsize=(7.6, 3.5), layout="constrained")
    panels = figure.subplots(1, dataset.sizes["epochs"], sharey=True, squeeze=False)[0]
    for axes, epochs in zip(panels, dataset.epochs.values, strict=True):
        for number, (name, color) in enumerate(_COLORS.items()):
            at = {"epochs": epochs, "method": name}
            places = dataset.epsilon * 1.05 ** (number - 1.5)
            bars = {"marker": "o", "markersize": 4, "linestyle": "none", "capsize": 2}
            axes.errorbar(places, mean.sel(at), 3 * error.sel(at), color=color, label=name, **bars)
            axes.plot(places, dataset.predicted.sel(at), "_", color=color, markersize=10)
        log_ticks(axes, "x", dataset.epsilon.values)
        axes.set(xlabel=r"$\varepsilon$", yscale="log")
        tidy(axes, f"{epochs} epochs")
    panels[0].set_ylabel("excess test risk")
    legend(panels[-1], title="simulated, and predicted (-)", title_fontsize="small")
    return figure


def summary(dataset: xarray.Dataset) -> str:
    """A row for each budget, number of epochs and method."""
    mean, error = _errors(dataset)
    shown = dataset.assign(mean=mean, error=error)
    columns = {
        "epochs": lambda at: at.epochs.item(),
        "ε": lambda at: f"{at.epsilon:g}",
        "method": lambda at: at.method.item(),
        "predicted": lambda at: f"{at.predicted:.5f}",
        "simulated ± standard error": lambda at: f"{at['mean']:.5f} ± {at.error:.5f}",
        "batches, bands": lambda at: f"{at.batches:.0f}, {at.bands:.0f}",
        "rates": lambda at: (
            f"{'to 0' if at.is_linear else 'constant'}, sum {at.time:.0f}, clip {at.clip_norm:.2f}"
        ),
        "multiplier": lambda at: f"{at.multiplier:.3f}",
    }
    text = (
        "Excess test risk over least squares on all digits that are not for tests, "
        f"{dataset.attrs['num_private']:,} private ones, {dataset.attrs['num_features']} principal "
        "components of the public ones, delta 1e-5, zero-out-one. Bands of prefix sums are also "
        "the groups of cyclic Poisson batches; those of BISR are of the inverse. Standard errors "
        f"are over {dataset.sizes['run']} runs on the same rows."
    )
    return f"{text}\n\n{listing(shown, ('epochs', 'epsilon', 'method'), columns)}"


claims = harness.claims_of(checks)
harness.main(__name__)
