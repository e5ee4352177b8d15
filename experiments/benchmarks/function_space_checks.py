"""The goals of the benchmark in function space, and its times."""

import numpy as np
import xarray

from experiments import harness
from experiments.harness import Check

_MOST_SECONDS, _MOST_SPREAD, _LEAST_FACTOR = 0.02, 0.1, 10


def step_seconds(dataset: xarray.Dataset) -> xarray.DataArray:
    """Seconds of a step, all runs together: the median round."""
    return dataset.seconds.median("round")


def checks(dataset: xarray.Dataset) -> list[Check]:
    """The goals, set before measuring; never asserted by a test."""
    step = step_seconds(dataset)
    names = [str(name) for name in dataset.candidate.data]
    narrow, wide = (name for name in names if name.startswith("FunctionSpace, p"))
    (iterates,) = (name for name in names if name.startswith("Iterates"))
    first, last = float(step.sel(candidate=narrow)), float(step.sel(candidate=wide))
    slowest = max(float(step.sel(candidate=name)) for name in names if "FunctionSpace" in name)
    faster = float(step.sel(candidate=iterates)) / last
    runs = dataset.attrs["num_runs"]
    return [
        Check(
            f"a step of FunctionSpace takes at most {_MOST_SECONDS} s for {runs} runs together",
            f"{slowest:.4f} s, the slowest",
            slowest <= _MOST_SECONDS,
        ),
        Check(
            f"its time at the larger width is that at the smaller, within {_MOST_SPREAD:.0%}",
            f"{1e3 * first:.2f} and {1e3 * last:.2f} ms, {last / first - 1:+.1%}",
            abs(last / first - 1) <= _MOST_SPREAD,
        ),
        Check(
            f"at the larger width it is at least {_LEAST_FACTOR} times faster than Iterates",
            f"{faster:.1f} times",
            faster >= _LEAST_FACTOR,
        ),
    ]


def summary(dataset: xarray.Dataset) -> str:
    """A table of the times."""
    step = step_seconds(dataset)
    rows = []
    for name in dataset.candidate.data:
        here, seconds = dataset.sel(candidate=name), float(step.sel(candidate=name))
        runs = int(here.num_runs)
        is_reduced = name in dataset.reduced.data
        reduction = f"{float(dataset.reduction.sel(reduced=name)):.2f}" if is_reduced else ""
        cells = [
            str(name),
            f"{runs}",
            f"{1e3 * seconds:.2f}",
            f"{1e3 * seconds / runs:.3f}",
            reduction,
            "" if np.isnan(here.bytes) else f"{float(here.bytes) / 1e6:.0f} MB",
        ]
        rows.append(cells)
    head = ["candidate", "runs", "ms a step", "ms a step and run", "reduction, s", "memory"]
    return (
        f"n = {dataset.attrs['num_train']}, float32, medians of {dataset.sizes['round']} "
        "alternating rounds. "
        "The reduction is made once for a problem, in float64 where it is a factorisation of the "
        "kernel; memory is the compiler's figure for the steps, arguments included. Only ratios "
        "within this table travel to other machines.\n\n" + harness.table(head, rows)
    )
