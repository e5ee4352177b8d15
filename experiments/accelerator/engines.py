"""Runs a second of the simulators, theories and grids, against the most the device could do.

The bound of a row is the largest of three times: the bytes that have to move over the speed of a
copy, the arithmetic over that of a float32 product, the normals over that of `jax.random.normal`,
each measured on the device a moment before. The work of a simulator is counted from its
algorithm, not from its program: an engine at 10 % of its bound could be ten times as fast at most.
"""

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jax.lax import Precision

import jaxdp
from experiments.accelerator.parts import Measurement, Row, Setting, attempts, bars, timed

_DIM, _STEPS = 1000, 1000
# Bytes of a float32.
_WIDTH = 4


class Ceilings(NamedTuple):
    """The device's largest rates, per second: bytes copied, float32 operations, normals drawn."""

    bytes: float
    operations: float
    normals: float

    def share(self, seconds: float, **work: float) -> tuple[float, str]:
        """The share of the bound that is reached, and which of the three it is."""
        least = {name: amount / getattr(self, name) for name, amount in work.items()}
        bound = max(least, key=lambda name: least[name])
        return least[bound] / seconds, bound


def ceilings(is_smoke: bool) -> tuple[Ceilings, list[Row]]:
    """The three speeds, and a row for each, and for products at the device's default precision."""
    size = 2**20 if is_smoke else 2**28
    side = 256 if is_smoke else 8192
    values = jnp.ones(size, jnp.float32)
    copy = jax.jit(lambda values: values + 1)
    _, copied = timed(lambda: copy(values))
    matrix = jr.normal(jr.key(0), (side, side), jnp.float32)

    @functools.partial(jax.jit, static_argnums=1)
    def product(matrix, precision):
        return jnp.matmul(matrix, matrix, precision=precision)

    _, exact = timed(lambda: product(matrix, Precision.HIGHEST))
    _, default = timed(lambda: product(matrix, Precision.DEFAULT))
    draw = jax.jit(lambda key: jr.normal(key, (size,), jnp.float32).sum())
    _, drawn = timed(lambda: draw(jr.key(0)))
    found = Ceilings(2 * _WIDTH * size / copied, 2 * side**3 / exact, size / drawn)
    return found, [
        Row("copying", found.bytes / 1e9, "GB/s"),
        Row("products in float32", found.operations / 1e12, "TFLOP/s"),
        Row("products, default precision", 2 * side**3 / default / 1e12, "TFLOP/s"),
        Row("normals of jax.random", found.normals / 1e9, "10^9/s"),
    ]


def rows(setting: Setting) -> Iterator[Row]:
    """The device's speeds, then each engine."""
    most, first = ceilings(setting.is_smoke)
    yield from first
    yield from attempts(setting, _calls(setting.is_smoke, most))


def _calls(is_smoke: bool, most: Ceilings) -> Iterator[Measurement]:
    dim, steps = (50, 20) if is_smoke else (_DIM, _STEPS)
    for runs in (4,) if is_smoke else (10, 1000, 10_000, 100_000):
        yield _one_pass(jaxdp.Reduced(), dim, steps, runs, most)
        # A step of many runs in all dimensions is long enough to be timed alone.
        yield _one_pass(jaxdp.Iterates(), dim, max(20, steps * 1000 // max(runs, 1000)), runs, most)
    for cells in (100,) if is_smoke else (10_000, 1_000_000):
        yield _ode_grid(cells, most)
    for count in (40,) if is_smoke else (2000, 20_000):
        width = 30 if is_smoke else min(count, 2000)
        yield _function_space(count, width, 8 if is_smoke else 100, most)
        yield _closure(count, width, most)


def _engine(what: str, call, amount: float, unit: str, most: Ceilings, **work: float):
    """The row of a call: so much of a unit a second, and its share of the bound of its work."""

    def row(_):
        first, seconds = timed(call)
        share, bound = most.share(seconds, **work) if work else (math.nan, "")
        return Row(what, amount / seconds, unit, share, bound, first)

    return Measurement(what, row)


def _one_pass(simulator, dim: int, steps: int, runs: int, most: Ceilings):
    problem = jaxdp.LinearRegression.isotropic(dim, label_noise=0.3)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, power=0.5), 1.0, 1.0, steps)
    what = f"{type(simulator).__name__}, d = {dim}, {runs:,} runs of {steps} steps"
    given: dict[str, Any] = {"num_runs": runs, "simulator": simulator, "records": 10}

    def call():
        return jaxdp.simulate(problem, algorithm, key=jr.key(0), **given).final_risk

    # Iterates: an input and a noise of each coordinate, the state read and written, two inner
    # products and two updates. Reduced: a label, and two chi-squares of two normals each.
    work = {"normals": 2 * dim, "bytes": 2 * _WIDTH * dim, "operations": 8 * dim}
    if not isinstance(simulator, jaxdp.Iterates):
        work = {"normals": 5, "bytes": 2 * _WIDTH, "operations": 20}
    all_steps = {name: one * runs * steps for name, one in work.items()}
    return _engine(what, call, runs, "runs/s", most, **all_steps)


def _ode_grid(cells: int, most: Ceilings):
    side = round(cells**0.5)
    clips, rates = jnp.geomspace(0.01, 10, side), jnp.geomspace(1, 500, side)
    grid = jnp.stack(jnp.meshgrid(clips, rates, indexing="ij"), -1).reshape(-1, 2)
    problem = jaxdp.LinearRegression.isotropic(1000, label_noise=0.3)

    @jax.jit
    @jax.vmap
    def risk(cell):
        schedule = jaxdp.Polynomial(cell[1], 0.5)
        algorithm = jaxdp.OnePassDPSGD(schedule, cell[0], 1.0, 10_000)
        return jaxdp.predict(problem, algorithm, records=1).final_risk

    what = f"CoupledODE, {cells:,} cells of clip scale and learning rate"
    return _engine(what, lambda: risk(grid), side**2, "cells/s", most)


def features(count: int, width: int) -> jaxdp.FixedFeatures:
    """Rows of features of falling scale, and labels of them, without a file."""
    keys = jr.split(jr.key(0), 3)
    rows = jr.normal(keys[0], (count + count // 2, width)) / jnp.sqrt(1 + jnp.arange(width))
    labels = rows @ jr.normal(keys[1], (width,)) + 0.1 * jr.normal(keys[2], (len(rows),))
    return jaxdp.FixedFeatures.from_arrays(
        rows[:count], labels[:count], rows[count:], labels[count:]
    )


def everyday(count: int, steps: int = 100) -> jaxdp.PrivateOptimiser:
    """Heavy-ball DP-GD of so many records and steps."""
    import optax

    optimiser = functools.partial(optax.sgd, momentum=0.9)
    sampler = jaxdp.privacy.FixedSizeBatches(count, count)
    given = {"clip_norm": 1.0, "noise_multiplier": 20.0, "num_steps": steps, "sampler": sampler}
    return jaxdp.PrivateOptimiser(optimiser, learning_rate=0.05, **given)


def _function_space(count: int, width: int, runs: int, most: Ceilings):
    problem, algorithm = features(count, width), everyday(count)
    given: dict[str, Any] = {"num_runs": runs, "records": 10, "simulator": jaxdp.FunctionSpace()}

    def call():
        return jaxdp.simulate(problem, algorithm, key=jr.key(0), **given).risk

    what = f"FunctionSpace, n = {count:,}, {width} features, {runs} runs of 100 steps"
    # A step multiplies all runs by the features and by their transpose.
    work = {"operations": 400 * count * width * runs, "bytes": 200 * _WIDTH * count * width}
    return _engine(what, call, runs, "runs/s", most, **work)


def _closure(count: int, width: int, most: Ceilings):
    problem, algorithm = features(count, width), everyday(count)

    def call():
        return jaxdp.predict(problem, algorithm, theory=jaxdp.GaussianClosure(), records=10).risk

    what = f"GaussianClosure, n = {count:,}, {width} features, 100 steps"
    # W S and W' diag(D) W of the leading 256 modes, a step.
    work = {"operations": 400 * count * min(256, width) ** 2}
    work["bytes"] = 200 * _WIDTH * count * width
    return _engine(what, call, 1, "predictions/s", most, **work)


def draw(found: list[Row]):
    """The shares of the bounds as bars, labelled with runs per second."""
    measured = [row for row in found if row.share == row.share]
    shares = {f"{row.what} ({row.bound})": 100 * row.share for row in measured}
    figure = bars(measured, "% of what the device's speed allows at most", shares)
    (axes,) = figure.axes
    # Room for the labels behind the longest bars.
    axes.set_xscale("log")
    axes.set_xlim(min(shares.values(), default=1.0) / 2, 5000)
    axes.set_xticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
    axes.minorticks_off()
    return figure
