"""Arrays over runs and records as the columns of one long table, a row for each record."""

from typing import Any

import numpy as np


def tidy_columns(
    time: Any, over_time: dict[str, Any], once: dict[str, Any]
) -> dict[str, np.ndarray]:
    """Columns of equal length.

    Args:
        time: (*clocks, records), where `clocks` are the leading axes of the runs: all runs share
            one clock, or those of each trajectory of a batch do.
        over_time: (*runs, records), by name; the first sets the shape.
        once: (*runs,), by name; repeated at every record.

    Returns:
        The numbers of the run first: "run", or "run_0", "run_1", ... of more axes.
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
