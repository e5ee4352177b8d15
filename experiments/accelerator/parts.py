"""Parts of the accelerator's command: rows that come one by one, and a picture of them.

A part is a module with `rows(setting)`, a generator of `Row`s, and `draw(rows)`, a figure of them.
It runs in a process of its own, which writes its rows after each one: a row that is late or fails
loses no earlier one.
"""

import dataclasses
import json
import math
import pathlib
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np


@dataclasses.dataclass(frozen=True)
class Setting:
    """How a part is to be run.

    Attributes:
        is_smoke: True for sizes that take seconds, on any device.
        data: folder with `cifar10/` and `mnist/`, or None.
        deadline: time by `time.monotonic` after which no row is begun.
    """

    is_smoke: bool
    data: pathlib.Path | None
    deadline: float

    def seconds_left(self) -> float:
        """Seconds until the deadline; negative after it."""
        return self.deadline - time.monotonic()


@dataclasses.dataclass(frozen=True)
class Row:
    """One measurement.

    Attributes:
        what: the engine and its size, in words.
        value: the measurement, in `unit`; NaN if it failed.
        unit: unit of the value.
        share: share of the device's bound that is reached; NaN if no bound is known.
        bound: name of that bound.
        first_seconds: time of the first call, compilation included.
        note: anything else, or why it failed.
        is_wrong: True if the row shows a fault.
    """

    what: str
    value: float
    unit: str
    share: float = math.nan
    bound: str = ""
    first_seconds: float = math.nan
    note: str = ""
    is_wrong: bool = False


def timed(call: Callable[[], Any], *, seconds: float = 1.0, most: int = 20) -> tuple[float, float]:
    """Seconds of the first call, and the median of those after it."""
    first, times = _seconds(call), []
    while not times or (sum(times) < seconds and len(times) < most):
        times.append(_seconds(call))
    return first, float(np.median(times))


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - start


class Measurement(NamedTuple):
    """One row to be made.

    Attributes:
        what: the engine and its size, for the row.
        measure: makes the row from the result of `prepare`.
        prepare: work that may run at the same time as others', such as compiling.
    """

    what: str
    measure: Callable[[Any], Row]
    prepare: Callable[[], Any] = lambda: None


def attempts(
    setting: Setting, measurements: Iterable[Measurement], *, workers: int = 1
) -> Iterator[Row]:
    """The row of each measurement; one that fails is a row that says why.

    Args:
        setting: no measurement is begun after its deadline.
        measurements: the rows to make, in this order.
        workers: threads that prepare. Compilation for an accelerator takes seconds for each
            program and leaves both the accelerator and most cores idle.
    """
    pool = ThreadPoolExecutor(workers)
    futures = [(one, pool.submit(one.prepare)) for one in measurements]
    for one, future in futures:
        if setting.seconds_left() < 0:
            future.cancel()
            yield Row(one.what, math.nan, "", note="not begun: the time was over")
            continue
        try:
            yield one.measure(future.result(timeout=setting.seconds_left()))
        except (ImportError, TimeoutError) as error:
            note = "not ready in time" if isinstance(error, TimeoutError) else f"left out: {error}"
            yield Row(one.what, math.nan, "", note=note)
        except Exception as error:
            yield Row(one.what, math.nan, "", note=in_one_line(error), is_wrong=True)


def in_one_line(error: Exception) -> str:
    """An error's kind and its first line, at most 160 characters.

    XLA's messages can fill a page; the first line names a lack of memory.
    """
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')[:160]}"


def written(rows: list[Row], path: pathlib.Path, facts: dict[str, Any]) -> None:
    """Write rows, whole or not at all."""
    text = json.dumps({**facts, "rows": [dataclasses.asdict(row) for row in rows]}, indent=1)
    unfinished = path.with_suffix(".part")
    unfinished.write_text(text + "\n")
    unfinished.replace(path)


def bars(rows: list[Row], label: str, lengths: dict[str, float] | None = None):
    """A figure with a bar for each row, its value and unit next to it.

    Args:
        rows: rows whose values are written next to the bars.
        label: label of the axis.
        lengths: length of each bar, by name; None for the values of the rows.
    """
    from matplotlib.figure import Figure

    lengths = {row.what: row.value for row in rows} if lengths is None else lengths
    figure = Figure(figsize=(8.0, 0.9 + 0.3 * len(rows)), layout="constrained")
    axes = figure.subplots()
    drawn = axes.barh([*lengths], [*lengths.values()], color="#0072B2", height=0.6)
    axes.bar_label(drawn, [f"{row.value:.3g} {row.unit}" for row in rows], padding=4, fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.4)
    axes.locator_params(axis="x", nbins=4)
    axes.tick_params(labelsize=8)
    axes.set_xlabel(label)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def curves(groups: dict[str, list[tuple[float, float]]], label: str, value: str):
    """A figure and its axes, with a curve for each group of points, and a legend of their names."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 3.4), layout="constrained")
    axes = figure.subplots()
    colors = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
    for (name, points), color, marker in zip(groups.items(), colors, "osD^", strict=False):
        axes.plot(*zip(*sorted(points), strict=True), marker=marker, color=color, label=name)
    axes.set_xscale("log")
    axes.set_xlabel(label)
    axes.set_ylabel(value)
    axes.spines[["top", "right"]].set_visible(False)
    if groups:
        axes.legend(frameon=False, fontsize="small")
    return figure, axes


def as_table(rows: list[Row]) -> str:
    """Rows in Markdown."""
    head = ["", "", "of the device's bound", "first call, s", ""]
    cells = [head, ["---"] * len(head), *([row.what, *_cells(row)] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _cells(row: Row) -> list[str]:
    value = "" if math.isnan(row.value) else f"{row.value:.4g} {row.unit}".strip()
    share = "" if math.isnan(row.share) else f"{row.share:.1%} ({row.bound})"
    first = "" if math.isnan(row.first_seconds) else f"{row.first_seconds:.1f}"
    return [value, share, first, f"**{row.note}**" if row.is_wrong else row.note]
