"""A trajectory as tables: of where each quantity begins and ends, and of all records in columns."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from jaxdp.core.display.explanations import Row
from jaxdp.core.display.values import in_words, is_known, number


def rows_of_time(time: Any) -> Row:
    """The table row of the clock: its ends and its number of records."""
    if not is_known(time):
        return Row("time", in_words(time))
    times = np.asarray(time, np.float64)
    text = f"{number(times[..., 0].min())} to {number(times[..., -1].max())}"
    return Row("time", f"{text}, {times.shape[-1]} records")


def row_over_time(name: str, values: Any, chosen: Any, meaning: str) -> Row:
    """The table row of a quantity: its first and last record, as means of runs that ended well.

    `chosen` says which runs count; None stands for a batch of descriptions, of which the range is
    told.
    """
    if not is_known(values):
        return Row(name, in_words(values, 1), meaning)
    known = np.asarray(values, np.float64)
    ends = [_of_all(known[..., place], chosen) for place in (0, -1)]
    return Row(name, " to ".join(ends) if chosen is not None else f"{ends[-1]} at the end", meaning)


def row_at_end(name: str, values: Any, chosen: Any, meaning: str) -> Row:
    """The table row of one number a run: mean and standard error, or the range over a batch."""
    if not is_known(values):
        return Row(name, in_words(values, 0), meaning)
    known = np.asarray(values, np.float64)
    text = _of_all(known, chosen)
    if chosen is not None and chosen.sum() > 1:
        error = known[chosen].std(ddof=1) / np.sqrt(chosen.sum())
        text += f" +- {error:.2g}"
        meaning += f", mean and standard error of {int(chosen.sum())} runs"
    return Row(name, text, meaning)


def endings(statuses: Iterable[tuple[int, str]], found: Any) -> str:
    """How many runs ended how, in words: "8 ok, 2 diverged"; `statuses` are codes and names."""
    codes = np.asarray(found).reshape(-1)
    counts = [(name, int((codes == code).sum())) for code, name in statuses]
    texts = [f"{count} {name}" if codes.size > 1 else name for name, count in counts if count]
    return ", ".join(text.lower().replace("_", " ") for text in texts)


def tidy_columns(
    time: Any, over_time: dict[str, Any], once: dict[str, Any]
) -> dict[str, np.ndarray]:
    """Columns of equal length, those that number the runs first: "run", or "run_0", "run_1", ...

    `over_time` is (*runs, records) by name, `once` (*runs,), and the time (*clocks, records): all
    runs share one clock, or those of each trajectory of a batch do.
    """
    shape = np.shape(next(iter(over_time.values())))
    numbers = np.indices(shape)[:-1]
    names = ["run"] if len(numbers) == 1 else [f"run_{axis}" for axis in range(len(numbers))]
    clock = np.asarray(time)
    between = (1,) * (len(shape) - clock.ndim)
    columns = dict(zip(names, numbers, strict=True))
    columns["time"] = clock.reshape(*clock.shape[:-1], *between, clock.shape[-1])
    columns |= {name: np.asarray(values) for name, values in over_time.items()}
    columns |= {name: np.asarray(values)[..., None] for name, values in once.items()}
    return {name: np.broadcast_to(values, shape).ravel() for name, values in columns.items()}


def _of_all(values: np.ndarray, chosen: Any) -> str:
    if chosen is None:
        return in_words(values, 0)
    well = values[chosen]
    return number(well.mean()) if well.size else "none ended well"
