"""Time of a step of Algorithm 1: `Iterates`, its random numbers alone, and NumPy loops.

The loop is bound by random numbers, two for each parameter and step, so these are the yardstick.
Candidates take turns in one process; the least time of each counts. Compilation is left out.
"""

import dataclasses
import functools
import sys
import time

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import xarray
from jax import lax
from matplotlib.figure import Figure

import jaxdp
from experiments import command, drawing
from experiments.command import Check

ALONE, ITERATES, SINGLE = "random numbers alone", "Iterates", "Iterates, one run"
NUMPY, NUMPY_SINGLE = "NumPy, batched", "NumPy, one run"


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes of the measurement: a step has `dim` inputs, in each of `num_runs` runs."""

    dim: int = 1000
    num_steps: int = 4000
    num_runs: int = 10
    repeats: int = 5

    @classmethod
    def smoke(cls) -> "Config":
        """A version that takes seconds and whose times mean little."""
        return cls(dim=100, num_steps=200, num_runs=4, repeats=2)


def run(config: Config) -> xarray.Dataset:
    """Seconds of each candidate and repeat, and the steps that it made."""
    candidates = {
        ALONE: (functools.partial(_random_numbers, config), config.num_runs),
        ITERATES: (functools.partial(_iterates, config, config.num_runs), config.num_runs),
        SINGLE: (functools.partial(_iterates, config, 1), 1),
        NUMPY: (functools.partial(_numpy, config, config.num_runs), config.num_runs),
        NUMPY_SINGLE: (functools.partial(_numpy, config, 1), 1),
    }
    for function, _ in candidates.values():
        function()
    seconds = np.zeros((len(candidates), config.repeats))
    for repeat in command.track(range(config.repeats), lambda repeat: f"repeat {repeat}"):
        for i, (function, _) in enumerate(candidates.values()):
            started = time.perf_counter()
            function()
            seconds[i, repeat] = time.perf_counter() - started
    steps = [config.num_steps * runs for _, runs in candidates.values()]
    return xarray.Dataset(
        {
            "seconds": (("candidate", "repeat"), seconds, {"units": "s"}),
            "steps": (("candidate",), steps, {"units": "steps of one run"}),
        },
        coords={"candidate": list(candidates)},
        attrs={"dim": config.dim, "num_runs": config.num_runs},
    )


def _iterates(config: Config, num_runs: int) -> None:
    problem = jaxdp.LinearRegression.isotropic(config.dim, label_noise=0.3)
    schedule = jaxdp.Polynomial(3.0, power=0.5)
    algorithm = jaxdp.OnePassDPSGD(schedule, 1.0, 1.0, config.num_steps)
    runs = jaxdp.simulate(problem, algorithm, key=jr.key(0), num_runs=num_runs)
    jax.block_until_ready(runs.final_risk)


def _random_numbers(config: Config) -> None:
    keys = jr.split(jr.key(0), config.num_runs)
    jax.block_until_ready(_drawn_alone(keys, config.dim, config.num_steps))


@functools.partial(jax.jit, static_argnums=(1, 2))
def _drawn_alone(keys, dim: int, num_steps: int):
    """Two normals per parameter and step, in chunks of about half a million, reduced to a sum."""
    chunk = max(1, min(num_steps, 500_000 // (dim * len(keys))))

    def one_run(key):
        def draw(total, index):
            steps = index * chunk + jnp.arange(chunk)

            def normals(purpose):
                purposed = jr.fold_in(key, purpose)
                return jax.vmap(lambda step: jr.normal(jr.fold_in(purposed, step), (dim,)))(steps)

            return total + normals(0).sum() + normals(1).sum(), None

        return lax.scan(draw, 0.0, jnp.arange(num_steps // chunk))[0]

    return jax.vmap(one_run)(keys)


def _numpy(config: Config, num_runs: int) -> None:
    """AC Algorithm 1 as a NumPy user writes it, all runs in one array, float32 throughout."""
    rng = np.random.default_rng(0)
    dim, count = config.dim, config.num_steps
    root_dim, target = np.float32(dim**0.5), np.full(dim, dim**-0.5, np.float32)
    theta = np.zeros((num_runs, dim), np.float32)
    rates = (3 * np.sqrt(1 - np.arange(1, count + 1) / count) / count).astype(np.float32)
    for k in range(count):
        x = rng.standard_normal((num_runs, dim), np.float32)
        noise = np.float32(0.3) * rng.standard_normal(num_runs, np.float32)
        residual = np.einsum("rd,rd->r", x, theta - target) - noise
        square = np.einsum("rd,rd->r", x, x)
        clip = np.minimum(1, root_dim / (np.abs(residual) * np.sqrt(square)))
        step = np.minimum(rates[k], 2 / square) * clip * residual
        theta -= step[:, None] * x
        std = np.float32(2 * root_dim * 3 / count**1.5)
        theta += std * rng.standard_normal((num_runs, dim), np.float32)


def _microseconds(dataset: xarray.Dataset) -> xarray.DataArray:
    """Least time of a step of one run."""
    return 1e6 * dataset.seconds.min("repeat") / dataset.steps


def checks(dataset: xarray.Dataset) -> list[Check]:
    """The goals, as measured here; never asserted by a test."""
    times = {str(c): float(_microseconds(dataset).sel(candidate=c)) for c in dataset.candidate.data}
    over, faster = times[ITERATES] / times[ALONE], times[NUMPY] / times[ITERATES]
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
    ]


def claims(dataset: xarray.Dataset) -> dict[str, bool]:
    """Whether the goals are met by the times measured."""
    return {check.claim: check.holds for check in checks(dataset)}


def summary(dataset: xarray.Dataset) -> str:
    """A table of the times."""
    rows = "\n".join(
        f"| {name} | {value:.2f} |"
        for name, value in zip(dataset.candidate.data, _microseconds(dataset).data, strict=True)
    )
    return (
        f"Microseconds a step and run at d = {dataset.attrs['dim']}, data and noise drawn inside "
        f"(least of {dataset.sizes['repeat']} alternating repeats, {dataset.attrs['num_runs']} "
        "runs together unless said otherwise). Only ratios within this table travel to other "
        f"machines.\n\n| candidate | µs |\n|---|---|\n{rows}"
    )


def plot(dataset: xarray.Dataset) -> Figure:
    """The times as bars."""
    times = _microseconds(dataset)
    figure = Figure(figsize=(6.0, 2.4), layout="constrained")
    axes = figure.subplots()
    names = list(times.candidate.data)
    colors = [drawing.BLUE if "Iterates" in name else drawing.GREY for name in names]
    bars = axes.barh(names, times.data, color=colors, height=0.6)
    axes.bar_label(bars, fmt="%.2f", padding=4, fontsize="small")
    axes.invert_yaxis()
    axes.set_xlabel("microseconds a step and run")
    drawing.tidy(axes, f"Algorithm 1, $d$ = {dataset.attrs['dim']}")
    return figure


if __name__ == "__main__":
    sys.exit(command.main(sys.modules[__name__]))
