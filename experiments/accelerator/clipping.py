"""Clipped gradient sums of the benchmark's models against the plain gradient of the same batch."""

import functools
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait

import jax.random as jr

from experiments.accelerator.parts import Measurement, Row, Setting, attempts, curves, timed
from experiments.benchmarks import clipping_tasks
from experiments.benchmarks.clipping_candidates import compiled, jaxdp_sum, non_private
from experiments.benchmarks.clipping_tasks import Prepared, Task

_BATCHES = (2048, 256, 8192)


def rows(setting: Setting) -> Iterator[Row]:
    """Each model at each batch; those of one batch are compiled side by side, then measured."""
    for batch in (8,) if setting.is_smoke else _BATCHES:
        # Not while they compile: a GPU tries out products in the meantime.
        pool, made = ThreadPoolExecutor(), {}
        for name, make in _models(setting.is_smoke).items():
            what = f"{name}, batch {batch:,}"
            made[what] = pool.submit(_compiled, make, batch)
        wait(made.values(), timeout=max(setting.seconds_left(), 0))
        yield from attempts(
            setting,
            [
                Measurement(what, functools.partial(_measured, what), one.result)
                for what, one in made.items()
            ],
        )


def _models(is_smoke: bool) -> dict[str, Callable[[int], Task]]:
    """The benchmark's models and a wider MLP: each name's function makes the task of a batch."""
    # The last is the width, tokens and words of the attention.
    usual = 1000, 4000, 16, (64, 32, 1000)
    width, wide, channels, tokens = (8, 16, 2, (8, 4, 10)) if is_smoke else usual
    keys = jr.split(jr.key(0), 4)
    return {
        f"MLP 784-{width}-10": lambda batch: clipping_tasks.mlp(batch, width, key=keys[0]),
        "CNN": lambda batch: clipping_tasks.cnn(batch, channels, key=keys[1]),
        "attention": lambda batch: clipping_tasks.attention(batch, *tokens, key=keys[2]),
        f"MLP 784-{wide}-10": lambda batch: clipping_tasks.mlp(batch, wide, key=keys[3]),
    }


def _compiled(make: Callable[[int], Task], batch: int) -> tuple[Task, Prepared, Prepared]:
    """A batch, and the compiled clipped and plain sums of its gradients."""
    task = make(batch)
    clipped, plain = (compiled(function, task, math.inf) for function in (jaxdp_sum, non_private))
    return task, clipped, plain


def _measured(what: str, made: tuple[Task, Prepared, Prepared]) -> Row:
    """The programs take turns."""
    task, clipped, plain = made
    times = [timed(one.call)[1] for one in (clipped, plain, clipped, plain)]
    ours, theirs = min(times[::2]), min(times[1::2])
    held, beside = (one.temporary_bytes / 1e6 for one in (clipped, plain))
    note = f"{1e3 * ours:.3g} ms; {held:.0f} MB of temporaries, {beside:.0f} plain; "
    note += f"B x P is {task.gradient_bytes / 1e6:.0f} MB"
    return Row(what, ours / theirs, "x plain gradient", note=note)


def draw(found: list[Row]):
    """Time over the plain gradient's, against the batch, a curve for each model."""
    groups: dict[str, list[tuple[float, float]]] = {}
    for row in found:
        name, _, batch = row.what.rpartition(", batch ")
        if row.value == row.value:
            groups.setdefault(name, []).append((int(batch.replace(",", "")), row.value))
    figure, axes = curves(groups, "batch", "time over that of the plain gradient")
    axes.axhline(1, color="#777777", linewidth=0.8)
    axes.set_xscale("log", base=2)
    return figure
