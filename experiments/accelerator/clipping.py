"""Clipped gradient sums of the benchmark's models against the plain gradient of the same batch."""

import functools
from collections.abc import Callable, Iterator

import jax
import jax.random as jr

from experiments.accelerator.parts import Row, Setting, attempts, timed
from experiments.benchmarks import clipping_tasks
from experiments.benchmarks.clipping_tasks import Task
from experiments.benchmarks.jax_clipping import jaxdp_sum, non_private

_BATCHES = (256, 2048, 8192)


def rows(setting: Setting) -> Iterator[Row]:
    """Each model at each batch, small batches first: what is late is what is large."""
    yield from attempts(setting, _calls(setting.is_smoke))


def _calls(is_smoke: bool) -> Iterator[tuple[str, Callable[[], Row]]]:
    for batch in (8,) if is_smoke else _BATCHES:
        for name, make in _models(is_smoke).items():
            what = f"{name}, batch {batch:,}"
            yield what, functools.partial(_measured, what, make, batch)


def _models(is_smoke: bool) -> dict[str, Callable[[int], Task]]:
    """Of the benchmark, and a wider MLP, as `clipping_tasks` makes them for a batch."""
    width, wide, channels, tokens = (
        (8, 16, 2, (8, 4, 10)) if is_smoke else (1000, 4000, 16, _TOKENS)
    )
    keys = jr.split(jr.key(0), 4)
    return {
        f"MLP 784-{width}-10": lambda batch: clipping_tasks.mlp(batch, width, key=keys[0]),
        "CNN": lambda batch: clipping_tasks.cnn(batch, channels, key=keys[1]),
        "attention": lambda batch: clipping_tasks.attention(batch, *tokens, key=keys[2]),
        f"MLP 784-{wide}-10": lambda batch: clipping_tasks.mlp(batch, wide, key=keys[3]),
    }


# Width, tokens and words of the benchmark's attention.
_TOKENS = (64, 32, 1000)


def _measured(what: str, make: Callable[[int], Task], batch: int) -> Row:
    """Both programs take turns; products are float32 in both."""
    task = make(batch)
    arguments = task.weights, task.inputs, task.targets
    programs, memory = {}, {}
    with jax.default_matmul_precision("highest"):
        for function in (non_private, jaxdp_sum):
            lowered = jax.jit(functools.partial(function, task.loss)).lower(*arguments)
            programs[function] = compiled = lowered.compile()
            memory[function] = compiled.memory_analysis().temp_size_in_bytes
    first, ours = timed(lambda: programs[jaxdp_sum](*arguments))
    _, plain = timed(lambda: programs[non_private](*arguments))
    _, again = timed(lambda: programs[jaxdp_sum](*arguments))
    sizes = (
        f"{memory[jaxdp_sum] / 1e6:.0f} MB of temporaries, {memory[non_private] / 1e6:.0f} plain"
    )
    note = f"{1e3 * min(ours, again):.3g} ms; {sizes}; B x P is {task.gradient_bytes / 1e6:.0f} MB"
    ratio = min(ours, again) / plain
    return Row(what, ratio, "x plain gradient", first_seconds=first, note=note)


def draw(found: list[Row]):
    """Time over that of the plain gradient, a curve for each model over the batch."""
    from matplotlib.figure import Figure

    curves: dict[str, list[tuple[int, float]]] = {}
    for row in found:
        name, _, batch = row.what.rpartition(", batch ")
        if row.value == row.value:
            curves.setdefault(name, []).append((int(batch.replace(",", "")), row.value))
    figure = Figure(figsize=(6.0, 3.4), layout="constrained")
    axes = figure.subplots()
    styles = zip(curves.items(), ("#0072B2", "#D55E00", "#009E73", "#CC79A7"), strict=False)
    for ((name, points), color), marker in zip(styles, "osD^", strict=False):
        axes.plot(*zip(*points, strict=True), marker=marker, color=color, label=name)
    axes.axhline(1, color="#777777", linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("batch")
    axes.set_ylabel("time over that of the plain gradient")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small")
    return figure
