"""Training on digits at the papers' size, and kernel ridge on a million rows.

PF Figure 1 has n = 50,000 digits and networks of 5 to 10,000 hidden units under full-batch DP-GD.
The number of steps is the same as in the repository's saved figure: few and long ones; the paper
takes many and short ones.
"""

import functools
import math
import time
from collections.abc import Callable, Iterator

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax

import jaxdp
from experiments.accelerator.parts import Measurement, Row, Setting, attempts, curves, timed
from experiments.networks.classifiers import DigitNetwork, cross_entropy
from experiments.privacy_for_free.mnist_runs import (
    Budget,
    Digits,
    Rows,
    Task,
    exact,
    outcome,
    poisson,
    prepare,
)


def rows(setting: Setting) -> Iterator[Row]:
    """Kernel ridge, a convolutional network, then networks of rising width."""
    yield from attempts(setting, _calls(setting))


def _calls(setting: Setting) -> Iterator[Measurement]:
    smoke = setting.is_smoke
    count = 2000 if smoke else 1_000_000
    what = f"PrivateKernelRidge, n = {count:,}, 10 inputs, 2,048 features, epsilon 1"
    yield Measurement(what, lambda _: _kernel_ridge(what, count, 64 if smoke else 2048))
    yield _epoch(setting)
    for width in (8,) if smoke else (100, 1000, 10_000):
        yield _network(setting, width, exact, "full batches")
        tenth = functools.partial(poisson, sampling_rate=0.1)
        yield _network(setting, width, tenth, "Poisson batches of a tenth")


def _kernel_ridge(what: str, count: int, num_features: int) -> Row:
    draw = np.random.default_rng(0)
    inputs = draw.normal(size=(count, 10)).astype(np.float32) / 3
    labels = np.sin(3 * inputs[:, 0]) * inputs[:, 1]
    learner = jaxdp.kernels.PrivateKernelRidge(
        kernel=jaxdp.kernels.Gaussian(1.0),
        num_features=num_features,
        label_bound=1.0,
        input_bound=math.inf,
    )
    budget = {"epsilon": 1.0, "delta": 1e-7, "public_seed": 0, "noise_seed": 2**200}
    start = time.perf_counter()
    release = learner.fit(inputs, labels, **budget)
    seconds = time.perf_counter() - start
    gap = np.asarray(release(inputs[:1000])) - labels[:1000]
    explained = 1 - np.mean(gap**2) / np.var(labels[:1000])
    return Row(what, seconds, "s a fit", note=f"explains {explained:.3f} of the variance")


def _epoch(setting: Setting):
    """An epoch of the published network that is usual for private learning on MNIST."""
    batch = 20 if setting.is_smoke else 512
    what = f"tanh CNN on digits, Poisson batches of {batch}, noise multiplier 1"

    def row(_):
        rows = _digits(setting).train
        inputs, count = rows.inputs.reshape(-1, 1, 28, 28), len(rows.labels)
        optimiser = jaxdp.PrivateOptimiser(
            functools.partial(optax.sgd, momentum=0.9),
            learning_rate=0.5,
            clip_norm=0.1,
            noise_multiplier=1.0,
            num_steps=count // batch,
            sampler=jaxdp.privacy.PoissonSampler(count, batch / count),
        )

        def trained():
            data = cross_entropy, DigitNetwork(jnp.tanh, key=jr.key(0)), inputs, rows.labels
            return jaxdp.train(optimiser, *data, key=jr.key(1)).model

        first, seconds = timed(trained, seconds=5, most=3)
        note = f"n = {count:,}, {optimiser.num_steps} steps"
        return Row(what, seconds, "s an epoch", first_seconds=first, note=note)

    return Measurement(what, row)


def _digits(setting: Setting) -> Digits:
    """The digits, or made-up rows of their shape without a folder of data."""
    if setting.data is not None and not setting.is_smoke:
        from experiments.harness.mnist import read_mnist

        return prepare(read_mnist(setting.data / "mnist"), 50_000, 5000)
    count = 200 if setting.is_smoke else 50_000
    keys = jr.split(jr.key(0), 3)
    made = [Rows(jr.normal(key, (count, 784)), jr.randint(key, (count,), 0, 10)) for key in keys]
    return Digits(*made)


def _network(setting: Setting, width: int, make: Callable, which: str):
    steps, epsilon = (3 if setting.is_smoke else 200), 4.0
    what = f"network 784-{width}-10, {which}, {steps} steps, epsilon {epsilon:g}"

    def row(_):
        digits = _digits(setting)
        count = len(digits.train.labels)
        task = Task(digits, width)
        optimiser = make(Budget(epsilon, count, 4.0), steps)
        size = 10_000 if width > 1000 else None
        start = time.perf_counter()
        found = outcome(optimiser, task, 0, microbatch_size=size)
        seconds = time.perf_counter() - start
        source = "MNIST" if setting.data is not None and not setting.is_smoke else "made-up rows"
        note = f"test accuracy {found.test:.4f}, n = {count:,}; {source}; compilation included"
        return Row(what, seconds / steps, "s a step", note=note)

    return Measurement(what, row)


def draw(found: list[Row]):
    """Seconds of a step over the width."""
    groups: dict[str, list[tuple[float, float]]] = {}
    for row in found:
        if row.unit == "s a step":
            kind, width = row.what.split(", ")[1], int(row.what.split("-")[1])
            groups.setdefault(kind, []).append((width, row.value))
    figure, axes = curves(groups, "hidden units", "seconds a step, with compilation")
    axes.set_ylim(bottom=0)
    return figure
