"""Time of noise that is exact and secret, against noise that is neither.

The goals: a million exactly rounded normals in less than a second, and a step of private training
with a million weights in which `SecretNoise` takes less than half a second on two cores. The
candidates draw in turn, in one process.
"""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import xarray
from matplotlib.figure import Figure

import jaxdp
from experiments import harness
from experiments.benchmarks.timing import alternate, keep_freed_memory
from experiments.harness import Check, drawing
from jaxdp.clipping import TwoPartSum
from jaxdp.privacy import PoissonSampler, SecretNoise, secret_key

EXACT, FLOAT64, NUMPY, JAX = (
    "exact, from the operating system",
    "float64, from the operating system",
    "NumPy, float64",
    "JAX, float32",
)
SECRET, SIMULATED = "secret noise", "simulated noise"
_STD = 2.0**40
_MOST_SECONDS, _MOST_STEP_SECONDS = 1.0, 0.5


@dataclasses.dataclass(frozen=True)
class Config:
    """Numbers drawn at once, and the networks 784-width-10 that are trained."""

    counts: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    widths: tuple[int, ...] = (64, 320, 1260)
    batch: int = 256
    num_rounds: int = 15
    seconds: float = 20.0

    smoke = harness.size(counts=(1000, 10_000), widths=(4,), batch=16, num_rounds=3, seconds=0.3)


def run(config: Config) -> xarray.Dataset:
    """Seconds of each draw, of each whole step and of the noise in it, round by round."""
    keep_freed_memory()
    draws = {(name, n): call for n in config.counts for name, call in _draws(n).items()}
    steps, parts, sizes = {}, {}, []
    for width in config.widths:
        made = _steps(config, width)
        sizes.append(made.pop("weights"))
        for name in (SECRET, SIMULATED):
            steps[name, width], parts[name, width] = made[name]
    groups = [
        alternate(calls, config.num_rounds, config.seconds)
        for calls in harness.track([draws, steps, parts], lambda calls: f"{len(calls)} calls")
    ]
    drawn, stepped, noised = groups

    def table(times, names, places):
        return np.stack([np.stack([times[name, place] for place in places]) for name in names])

    sources, noises = [EXACT, FLOAT64, NUMPY, JAX], [SECRET, SIMULATED]
    dataset = harness.dataset(
        {"source": sources, "count": config.counts, "noise": noises, "weights": sizes},
        {
            ("source", "count", "round"): {"draw": table(drawn, sources, config.counts)},
            ("noise", "weights", "round"): {
                "step": table(stepped, noises, config.widths),
                "noise_alone": table(noised, noises, config.widths),
            },
        },
        {"batch": config.batch},
    )
    return harness.in_units(dataset, draw="s", step="s", noise_alone="s")


def _draws(count: int) -> dict[str, Callable[[], object]]:
    zeros, noise, generator = np.zeros(count, np.int64), SecretNoise(), np.random.default_rng(0)
    simulated = jax.jit(lambda key: jr.normal(key, (count,)))
    key = secret_key()
    return {
        EXACT: lambda: noise.noisy_integers(zeros, _STD, "benchmark"),
        FLOAT64: lambda: noise.normals(count, "benchmark"),
        NUMPY: lambda: generator.standard_normal(count),
        JAX: lambda: jax.block_until_ready(simulated(key)),
    }


def _steps(config: Config, width: int) -> dict:
    """For each kind of noise a whole step and its noise alone, and how many weights there are."""
    model = eqx.nn.MLP(784, 10, width, 1, key=jr.key(0))
    weights = eqx.filter(model, eqx.is_inexact_array)
    records = 4 * config.batch
    inputs, labels = jr.normal(jr.key(1), (records, 784)), jnp.arange(records) % 10
    zeros = jax.tree.map(jnp.zeros_like, weights)
    total = TwoPartSum(zeros, zeros)
    key = secret_key()

    def loss(model, x, y):
        return optax.softmax_cross_entropy_with_integer_labels(model(x), y)

    def calls(noise):
        optimiser = jaxdp.PrivateOptimiser(
            optax.sgd(0.1),
            clip_norm=1.0,
            noise_multiplier=1.0,
            num_steps=1,
            sampler=PoissonSampler(records, 0.25),
            noise=noise,
        )
        state = optimiser.init(model)

        def step(model):
            return optimiser.step(loss, model, state, inputs, labels, key=key)

        def add(total):
            return optimiser.noisy_sum(total, 0, key=key)

        if noise is None:
            step, add = eqx.filter_jit(step), eqx.filter_jit(add)

        def waited(function, argument):
            return lambda: jax.block_until_ready(
                eqx.filter(function(argument), eqx.is_inexact_array_like)
            )

        return waited(step, model), waited(add, total)

    size = sum(leaf.size for leaf in jax.tree.leaves(weights))
    return {SECRET: calls(SecretNoise()), SIMULATED: calls(None), "weights": size}


def _median(values: xarray.DataArray) -> float:
    return float(values.median("round"))


def checks(dataset: xarray.Dataset) -> list[Check]:
    """The goals, as measured here; never asserted by a test."""
    count, weights = int(dataset["count"][-1]), int(dataset.weights[-1])
    drawn = _median(dataset.draw.sel(source=EXACT, count=count))
    noise = _median(dataset.noise_alone.sel(noise=SECRET, weights=weights))
    step = _median(dataset.step.sel(noise=SECRET, weights=weights))
    return [
        Check(
            f"{count:,} exactly rounded normals take less than a second",
            f"{drawn:.2f} s",
            drawn < _MOST_SECONDS,
        ),
        Check(
            f"secret noise on {weights:,} weights takes less than half a second a step",
            f"{noise:.2f} s of {step:.2f} s",
            noise < _MOST_STEP_SECONDS,
        ),
    ]


def summary(dataset: xarray.Dataset) -> str:
    """Tables of medians in milliseconds."""
    counts, pairs = dataset["count"].data, [("step", SECRET), ("noise_alone", SECRET)]
    pairs += [("step", SIMULATED), ("noise_alone", SIMULATED)]
    draws = harness.table(
        ["source", *(f"{count:,}" for count in counts)],
        (
            [name, *(_cell(dataset.draw.sel(source=name, count=count)) for count in counts)]
            for name in dataset.source.data
        ),
    )
    steps = harness.table(
        ["weights", "secret: step", "noise", "simulated: step", "noise"],
        (
            [f"{size:,}", *(_cell(dataset[kind].sel(noise=n, weights=size)) for kind, n in pairs)]
            for size in dataset.weights.data
        ),
    )
    return f"""\
Milliseconds, medians of alternating calls. Draws of so many numbers:

{draws}

A step of `PrivateOptimiser` on about {dataset.batch} records, and its noise alone. The step with
simulated noise is one compiled program; that with secret noise returns to the host.

{steps}"""


def _cell(times: xarray.DataArray) -> str:
    return f"{1e3 * _median(times):.3g}"


def plot(dataset: xarray.Dataset) -> Figure:
    """Seconds against numbers drawn, and of a step against its weights."""
    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    colors = [drawing.ORANGE, drawing.BLUE, drawing.GREY, "black"]
    for name, color in zip(dataset.source.data, colors, strict=True):
        seconds = dataset.draw.sel(source=name).median("round")
        left.loglog(dataset["count"], seconds, "o-", color=color, label=name)
    left.set_xlabel("numbers")
    left.set_ylabel("seconds")
    left.set_ylim(top=2.0)
    left.legend(fontsize="small")
    drawing.tidy(left, "a draw")
    for name, color in zip(dataset.noise.data, (drawing.ORANGE, drawing.BLUE), strict=True):
        seconds = dataset.step.sel(noise=name).median("round")
        right.loglog(dataset.weights, seconds, "o-", color=color, label=f"{name}, the whole step")
        alone = dataset.noise_alone.sel(noise=name).median("round")
        right.loglog(dataset.weights, alone, "o:", color=color, label=f"{name}, alone")
    right.set_xlabel("weights")
    right.set_ylabel("seconds")
    right.set_ylim(top=3.0)
    right.legend(fontsize="small")
    drawing.tidy(right, "a step of training")
    return figure


claims = harness.claims_of(checks)
harness.main(__name__)
