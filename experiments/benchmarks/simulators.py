"""Time of a step of Algorithm 1: `Iterates` and `Reduced`, their random numbers, NumPy loops.

Both simulators are bound by random numbers, `Iterates` by two a step for each parameter,
`Reduced` by five a step; these are the yardsticks. Candidates take turns in one process; the least
time of each counts. Compilation is left out.
"""

import dataclasses
import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import xarray
from jax import lax
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

import jaxdp
from experiments import harness
from experiments.benchmarks import timing
from experiments.harness import Check, drawing
from jaxdp.core.numerics.counter_normals import key_words, normal_pairs
from jaxdp.simulation.streams.radial_chain import draw

ALONE, ITERATES, SINGLE = "random numbers alone", "Iterates", "Iterates, one run"
NUMPY, NUMPY_SINGLE = "NumPy, batched", "NumPy, one run"
NORMALS, RADIAL_ALONE = "five jax.random normals", "Reduced's numbers alone"
REDUCED, WIDE = "Reduced", "Reduced, wide"
SILENT, SILENT_WIDE = "Reduced, no noise", "Reduced, wide, no noise"


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes of the measurement: a step has `dim` inputs, in each of `num_runs` runs."""

    dim: int = 1000
    num_steps: int = 4000
    num_runs: int = 10
    repeats: int = 5
    wide_dim: int = 4000
    reduced_runs: int = 2000
    batches: tuple[int, ...] = (1, 10, 100, 1000, 10_000)
    batch_steps: int = 10_000

    smoke = harness.size(
        dim=100,
        num_steps=200,
        num_runs=4,
        repeats=2,
        wide_dim=400,
        reduced_runs=10,
        batches=(1, 10),
        batch_steps=200,
    )


def _candidates(config: Config) -> dict[str, tuple[Callable[[], None], int]]:
    """The timed calls by name, with their numbers of runs."""
    steps, few, many = config.num_steps, config.num_runs, config.reduced_runs
    iterates, reduced = jaxdp.Iterates(), jaxdp.Reduced()

    def calls(function, *arguments, runs: int, **more):
        return functools.partial(function, *arguments, steps, runs, **more), runs

    return {
        ALONE: calls(normals_alone, 2 * config.dim, runs=few),
        ITERATES: calls(simulate, iterates, config.dim, runs=few),
        SINGLE: calls(simulate, iterates, config.dim, runs=1),
        NUMPY: calls(numpy_loop, config.dim, runs=few),
        NUMPY_SINGLE: calls(numpy_loop, config.dim, runs=1),
        NORMALS: calls(normals_alone, 5, runs=many),
        RADIAL_ALONE: calls(radial_numbers_alone, config.dim, runs=many),
        REDUCED: calls(simulate, reduced, config.dim, runs=many),
        WIDE: calls(simulate, reduced, config.wide_dim, runs=many),
        SILENT: calls(simulate, reduced, config.dim, runs=many, rho=math.inf),
        SILENT_WIDE: calls(simulate, reduced, config.wide_dim, runs=many, rho=math.inf),
    }


def run(config: Config) -> xarray.Dataset:
    """Seconds of each candidate and repeat, the steps that it made, and seconds of batches."""
    candidates = _candidates(config)
    calls = {name: function for name, (function, _) in candidates.items()} | {
        count: functools.partial(simulate, jaxdp.Reduced(), config.dim, config.batch_steps, count)
        for count in config.batches
    }
    seconds = np.stack([*timing.alternate(calls, config.repeats).values()])
    steps = [config.num_steps * runs for _, runs in candidates.values()]
    alone, together = np.split(seconds, [len(candidates)])
    facts = ("dim", "num_runs", "wide_dim", "reduced_runs", "batch_steps")
    dataset = harness.dataset(
        {"candidate": candidates, "batch": config.batches},
        {
            ("candidate", "repeat"): {"seconds": alone},
            "candidate": {"steps": steps},
            ("batch", "repeat"): {"batch_seconds": together},
        },
        {name: getattr(config, name) for name in facts},
    )
    units = {"seconds": "s", "steps": "steps of one run", "batch_seconds": "s"}
    return harness.in_units(dataset, **units, batch="runs at once")


def _microseconds(dataset: xarray.Dataset) -> xarray.DataArray:
    """Least time of a step of one run."""
    return 1e6 * dataset.seconds.min("repeat") / dataset.steps


def checks(dataset: xarray.Dataset) -> list[Check]:
    """The goals, as measured here; never asserted by a test."""
    times = {str(c): float(_microseconds(dataset).sel(candidate=c)) for c in dataset.candidate.data}
    over, faster = times[ITERATES] / times[ALONE], times[NUMPY] / times[ITERATES]
    twice, wider = times[REDUCED] / times[RADIAL_ALONE], times[WIDE] / times[REDUCED]
    dim, wide, ratio = dataset.dim, dataset.wide_dim, times[ITERATES] / times[REDUCED]
    goals = {
        "Iterates takes at most 1.25 times its random numbers": (f"{over:.2f}", over <= 1.25),
        "Iterates is at least 2.5 times faster than a batched float32 NumPy loop": (
            f"{faster:.1f}",
            faster >= 2.5,
        ),
        "Reduced takes at most twice its random numbers": (f"{twice:.2f}", twice <= 2),
        f"Reduced takes the same time at d = {wide} as at {dim}, within 15 %": (
            f"{wider:.2f}",
            abs(math.log(wider)) <= math.log(1.15),
        ),
        f"Reduced is at least d / 10 times faster a step than Iterates, d = {dim}": (
            f"{ratio:.0f}",
            bool(ratio >= dim / 10),
        ),
    }
    return [Check(goal, f"{found} times", holds) for goal, (found, holds) in goals.items()]


def _runs_per_second(dataset: xarray.Dataset) -> xarray.DataArray:
    return dataset.batch / dataset.batch_seconds.min("repeat")


def summary(dataset: xarray.Dataset) -> str:
    """Tables of the times."""
    facts = dataset.attrs
    times = zip(dataset.candidate.data, _microseconds(dataset).data, strict=True)
    rates = zip(dataset.batch.data, _runs_per_second(dataset).data, strict=True)
    steps = harness.table(["candidate", "µs"], ((name, f"{value:.3g}") for name, value in times))
    batches = harness.table(
        ["runs at once", "runs a second"], ((count, f"{value:.0f}") for count, value in rates)
    )
    return (
        f"Microseconds a step and run at d = {facts['dim']} ({facts['wide_dim']} if wide), data "
        f"and noise drawn inside (least of {dataset.sizes['repeat']} alternating repeats; "
        f"{facts['num_runs']} runs together unless named otherwise, {facts['reduced_runs']} for "
        "Reduced and its numbers). Only ratios within this table travel to other machines.\n\n"
        f"{steps}\n\n"
        f"Runs of {facts['batch_steps']} steps that Reduced finishes in a second, with noise at "
        f"d = {facts['dim']}:\n\n{batches}"
    )


def plot(dataset: xarray.Dataset) -> Figure:
    """The times as bars, and the throughput of batches."""
    times, rates = _microseconds(dataset), _runs_per_second(dataset)
    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    names = [
        name.replace("wide", f"$d$ = {dataset.attrs['wide_dim']}") for name in times.candidate.data
    ]
    colors = [_color(name) for name in names]
    bars = left.barh(names, times.data, color=colors, height=0.6)
    left.bar_label(bars, fmt="%.3g", padding=4, fontsize="small")
    left.invert_yaxis()
    left.set_xscale("log")
    left.set_xlim(times.data.min() / 2, 6 * times.data.max())
    left.set_xlabel("microseconds a step and run")
    drawing.tidy(left, f"Algorithm 1, $d$ = {dataset.attrs['dim']}")
    right.loglog(dataset.batch, rates, "o-", color=drawing.ORANGE)
    right.yaxis.set_minor_formatter(NullFormatter())
    right.set_ylim(10 ** np.floor(np.log10(rates.min())), 10 ** np.ceil(np.log10(rates.max())))
    right.set_xlabel("runs at once")
    right.set_ylabel("runs a second")
    drawing.tidy(right, f"Reduced, {dataset.attrs['batch_steps']} steps a run")
    return figure


def _color(name: str) -> str:
    if "Iterates" in name:
        return drawing.BLUE
    return drawing.ORANGE if name.startswith("Reduced,") or name == REDUCED else drawing.GREY


def simulate(simulator, dim: int, num_steps: int, num_runs: int, *, rho: float = 1.0) -> None:
    """Algorithm 1 on isotropic inputs with the square-root schedule."""
    problem = jaxdp.LinearRegression.isotropic(dim, label_noise=0.3)
    schedule = jaxdp.Polynomial(3.0, power=0.5)
    algorithm = jaxdp.OnePassDPSGD(schedule, 1.0, rho, num_steps)
    runs = jaxdp.simulate(problem, algorithm, key=jr.key(0), num_runs=num_runs, simulator=simulator)
    jax.block_until_ready(runs.final_risk)


def normals_alone(numbers: int, num_steps: int, num_runs: int) -> None:
    """So many normals a step from `jax.random`, added up."""
    keys = jr.split(jr.key(0), num_runs)
    jax.block_until_ready(_normals_alone(keys, numbers, num_steps))


@functools.partial(jax.jit, static_argnums=(1, 2))
def _normals_alone(keys, numbers: int, num_steps: int):
    """In chunks of about half a million; a key for each step and half of its numbers."""
    chunk = max(1, min(num_steps, 1_000_000 // (numbers * len(keys))))
    halves = (numbers // 2, numbers - numbers // 2)

    def one_run(key):
        def add(total, index):
            steps = index * chunk + jnp.arange(chunk)
            for purpose, count in enumerate(halves):
                total += _normals(jr.fold_in(key, purpose), steps, count).sum()
            return total, None

        return lax.scan(add, 0.0, jnp.arange(num_steps // chunk))[0]

    return jax.vmap(one_run)(keys)


def _normals(key, steps, count: int):
    return jax.vmap(lambda step: jr.normal(jr.fold_in(key, step), (count,)))(steps)


def radial_numbers_alone(dim: int, num_steps: int, num_runs: int) -> None:
    """The normals and chi-squares that `Reduced` draws for one block, added up."""
    keys = jr.split(jr.key(0), 2 * num_runs).reshape(2, num_runs)
    jax.block_until_ready(_radial_numbers_alone(keys, dim, num_steps))


@functools.partial(jax.jit, static_argnums=(1, 2))
def _radial_numbers_alone(keys, dim: int, num_steps: int):
    sampling, noise = (key_words(purpose) for purpose in keys)
    chunk = max(1, min(num_steps, 64, 500_000 // (5 * keys.shape[1])))

    def add(total, index):
        steps = index * chunk + jnp.arange(chunk)
        labels = normal_pairs(sampling, steps[:, None], jnp.asarray(1), jnp.float32)[0]
        total += labels.sum(axis=0)
        for words in (sampling, noise):
            total += draw(words, steps, (dim,), jnp.float32).sum(axis=(0, 1))
        return total, None

    zero = jnp.zeros(keys.shape[1], jnp.complex64)
    return lax.scan(add, zero, jnp.arange(num_steps // chunk))[0]


def numpy_loop(dim: int, num_steps: int, num_runs: int) -> None:
    """AC Algorithm 1 as a NumPy user writes it, all runs in one array, float32 throughout."""
    rng = np.random.default_rng(0)
    root_dim, target = np.float32(dim**0.5), np.full(dim, dim**-0.5, np.float32)
    theta = np.zeros((num_runs, dim), np.float32)
    rates = (3 * np.sqrt(1 - np.arange(1, num_steps + 1) / num_steps) / num_steps).astype(
        np.float32
    )
    for k in range(num_steps):
        x = rng.standard_normal((num_runs, dim), np.float32)
        noise = np.float32(0.3) * rng.standard_normal(num_runs, np.float32)
        residual = np.einsum("rd,rd->r", x, theta - target) - noise
        square = np.einsum("rd,rd->r", x, x)
        clip = np.minimum(1, root_dim / (np.abs(residual) * np.sqrt(square)))
        step = np.minimum(rates[k], 2 / square) * clip * residual
        theta -= step[:, None] * x
        std = np.float32(2 * root_dim * 3 / num_steps**1.5)
        theta += std * rng.standard_normal((num_runs, dim), np.float32)


claims = harness.claims_of(checks)
harness.main(__name__)
