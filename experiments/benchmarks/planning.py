"""`jaxdp.plan` against random search by single runs, at one budget (epsilon, delta).

A random search draws cells, learning rates and clip norms, trains once with each, and keeps what
did best on the validation rows. What it reports is the least of many noisy numbers, and so too low:
the winner's curse. A plan minimises the same rows' predicted loss, in which there is no noise. Both
are measured by many new runs: on the validation rows, where what they reported is judged, and on
rows that neither saw.
"""

import dataclasses
import time

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import xarray

import jaxdp
from experiments import harness
from experiments.benchmarks.planning_checks import checks as checks
from experiments.benchmarks.planning_checks import summary as summary
from experiments.benchmarks.planning_drawing import plot as plot
from jaxdp.privacy import PoissonSampler, calibrated_noise_multiplier

# Of the limit of gradient descent, and of the median norm of a gradient at the start.
_RATES, _CLIP_NORMS = (10**-2.5, 1.0), (10**-2, 10**0.5)
# So many runs at once, for their memory.
_BATCH = 50


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
    )


@dataclasses.dataclass(frozen=True)
class _Trials:
    """Settings that were tried, and the validation loss of one run with each."""

    cells: np.ndarray
    rates: np.ndarray
    clip_norms: np.ndarray
    losses: np.ndarray


def run(config: Config) -> xarray.Dataset:
    """What the searches and the plan report, what that is worth, and what it took."""
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
    }
    dataset = harness.dataset(
        {"search": config.searches, "repeat": range(config.repeats)},
        {("search", "repeat"): found, (): single, "place": cells},
        facts,
    )
    return harness.in_units(dataset, plan_seconds="s", start_seconds="s", run_seconds="s")


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
        """What one trial was made with."""
        numbers = float(trials.rates[place]), float(trials.clip_norms[place])
        return self.cells[int(trials.cells[place])](*numbers)

    def trials(self, key, count: int) -> _Trials:
        """So many settings, drawn at random, and one run with each."""
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
        # A run that diverged is none that anybody would keep.
        return _Trials(cells, rates, clip_norms, np.where(np.isfinite(losses), losses, np.inf))


def _measured(config, problem, fresh, algorithm, key) -> np.ndarray:
    """Losses of new runs, on the validation rows and on the fresh ones: (2, runs)."""
    options = {"num_runs": config.num_runs, "key": key, "records": 1}
    runs = (jaxdp.simulate(rows, algorithm, **options) for rows in (problem, fresh))
    return np.stack([np.asarray(one.final_risk, np.float64) for one in runs])


claims = harness.claims_of(checks)
harness.main(__name__)
