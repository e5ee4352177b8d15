"""Time of a step of Algorithm 1: `Iterates` and `Reduced`, their random numbers, NumPy loops.

Both simulators are bound by random numbers, `Iterates` by two a step for each parameter,
`Reduced` by five a step; these are the yardsticks. Candidates take turns in one process; the least
time of each counts. Compilation is left out.
"""

import dataclasses
import functools
import math
import time
from collections.abc import Callable

import numpy as np
import xarray
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

import jaxdp
from experiments import harness
from experiments.benchmarks.simulator_calls import (
    normals_alone,
    numpy_loop,
    radial_numbers_alone,
    simulate,
)
from experiments.harness import Check, drawing

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
    """What is called, and for how many runs."""
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
    batches = [
        functools.partial(simulate, jaxdp.Reduced(), config.dim, config.batch_steps, count)
        for count in config.batches
    ]
    functions = [*(function for function, _ in candidates.values()), *batches]
    for function in functions:
        function()
    seconds = np.zeros((len(functions), config.repeats))
    for repeat in harness.track(range(config.repeats), lambda repeat: f"repeat {repeat}"):
        for i, function in enumerate(functions):
            started = time.perf_counter()
            function()
            seconds[i, repeat] = time.perf_counter() - started
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
    return [
        Check(
            "Iterates takes at most 1.25 times its random numbers",
            f"{over:.2f} times",
            over <= 1.25,
        ),
        Check(
            "Iterates is at least 2.5 times faster than a batched float32 NumPy loop",
            f"{faster:.1f} times",
            faster >= 2.5,
        ),
        Check(
            "Reduced takes at most twice its random numbers",
            f"{twice:.2f} times",
            twice <= 2,
        ),
        Check(
            f"Reduced takes the same time at d = {wide} as at {dim}, within 15 %",
            f"{wider:.2f} times",
            abs(math.log(wider)) <= math.log(1.15),
        ),
        Check(
            f"Reduced is at least d / 10 times faster a step than Iterates, d = {dim}",
            f"{ratio:.0f} times",
            bool(ratio >= dim / 10),
        ),
    ]


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
        f"Microseconds a step and run at d = {facts['dim']} ({facts['wide_dim']} where wide), data "
        f"and noise drawn inside (least of {dataset.sizes['repeat']} alternating repeats; "
        f"{facts['num_runs']} runs together unless said otherwise, {facts['reduced_runs']} for "
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


claims = harness.claims_of(checks)
harness.main(__name__)
