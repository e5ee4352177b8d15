r"""A plan's noise beside prefix-sum strategies, BISR and Poisson batches, on one real head.

Ten outputs learn digits from principal components by least squares on one-hot labels; gradients are
clipped on their joint norm. A plan has the settings that `jaxdp.plan` finds. A rival has those of
the least linear prediction on one grid of batches, rates, clip norms and bands. No choice is
accounted for. All are simulated with these settings.
"""

import dataclasses
import pathlib

import jax.random as jr
import numpy as np
import optax
import xarray
from matplotlib.figure import Figure

import jaxdp
from experiments import harness
from experiments.everyday_dp_sgd.frozen_features import FOLDERS as FOLDERS
from experiments.everyday_dp_sgd.noise_over_steps_rivals import problem_of, simulate, tuned
from experiments.harness import Check
from experiments.harness.drawing import BLUE, GREEN, GREY, ORANGE, tidy
from experiments.harness.marks import legend, log_ticks
from experiments.harness.verdicts import listing, span
from experiments.tables import read_digits

_COLORS = {"plan": BLUE, "prefix sums": ORANGE, "BISR": GREEN, "Poisson": GREY}
_OURS, *_RIVALS = _COLORS
_SHARE, _COARSE, _TIE, _SIGMAS = 0.05, 0.12, 0.02, 3
# Excess risks that a plan must not exceed at epsilon 2, by number of epochs.
_GOALS = {2: 0.0061, 8: 0.0048}


@dataclasses.dataclass(frozen=True)
class Config:
    """Rows, budgets, and what is tried: a total rate is the sum of a run's rates.

    A plan tries the numbers of batches with rates that fall to 0, and searches for the rest.
    """

    num_private: int = 10_000
    num_features: int = 64
    epsilons: tuple[float, ...] = (0.5, 2.0, 8.0)
    delta: float = 1e-5
    epochs: tuple[int, ...] = (2, 8)
    batches: tuple[int, ...] = (16, 64)
    most_steps: int = 128
    falling: tuple[bool, ...] = (True, False)
    total_rates: tuple[float, ...] = (95.0, 165.0, 290.0, 510.0, 890.0)
    clip_norms: tuple[float, ...] = (0.35, 0.5, 0.73, 1.0, 1.4)
    bands: tuple[int, ...] = (2, 4, 8, 16, 32, 64)
    num_runs: int = 50
    seed: int = 23

    def batches_of(self, epochs: int) -> list[int]:
        """The numbers of batches in an epoch that do not make more steps than are tried."""
        return [one for one in self.batches if epochs * one <= self.most_steps]

    smoke = harness.size(
        num_private=1000,
        num_features=16,
        epsilons=(0.5, 1.0),
        epochs=(2,),
        batches=(4,),
        falling=(True,),
        total_rates=(10.0, 20.0),
        clip_norms=(0.4, 0.7),
        bands=(2, 4),
        num_runs=20,
    )


def run(config: Config, data: pathlib.Path | None = None) -> xarray.Dataset:
    """Tune and simulate every method at every budget and number of epochs."""
    problem, least = problem_of(read_digits(data), config.num_private, config.num_features)
    settings = "total_rate", "is_falling", "clip_norm", "batches", "bands", "multiplier"
    axes = {"epochs": config.epochs, "epsilon": config.epsilons, "noise": list(_COLORS)}
    found = harness.empty(
        axes | {"run": config.num_runs},
        {tuple(axes): ["predicted", *settings], (*axes, "run"): ["excess"]},
        {"num_private": config.num_private, "num_features": config.num_features},
    )
    for place, epochs in enumerate(harness.track(config.epochs, "{} epochs".format)):
        first, *rest = jr.split(jr.fold_in(jr.key(config.seed), place), 1 + len(config.epsilons))
        best = tuned(problem, config, epochs, _RIVALS, key=first)
        for epsilon, key in zip(config.epsilons, rest, strict=True):
            keys = jr.split(key, len(_COLORS))
            plan = _planned(problem, config, epsilon, epochs)
            runs = jaxdp.simulate(
                problem, plan.algorithm, num_runs=config.num_runs, key=keys[0], records=1
            )
            at = {"epochs": epochs, "epsilon": epsilon, "noise": _OURS}
            found.excess.loc[at] = runs.final_risk - least
            found.predicted.loc[at] = plan.predicted.final_risk - least
            found.clip_norm.loc[at] = plan.chosen.clip_norm
            found.batches.loc[at] = 1 / plan.chosen.sampling_rate
            noise = plan.algorithm.noise
            found.bands.loc[at] = 1 if noise is None else noise.num_bands
            found.multiplier.loc[at] = plan.chosen.noise_multiplier
            for name, rival_key in zip(_RIVALS, keys[1:], strict=True):
                at["noise"], one = name, best[epsilon, name]
                noise = one.method, one.settings["multiplier"]
                _, risks = simulate(problem, [one.run] * config.num_runs, *noise, key=rival_key)
                found.excess.loc[at] = risks - least
                found.predicted.loc[at] = one.predicted - least
                for setting in settings:
                    found[setting].loc[at] = one.settings[setting]
    return found


def _planned(problem, config: Config, epsilon: float, epochs: int):
    """The plan of least predicted risk, with rates that fall to 0."""
    plans = []
    for batches in config.batches_of(epochs):
        steps = epochs * batches

        def falling(rate, steps=steps):
            return optax.sgd(optax.linear_schedule(rate, 0.0, steps))

        given = {"num_steps": steps, "sampling_rate": 1 / batches, "optimiser": falling}
        budget = {"epsilon": epsilon, "delta": config.delta}
        plans.append(jaxdp.plan(problem, **budget, **given, noise="correlated"))
    return min(plans, key=lambda plan: float(plan.predicted.final_risk))


def _errors(dataset: xarray.Dataset) -> tuple[xarray.DataArray, xarray.DataArray]:
    return dataset.excess.mean("run"), harness.standard_error(dataset.excess, "run")


def checks(dataset: xarray.Dataset) -> list[Check]:
    """Agreement of predictions, and the plan beside its rivals."""
    mean, error = _errors(dataset)
    gap, spread = mean / dataset.predicted - 1, _SIGMAS * error / dataset.predicted
    ours, rivals = mean.sel(noise=_OURS), mean.drop_sel(noise=_OURS)
    lead = ours / rivals.min("noise") - 1
    least = _TIE + 2 * _SIGMAS * error.max("noise") / rivals.min("noise")
    prefix = rivals.sel(noise="prefix sums") / rivals.sel(noise="Poisson") - 1
    prefix = prefix.sel(epsilon=dataset.epsilon.max())
    found = [
        Check(
            f"{words} within {share:.0%} + {_SIGMAS} standard errors of the simulated mean in "
            "every cell",
            span(gap.sel(noise=names), "+.1%"),
            bool((abs(gap) - spread).sel(noise=names).max() <= share),
        )
        for words, share, names in (
            ("the plan's prediction is", _SHARE, [_OURS]),
            ("the rivals' linear predictions are", _COARSE, _RIVALS),
        )
    ]
    found += [
        Check(
            f"the plan's risk exceeds the best rival's nowhere by more than {_TIE:.0%} + "
            f"{2 * _SIGMAS} standard errors",
            span(lead, "+.1%"),
            bool((lead <= least).all()),
        ),
        Check(
            f"at epsilon {dataset.epsilon.max():g} the noise of prefix sums has less risk than "
            "Poisson batches",
            span(prefix, "+.1%"),
            bool((prefix < 0).all()),
        ),
    ]
    for epochs, goal in _GOALS.items():
        if dataset.attrs["num_private"] == Config.num_private and epochs in dataset.epochs.values:
            risk = float(ours.sel(epsilon=2, epochs=epochs))
            words = f"at epsilon 2 the plan of {epochs} epochs has a risk of at most {goal:g}"
            found.append(Check(words, f"{risk:.5f}", risk <= goal))
    return found


def plot(dataset: xarray.Dataset) -> Figure:
    """Excess risk against epsilon, a panel for each number of epochs."""
    mean, error = _errors(dataset)
    figure = Figure(figsize=(7.6, 3.5), layout="constrained")
    panels = figure.subplots(1, dataset.sizes["epochs"], sharey=True, squeeze=False)[0]
    for axes, epochs in zip(panels, dataset.epochs.values, strict=True):
        for number, (name, color) in enumerate(_COLORS.items()):
            at = {"epochs": epochs, "noise": name}
            places = dataset.epsilon * 1.06 ** (number - 1.5)
            style = {"fmt": "o", "markersize": 4, "capsize": 2, "color": color, "label": name}
            axes.errorbar(places, mean.sel(at), _SIGMAS * error.sel(at), **style)
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
    shown = dataset.assign(average=mean, error=error)

    def rates(at):
        if not np.isfinite(at.total_rate):
            return "falling"
        return f"{'falling' if at.is_falling else 'constant'}, sum {at.total_rate:.0f}"

    columns = {
        "epochs": lambda at: at.epochs.item(),
        "ε": lambda at: f"{at.epsilon:g}",
        "noise": lambda at: at.noise.item(),
        "predicted": lambda at: f"{at.predicted:.5f}",
        "simulated ± standard error": lambda at: f"{at.average:.5f} ± {at.error:.5f}",
        "batches": lambda at: f"{at.batches:.0f}",
        "bands": lambda at: f"{at.bands:.0f}",
        "rates": rates,
        "clip": lambda at: f"{at.clip_norm:.3g}",
        "multiplier": lambda at: f"{at.multiplier:.3f}",
    }
    text = (
        "Excess test risk over least squares on all digits that are not for tests: "
        f"{dataset.attrs['num_private']:,} private ones, {dataset.attrs['num_features']} principal "
        "components of the public ones, delta 1e-5, zero-out-one. Bands of prefix sums are also "
        "the groups of cyclic Poisson batches; those of BISR are of the inverse. Standard errors "
        f"are over {dataset.sizes['run']} runs on the same rows."
    )
    return f"{text}\n\n{listing(shown, ('epochs', 'epsilon', 'noise'), columns)}"


claims = harness.claims_of(checks)
harness.main(__name__)
