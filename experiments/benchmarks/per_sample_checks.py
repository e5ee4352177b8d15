"""The goals of per-sample clipping, and its times."""

import numpy as np
import xarray

from experiments import harness
from experiments.benchmarks import clipping_memory
from experiments.benchmarks.jax_clipping import JAXDP, NON_PRIVATE, VMAPPED
from experiments.harness import Check

# A sum in float32; opacus adds 1e-6 to each norm.
TOLERANCE = 1e-4


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
    """A table for each model, and one of memory by kind of weight."""
    tables = [_table(dataset, model) for model in dataset.model.data]
    if "memory" in dataset:
        tables.append(clipping_memory.table(dataset))
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
        "of convolutions under ghost clipping too; it has no layer that computes the attention "
        "used here, so torch is left out there.\n\n"
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
