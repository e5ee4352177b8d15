r"""Forecasts of private training from public rows, against private training that is simulated.

A new last layer (two groups of classes, logistic loss) on frozen features. Public rows that are
like the private ones predict an accuracy, an interval and settings. Rows of other classes and
rotated rows predict settings alone; the accuracy that they would predict is shown. Settings are
compared with the best of a number of random trials on the private rows, which cost privacy.
"""

import dataclasses
import pathlib
import time
import warnings
from typing import NamedTuple

import jax.random as jr
import numpy as np
import xarray
from matplotlib.figure import Figure

import jaxdp
from experiments import harness
from experiments.forecast.bodies import (
    DIGITS,
    EFFICIENT,
    PHOTOGRAPHS,
    RANDOM,
    SMALL,
    Images,
    Rows,
    body_of,
    features_of,
    images_of,
)
from experiments.harness import Check
from experiments.harness.drawing import BLACK, BLUE, ORANGE, tidy
from experiments.harness.marks import legend
from jaxdp.privacy import PoissonSampler

FOLDERS = {"data": "folder with the folders mnist (IDX files) and cifar10; else they are fetched"}
KINDS = ("alike", "other classes", "rotated")
_COLORS = BLUE, ORANGE, BLACK
# Training share of each kind of rows; the factor around the centre of the random trials.
_SHARE, _RANGE = 0.5, 30.0
_POINTS, _CELLS, _REGRET, _INTERVAL = 0.015, 0.9, 0.005, 0.9


@dataclasses.dataclass(frozen=True)
class Config:
    """Data, bodies, budgets; rows of each kind; the cell of the plan; runs and random trials."""

    datasets: tuple[str, ...] = (DIGITS, PHOTOGRAPHS)
    bodies: tuple[str, ...] = (EFFICIENT, SMALL, RANDOM)
    epsilons: tuple[float, ...] = (0.5, 2.0)
    num_rows: int = 2000
    num_features: int = 64
    body_steps: int = 1000
    delta: float = 1e-5
    num_steps: int = 50
    sampling_rate: float = 0.2
    num_runs: int = 40
    num_trials: int = 40
    seed: int = 37

    smoke = harness.size(
        datasets=(DIGITS,),
        bodies=(RANDOM,),
        epsilons=(2.0,),
        num_rows=200,
        num_features=6,
        num_steps=8,
        num_runs=10,
        num_trials=4,
    )
    paper = harness.size(epsilons=(0.5, 1.0, 2.0, 8.0), num_trials=200)


class Task(NamedTuple):
    """The problems with one body's features on one data set."""

    private: jaxdp.FixedFeatures
    public: dict[str, jaxdp.FixedFeatures]


def run(config: Config, data: pathlib.Path | None = None) -> xarray.Dataset:
    """Forecast and simulate every budget, for every body on every data set."""
    cell = ("dataset", "body", "epsilon")
    axes = {
        "dataset": config.datasets,
        "body": config.bodies,
        "epsilon": config.epsilons,
        "kind": KINDS,
        "run": config.num_runs,
    }
    names = ["told", "low", "high", "best_trial", "trials_epsilon", "leak", "leak_bound"]
    variables = {
        cell: [*names, "forecast_seconds"],
        (*cell, "kind"): ["stand_in"],
        (*cell, "kind", "run"): ["accuracy"],
        ("dataset",): ["num_train"],
    }
    found = harness.empty(axes, variables)
    images = {name: images_of(name, data, config.num_rows) for name in config.datasets}
    key = jr.key(config.seed)
    for body_name in config.bodies:
        body = body_of(body_name, data, config.body_steps, key=key)
        for name in harness.track(config.datasets, f"{{}}, {body_name}".format):
            task = _task(config, body, images[name])
            found.num_train.loc[{"dataset": name}] = task.private.num_train
            for epsilon in config.epsilons:
                where = {"dataset": name, "body": body_name, "epsilon": epsilon}
                for variable, value in _in_cell(config, task, epsilon, key=key).items():
                    found[variable].loc[where] = value
    return harness.in_units(found, forecast_seconds="s")


def _task(config: Config, body, images: Images) -> Task:
    """Features minus the public rows' mean, on their principal directions, of norm about 1."""
    kinds = dict(zip(KINDS, (images.alike, images.other, images.rotated), strict=True))
    sizes = len(images.private.labels)
    kinds = {name: Rows(*(part[:sizes] for part in rows)) for name, rows in kinds.items()}
    raw = {name: features_of(body, rows.images) for name, rows in kinds.items()}
    mean = raw["alike"].mean(axis=0)
    _, _, directions = np.linalg.svd(raw["alike"] - mean, full_matrices=False)
    basis = directions[: config.num_features].T
    basis = basis / np.sqrt(np.mean(np.sum(((raw["alike"] - mean) @ basis) ** 2, axis=1)))
    split = round(_SHARE * sizes)

    def problem(features, labels):
        rows = np.asarray((features - mean) @ basis, np.float32)
        parts = rows[:split], labels[:split], rows[split:], labels[split:]
        # The identity as a body adds the constant column.
        loss = jaxdp.losses.Logistic()
        return jaxdp.FixedFeatures.from_network(lambda row: row, *parts, loss=loss)

    private = problem(features_of(body, images.private.images), images.private.labels)
    return Task(private, {name: problem(raw[name], kinds[name].labels) for name in KINDS})


def _in_cell(config: Config, task: Task, epsilon: float, *, key) -> dict:
    """The forecast from each kind of stand-ins, and the result of private training."""
    size = task.private.num_train
    budget = {"epsilon": epsilon, "delta": config.delta}
    cell = {"num_steps": config.num_steps, "sampling_rate": config.sampling_rate}
    begun = time.perf_counter()
    with warnings.catch_warnings():
        # Warnings on disturbed copies, whose plans may be at the limit of stability.
        warnings.simplefilter("ignore")
        forecast = jaxdp.forecast(task.public["alike"], num_samples=size, **budget, **cell)
    seconds = time.perf_counter() - begun
    stand_in, accuracy = [], []
    for kind, public in task.public.items():
        plan = forecast.plan
        if kind != "alike":
            plan = jaxdp.plan(public, sampler=PoissonSampler, **budget, **cell)
        stand_in.append(float(plan.predicted.observables["accuracy"][-1]))
        accuracy.append(_accuracies(task, plan.algorithm, config.num_runs, key=key))
    told, leak = forecast.accuracy, forecast.leak
    assert told is not None
    assert leak is not None
    planned = forecast.plan.algorithm
    many = planned.replace(num_steps=config.num_trials * config.num_steps)
    return {
        "told": told.mean,
        "low": told.low,
        "high": told.high,
        "leak": leak.auc,
        "leak_bound": leak.bound,
        "forecast_seconds": seconds,
        "stand_in": stand_in,
        "accuracy": np.array(accuracy),
        "best_trial": _best_trial(config, task, planned, key=key),
        "trials_epsilon": float(jaxdp.account(many, delta=config.delta).epsilon),
    }


def _accuracies(task: Task, algorithm, num_runs: int, *, key) -> np.ndarray:
    """Accuracy on the private test rows after each of some runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = jaxdp.simulate(task.private, algorithm, num_runs=num_runs, key=key, records=1)
    return np.asarray(runs.observables["accuracy"][:, -1])


def _best_trial(config: Config, task: Task, planned, *, key) -> float:
    """Mean accuracy of the setting whose single run was the best of all trials."""
    trials_key, again = jr.split(jr.fold_in(key, 1))
    scale = np.log(_RANGE) * np.random.default_rng(config.seed).uniform(
        -1, 1, (2, config.num_trials)
    )
    # Norms of features are about 1, those of gradients at most that: clips from 0.01 to 11.
    rates, clips = 3.0 * np.exp(scale[0]), np.exp(scale[1] - 1)
    trials = [
        planned.replace(learning_rate=float(rate), clip_norm=float(clip))
        for rate, clip in zip(rates, clips, strict=True)
    ]
    keys = jr.split(trials_key, len(trials))
    scores = [_accuracies(task, one, 1, key=key)[0] for one, key in zip(trials, keys, strict=True)]
    best = trials[int(np.nanargmax(scores))]
    return float(_accuracies(task, best, config.num_runs, key=again).mean())


def checks(dataset: xarray.Dataset) -> list[Check]:
    """The goals for accuracies, intervals and settings."""
    runs = dataset.accuracy.sel(kind="alike")
    gap = abs(dataset.told - runs.mean("run"))
    near = float((gap <= _POINTS).mean())
    inside = float(((runs > dataset.low) & (runs < dataset.high)).mean())
    regret = _regret(dataset)
    own = abs(dataset.stand_in - dataset.accuracy.mean("run")).max(("dataset", "body", "epsilon"))
    worst = {kind: float(regret.sel(kind=kind).max()) for kind in KINDS}
    usual = {kind: float(regret.sel(kind=kind).mean()) for kind in KINDS}
    far = ", ".join(f"{kind} {float(own.sel(kind=kind)):.3f}" for kind in KINDS[1:])
    return [
        Check(
            f"the accuracy predicted from alike rows is within {_POINTS:g} of the mean of private "
            f"runs in {_CELLS:.0%} of the cells",
            f"in {near:.0%} of {gap.size}, at most {float(gap.max()):.4f} off; unlike stand-ins "
            f"would have been off by up to: {far}",
            near >= _CELLS,
        ),
        Check(
            "the interval for nine runs in ten contains at least nine of ten runs, over all cells",
            f"{inside:.0%}; half widths {harness.span((dataset.high - dataset.low) / 2, '.3f')}",
            inside >= _INTERVAL,
        ),
        *(
            Check(
                f"settings planned on stand-ins ({kind}) lose at most {_REGRET:g} of accuracy "
                "against the best of all random trials, in every cell",
                f"at most {worst[kind]:+.4f}, in the mean {usual[kind]:+.4f}",
                worst[kind] <= _REGRET,
            )
            for kind in KINDS
        ),
    ]


def _regret(dataset: xarray.Dataset) -> xarray.DataArray:
    return dataset.best_trial - dataset.accuracy.mean("run")


def plot(dataset: xarray.Dataset) -> Figure:
    """Predicted accuracy with its interval, and simulated accuracy; a panel for each data set."""
    names, budgets = dataset.dataset.values, dataset.epsilon.values
    figure = Figure(figsize=(3.3 * max(len(names), 2), 3.6), layout="constrained")
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    # Each body has its budgets side by side, with predictions left of simulations.
    starts = np.arange(len(dataset.body)) * (len(budgets) + 0.6)
    where = starts[:, None] + np.arange(len(budgets))
    for axes, name in zip(panels, names, strict=True):
        for body, places, color in zip(dataset.body, where, _COLORS, strict=False):
            at = dataset.sel(dataset=name, body=body)
            bars = [at.told - at.low, at.high - at.told]
            style = {"linestyle": "none", "color": color, "markersize": 5}
            bar = {
                "marker": "_",
                "capsize": 2.5,
                "elinewidth": 1,
                "label": f"{body.item()}: predicted",
            }
            axes.errorbar(places - 0.12, at.told, bars, **style | bar)
            axes.plot(places + 0.12, at.accuracy.sel(kind="alike").mean("run"), "o", **style)
            for kind, marker in zip(KINDS[1:], "x^", strict=True):
                axes.plot(places + 0.36, at.stand_in.sel(kind=kind), marker, **style, alpha=0.5)
        axes.set_xticks(where.ravel(), [f"{value:g}" for value in budgets] * len(where))
        axes.set_xlabel(r"$\varepsilon$")
        tidy(axes, f"{name}, $n$ = {int(dataset.num_train.sel(dataset=name))}")
    panels[0].set_ylabel("accuracy")
    signs = {"o": "simulated", "x": "predicted by other classes", "^": "predicted by rotated rows"}
    for marker, label in signs.items():
        panels[0].plot([], [], marker, color="0.4", label=label, linestyle="none")
    handles, _ = panels[0].get_legend_handles_labels()
    legend(figure, handles=handles, loc="outside lower center", ncols=3)
    return figure


def summary(dataset: xarray.Dataset) -> str:
    """The setting, and a row for every cell."""
    rows = []
    for place in np.ndindex(dataset.told.shape):
        at = dataset.isel(dict(zip(dataset.told.dims, place, strict=True)))
        mean, regret = at.accuracy.mean("run").values, _regret(at).values
        deviation = float(at.accuracy.sel(kind="alike").std("run", ddof=1))
        own = zip(at.stand_in.values[1:], mean[1:], strict=True)
        rows.append(
            [
                *(at.dataset.item(), at.body.item(), f"{at.epsilon:g}"),
                f"{at.told:.3f} [{at.low:.3f}, {at.high:.3f}]",
                f"{mean[0]:.3f} ± {deviation:.3f}",
                *(f"{told:.3f} / {found:.3f}" for told, found in own),
                f"{at.best_trial:.3f} ({at.trials_epsilon:.1f})",
                *(f"{lost:+.4f}" for lost in regret),
                f"{at.leak:.3f} ({at.leak_bound:.3f})",
            ]
        )
    head = ["data", "body", "ε", "predicted [interval]", "simulated ± deviation of a run"]
    head += [f"{kind}: predicted / simulated" for kind in KINDS[1:]]
    head += ["best trial (ε of all trials)", *(f"regret, {kind}" for kind in KINDS), "leak (bound)"]
    return f"{_setting(dataset)}\n\n{harness.table(head, rows)}"


def _setting(dataset: xarray.Dataset) -> str:
    seconds = float(dataset.forecast_seconds.mean())
    return (
        "A linear head on frozen features, two groups of classes: digits 6, 8 against 5, 7, 9; "
        "vehicles against animals. EfficientNet-Lite0 has the weights of ImageNet and sees images "
        "of 64 x 64; the small CNN was trained on digits 0 to 4; random convolutions are the CNN's "
        "initial weights. The mean of the alike public rows is subtracted from features, which are "
        "projected on their principal directions. Stand-ins: disjoint rows of the same classes "
        "(alike); digits 0 to 4, or for photographs digits 5 to 9 (other classes); alike rows "
        "rotated by 90 degrees (rotated). Half of the rows are for training, half for the test; "
        f"the simulated accuracy is of {dataset.sizes['run']} runs with the predicted settings. "
        "Random trials: rates and clips log-uniform within a factor of 30, each run once on the "
        "private rows; the best is chosen on the private test rows, and its accuracy is that of "
        "new runs. The ε of all trials is that of their composition. With 250 test photographs, "
        "accuracies have standard errors of 0.03. The larger group has a share of 0.54 of the "
        "private photographs and of 0.63 of the public ones. "
        f"A forecast took {seconds:.0f} s, in the mean, with other programs running."
    )


claims = harness.claims_of(checks)
harness.main(__name__)
