r"""The effect of batch size, number of steps and clip norm at one epsilon, by predictions alone.

Predicted accuracy of DP-SGD on the last layer of a pretrained body, over the sampling rate q, the
number of steps T and the clip norm C, each with the best of a few learning rates. The noise is
calibrated to epsilon at every (q, T). The picture needs no runs; some are made to check it.
"""

import dataclasses
import itertools
import pathlib

import jax.random as jr
import numpy as np
import optax
import xarray
from matplotlib.figure import Figure

import jaxdp
from experiments import harness
from experiments.everyday_dp_sgd.frozen_features import FOLDERS as FOLDERS
from experiments.everyday_dp_sgd.frozen_features import Body, pretrained, private_problem
from experiments.harness import Check
from experiments.harness.drawing import BLUE, GREEN, ORANGE, tidy
from experiments.harness.marks import legend, log_ticks, means
from experiments.harness.verdicts import listing, span, within
from experiments.tables import read_digits
from jaxdp.core.keys import numbered_key
from jaxdp.privacy import PoissonSampler
from jaxdp.privacy.calibration import calibrated_noise_multiplier

_THEORY = jaxdp.GaussianClosure(rank=0)
_COLORS = BLUE, GREEN, ORANGE
_MARKERS = "os^"
_BODY = Body()

_ACCURACY, _SIGMAS = 0.01, 3


@dataclasses.dataclass(frozen=True)
class Config:
    """The grid; learning rates stay below the limit of stability of these features."""

    num_train: int = 1000
    num_public: int = 30_000
    body: Body = _BODY
    epsilon: float = 0.3
    delta: float = 1e-5
    sampling_rates: tuple[float, ...] = (0.01, 0.05, 0.25)
    num_steps: tuple[int, ...] = (10, 30, 100, 300)
    clip_norms: tuple[float, ...] = (0.06, 0.25, 1.0)
    learning_rates: tuple[float, ...] = (0.25, 1.0, 4.0, 16.0)
    num_runs: int = 20
    seed: int = 17

    smoke = harness.size(
        num_train=300,
        num_public=600,
        body=Body(width=16, num_steps=60),
        sampling_rates=(0.05, 0.25),
        num_steps=(10, 30),
        clip_norms=(0.25, 1.0),
        learning_rates=(1.0, 4.0),
        epsilon=1.0,
    )


def run(config: Config, data: pathlib.Path | None = None) -> xarray.Dataset:
    """Predict every cell, and simulate the best clip norm and rate of every (q, T)."""
    mnist = read_digits(data)
    key = jr.key(config.seed)
    features = pretrained(mnist, config.num_public, config.body, key=key)
    problem = private_problem(mnist, features, config.num_public, config.num_train)
    axes = {
        "sampling_rate": config.sampling_rates,
        "num_steps": config.num_steps,
        "clip_norm": config.clip_norms,
        "learning_rate": config.learning_rates,
    }
    pair = "sampling_rate", "num_steps"
    dataset = harness.empty(
        axes | {"run": config.num_runs},
        {tuple(axes): ["predicted"], pair: ["noise_multiplier"], (*pair, "run"): ["accuracy"]},
        {"epsilon": config.epsilon, "num_train": config.num_train},
    )
    places = list(np.ndindex(dataset.noise_multiplier.shape))
    name = "place {0[0]}, {0[1]}".format
    for number, at in enumerate(harness.track(places, name)):
        rate, steps = config.sampling_rates[at[0]], config.num_steps[at[1]]
        sampler = PoissonSampler(config.num_train, rate)
        multiplier = calibrated_noise_multiplier(
            config.epsilon, config.delta, sampler=sampler, num_steps=steps
        )
        dataset.noise_multiplier[at] = multiplier
        given = {"noise_multiplier": multiplier, "num_steps": steps, "sampler": sampler}
        algorithms = [
            jaxdp.PrivateOptimiser(optax.sgd, learning_rate=step, clip_norm=clip_norm, **given)
            for clip_norm, step in itertools.product(config.clip_norms, config.learning_rates)
        ]
        predicted = [jaxdp.predict(problem, one, theory=_THEORY, records=1) for one in algorithms]
        found = [float(one.observables["accuracy"][-1]) for one in predicted]
        dataset.predicted[at] = np.reshape(found, dataset.predicted.shape[2:])
        best, run_key = algorithms[int(np.argmax(found))], numbered_key(key, number)
        given = {"num_runs": config.num_runs, "simulator": jaxdp.FunctionSpace(), "records": 1}
        runs = jaxdp.simulate(problem, best, key=run_key, **given)
        dataset.accuracy[at] = runs.observables["accuracy"][:, -1]
    return dataset


def plot(dataset: xarray.Dataset) -> Figure:
    """Accuracy against the number of steps: a panel for each batch size, a line for each clip."""
    rates, steps = dataset.sampling_rate.values, dataset.num_steps.values
    figure = Figure(figsize=(2.9 * len(rates) + 0.5, 3.5), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(rates), sharey=True))
    best = dataset.predicted.max("learning_rate")
    for axes, rate in zip(panels, rates, strict=True):
        for clip_norm, color, marker in zip(best.clip_norm.values, _COLORS, _MARKERS, strict=False):
            line = best.sel(sampling_rate=rate, clip_norm=clip_norm)
            style = {"color": color, "marker": marker, "markersize": 4, "linewidth": 1.2}
            axes.plot(steps, line, label=f"$C$ = {clip_norm:g}", **style)
        style = {"color": "k", "linestyle": "none", "elinewidth": 1, "marker": "x"}
        style |= {"capsize": 3, "markersize": 5, "label": "simulated, ± 3 s.e."}
        means(axes, steps, dataset.accuracy.sel(sampling_rate=rate), "run", sigmas=3, **style)
        log_ticks(axes, "x", steps)
        axes.minorticks_off()
        axes.set_xlabel("steps $T$")
        tidy(axes, f"{rate * dataset.attrs['num_train']:g} records a batch")
    panels[0].set_ylabel("test accuracy")
    legend(panels[0])
    return figure


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Agreement with simulations, and the effect of each hyper-parameter."""
    best = dataset.predicted.max(("clip_norm", "learning_rate"))
    apart = abs(best - dataset.accuracy.mean("run"))
    by_steps = (best.max("num_steps") - best.min("num_steps")).values
    behind = best - dataset.predicted.max("learning_rate")
    large, others = behind.isel(clip_norm=-1), behind.isel(clip_norm=slice(None, -1))
    gain = best.max("num_steps").diff("sampling_rate")
    return [
        within(
            f"the best predicted accuracy of every batch size and T is within {_ACCURACY} + "
            f"{_SIGMAS} standard errors of the simulated mean",
            apart,
            _ACCURACY + _SIGMAS * harness.standard_error(dataset.accuracy, "run"),
            f"at most {float(apart.max()):.4f} apart, ",
        ),
        Check(
            "larger batches are better at their best T, C and learning rate",
            f"by {float(gain.min()):.3f} at least from one size to the next",
            bool((gain > 0).all()),
        ),
        Check(
            "with the fewest records per batch the number of steps matters, with the most hardly: "
            "accuracy spreads over T more than twice as far",
            f"by {by_steps[0]:.3f} and by {by_steps[-1]:.3f}",
            bool(by_steps[0] > 2 * by_steps[-1]),
        ),
        Check(
            "the largest clip norm is the worst at every batch size and T, each clip norm with its "
            "best learning rate",
            f"below the best by {span(large)}, the others by at most {float(others.max()):.3f}",
            bool((large > others.max("clip_norm")).all()),
        ),
    ]


def summary(dataset: xarray.Dataset) -> str:
    """The best cells, predicted and simulated."""
    count = dataset.attrs["num_train"]

    def best(at):
        return at.predicted.isel(at.predicted.argmax(("clip_norm", "learning_rate")))

    columns = {
        "records a batch": lambda at: f"{at.sampling_rate.item() * count:g}",
        "T": lambda at: at.num_steps.item(),
        "noise multiplier": lambda at: f"{at.noise_multiplier:.3g}",
        "best C": lambda at: f"{best(at).clip_norm:g}",
        "best rate": lambda at: f"{best(at).learning_rate:g}",
        "accuracy, predicted / simulated": lambda at: (
            f"{best(at):.4f} / {at.accuracy.mean():.4f} ± "
            f"{harness.standard_error(at.accuracy, 'run'):.4f}"
        ),
    }
    text = (
        f"A pretrained body, n = {count:,}, ε = {dataset.attrs['epsilon']:g}. "
        "The best cells have the highest predicted accuracy on the test digits, which serve as "
        "validation rows here; this choice is not accounted for."
    )
    return f"{text}\n\n{listing(dataset, ('sampling_rate', 'num_steps'), columns)}"


claims = harness.claims_of(checks)
harness.main(__name__)
