"""`jaxdp.plan` against random search by single runs, at one budget (epsilon, delta).

A random search draws cells, learning rates and clip norms, trains once with each, and keeps the
best on the validation rows. It reports the least of many noisy numbers, which is too low: the
winner's curse. A plan minimises the same rows' predicted loss, which has no noise. Both are
measured by many new runs: on the validation rows, to judge the reported numbers, and on rows that
neither saw. The time of a plan is also measured for a softmax head, on many rows.
"""

import dataclasses
import time

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import xarray
from matplotlib.figure import Figure

import jaxdp
from experiments import harness
from experiments.harness import Check, drawing, listed, standard_error
from jaxdp.privacy import PoissonSampler, calibrated_noise_multiplier

# Ranges, over the limit of gradient descent and over the median norm of a gradient at the start.
_RATES, _CLIP_NORMS = (10**-2.5, 1.0), (10**-2, 10**0.5)
# Runs at once, limited by memory.
_BATCH = 50
# The largest loss that the picture shows, over the loss of the plan.
_TOP = 1.5
_GAP, _ERRORS = 0.02, 3.0
# For the plan of the softmax head, on one processor.
_HEAD_SECONDS = 60


@dataclasses.dataclass(frozen=True)
class Config:
    """Rows with cosine features and noisy labels that are a smooth function; and the searches."""

    num_train: int = 500
    num_validation: int = 250
    num_fresh: int = 2000
    dim: int = 4
    num_features: int = 100
    label_noise: float = 0.3
    epsilon: float = 2.0
    delta: float = 1e-5
    num_steps: tuple[int, ...] = (25, 100)
    sampling_rates: tuple[float, ...] = (0.05, 0.2, 1.0)
    searches: tuple[int, ...] = (30, 100, 500)
    repeats: int = 30
    num_runs: int = 200
    # Rows, features and classes of the softmax head, and its numbers of steps.
    head: tuple[int, int, int] = (10_000, 64, 10)
    head_steps: tuple[int, ...] = (25, 100, 400)

    smoke = harness.size(
        num_train=60,
        num_validation=40,
        num_fresh=100,
        num_features=20,
        epsilon=8.0,
        num_steps=(10,),
        sampling_rates=(0.5, 1.0),
        searches=(10, 20),
        repeats=3,
        num_runs=20,
        head=(60, 5, 3),
        head_steps=(5, 10),
    )


@dataclasses.dataclass(frozen=True)
class _Trials:
    """Settings that were tried, and the validation loss of one run with each."""

    cells: np.ndarray
    rates: np.ndarray
    clip_norms: np.ndarray
    losses: np.ndarray


def run(config: Config) -> xarray.Dataset:
    """Losses that the searches and the plan report, the losses of new runs, and the time."""
    problem, fresh = _problems(config)
    started = time.perf_counter()
    plan = jaxdp.plan(
        problem,
        epsilon=config.epsilon,
        delta=config.delta,
        num_steps=config.num_steps,
        sampling_rate=config.sampling_rates,
    )
    plan_seconds = time.perf_counter() - started
    head_seconds, head_processor_seconds = _head_seconds(config)
    searched = _Search(config, problem)
    started = time.perf_counter()
    searched.trials(jr.key(1), len(searched.cells))
    compile_seconds = time.perf_counter() - started
    started = time.perf_counter()
    trials = searched.trials(jr.key(2), config.repeats * max(config.searches))
    run_seconds = (time.perf_counter() - started) / len(trials.losses)
    shape = len(config.searches), config.repeats
    found = {name: np.empty(shape) for name in ("reported", "validation", "fresh", "cell")}
    for repeat in harness.track(range(config.repeats), lambda repeat: f"search {repeat}"):
        first = repeat * max(config.searches)
        for row, count in enumerate(config.searches):
            best = first + int(np.argmin(trials.losses[first : first + count]))
            algorithm = searched.algorithm(trials, best)
            measured = _measured(config, problem, fresh, algorithm, jr.key(3 + repeat))
            found["reported"][row, repeat] = trials.losses[best]
            found["validation"][row, repeat], found["fresh"][row, repeat] = measured.mean(axis=1)
            found["cell"][row, repeat] = trials.cells[best]
    planned = _measured(config, problem, fresh, plan.algorithm, jr.key(0))
    errors = harness.over_runs(planned.T)["standard_error"]
    single = {
        "predicted": float(plan.predicted.final_risk),
        "planned_validation": planned[0].mean(),
        "planned_validation_error": errors[0],
        "planned_fresh": planned[1].mean(),
        "planned_fresh_error": errors[1],
        "plan_seconds": plan_seconds,
        "head_seconds": head_seconds,
        "head_processor_seconds": head_processor_seconds,
        "start_seconds": searched.calibration_seconds + compile_seconds,
        "run_seconds": run_seconds,
    }
    cells = {
        f"cell_{name}": [getattr(cell, name) for cell in plan.table]
        for name in ("num_steps", "sampling_rate", "learning_rate", "clip_norm", "risk")
    }
    facts = {
        "num_train": config.num_train,
        "epsilon": config.epsilon,
        "delta": config.delta,
        "num_runs": config.num_runs,
        "chosen": plan.table.index(plan.chosen),
        "adjacency": plan.adjacency,
        "head": config.head,
        "head_cells": len(config.head_steps) * len(config.sampling_rates),
    }
    dataset = harness.dataset(
        {"search": config.searches, "repeat": range(config.repeats)},
        {("search", "repeat"): found, (): single, "place": cells},
        facts,
    )
    seconds = "plan_seconds", "start_seconds", "run_seconds"
    seconds += "head_seconds", "head_processor_seconds"
    return harness.in_units(dataset, **dict.fromkeys(seconds, "s"))


def _head_seconds(config: Config) -> tuple[float, float]:
    """Seconds, and seconds of a processor, of a softmax head's plan, compilation included."""
    rows, features, classes = config.head
    rng = np.random.default_rng(1)
    count = rows + config.num_fresh
    labels = rng.integers(0, classes, count)
    centres = 0.35 * rng.standard_normal((classes, features))
    # Non-negative features of falling size, as a network has.
    sizes = 1 / np.sqrt(1 + np.arange(features) / 8)
    inputs = np.maximum(sizes * (centres[labels] + rng.standard_normal((count, features))), 0)
    inputs /= np.sqrt(np.mean(np.sum(inputs**2, axis=1)))
    parts = inputs[:rows], labels[:rows], inputs[rows:], labels[rows:]
    head = jaxdp.FixedFeatures.from_arrays(*parts, loss=jaxdp.losses.Softmax(classes))
    cells = {"num_steps": config.head_steps, "sampling_rate": config.sampling_rates}
    started = time.perf_counter(), time.process_time()
    jaxdp.plan(head, epsilon=config.epsilon, delta=config.delta, **cells)
    return time.perf_counter() - started[0], time.process_time() - started[1]


def _problems(config: Config) -> tuple[jaxdp.FixedFeatures, jaxdp.FixedFeatures]:
    """The rows with validation rows, and the same training rows with fresh ones."""
    rng = np.random.default_rng(0)
    count = config.num_train + config.num_validation + config.num_fresh
    inputs = rng.standard_normal((count, config.dim))
    weights = rng.standard_normal((config.num_features, config.dim)) / config.dim**0.5
    phases = rng.uniform(0, 2 * np.pi, config.num_features)
    features = np.sqrt(2 / config.num_features) * np.cos(inputs @ weights.T + phases)
    hidden = rng.standard_normal((5, config.dim))
    signal = np.tanh(inputs @ hidden.T / config.dim**0.5) @ rng.standard_normal(5)
    labels = signal / signal.std() + config.label_noise * rng.standard_normal(count)
    train, last = slice(0, config.num_train), config.num_train + config.num_validation

    def problem(on):
        rows = features[train], labels[train], features[on], labels[on]
        return jaxdp.FixedFeatures.from_arrays(*rows)

    return problem(slice(config.num_train, last)), problem(slice(last, None))


class _Search:
    """Random settings in the cells of a plan, each with the noise of the budget."""

    def __init__(self, config: Config, problem: jaxdp.FixedFeatures):
        self.problem = problem
        places = [(steps, rate) for steps in config.num_steps for rate in config.sampling_rates]
        started = time.perf_counter()
        self.cells = [self._cell(config, *place) for place in places]
        self.calibration_seconds = time.perf_counter() - started
        self.limit = problem.reduced().stability_limit()
        gradients = 2 * jnp.abs(problem.train_labels) * problem.reduced().feature_norms()
        self.norm = float(jnp.median(gradients))
        self.losses = [self._compiled(cell) for cell in self.cells]

    def _cell(self, config, steps, rate):
        sampler = PoissonSampler(config.num_train, rate)
        noise = calibrated_noise_multiplier(
            config.epsilon, config.delta, sampler=sampler, num_steps=steps
        )
        arguments = {"noise_multiplier": noise, "num_steps": steps, "sampler": sampler}

        def make(learning_rate, clip_norm):
            given = {"learning_rate": learning_rate, "clip_norm": clip_norm}
            return jaxdp.PrivateOptimiser(optax.sgd, **given, **arguments)

        return make

    def _compiled(self, make):
        def one(learning_rate, clip_norm, key):
            runs = jaxdp.simulate(self.problem, make(learning_rate, clip_norm), key=key, records=1)
            return runs.final_risk[0]

        return jax.jit(jax.vmap(one))

    def algorithm(self, trials: _Trials, place: int) -> jaxdp.PrivateOptimiser:
        """The algorithm of one trial."""
        numbers = float(trials.rates[place]), float(trials.clip_norms[place])
        return self.cells[int(trials.cells[place])](*numbers)

    def trials(self, key, count: int) -> _Trials:
        """`count` settings, drawn at random, and one run with each."""
        rng = np.random.default_rng(np.asarray(jr.key_data(key)).tolist())
        cells = rng.permutation(np.arange(count) % len(self.cells))
        rates, clip_norms = (
            scale * np.exp(rng.uniform(np.log(low), np.log(high), count))
            for scale, (low, high) in ((self.limit, _RATES), (self.norm, _CLIP_NORMS))
        )
        losses = np.empty(count)
        for number, compiled in enumerate(self.losses):
            (places,) = np.nonzero(cells == number)
            keys = jr.split(jr.fold_in(key, number), len(places))
            for start in range(0, len(places), _BATCH):
                here = places[start : start + _BATCH]
                # Of one shape, so that one program runs them all.
                index = np.resize(np.arange(len(here)), _BATCH)
                given = (jnp.asarray(part[here][index]) for part in (rates, clip_norms))
                found = compiled(*given, keys[start : start + _BATCH][index])
                losses[here] = np.asarray(found)[: len(here)]
        # Nobody would keep a run that diverged.
        return _Trials(cells, rates, clip_norms, np.where(np.isfinite(losses), losses, np.inf))


def _measured(config, problem, fresh, algorithm, key) -> np.ndarray:
    """Losses of new runs, on the validation rows and on the fresh ones: (2, runs)."""
    options = {"num_runs": config.num_runs, "key": key, "records": 1}
    runs = (jaxdp.simulate(rows, algorithm, **options) for rows in (problem, fresh))
    return np.stack([np.asarray(one.final_risk, np.float64) for one in runs])


def plot(dataset: xarray.Dataset) -> Figure:
    """Reported losses and those of new runs, against the runs of a search; and the time.

    Triangles at the upper edge mark searches that lie beyond it.
    """
    figure = Figure(figsize=(7.6, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    places = np.arange(dataset.sizes["search"])
    looks = (
        ("reported", "predicted", "reported: best single run, or predicted", drawing.ORANGE, "o"),
        ("validation", "planned_validation", "new runs, validation rows", drawing.SKY, "s"),
        ("fresh", "planned_fresh", "new runs, rows that nobody saw", drawing.BLUE, "D"),
    )
    top, end = _TOP * float(dataset.planned_fresh), len(places)
    for (name, planned, label, color, marker), shift in zip(looks, (-0.2, 0.0, 0.2), strict=True):
        values = dataset[name].transpose("search", "repeat").data
        x = np.broadcast_to(places[:, None] + shift, values.shape)
        is_shown = values < top
        for shown, y, form in ((is_shown, values, marker), (~is_shown, 0 * values + top, "^")):
            look = {"color": color, "ms": 3 if form == marker else 5, "mew": 0}
            left.plot(x[shown], y[shown], form, alpha=0.35, **look)
        error = standard_error(dataset[name], "repeat").data
        look = {"color": color, "label": label, "capsize": 2, "ms": 5, "linestyle": ""}
        left.errorbar(places + shift, values.mean(axis=1), error, marker=marker, **look)
        look = {"color": color, "ms": 6, "mec": drawing.BLACK, "mew": 0.8}
        left.plot(end + shift, float(dataset[planned]), marker, **look)
    left.axhline(float(dataset.planned_fresh), color=drawing.BLUE, lw=0.8, ls=":", zorder=0)
    names = [f"{count}" for count in dataset.search.data]
    left.set_ylim(top=1.02 * top)
    left.set_xticks(range(end + 1), [*names, "plan"])
    left.set_xlabel("single runs of a random search")
    left.set_ylabel("squared error")
    figure.legend(loc="outside upper left", ncols=3, frameon=False, fontsize="small")
    drawing.tidy(left, f"$\\epsilon$ = {dataset.attrs['epsilon']:g}")
    seconds = float(dataset.start_seconds) + dataset.search.data * float(dataset.run_seconds)
    bars = right.barh([*names, "plan"], [*seconds, float(dataset.plan_seconds)], height=0.6)
    for bar, color in zip(bars, [drawing.GREY] * end + [drawing.BLUE], strict=True):
        bar.set_color(color)
    right.bar_label(bars, fmt="%.3g", padding=3, fontsize="small")
    right.invert_yaxis()
    right.set_xlim(0, 1.2 * max(*seconds, float(dataset.plan_seconds)))
    right.set_xlabel("seconds")
    drawing.tidy(right, "time, compilation included")
    return figure


def _mean_and_error(values: xarray.DataArray) -> list[tuple[float, float]]:
    """For each length of the searches."""
    errors = harness.standard_error(values, "repeat")
    return [*zip(values.mean("repeat").values, errors.values, strict=True)]


def checks(dataset: xarray.Dataset) -> list[Check]:
    """The goals, set before measuring; never asserted by a test."""
    fresh, curse = map(_mean_and_error, (dataset.fresh, dataset.reported - dataset.validation))
    counts = dataset.search.values
    planned, planned_error = float(dataset.planned_fresh), float(dataset.planned_fresh_error)
    simulated = float(dataset.planned_validation)
    allowed = _GAP * simulated + _ERRORS * float(dataset.planned_validation_error)
    gap = float(dataset.predicted) - simulated
    shown = (
        listed([(count, *pair) for count, pair in zip(counts, pairs, strict=True)], form)
        for pairs, form in ((fresh, "{:.0f}: {:.4f}({:.4f})"), (curse, "{:.0f}: {:+.4f}({:.4f})"))
    )
    searches, curses = shown
    return [
        Check(
            "on rows that nobody saw the plan is no worse than the mean search of any length, "
            f"within {_ERRORS:g} standard errors",
            f"plan {planned:.4f}({planned_error:.4f}); searches {searches}",
            all(
                planned - _ERRORS * np.hypot(planned_error, error) <= mean for mean, error in fresh
            ),
        ),
        Check(
            f"every search reports less than its setting is worth, by {_ERRORS:g} standard errors",
            curses,
            all(mean / error < -_ERRORS for mean, error in curse),
        ),
        Check(
            f"what the plan predicts is simulated, within {_GAP:.0%} and {_ERRORS:g} standard "
            "errors",
            f"predicted {float(dataset.predicted):.4f}, simulated {simulated:.4f}, "
            f"{gap / simulated:+.2%}",
            abs(gap) <= allowed,
        ),
        Check(
            f"a softmax head is planned in {_HEAD_SECONDS} s of a processor",
            f"{float(dataset.head_processor_seconds):.0f} s, {_head_in_words(dataset)}",
            float(dataset.head_processor_seconds) <= _HEAD_SECONDS,
        ),
    ]


def _head_in_words(dataset: xarray.Dataset) -> str:
    rows, features, classes = (int(size) for size in dataset.attrs["head"])
    cells = dataset.attrs["head_cells"]
    return f"{cells} cells, {rows} rows, {features} features, {classes} classes"


def summary(dataset: xarray.Dataset) -> str:
    """A table of the losses found, and one of the plan's cells."""
    found = dataset.reported, dataset.validation, dataset.reported - dataset.validation
    columns, rows = [_mean_and_error(one) for one in (*found, dataset.fresh)], []
    for place, count in enumerate(dataset.search.values):
        cells = ["{:.4f} ± {:.4f}".format(*column[place]) for column in columns]
        seconds = float(dataset.start_seconds) + int(count) * float(dataset.run_seconds)
        rows.append([f"{count} single runs", *cells, f"{seconds:.1f}"])
    predicted, simulated = float(dataset.predicted), float(dataset.planned_validation)
    error = float(dataset.planned_validation_error)
    cells = [f"{predicted:.4f} (predicted)", f"{simulated:.4f} ± {error:.4f}"]
    cells.append(f"{predicted - simulated:.4f} ± {error:.4f}")
    cells.append(f"{float(dataset.planned_fresh):.4f} ± {float(dataset.planned_fresh_error):.4f}")
    rows.append(["plan", *cells, f"{float(dataset.plan_seconds):.1f}"])
    head = ["how", "reported", "new runs, same rows", "reported - true", "rows nobody saw", "s"]
    forms = {"num_steps": ".0f", "sampling_rate": "g", "learning_rate": ".4g", "clip_norm": ".4g"}
    forms["risk"] = ".4f"
    cells = [
        [f"{float(dataset[f'cell_{name}'][place]):{form}}" for name, form in forms.items()]
        for place in range(dataset.sizes["place"])
    ]
    attrs = dataset.attrs
    cells[attrs["chosen"]][-1] += ", chosen"
    names = ["steps", "sampling rate", "learning rate", "clip norm", "predicted (rank 0)"]
    return (
        f"n = {attrs['num_train']}, epsilon = {attrs['epsilon']:g}, delta = {attrs['delta']:g}, "
        f"{attrs['adjacency']} throughout; {dataset.sizes['repeat']} searches of each length, and "
        f"{attrs['num_runs']} new runs with the settings that each found. A search draws a cell "
        "of the plan, and learning rate and clip norm uniformly in their logarithms, the rate up "
        "to gradient descent's limit; it trains 50 at once. Seconds include calibrations and "
        "compilation, the plan's also the prediction of the chosen cell and its spread; the "
        "machine was shared with other work, so that only their order of magnitude counts. At this "
        "size a simulated run costs less than a prediction: a plan buys an objective without "
        "noise. Both choose "
        "by the validation rows, and neither is private: both want public rows. The plan of a "
        f"softmax head ({_head_in_words(dataset)}) took {float(dataset.head_seconds):.0f} s, "
        f"{float(dataset.head_processor_seconds):.0f} s of a processor.\n\n"
        + harness.table(head, rows)
        + "\n\n"
        + harness.table(names, cells)
    )


claims = harness.claims_of(checks)
harness.main(__name__)
