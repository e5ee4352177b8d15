"""Time and memory of the sum of clipped per-sample gradients: jaxdp, by hand, other libraries.

The yardstick is the batch gradient without privacy. Each candidate's sum is compared with
gradients clipped one by one before it is timed. Candidates take turns in one process; ratios are
taken within a turn. Compilation is left out. torch, opacus and jax_privacy are measured if
installed.
"""

import dataclasses
import importlib.metadata

import jax
import jax.random as jr
import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from experiments import harness
from experiments.benchmarks import clipping_layers, clipping_memory, clipping_tasks, timing
from experiments.benchmarks.clipping_candidates import (
    CANDIDATES,
    JAX_CANDIDATES,
    JAXDP,
    NON_PRIVATE,
    TORCH_NON_PRIVATE,
    VMAPPED,
)
from experiments.benchmarks.clipping_tasks import LeftOut, Prepared, Task
from experiments.harness import Check, drawing

# A sum in float32; opacus adds 1e-6 to each norm.
TOLERANCE = 1e-4


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes of the measurement.

    A candidate takes part in all `rounds`, or in as many as fit into `seconds`: at least 3, or 1
    if a single call takes longer than that. Programs that need more than `most_bytes` are left
    out. A model without batches is not measured, nor is the memory of each kind of weight without
    `memory_batches`, nor the time of each kind of layer with a `layer_batch` of 0.
    """

    candidates: tuple[str, ...] = tuple(CANDIDATES)
    mlp_batches: tuple[int, ...] = (256, 1024)
    mlp_width: int = 1000
    cnn_batches: tuple[int, ...] = (256,)
    cnn_channels: int = 16
    attention_batches: tuple[int, ...] = (64,)
    attention_width: int = 64
    num_tokens: int = 32
    num_words: int = 1000
    recurrent_batches: tuple[int, ...] = (64,)
    recurrent_width: int = 128
    recurrent_steps: int = 64
    rounds: int = 41
    seconds: float = 10.0
    most_bytes: float = 12e9
    keep_memory: bool = True
    memory_batches: tuple[int, ...] = (64, 256, 1024)
    layer_batch: int = 64

    smoke = harness.size(
        candidates=tuple(JAX_CANDIDATES),
        mlp_batches=(8,),
        mlp_width=8,
        cnn_batches=(8,),
        cnn_channels=2,
        attention_batches=(8,),
        attention_width=8,
        num_tokens=4,
        num_words=10,
        recurrent_batches=(8,),
        recurrent_width=8,
        recurrent_steps=3,
        rounds=3,
        keep_memory=False,
        memory_batches=(),
        layer_batch=0,
    )


def run(config: Config) -> xarray.Dataset:
    """Seconds of each candidate in each round, temporary memory, and agreement."""
    is_kept = config.keep_memory and timing.keep_freed_memory()
    is_kept = is_kept and jax.default_backend() == "cpu"
    tasks, cell = _tasks(config), ("model", "candidate")
    dataset = harness.empty(
        {
            "model": [task.name for task in tasks],
            "candidate": config.candidates,
            "round": config.rounds,
        },
        {
            (*cell, "round"): ["seconds"],
            cell: ["temporary_bytes", "disagreement"],
            "model": ["gradient_bytes", "clipped_fraction"],
        },
        {
            "libraries": _libraries(),
            "clip_norm": clipping_tasks.CLIP_NORM,
            "memory": "kept" if is_kept else "as the system has it",
        },
    )
    notes = np.full(dataset.disagreement.shape, "", dtype=object)
    for i, task in enumerate(harness.track(tasks, lambda task: task.name)):
        sums, calls = clipping_tasks.right_sums(task), {}
        dataset.clipped_fraction[i] = sums.clipped_fraction
        dataset.gradient_bytes[i] = task.gradient_bytes
        for j, name in enumerate(config.candidates):
            is_plain = name in (NON_PRIVATE, TORCH_NON_PRIVATE)
            try:
                prepared = CANDIDATES[name](task, config.most_bytes)
                dataset.temporary_bytes[i, j] = prepared.temporary_bytes
                off = _disagreement(prepared, sums.plain if is_plain else sums.clipped)
                dataset.disagreement[i, j] = off
                if not off <= TOLERANCE:
                    raise LeftOut(f"wrong by {off:.0e}")
            except LeftOut as reason:
                notes[i, j] = str(reason)
            else:
                notes[i, j], calls[j] = prepared.note, prepared.call
        for j, times in timing.alternate(calls, config.rounds, config.seconds).items():
            dataset.seconds[i, j] = times
    if config.memory_batches:
        dataset = dataset.assign(clipping_memory.measured(config.memory_batches))
    if config.layer_batch:
        dataset = dataset.assign(clipping_layers.measured(config.layer_batch, config.rounds))
    units = {"seconds": "s", "temporary_bytes": "bytes", "disagreement": "relative to the norm"}
    return harness.in_units(dataset.assign(note=(cell, notes.astype(str))), **units)


def _tasks(config: Config) -> list[Task]:
    mlp_key, cnn_key, attention_key = jr.split(jr.key(0), 3)
    recurrent_key = jr.key(1)
    sizes = (config.attention_width, config.num_tokens, config.num_words)
    return [
        *(clipping_tasks.mlp(n, config.mlp_width, key=mlp_key) for n in config.mlp_batches),
        *(clipping_tasks.cnn(n, config.cnn_channels, key=cnn_key) for n in config.cnn_batches),
        *(clipping_tasks.attention(n, *sizes, key=attention_key) for n in config.attention_batches),
        *(
            clipping_tasks.recurrent(
                n, config.recurrent_width, config.recurrent_steps, key=recurrent_key
            )
            for n in config.recurrent_batches
        ),
    ]


def _disagreement(prepared: Prepared, right: list[np.ndarray]) -> float:
    """Norm of the difference to the right sum, relative to that sum's norm."""
    pairs = zip(prepared.call(), right, strict=True)
    off = [_to_numpy(found).reshape(leaf.shape) - leaf for found, leaf in pairs]
    return float(np.sqrt(sum(np.vdot(d, d) for d in off) / sum(np.vdot(r, r) for r in right)))


def _to_numpy(array) -> np.ndarray:
    return np.asarray(array if isinstance(array, jax.Array) else array.detach().cpu(), float)


def _libraries() -> str:
    found = []
    for name in ("equinox", "optax", "jax_privacy", "torch", "opacus"):
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{name} not installed")
    return ", ".join(found)


def plot(dataset: xarray.Dataset) -> Figure:
    """The ratios as bars that start at the yardstick, a panel for each model."""
    ratios = ratios_of(dataset)
    figure = Figure(figsize=(7.5, 5.6), layout="constrained")
    rows = -(-dataset.sizes["model"] // 2)
    panels = figure.subplots(rows, 2, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, model in zip(panels, dataset.model.data, strict=False):
        _bars(axes, ratios.sel(model=model), dataset.note.sel(model=model))
        drawing.tidy(axes, model)
    for axes in panels[len(dataset.model) :]:
        axes.set_visible(False)
    panels[0].invert_yaxis()
    panels[0].set_xlim(min(0.5, 0.8 * float(ratios.min())), 5 * float(ratios.max()))
    figure.supxlabel("time over that of the non-private gradient", fontsize="medium")
    return figure


def _bars(axes: Axes, ratios: xarray.DataArray, notes: xarray.DataArray) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    names = [str(name) for name in ratios.candidate.data]
    for name, ratio, note in zip(names, ratios.data, notes.data, strict=True):
        is_ours, is_measured = name == JAXDP, not np.isnan(ratio)
        color = drawing.BLUE if is_ours else drawing.GREY
        axes.barh(name, ratio - 1 if is_measured else 0, left=1, color=color, height=0.6)
        axes.annotate(
            shown_times(ratio) if is_measured else str(note),
            (max(ratio, 1) if is_measured else 1, name),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
            color=drawing.BLACK if is_measured and not is_ours else color,
            weight="bold" if is_ours else "normal",
        )
    axes.axvline(1, color=drawing.BLACK, linewidth=0.8)


def ratios_of(dataset: xarray.Dataset) -> xarray.DataArray:
    """Times over the yardstick's in the same round, the median of all rounds."""
    yardstick = dataset.seconds.sel(candidate=NON_PRIVATE)
    return (dataset.seconds / yardstick).median("round")


def checks(dataset: xarray.Dataset) -> list[Check]:
    """The goals, set before measuring; never asserted by a test."""
    ratios, first = ratios_of(dataset), dataset.model.data[0]
    found = []
    for model in dataset.model.data:
        ratio = float(ratios.sel(model=model, candidate=JAXDP))
        for word, bound in (("goal", 1.2), ("least", 1.5)):
            claim = f"{model}: at most {bound} times the non-private gradient ({word})"
            found.append(Check(claim, f"{ratio:.2f} times", ratio <= bound))
    for model in filter(lambda name: name.startswith("MLP"), dataset.model.data):
        here = dataset.sel(model=model)
        used, formed = float(here.temporary_bytes.sel(candidate=JAXDP)), int(here.gradient_bytes)
        claim = f"{model}: less temporary memory than the gradients of all samples"
        found.append(Check(claim, f"{_megabytes(used)} of {_megabytes(formed)}", used < formed))
    here = ratios.sel(model=first)
    faster = float(here.sel(candidate=VMAPPED) / here.sel(candidate=JAXDP))
    claim = f"{first}: at least 10 times faster than vmap(grad)"
    found.append(Check(claim, f"{faster:.0f} times", faster >= 10))
    worst = float(dataset.disagreement.max())
    claim = f"every sum agrees with gradients clipped one by one to {TOLERANCE:.0e}"
    return [*found, Check(claim, f"{worst:.1e} or less", worst <= TOLERANCE)]


def summary(dataset: xarray.Dataset) -> str:
    """A table for each model, of memory by kind of weight, and of times by kind of layer."""
    tables = [_table(dataset, model) for model in dataset.model.data]
    if "memory" in dataset:
        tables.append(clipping_memory.table(dataset))
    if "layer" in dataset:
        tables.append(clipping_layers.table(dataset))
    joined = "\n\n".join(tables)
    kept = (
        "The process keeps the memory that a call frees; as glibc comes, buffers of tens of "
        "megabytes are faulted in anew by each call, which can triple the times of those that "
        "form all gradients.\n\n"
    )
    return (
        "The sum of per-sample gradients clipped to norm "
        f"{dataset.attrs['clip_norm']:g}, float32, with the same weights and data and without "
        "compilation; *non-private* does not clip. Times are medians and leasts of alternating "
        "rounds; the ratio is to the non-private gradient in jax within a round, the median of "
        "the rounds. Temporary memory is the compiler's figure, which torch has not. The error is "
        "the distance from gradients taken one by one and added in float64, relative.\n\n"
        f"{kept if dataset.attrs['memory'] == 'kept' else ''}"
        "*scan over samples* and *vmap(grad)* are written by hand. jax_privacy is measured as it "
        "comes and with the fastest of three sizes of micro-batches. opacus forms the gradients "
        "of convolutions under ghost clipping too; it has no layers that compute the attention "
        "and the GRU used here, so torch is left out there.\n\n"
        f"With {dataset.attrs['libraries']}.\n\n{joined}"
    )


def _table(dataset: xarray.Dataset, model: str) -> str:
    here, ratios = dataset.sel(model=model), ratios_of(dataset).sel(model=model)
    rows = []
    for name in here.candidate.data:
        one, ratio = here.sel(candidate=name), float(ratios.sel(candidate=name))
        note, error = str(one.note.item()), float(one.disagreement)
        if np.isnan(ratio):
            cells = [f"{name}: {note}", *([""] * 5)]
        else:
            milliseconds = 1e3 * one.seconds
            cells = [
                f"{name} {note}".strip(),
                f"{float(milliseconds.median()):.1f}",
                f"{float(milliseconds.min()):.1f}",
                f"{int(milliseconds.count())}",
                shown_times(ratio),
                _megabytes(float(one.temporary_bytes)),
            ]
        rows.append([*cells, "" if np.isnan(error) else f"{error:.0e}"])
    head = ["candidate", "ms, median", "ms, least", "rounds", "ratio", "temporary memory", "error"]
    formed = _megabytes(float(here.gradient_bytes))
    return (
        f"**{model}.** The gradients of all samples fill {formed}; "
        f"{100 * float(here.clipped_fraction):.0f}% of them are clipped.\n\n"
        + harness.table(head, rows)
    )


def _megabytes(num_bytes: float) -> str:
    if np.isnan(num_bytes):
        return ""
    return f"{num_bytes / 1e6:.1f} MB" if num_bytes < 1e8 else f"{num_bytes / 1e6:,.0f} MB"


def shown_times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


claims = harness.claims_of(checks)
harness.main(__name__)
